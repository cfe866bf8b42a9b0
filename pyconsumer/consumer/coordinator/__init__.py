"""The consumer's side of its group: membership, rebalances, commits.

Cores (no I/O, no thread, no clock): :mod:`.group_state` and :mod:`.consumer_group_state` (tables of both protocols:
what an error code leads to), :mod:`.heartbeat` (clocks), :mod:`.coordinator_discovery`, :mod:`.membership`,
:mod:`.classic_membership`, :mod:`.consumer_membership`. Generators: :mod:`.offset_commits`; :mod:`.rebalance` (classic)
and :mod:`.reconciliation` (consumer protocol) with what they share, :mod:`.listener_invoker`. Drivers:
:mod:`.coordinator_client` and :mod:`.consumer_coordinator`, which says who runs callbacks, in the user's thread;
:mod:`.heartbeat_thread` in the heartbeat thread.
"""

from __future__ import annotations

from pyconsumer.consumer.coordinator.consumer_coordinator import ConsumerCoordinator

__all__ = ["ConsumerCoordinator"]
