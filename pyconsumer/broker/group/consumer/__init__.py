"""The consumer protocol of groups (KIP-848): state and rules, without I/O.

``member`` and ``group`` hold the state, which changes only by replaying records (``replay``); ``assignors``,
``target_assignment``, ``current_assignment``, ``metadata_hash`` and ``topic_regex`` compute; ``group_writer`` turns a
change into the records that make it; ``membership`` is the heartbeat of a member, ``classic_members`` are members of
the classic protocol inside such a group, ``migration`` converts groups.
"""
