"""``kafka.record``: names for annotations. Records are read and written by compiled code."""
