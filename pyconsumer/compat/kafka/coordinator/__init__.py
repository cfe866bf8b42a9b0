"""``kafka.coordinator``: assignors, and the values that they take and return."""
