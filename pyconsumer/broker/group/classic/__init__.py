"""The classic group protocol (JoinGroup and SyncGroup): state and rules, without I/O."""
