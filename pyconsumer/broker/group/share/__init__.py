"""Share groups in the group coordinator (KIP-932): members, subscriptions, the assignment, initialized partitions."""
