"""A program that type checkers read, and the types that they must find in it."""
