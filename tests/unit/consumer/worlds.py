"""Parts of a consumer over a stub of the network. Topic t has partitions with two leaders."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Generator
from typing import Any

from pyconsumer import ConsumerRecords, KafkaConsumer, OffsetAndMetadata
from pyconsumer.consumer.completed_fetch import CompletedFetch, Frame
from pyconsumer.consumer.config import CONSUMER_SETTINGS
from pyconsumer.consumer.context import Checked, ConsumerContext
from pyconsumer.consumer.delegate import ConsumerDelegate
from pyconsumer.consumer.fetch_buffer import FetchBuffer
from pyconsumer.consumer.fetch_planner import ByteBudget
from pyconsumer.consumer.fetcher import Fetcher
from pyconsumer.consumer.interceptors import Interceptors
from pyconsumer.consumer.metrics import ConsumerMetrics
from pyconsumer.consumer.partition_state import FetchPosition, LeaderAndEpoch, current_leader
from pyconsumer.consumer.subscription_state import SubscriptionState
from pyconsumer.network.futures import RequestFuture, Wait
from pyconsumer.network.metadata import Metadata
from pyconsumer.protocol.messages.fetch import (
    PartitionData,
)
from pyconsumer.structs import TopicPartition
from tests.support.fake_network import FakeNetwork, SentRequest
from tests.unit.consumer.builders import batch, data, leaders_of_t, offsets_of, response

#: Of :class:`Desk`'s partitions.
LEADER = LeaderAndEpoch(1, 3)


class Desk:
    """A buffer with its surroundings."""

    def __init__(self, *partitions: TopicPartition, convert: Any = None) -> None:
        self.subscriptions = SubscriptionState()
        self.subscriptions.assign_from_user(partitions)
        for tp in partitions:
            self.subscriptions.seek(tp, FetchPosition(0, -1, LEADER))
        self.budget = ByteBudget(10_000_000)
        self.buffer = FetchBuffer(self.subscriptions, self.budget, convert)
        self.apply()

    def apply(self) -> None:
        self.buffer.on_changed(self.subscriptions.take_changed())

    def add(self, tp: TopicPartition, data: bytes | memoryview, at: int | None = None, **more: Any) -> CompletedFetch:
        state = self.subscriptions.state(tp)
        frame = None
        if isinstance(data, memoryview):
            there = (fetch.frame for fetches in self.buffer._of.values() for fetch in fetches)
            frame = next((found for found in there if found is not None and found.memory is data.obj), None)
            frame = frame or Frame(data.obj)  # type: ignore[arg-type]
        at = state.fetch_offset if at is None else at
        fetch = CompletedFetch(state, data, fetch_offset=at, frame=frame, **more)
        state.fetch_offset = fetch.cursor.end_offset
        self.buffer.add(fetch)
        return fetch

    def error(self, tp: TopicPartition, error: Exception | None) -> None:
        state = self.subscriptions.state(tp)
        self.buffer.add(CompletedFetch(state, fetch_offset=state.fetch_offset, error=lambda: error))

    def collect(self, count: int = 500) -> dict[TopicPartition, list[int]]:
        return {tp: offsets_of(records) for tp, records in self.buffer.collect(count).items()}

    def position(self, tp: TopicPartition) -> int | None:
        return self.subscriptions.state(tp).position


class FetcherWorld:
    """A fetcher with topic t: partitions 0 and 2 led by node 1, partition 1 by node 2, all in epoch 3."""

    def __init__(self, *partitions: TopicPartition, at: int = 0, **options: Any) -> None:
        self.config = CONSUMER_SETTINGS.build({"bootstrap_servers": "h1", "auto_offset_reset": "earliest", **options})
        self.client = FakeNetwork()
        self.clock = self.client.clock
        self.metadata = Metadata()
        self.metadata.set_topics({"t"})
        self.lead({0: (1, 3), 1: (2, 3), 2: (1, 3)})
        self.subscriptions = SubscriptionState(self.config.auto_offset_reset)
        self.metrics = ConsumerMetrics(self.clock.now())
        self.fetcher = Fetcher(
            ConsumerContext(
                self.config,
                self.client,  # type: ignore[arg-type]
                self.metadata,
                self.subscriptions,
                self.clock,
            ),
            metrics=self.metrics,
        )
        self.subscriptions.assign_from_user(partitions)
        for tp in partitions:
            self.seek(tp, at)

    def lead(self, leaders: dict[int, tuple[int, int]], **more: Any) -> None:
        self.metadata.update(leaders_of_t(leaders, **more), 12, self.clock.now())

    def seek(self, tp: TopicPartition, offset: int, epoch: int = -1) -> None:
        self.subscriptions.seek(tp, FetchPosition(offset, epoch, current_leader(self.metadata, tp)))

    def send(self) -> dict[int, SentRequest]:
        """Return the requests sent now, by node."""
        self.fetcher.send_fetches()
        return {sent.node: sent for sent in self.client.take_all()}

    def collect(self, count: int = 500) -> dict[TopicPartition, list[int]]:
        self.fetcher.apply_changes(self.clock.now())
        return {tp: offsets_of(records) for tp, records in self.fetcher.buffer.collect(count).items()}

    def exchange(self, tp: TopicPartition, data: PartitionData, **more: Any) -> None:
        """Send, and answer for one partition."""
        (sent,) = self.send().values()
        sent.answer(response({tp: data}, **more))


class FakeCoordinator:
    """A scripted coordinator that records its calls."""

    def __init__(self, subscriptions: SubscriptionState) -> None:
        self.subscriptions = subscriptions
        self.next_due_at = float("inf")
        self.has_user_output = False
        self.awaits_response = False
        self.calls: list[str] = []
        self.polls_at: list[float] = []
        self.committed: RequestFuture[dict[TopicPartition, OffsetAndMetadata | None]] = RequestFuture()
        self.on_poll: Callable[[], None] | None = None
        self.is_stable = False
        self.is_rebalancing = False
        self.due_at_between_polls = math.inf

    def note_poll(self, now: float) -> None:
        self.polls_at.append(now)

    def recover(self) -> None:
        self.calls.append("recover")

    def poll(self, deadline: float, *, wait_for_join: bool = True) -> Generator[Wait, None, bool]:
        self.calls.append(f"poll wait_for_join={wait_for_join}")
        if self.on_poll is not None:
            self.on_poll()
        yield from ()
        return False

    def due_between_polls(self, now: float, *, something_came: bool) -> float:
        self.calls.append(f"due_between_polls something_came={something_came}")
        return self.due_at_between_polls

    def live_between_polls(self) -> None:
        self.calls.append("live_between_polls")

    def advance(self) -> Generator[Wait, None, None]:
        self.calls.append("advance")
        yield from ()

    def fetch_committed(self, partitions: Any, deadline: float) -> Generator[Wait, None, Any]:
        self.calls.append("fetch_committed " + ",".join(map(str, sorted(partitions))))
        answer = self.committed
        while not answer.done:
            yield Wait(answer, deadline)
        return answer.result()

    def on_subscription_change(self) -> None:
        self.calls.append("on_subscription_change")

    def on_unsubscribe(self, deadline: float) -> Generator[Wait, None, None]:
        self.calls.append("on_unsubscribe")
        yield from ()
        raise RuntimeError("the listener's")

    def maybe_auto_commit_async(self, now: float) -> None:
        self.calls.append(f"auto-commit of {sorted(map(str, self.subscriptions.assignment()))}")


class ConsumerWorld:
    """A consumer's core with topic t: partitions 0 and 2 led by node 1, partition 1 by node 2."""

    def __init__(
        self, *partitions: TopicPartition, group: bool = False, interceptors: Any = (), **options: Any
    ) -> None:
        if group:
            options["group_id"] = "g"
        self.config = CONSUMER_SETTINGS.build({"bootstrap_servers": "h1", "auto_offset_reset": "earliest", **options})
        self.client = FakeNetwork()
        self.clock = self.client.clock
        self.metadata = Metadata()
        self.metadata.set_topics({"t"})
        self.metadata.update(leaders_of_t({0: (1, 3), 1: (2, 3), 2: (1, 3)}), 12, self.clock.now())
        self.subscriptions = SubscriptionState(self.config.auto_offset_reset)
        self.coordinator = FakeCoordinator(self.subscriptions)
        self.delegate = ConsumerDelegate(
            ConsumerContext(
                self.config,
                self.client,  # type: ignore[arg-type]
                self.metadata,
                self.subscriptions,
                self.clock,
            ),
            coordinator=self.coordinator if group else None,  # type: ignore[arg-type]
            interceptors=Interceptors(interceptors),
            metrics=ConsumerMetrics(self.clock.now()),
            checked=Checked(),
        )
        self.client.on_flush = self.clock.now
        if partitions:
            self.subscriptions.assign_from_user(partitions)

    def start(self, *partitions: TopicPartition, at: int = 0) -> None:
        for tp in partitions:
            self.subscriptions.seek(tp, FetchPosition(at))

    def poll(self, timeout: float = 10.0, count: int = 500) -> Generator[Wait, None, ConsumerRecords]:
        """Run the steps of ``KafkaConsumer.poll`` with an empty buffer."""
        return self._poll(self.clock.now() + timeout, count)

    def _poll(self, deadline: float, count: int) -> Generator[Wait, None, ConsumerRecords]:
        found = yield from self.delegate.fetched(deadline, self.delegate.take_records, count)
        return ConsumerRecords() if found is None else found

    def buffered(self, now: float, count: int = 500) -> ConsumerRecords | None:
        """Run the first step of ``KafkaConsumer.poll``: buffered records, if no other work is due."""
        return self.delegate.buffered(now, self.delegate.take_records, count)

    def answer(self, tp: TopicPartition, records: bytes, **more: Any) -> None:
        (sent,) = [s for s in self.client.take_all() if s.request.API_KEY == 1]
        sent.answer(response({tp: data(records)}, **more))


#: Of :class:`Reader`.
A, B = TopicPartition("a", 0), TopicPartition("b", 0)


class Reader:
    """A consumer with buffered records whose broker is not reachable."""

    def __init__(self, **settings: Any) -> None:
        self.consumer = KafkaConsumer(
            bootstrap_servers="127.0.0.1:1", consumer_timeout_ms=0, max_poll_records=4, **settings
        )
        self.delegate = self.consumer._delegate
        self.consumer.assign([A, B])
        for tp in (A, B):
            self.go_to(tp, 0)

    def go_to(self, tp: TopicPartition, offset: int) -> None:
        self.delegate.subscriptions.seek(tp, FetchPosition(offset, -1, LEADER))
        self.delegate.fetcher.apply_changes(self.delegate.clock.now())

    def fill(self, tp: TopicPartition, first: int, count: int) -> None:
        state = self.delegate.subscriptions.state(tp)
        self.delegate.fetcher.buffer.add(CompletedFetch(state, batch(first, count), fetch_offset=first))

    def position(self, tp: TopicPartition) -> int:
        return self.consumer.position(tp, timeout_ms=0)

    def take(self, count: int) -> list[int]:
        return [record.offset for record in itertools.islice(self.consumer, count)]

    @property
    def steps_aside(self) -> int:
        """Return the number of records that the next steps may take without other checks."""
        return len(self.consumer._prefetched.records)
