"""``kafka.coordinator.assignors``: names for ours. One's own assignor derives from :mod:`pyconsumer.assignors`."""
