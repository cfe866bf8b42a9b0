"""A consumer's coordinator on a scripted network and a fake clock, without its heartbeat thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyconsumer.clock import ManualClock
from pyconsumer.consumer.config import CONSUMER_SETTINGS
from pyconsumer.consumer.context import ConsumerContext
from pyconsumer.consumer.coordinator import ConsumerCoordinator
from pyconsumer.consumer.interface import ConsumerRebalanceListener
from pyconsumer.consumer.partition_state import FetchPosition
from pyconsumer.consumer.subscription_state import SubscriptionState
from pyconsumer.network.metadata import Metadata
from pyconsumer.protocol.consumer_protocol import (
    encode_assignment,
    encode_subscription,
)
from pyconsumer.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from pyconsumer.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from pyconsumer.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from pyconsumer.structs import TopicPartition
from tests.support.fake_network import SentRequest, metadata_response
from tests.unit.consumer.coordinator.network import Call, GroupNetwork
from tests.unit.consumer.coordinator.script import NODE

__all__ = ["T0", "T1", "U0", "Bench", "Quiet", "automatic"]

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


class Noting(ConsumerRebalanceListener):
    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.calls: list[tuple[str, list[TopicPartition]]] = []
        self.hook: Callable[[str], object] = lambda what: None

    def _note(self, what: str, partitions: Any) -> None:
        assert self.bench.network.quiet >= 1, "wakeups wait until a callback is over"
        self.calls.append((what, list(partitions)))
        self.hook(what)

    def on_partitions_revoked(self, revoked: Any) -> None:
        self._note("revoked", revoked)

    def on_partitions_assigned(self, assigned: Any) -> None:
        self._note("assigned", assigned)

    def on_partitions_lost(self, lost: Any) -> None:
        self._note("lost", lost)


class Quiet(ConsumerCoordinator):
    """Start no thread: tests run alone."""

    started = 0

    def _start_heartbeat(self) -> None:
        self.started += 1


class Bench:
    """A coordinator with a scripted network and its collaborators. ``driver`` is the class of the coordinator."""

    driver: type[ConsumerCoordinator] = Quiet

    def __init__(self, **changes: Any) -> None:
        self.clock = ManualClock(100.0)
        self.network = GroupNetwork(self.clock)
        self.reported: list[object] = []
        options: dict[str, Any] = {"bootstrap_servers": "h:1", "group_id": "g", "enable_auto_commit": False}
        self.config = CONSUMER_SETTINGS.build(options | changes)
        self.metadata = Metadata.from_config(self.config)
        self.subscriptions = SubscriptionState(self.config.auto_offset_reset)
        self.coordinator = self.driver(
            ConsumerContext(
                self.config,
                self.network,  # type: ignore[arg-type]
                self.metadata,
                self.subscriptions,
                self.clock,
            ),
            on_commit=self.reported.append,
        )
        self.core = self.coordinator._core
        self.listener = Noting(self)

    def learn(self, **topics: int) -> None:
        """Receive metadata of the tracked topics: partition counts by topic."""
        for name in topics:
            self.metadata.add_topic(name)
        found = metadata_response(
            {name: dict.fromkeys(range(count), (1, 0)) for name, count in topics.items()},
            topic_id=lambda name: name.encode() * 16,
        )
        self.metadata.update(found, 12, self.clock.now())

    def subscribe(self, *topics: str) -> None:
        self.subscriptions.subscribe(topics, self.listener)
        self.metadata.set_topics(topics)
        self.coordinator.on_subscription_change()

    def poll(self, seconds: float = 0.0) -> Call:
        """Poll the coordinator for at most this long. 0 is what ``KafkaConsumer.poll`` passes."""
        now = self.clock.now()
        return Call(self.coordinator.poll(now + seconds, wait_for_join=seconds > 0), self.clock)

    def meet_coordinator(self) -> None:
        """Poll twice: the first sends FindCoordinator, the second does the work due after the response."""
        self.poll()
        self.network.find(NODE)
        self.poll()

    def answer_join(
        self, generation: int = 1, *, leader: str = "other", members: dict[str, str] | None = None, **fields: Any
    ) -> SentRequest:
        sent = self.network.take(JoinGroupRequest)
        given = [
            JoinGroupResponseMember(member_id=name, metadata=encode_subscription(topics.split()))
            for name, topics in (members or {}).items()
        ]
        values = {"generation_id": generation, "protocol_type": "consumer", "protocol_name": "range", "member_id": "me"}
        sent.answer(JoinGroupResponse(leader=leader, members=given, **(values | fields)))
        return sent

    def answer_sync(self, *partitions: TopicPartition) -> SentRequest:
        sent = self.network.take(SyncGroupRequest)
        sent.answer(
            SyncGroupResponse(protocol_type="consumer", protocol_name="range", assignment=encode_assignment(partitions))
        )
        return sent

    def answer_commit(self, code: int = 0) -> SentRequest:
        sent = self.network.take(OffsetCommitRequest)
        topics = [
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=p.partition_index, error_code=code)
                    for p in topic.partitions
                ],
            )
            for topic in sent.request.topics
        ]
        sent.answer(OffsetCommitResponse(topics=topics))
        return sent

    def join(self, *partitions: TopicPartition, generation: int = 1) -> None:
        """Make a new coordinator a member with these partitions, by polls that do not wait."""
        if self.core.coordinator is None:
            self.poll()
            self.network.find(NODE)
        self.poll()
        self.answer_join(generation)
        self.answer_sync(*partitions)
        assert self.poll().result is True

    def read(self, **positions: int) -> None:
        """The application has read topic t up to these offsets: ``read(p0=5)``."""
        for name, offset in positions.items():
            self.subscriptions.seek(TopicPartition("t", int(name[1:])), FetchPosition(offset))


def automatic(**changes: Any) -> Bench:
    """Return a bench with automatic commits, a member of generation 1 that has read some of its two partitions."""
    bench = Bench(enable_auto_commit=True, **changes)
    bench.learn(t=2)
    bench.subscribe("t")
    bench.join(T0, T1)
    bench.read(p0=5, p1=7)
    return bench
