"""The classic protocol of groups (JoinGroup and SyncGroup): state and rules, without I/O."""
