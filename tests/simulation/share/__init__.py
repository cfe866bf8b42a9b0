"""Share groups on a simulated clock: real share partitions, share coordinator and persister, and random faults."""
