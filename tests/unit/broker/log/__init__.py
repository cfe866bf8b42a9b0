"""The broker's log: segments, indexes, replay and recovery, without sockets."""
