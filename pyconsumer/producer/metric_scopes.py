"""The sources of a producer's metrics: the counters and the state of each group of the table of metrics.

Any thread reads here while the producer works. So nothing is changed, and no lock is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from pyconsumer.metrics.source import Gauge, Scope
from pyconsumer.network.metric_scopes import NetworkScopes

if TYPE_CHECKING:
    from pyconsumer.metrics.windows import Readable
    from pyconsumer.network.client import NetworkClient
    from pyconsumer.producer.accumulator import RecordAccumulator
    from pyconsumer.producer.metrics import CallTimings, SendCounters

__all__ = ["ProducerScopes"]


class ProducerScopes:
    """Finds the sources of a producer's metrics.

    Args:
        client: its network client.
        sends: the counters of the sender's thread.
        calls: the timings of calls.
        accumulator: has the memory.
        accepted: returns how many records ``send`` has accepted.
    """

    def __init__(
        self,
        client: NetworkClient,
        sends: SendCounters,
        calls: CallTimings,
        accumulator: RecordAccumulator,
        accepted: Callable[[], int],
    ) -> None:
        self._client = client
        self._network = NetworkScopes(client)
        self._sends = sends
        self._calls = calls
        self._accumulator = accumulator
        self._accepted = accepted

    def __call__(self, group: str, tags: tuple[str, ...]) -> Iterable[Scope]:
        """Return the sources of a group with these tags."""
        if group == "producer-metrics":
            return self._producer()
        if group == "producer-node-metrics":
            return self._network.nodes()
        if group == "producer-topic-metrics":
            found = self._sends.topics_in_use(self._client.clock.now())
            return [Scope((topic,), {"topic": [counters]}, {}) for topic, counters in found]
        return self._network.app_info()

    def _producer(self) -> Iterable[Scope]:
        memory, client, accumulator = self._accumulator.memory, self._client, self._accumulator
        metadata = client.metadata
        gauges: dict[str, Gauge] = {
            "accepted": lambda now: self._accepted(),
            "in_flight": lambda now: client.in_flight(),
            "metadata_age": lambda now: None if metadata is None else metadata.age(now),
            "buffer_total": lambda now: memory.limit,
            "buffer_available": lambda now: memory.limit - memory.used,
            "waiting": lambda now: len(accumulator.calls_for_memory),
        }
        counters: dict[str, Sequence[Readable]] = {
            "sends": [self._sends],
            **{name: [one] for name, one in self._calls.by_name.items()},
        }
        return self._network.client(counters, gauges)
