"""``kafka.coordinator``: the assignors."""
