"""A program for type checkers, and the types that they must find in it."""
