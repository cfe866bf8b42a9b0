"""The consumer's side of its group: membership, rebalances, commits.

Cores (no I/O, no thread, no clock): :mod:`.state` and :mod:`.reactions` (tables), :mod:`.heartbeat` (clocks),
:mod:`.lookup`, :mod:`.member`, :mod:`.membership`, :mod:`.steps` (what cores ask for), :mod:`.offset_requests`,
:mod:`.leader`. Generators: :mod:`.commits`, :mod:`.committed`, :mod:`.rebalance`. Drivers: :mod:`.link` and
:mod:`.consumer_coordinator` in the user's thread, :mod:`.background` in the heartbeat thread.
"""

from __future__ import annotations

from pyconsumer.consumer.coordinator.consumer_coordinator import ConsumerCoordinator

__all__ = ["ConsumerCoordinator"]
