"""The group coordinator: the members of each group, their assignments, and committed offsets.

Four folders, each of which imports only those below it:

1. ``group``: the coordinator that requests reach, the manager of all groups, loading, and the expiration of offsets.
2. ``group/consumer``: the consumer group protocol (KIP-848), the migration of groups between the protocols included.
3. ``group/classic``: the classic group protocol.
4. ``group/common``: settings, committed offsets, results of requests, and the interface to the log.

The manager is above both protocols, since it holds their groups. They call it through a ``Protocol`` with the few
methods that they need: ``ClassicGroupStore`` and ``ConsumerGroupStore``.
"""
