"""A coordinator of one broker with a log in memory. The test advances its clock and plays its clients."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, TypeVar

from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.controller import OFFSETS_TOPIC
from pyconsumer.broker.deferred import Deferred, run_handler
from pyconsumer.broker.group.classic.admission import JoinRequest
from pyconsumer.broker.group.classic.group_metadata import GroupMetadata, GroupState, MemberMetadata, Protocols
from pyconsumer.broker.group.common.config import GroupConfig
from pyconsumer.broker.group.common.offsets import CommittedOffset
from pyconsumer.broker.group.common.results import FetchedOffset, JoinResult, LeavingMember, SyncResult
from pyconsumer.broker.group.common.storage import KeyValue, StoreResult
from pyconsumer.broker.group.coordinator import GroupBroker, GroupCoordinator
from pyconsumer.broker.timer import Timer
from pyconsumer.clock import ManualClock
from pyconsumer.protocol.consumer_protocol import ConsumerProtocolSubscription
from pyconsumer.protocol.offsets_topic import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    decode_group_value,
    decode_key,
    decode_offset_value,
)
from pyconsumer.protocol.records import (
    BatchBuilder,
    ControlRecordType,
    build_end_transaction_marker,
    iter_records,
)
from pyconsumer.protocol.schema import Message
from pyconsumer.structs import BrokerMetadata, TopicPartition

T = TypeVar("T")

NOT_LEADER = 6
PARTITIONS = 5
GROUP = "g1"
TOPIC_ID = bytes(range(16))
TP0 = TopicPartition("t", 0)
TP1 = TopicPartition("t", 1)


class MemoryStorage:
    """``__consumer_offsets`` in memory, as Kafka's record batches.

    ``hold`` keeps appends open until :meth:`release`. ``fail_with`` makes the following ones fail.
    """

    def __init__(self, clock: ManualClock, partitions: int = PARTITIONS) -> None:
        self.partitions = partitions
        self.clock = clock
        self.batches: dict[int, list[bytes]] = {number: [] for number in range(partitions)}
        self.next_offset = dict.fromkeys(range(partitions), 0)
        self.leads = set(range(partitions))
        self.hold = False
        self.fail_with = 0
        self.held: list[tuple[Deferred[StoreResult], StoreResult]] = []
        self.appended: list[tuple[int, list[KeyValue]]] = []
        self.raises: Exception | None = None

    def partition_count(self) -> int:
        return self.partitions

    def append(
        self,
        partition: int,
        records: Sequence[KeyValue],
        now_ms: int,
        *,
        producer_id: int = -1,
        producer_epoch: int = -1,
    ) -> Deferred[StoreResult]:
        assert records
        assert now_ms == self.clock.wall_ms()
        if self.raises is not None:
            raise self.raises
        result: Deferred[StoreResult] = Deferred()
        if partition not in self.leads:
            result.set(StoreResult(NOT_LEADER))
            return result
        if self.fail_with:
            outcome = StoreResult(self.fail_with)
        else:
            outcome = StoreResult(0, self.write(partition, records, producer_id, producer_epoch))
        if self.hold:
            self.held.append((result, outcome))
        else:
            result.set(outcome)
        return result

    def write(
        self, partition: int, records: Sequence[KeyValue], producer_id: int = -1, producer_epoch: int = -1
    ) -> int:
        """Append a batch to the log without a waiter. Return its base offset."""
        builder = BatchBuilder()
        for key, value in records:
            assert builder.try_append(self.clock.wall_ms(), key, value) is not None
        base = self.next_offset[partition]
        transactional = producer_id >= 0
        self.batches[partition].append(
            builder.build(base, producer_id, producer_epoch, 0 if transactional else -1, transactional)
        )
        self.next_offset[partition] = base + len(records)
        self.appended.append((partition, list(records)))
        return base

    def write_marker(self, partition: int, producer_id: int, *, commit: bool) -> None:
        base = self.next_offset[partition]
        self.next_offset[partition] = base + 1
        self.batches[partition].append(
            build_end_transaction_marker(
                ControlRecordType.COMMIT if commit else ControlRecordType.ABORT,
                producer_id=producer_id,
                producer_epoch=0,
                coordinator_epoch=0,
                timestamp_ms=self.clock.wall_ms(),
                base_offset=base,
            )
        )

    def release(self, index: int = 0, error_code: int | None = None) -> None:
        """Complete one held append."""
        waiter, outcome = self.held.pop(index)
        waiter.set(outcome if error_code is None else StoreResult(error_code))

    def release_all(self) -> None:
        while self.held:
            self.release()

    def read(self, partition: int) -> Iterator[bytes | memoryview]:
        if partition in self.leads:
            yield from self.batches[partition]

    def records(self, partition: int) -> list[tuple[Any, Any]]:
        """Every record in the log, decoded, without control records."""
        found = []
        for batch in self.batches[partition]:
            for record in iter_records(batch):
                if record.is_control:
                    continue
                assert record.key is not None
                key = decode_key(record.key)
                value: OffsetCommitValue | GroupMetadataValue | None = None
                if record.value is not None:
                    decode = decode_offset_value if isinstance(key, OffsetCommitKey) else decode_group_value
                    value = decode(record.value)
                found.append((key, value))
        return found

    def registrations(self, partition: int) -> list[GroupMetadataValue | None]:
        return [value for key, value in self.records(partition) if isinstance(key, GroupMetadataKey)]

    def offset_records(self, partition: int) -> list[tuple[OffsetCommitKey, OffsetCommitValue | None]]:
        return [(key, value) for key, value in self.records(partition) if isinstance(key, OffsetCommitKey)]


def subscription(*topics: str, user_data: bytes | None = None) -> bytes:
    return ConsumerProtocolSubscription(topics=list(topics), user_data=user_data).encode_with_version(0)


RANGE: Protocols = (("range", subscription("t")),)


@dataclasses.dataclass
class Client:
    """A member whose requests the test sends."""

    member_id: str
    generation: int
    group_instance_id: str | None = None
    protocols: Protocols = RANGE
    leader: str = ""


class Topics:
    """The topics of a cluster: id and number of partitions of each, by name."""

    def __init__(self, topics: Mapping[str, tuple[bytes, int]]) -> None:
        self.topics = dict(topics)

    def topic_id(self, name: str) -> bytes | None:
        found = self.topics.get(name)
        return found[0] if found else None

    def topic_name(self, topic_id: bytes) -> str | None:
        return next((name for name, (one, _) in self.topics.items() if one == topic_id), None)

    def partition_count(self, topic: str) -> int | None:
        found = self.topics.get(topic)
        return found[1] if found else None

    def topic_names(self) -> list[str]:
        return list(self.topics)

    def partition_racks(self, topic: str, partition: int) -> list[str]:
        return []


class World:
    """One coordinator that owns every partition of the internal topic.

    Args:
        start: load its groups at once.
        storage: the log of an earlier world. The default is a new one.
        topics: of the cluster, for the consumer protocol.
    """

    def __init__(
        self,
        *,
        start: bool = True,
        storage: MemoryStorage | None = None,
        topics: Topics | None = None,
        **config: Any,
    ) -> None:
        self.clock = storage.clock if storage is not None else ManualClock(100.0)
        self.storage = storage or MemoryStorage(self.clock)
        self.timer = Timer()
        self.config = GroupConfig(**config)
        self.coordinator = GroupCoordinator(self.config, self.storage, self.timer, self.clock, topics)
        self.manager = self.coordinator.manager
        self.ids = 0
        self.coordinator._joins._new_uuid = self._new_uuid
        if start:
            self.coordinator.start()
            self.lead()

    def _new_uuid(self) -> str:
        self.ids += 1
        return f"uuid{self.ids}"

    def lead(self, epoch: int = 1, partitions: Iterable[int] | None = None) -> None:
        for partition in range(self.storage.partitions) if partitions is None else partitions:
            self.coordinator.on_become_leader(partition, epoch)
        self.advance(0.1)

    def restarted(self, **config: int) -> World:
        """Another broker over the same log, after all groups were loaded."""
        return World(storage=self.storage, **config)

    def advance(self, seconds: float) -> None:
        """Advance the clock and run due work in order."""
        end = self.clock.now() + seconds
        while True:
            due = self.timer.next_deadline()
            if due is None or due > end + 1e-9:
                break
            self.clock.advance_to(due)
            self.timer.run_due(self.clock.now())
        self.clock.advance_to(end)

    def partition(self, group: str = GROUP) -> int:
        return self.coordinator.partition_for(group)

    def group(self, group: str = GROUP) -> GroupMetadata:
        found = self.manager.get_group(group)
        assert found is not None
        return found

    @property
    def state(self) -> GroupState:
        return self.group().state

    # Requests

    def join(
        self,
        member_id: str = "",
        *,
        group: str = GROUP,
        client_id: str = "c",
        instance: str | None = None,
        protocols: Protocols = RANGE,
        protocol_type: str = "consumer",
        session_ms: int = 10_000,
        rebalance_ms: int = 60_000,
        require_id: bool = False,
        skip: bool = True,
        reason: str | None = None,
    ) -> Deferred[JoinResult]:
        return self.coordinator.join_group(
            JoinRequest(
                group_id=group,
                member_id=member_id,
                group_instance_id=instance,
                require_known_member_id=require_id,
                can_skip_assignment=skip,
                client_id=client_id,
                client_host="/127.0.0.1",
                rebalance_timeout_ms=rebalance_ms,
                session_timeout_ms=session_ms,
                protocol_type=protocol_type,
                protocols=protocols,
                reason=reason,
            )
        )

    def sync(
        self,
        client: Client,
        assignments: Mapping[str, bytes] | None = None,
        *,
        group: str = GROUP,
        generation: int | None = None,
        **more: Any,
    ) -> Deferred[SyncResult]:
        return self.coordinator.sync_group(
            group,
            client.generation if generation is None else generation,
            client.member_id,
            assignments or {},
            group_instance_id=client.group_instance_id,
            **more,
        )

    def heartbeat(self, client: Client, *, group: str = GROUP, generation: int | None = None) -> int:
        return self.coordinator.heartbeat(
            group,
            client.generation if generation is None else generation,
            client.member_id,
            client.group_instance_id,
        )

    def leave(self, *clients: Client, group: str = GROUP) -> list[int]:
        result = self.coordinator.leave_group(
            group, [LeavingMember(client.member_id, client.group_instance_id) for client in clients]
        )
        assert result.error_code == 0
        return [member.error_code for member in result.members]

    def commit(
        self,
        offsets: Mapping[TopicPartition, int | CommittedOffset],
        client: Client | None = None,
        *,
        group: str = GROUP,
        **more: Any,
    ) -> Deferred[dict[TopicPartition, int]]:
        values = {tp: CommittedOffset(value) if isinstance(value, int) else value for tp, value in offsets.items()}
        if client is not None:
            more = {
                "generation_id": client.generation,
                "member_id": client.member_id,
                "group_instance_id": client.group_instance_id,
            } | more
        return self.coordinator.commit_offsets(group, values, **more)

    def fetch(
        self,
        partitions: Sequence[TopicPartition] | None = None,
        *,
        group: str = GROUP,
        stable: bool = False,
    ) -> dict[TopicPartition, FetchedOffset]:
        error_code, found = value_of(self.coordinator.fetch_offsets(group, partitions, require_stable=stable))
        assert error_code == 0
        return found

    def offset(self, partition: TopicPartition = TP0, *, group: str = GROUP) -> int:
        return self.fetch([partition], group=group)[partition].offset

    # Whole flows

    def stable(
        self,
        count: int = 1,
        *,
        group: str = GROUP,
        protocols: Protocols = RANGE,
        instances: Sequence[str | None] = (),
        **join: Any,
    ) -> list[Client]:
        """A stable group of this many members. The first one is the leader, and assignments are ``a0``, ``a1``, ..."""
        waiting = []
        for index in range(count):
            instance = instances[index] if index < len(instances) else None
            waiting.append((self.join(group=group, instance=instance, protocols=protocols, **join), instance))
        self.advance(self.config.group_initial_rebalance_delay_ms / 1000 * (count + 1))
        clients = []
        for answer, instance in waiting:
            result = value_of(answer)
            assert result.error_code == 0
            clients.append(Client(result.member_id, result.generation_id, instance, protocols, result.leader))
        self.sync_all(clients, group=group)
        return clients

    def sync_all(self, clients: Sequence[Client], *, group: str = GROUP) -> list[SyncResult]:
        """Followers first, then the leader with an assignment for each."""
        assignments = {client.member_id: b"a%d" % index for index, client in enumerate(clients)}
        answers = {}
        leader = self.group(group).leader_id
        for client in sorted(clients, key=lambda client: client.member_id == leader):
            answers[client.member_id] = self.sync(
                client, assignments if client.member_id == leader else {}, group=group
            )
        return [value_of(answers[client.member_id]) for client in clients]

    def rejoin(self, client: Client, **more: Any) -> Deferred[JoinResult]:
        return self.join(client.member_id, instance=client.group_instance_id, protocols=client.protocols, **more)


class FakeBroker(Topics):
    """One topic ``t`` with two partitions, and a world to ask."""

    def __init__(self, world: World) -> None:
        super().__init__({"t": (TOPIC_ID, 2)})
        self.world = world
        self.group_coordinator = world.coordinator
        self.transaction_coordinator = SimpleNamespace(partition_for=len)
        self.has_leader = True

    def coordinator_node(self, topic_name: str, partition: int, context: RequestContext) -> BrokerMetadata | None:
        first = 10 if topic_name == OFFSETS_TOPIC else 20
        return BrokerMetadata(partition + first, "here", 9092) if self.has_leader else None


def handled(
    broker: GroupBroker, request: Message, version: int, clock: ManualClock, *, client_id: str = "me"
) -> Deferred[Any]:
    """Return the response of a group request's handler, after time has passed."""
    name = type(request).__module__.rpartition(".")[2]
    handler = importlib.import_module(f"pyconsumer.broker.handlers.{name}")
    context = RequestContext(
        request.API_KEY,
        version,
        1,
        client_id,
        "/127.0.0.1",
        "PLAINTEXT",
        "User:ANONYMOUS",
        clock.now(),
        clock.wall_ms(),
    )
    answer: Deferred[Any] = Deferred()

    def failed(error: BaseException) -> None:
        raise error

    run_handler(handler.handle(broker, request, context), answer.set, failed)
    return answer


def value_of(deferred: Deferred[T]) -> T:
    assert deferred.done, "the request still waits"
    return deferred.value


def client_of(deferred: Deferred[JoinResult], instance: str | None = None) -> Client:
    result = value_of(deferred)
    assert result.error_code == 0, result
    return Client(result.member_id, result.generation_id, instance, leader=result.leader)


def member(
    member_id: str = "m",
    *,
    group: str = GROUP,
    instance: str | None = None,
    protocols: Protocols = RANGE,
    protocol_type: str = "consumer",
    rebalance_ms: int = 60_000,
    session_ms: int = 10_000,
) -> MemberMetadata:
    return MemberMetadata(
        member_id,
        group,
        group_instance_id=instance,
        client_id="c",
        client_host="/h",
        rebalance_timeout_ms=rebalance_ms,
        session_timeout_ms=session_ms,
        protocol_type=protocol_type,
        supported_protocols=protocols,
    )


def send(broker: FakeBroker, request: Message, version: int) -> Deferred[Any]:
    """Send a request as bytes. Return the response as a client decodes it."""
    received = type(request).decode(request.encode(version), version)
    answer: Deferred[Any] = Deferred()
    handled(broker, received, version, broker.world.clock).on_done(
        lambda response: answer.set(type(response).decode(response.encode(version), version))
    )
    return answer


def ask(broker: FakeBroker, request: Message, version: int) -> Any:
    return value_of(send(broker, request, version))


def versions(message: type[Message], first: int | None = None, last: int | None = None) -> list[int]:
    return list(range(message.MIN_VERSION if first is None else first, (last or message.MAX_VERSION) + 1))
