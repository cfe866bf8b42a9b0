"""Builders of requests and readers of responses, for every version of an API: one module for each. Pure, no I/O."""
