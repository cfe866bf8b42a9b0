"""The consumer's side of its group: membership, rebalances, commits.

Cores (no I/O, no thread, no clock): :mod:`.group_state` (tables, and what cores ask for), :mod:`.heartbeat` (clocks),
:mod:`.coordinator_discovery`, :mod:`.membership`, :mod:`.classic_membership`. Generators: :mod:`.offset_commits`,
:mod:`.rebalance`. Drivers: :mod:`.coordinator_client` and :mod:`.consumer_coordinator` in the user's thread,
:mod:`.heartbeat_thread` in the heartbeat thread.
"""

from __future__ import annotations

from pyconsumer.consumer.coordinator.consumer_coordinator import ConsumerCoordinator

__all__ = ["ConsumerCoordinator"]
