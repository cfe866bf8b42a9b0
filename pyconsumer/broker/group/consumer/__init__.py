"""The consumer group protocol (KIP-848): state and rules, without I/O.

``group`` and ``member`` have the state, which changes only by replaying ``records``. ``writer`` appends the records of
a change and replays them. ``membership`` serves heartbeats, ``classic_members`` the requests of members that use the
classic protocol in such a group. ``rules`` rejects requests, ``timers`` has the deadlines of members, ``regexes``
decides when regular expressions are resolved, and ``migration`` converts groups. ``assignors``, ``target_assignment``,
``current_assignment``, ``metadata_hash`` and ``topic_regex`` compute.
"""
