"""Share groups (KIP-932) beside the group coordinator: share partitions in the leaders, and where their state is kept.

* :mod:`.runs` and :mod:`.share_partition`: which record is delivered to whom, a core.
* :mod:`.partitions`: the share partitions of one broker, and what starts and ends them.
* :mod:`.sessions`: the sessions of members with one broker, a core.
* :mod:`.fetching`: ShareFetch, which waits for records.
* :mod:`.state` and :mod:`.coordinator`: the state in ``__share_group_state``.
* :mod:`.persister`: how a leader or a group coordinator finds the share coordinator.
"""
