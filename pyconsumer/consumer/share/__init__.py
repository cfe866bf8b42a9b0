"""Share groups (KIP-932): the consumer whose records are acquired, and acknowledged one by one."""
