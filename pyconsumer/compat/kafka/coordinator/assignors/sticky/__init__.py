"""``kafka.coordinator.assignors.sticky``: a name for our assignor ``sticky``."""
