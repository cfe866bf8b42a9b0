"""The clients for event loops, without sockets."""
