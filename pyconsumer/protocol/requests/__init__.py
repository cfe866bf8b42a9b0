"""Builders of requests and readers of responses, for every version of an API: one module each. No I/O, no state."""
