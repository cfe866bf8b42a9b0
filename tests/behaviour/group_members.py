"""Members of consumer groups for tests: consumers in threads that note their callbacks and records."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pyconsumer.consumer.consumer import KafkaConsumer
from pyconsumer.consumer.coordinator.consumer_coordinator import ConsumerCoordinator
from pyconsumer.consumer.interface import ConsumerRebalanceListener
from pyconsumer.producer.producer import KafkaProducer
from pyconsumer.protocol.messages.describe_groups import DescribeGroupsRequest
from pyconsumer.structs import TopicPartition
from tests.support.cluster import Cluster

__all__ = [
    "CLASSIC_ONLY",
    "FAST",
    "WITHIN_S",
    "Listener",
    "Member",
    "chosen",
    "coordinator_of",
    "eventually",
    "fill",
    "is_empty",
    "join_all",
    "make_consumer",
    "running",
]

WITHIN_S = 60.0

#: Heartbeats fast enough for a test, sessions long enough for a busy machine; who waits for one to end sets its own.
FAST: dict[str, Any] = {
    "session_timeout_ms": 20_000,
    "heartbeat_interval_ms": 200,
    "auto_offset_reset": "earliest",
    "auto_commit_interval_ms": 500,
    "metadata_max_age_ms": 1000,
}


#: The protocol of groups whose test does not say; the fixture of the same name sets it.
group_protocol = "classic"

#: Settings that the consumer protocol has no use for: the broker decides.
CLASSIC_ONLY = ("session_timeout_ms", "heartbeat_interval_ms", "partition_assignment_strategy")


def eventually(condition: Callable[[], object], what: str = "it", within_s: float = WITHIN_S) -> Any:
    """Wait for other threads until a condition holds and return its result."""
    end = time.monotonic() + within_s
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > end:
            raise AssertionError(f"{what} did not happen within {within_s:g} s")
        threading.Event().wait(0.02)


def is_empty(cluster: Cluster, group_id: str) -> bool:
    """Return whether the coordinator knows no member of a group."""
    with cluster.raw() as client:
        client.coordinator(group_id)
        return not client.request(DescribeGroupsRequest(groups=[group_id])).groups[0].members


def fill(cluster: Cluster, topic: str, count: int, partitions: int = 1) -> None:
    """Write ``count`` records in turn to the partitions. The value is the record's number."""
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for number in range(count):
            producer.send(topic, str(number).encode(), partition=number % partitions)
        producer.flush(timeout_ms=30_000)


def make_consumer(cluster: Cluster | str, group_id: str, **settings: Any) -> KafkaConsumer:
    """A consumer of a group with :data:`FAST` settings, of the protocol of a test marked ``protocols``."""
    servers = cluster if isinstance(cluster, str) else cluster.bootstrap_servers
    found = FAST | {"bootstrap_servers": servers, "group_id": group_id, "group_protocol": group_protocol} | settings
    if found["group_protocol"] == "consumer":
        found = {name: value for name, value in found.items() if name not in CLASSIC_ONLY}
    return KafkaConsumer(**found)


@dataclass
class Listener(ConsumerRebalanceListener):
    """Notes its calls as ``(what, partitions)``, and runs a hook in each."""

    hook: Callable[[str, list[TopicPartition]], object] | None = None
    calls: list[tuple[str, list[TopicPartition]]] = field(default_factory=list)

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        self._note("revoked", revoked)

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        self._note("assigned", assigned)

    def on_partitions_lost(self, lost: Collection[TopicPartition]) -> None:
        self._note("lost", lost)

    def _note(self, what: str, partitions: Collection[TopicPartition]) -> None:
        self.calls.append((what, sorted(partitions)))
        if self.hook is not None:
            self.hook(what, sorted(partitions))

    def of(self, what: str) -> list[list[TopicPartition]]:
        return [partitions for kind, partitions in self.calls if kind == what]

    def wait_for(self, what: str, partitions: list[TopicPartition], since: int = 0) -> int:
        """Wait for a call among ``calls[since:]`` and return the position after it."""
        wanted = (what, partitions)
        eventually(lambda: wanted in self.calls[since:], f"on_partitions_{what}({partitions})")
        return self.calls.index(wanted, since) + 1


def coordinator_of(consumer: KafkaConsumer) -> ConsumerCoordinator:
    """The coordinator's side of a consumer that has a group."""
    found = consumer._delegate.coordinator
    assert found is not None
    return found


class Member:
    """A consumer that polls in a thread of its own until it is stopped.

    Attributes:
        assignment: its present partitions, as its thread saw them after the last poll.
        generation: likewise.
        pending: likewise: whether it knows that it has to join again, or is about it.
        read: ``(partition, offset)`` of each record, in order.
        error: what ended the loop, if anything did.
    """

    def __init__(
        self,
        cluster: Cluster | str,
        group_id: str,
        topics: Collection[str] = (),
        *,
        pattern: str | None = None,
        listener: Listener | None = None,
        on_records: Callable[[KafkaConsumer, list[Any]], object] | None = None,
        **settings: Any,
    ) -> None:
        self.listener = listener or Listener()
        self.consumer = make_consumer(cluster, group_id, **settings)
        self.consumer.subscribe(topics, pattern=pattern, listener=self.listener)
        self.assignment: frozenset[TopicPartition] = frozenset()
        self.generation = -1
        self.pending = False
        self.member_id = ""
        self.read: list[tuple[TopicPartition, int]] = []
        self.error: BaseException | None = None
        self._on_records = on_records
        self._stop = threading.Event()
        self._calls: list[tuple[Callable[[KafkaConsumer], Any], threading.Event, list[Any]]] = []
        self._may_poll = threading.Event()
        self._may_poll.set()
        self._closing: dict[str, Any] = {}
        self._thread = threading.Thread(target=self._run, name=f"test-member-{group_id}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        consumer = self.consumer
        try:
            while not self._stop.is_set():
                if not self._may_poll.is_set():
                    self._do_calls()
                    self._may_poll.wait(0.01)
                    continue
                records = list(consumer.poll(100).records())
                self.read += [(r.topic_partition, r.offset) for r in records]
                self._look()
                if records and self._on_records is not None:
                    self._on_records(consumer, records)
                self._do_calls()
            consumer.close(**self._closing)
        except BaseException as error:
            self.error = error
            consumer.close(0)
        finally:
            self._look_closed()

    def _look(self) -> None:
        self.assignment = frozenset(self.consumer.assignment())
        identity = self.consumer.group_metadata()
        self.generation, self.member_id = identity.generation_id, identity.member_id
        self.pending = coordinator_of(self.consumer)._core.rejoin_pending

    def _look_closed(self) -> None:
        self.assignment = frozenset()
        for _, done, result in self._calls:
            result.append(AssertionError("the member has ended"))
            done.set()

    def _do_calls(self) -> None:
        while self._calls:
            call, done, result = self._calls.pop(0)
            try:
                result.append(call(self.consumer))
            except Exception as error:
                result.append(error)
            self._look()
            done.set()

    def do(self, call: Callable[[KafkaConsumer], Any]) -> Any:
        """Run a call on the consumer in its thread and return its result or raise its error."""
        done, result = threading.Event(), []  # type: ignore[var-annotated]
        self._calls.append((call, done, result))
        assert done.wait(WITHIN_S), f"the member did not get to {call}; it ended with {self.error!r}"
        return result[0]

    def stall(self) -> None:
        """Poll no more, as an application that is busy."""
        self._may_poll.clear()

    def go_on(self) -> None:
        self._may_poll.set()

    def stop(self, **closing: Any) -> None:
        """Close the consumer, with these arguments, and wait for the thread."""
        self._closing = closing
        self._stop.set()
        self._may_poll.set()
        self._thread.join(WITHIN_S)
        assert not self._thread.is_alive(), "the member did not end"

    def vanish(self) -> None:
        """End without a word to the group, as a process that is killed."""
        self.stop(leave_group=False, timeout_ms=5000)


def chosen(members: Collection[Member]) -> set[str | None]:
    """The assignors by which the members' present assignments were made."""
    return {coordinator_of(member.consumer)._core.generation.protocol_name for member in members}


def join_all(
    members: Collection[Member], partitions: int, within_s: float = WITHIN_S, *, all_have_some: bool = True
) -> dict[TopicPartition, Member]:
    """Wait until the members share this number of partitions, each with one owner and all in one generation.

    Args:
        all_have_some: whether each must have one, too, unless there are more members than partitions.
    """

    def settled() -> dict[TopicPartition, Member] | None:
        for member in members:
            if member.error is not None:
                raise member.error
        owners: dict[TopicPartition, Member] = {}
        count = 0
        for member in members:
            for tp in member.assignment:
                owners[tp] = member
                count += 1
        generations = {member.generation for member in members}
        same = len(generations) == 1 and -1 not in generations
        # One that missed a generation's answer gives up its share in the next one, in which the others have theirs.
        same = same and not any(member.pending for member in members)
        # A cooperative member that syncs has the new generation and its old share; who has just joined has nothing.
        idle = all_have_some and partitions >= len(members) and not all(member.assignment for member in members)
        return owners if count == len(owners) == partitions and same and not idle else None

    found: dict[TopicPartition, Member] = eventually(settled, f"sharing {partitions} partitions", within_s)
    return found


@contextmanager
def running() -> Iterator[Callable[..., Member]]:
    """A context in which members can be started. All of them are stopped at its end."""
    members: list[Member] = []

    def start(*args: Any, **kwargs: Any) -> Member:
        member = Member(*args, **kwargs)
        members.append(member)
        return member

    try:
        yield start
    finally:
        for member in members:
            member._stop.set()
            member._may_poll.set()
        for member in members:
            member._thread.join(WITHIN_S)
