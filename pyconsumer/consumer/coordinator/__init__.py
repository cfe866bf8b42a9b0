"""The consumer's side of its group: membership, rebalances, commits.

A group is of one of two kinds, by its protocol. ``classic_group_...`` is the classic protocol (JoinGroup, SyncGroup),
``consumer_group_...`` the consumer protocol (KIP-848, ConsumerGroupHeartbeat):

* ``..._state``: the states of a member and its actions, as tables. Both share :mod:`.group_state`, with the action for
  each error code.
* ``..._membership``: the core, which decides. Both extend :mod:`.membership`. Both use :mod:`.heartbeat` (clocks) and
  :mod:`.coordinator_discovery`. A core has no I/O, no thread, no clock.
* :mod:`.classic_group_rebalance` and :mod:`.consumer_group_reconciliation`: the steps in the user's thread. Both extend
  :mod:`.group_protocol` and call the listener by the rules of :mod:`.listener_invoker`.

:mod:`.offset_commits` serves both. Drivers: :mod:`.coordinator_client` and :mod:`.consumer_coordinator` in the user's
thread, :mod:`.heartbeat_thread` in the heartbeat thread.
"""

from __future__ import annotations

from pyconsumer.consumer.coordinator.consumer_coordinator import ConsumerCoordinator

__all__ = ["ConsumerCoordinator"]
