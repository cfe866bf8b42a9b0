"""``aiokafka.coordinator.assignors``: names of assignors, and the base class of a program's own."""
