"""Two brokers over one log of ``__consumer_offsets``: they restart, coordinate the group in turn, and answer late."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyconsumer.broker.deferred import Deferred
from pyconsumer.broker.group.config import GroupConfig
from pyconsumer.broker.group.coordinator import GroupCoordinator
from pyconsumer.broker.group.group_metadata import GroupMetadata
from pyconsumer.broker.group.join import JoinRequest
from pyconsumer.broker.group.offsets import CommittedOffset
from pyconsumer.broker.group.results import JoinResult, LeavingMember, SyncResult
from pyconsumer.broker.group.storage import AppendResult, KeyValue
from pyconsumer.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from pyconsumer.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from pyconsumer.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from pyconsumer.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from pyconsumer.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from pyconsumer.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from pyconsumer.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from pyconsumer.protocol.offsets_topic import GroupMetadataKey, decode_group_value, decode_key
from pyconsumer.protocol.schema import Message
from pyconsumer.structs import BrokerMetadata, TopicPartition
from tests.simulation import broken
from tests.unit.group.support import NOT_LEADER, MemoryStorage

if TYPE_CHECKING:
    from tests.simulation.network import Exchange
    from tests.simulation.world import World

GROUP = "g"
NOT_AVAILABLE = 15

Answer = Callable[[Message], None]


class Storage:
    """The shared log as one broker sees it: only the leader may write, and the replicas take their time."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._brokers = broker.brokers

    def partition_count(self) -> int:
        return 1

    def append(
        self, partition: int, records: Sequence[KeyValue], now_ms: int, **producer: int
    ) -> Deferred[AppendResult]:
        brokers, broker = self._brokers, self._broker
        world = brokers.world
        if brokers.leader is not broker or not broker.up:
            return Deferred.of(AppendResult(NOT_LEADER))
        outcome = AppendResult(0, brokers.log.write(partition, records))
        brokers.writes += 1
        for key, value in records:
            if value is not None and isinstance(decode_key(key), GroupMetadataKey):
                world.rules.on_generation_stored(decode_group_value(value).generation)
        if brokers.append_delay == 0.0:
            return Deferred.of(outcome)
        result: Deferred[AppendResult] = Deferred()
        life = broker.life
        world.after(
            world.random.uniform(0.0, brokers.append_delay),
            lambda: result.set(outcome) if broker.life == life and broker.up else None,
        )
        return result

    def read(self, partition: int) -> Iterator[bytes | memoryview]:
        # Its own replica: it may have been told to lead, and not yet that somebody else does by now.
        yield from list(self._brokers.log.batches[partition])


class Broker:
    """One broker: whether it is up, and its group coordinator."""

    def __init__(self, brokers: Brokers, node_id: int) -> None:
        self.brokers = brokers
        self.node_id = node_id
        self.name = f"broker{node_id}"
        self.up = False
        self.life = 0
        self.coordinator: GroupCoordinator
        self.start()

    @property
    def metadata(self) -> BrokerMetadata:
        return BrokerMetadata(self.node_id, self.name, 9092)

    def start(self) -> None:
        world = self.brokers.world
        self.up = True
        self.life += 1
        config = GroupConfig(group_initial_rebalance_delay_ms=500)
        self.coordinator = GroupCoordinator(config, Storage(self), world.timer, world.clock)
        self.coordinator._joins._new_uuid = world.new_id
        broken.break_coordinator(self.coordinator, world.broken)
        self.coordinator.start()

    def stop(self) -> None:
        """The process ends: memory and connections are gone."""
        self.up = False
        self.life += 1
        self.brokers.world.cut_connections(self)
        self.coordinator.shutdown()

    # -- requests ----------------------------------------------------------------------------------------------------

    def serve(self, exchange: Exchange, answer: Answer) -> None:
        life = self.life

        def reply(response: Message) -> None:
            if self.life == life:
                answer(response)

        _HANDLERS[type(exchange.request)](self, exchange, reply)

    def _find(self, exchange: Exchange, answer: Answer) -> None:
        known = self.brokers.known_leader(self)
        if known is None:
            found = Coordinator(key=GROUP, error_code=NOT_AVAILABLE)
        else:
            found = Coordinator(key=GROUP, node_id=known.node_id, host=known.name, port=9092)
        answer(FindCoordinatorResponse(coordinators=[found]))

    def _join(self, exchange: Exchange, answer: Answer) -> None:
        request: JoinGroupRequest = exchange.request

        def done(result: JoinResult) -> None:
            answer(
                JoinGroupResponse(
                    error_code=result.error_code,
                    generation_id=result.generation_id,
                    protocol_type=result.protocol_type,
                    protocol_name=result.protocol_name,
                    leader=result.leader,
                    skip_assignment=result.skip_assignment,
                    member_id=result.member_id,
                    members=[
                        JoinGroupResponseMember(
                            member_id=m.member_id, group_instance_id=m.group_instance_id, metadata=m.metadata
                        )
                        for m in result.members
                    ],
                )
            )

        self.coordinator.join_group(
            JoinRequest(
                group_id=GROUP,
                member_id=request.member_id,
                group_instance_id=request.group_instance_id,
                require_known_member_id=request.group_instance_id is None,
                client_id=exchange.connection.client.name,
                client_host="/127.0.0.1",
                rebalance_timeout_ms=request.rebalance_timeout_ms,
                session_timeout_ms=request.session_timeout_ms,
                protocol_type=request.protocol_type,
                protocols=tuple((p.name, p.metadata) for p in request.protocols),
                reason=request.reason,
            )
        ).on_done(done)

    def _sync(self, exchange: Exchange, answer: Answer) -> None:
        request: SyncGroupRequest = exchange.request

        def done(result: SyncResult) -> None:
            answer(
                SyncGroupResponse(
                    error_code=result.error_code,
                    protocol_type=result.protocol_type,
                    protocol_name=result.protocol_name,
                    assignment=result.assignment,
                )
            )

        self.coordinator.sync_group(
            GROUP,
            request.generation_id,
            request.member_id,
            {one.member_id: one.assignment for one in request.assignments},
            group_instance_id=request.group_instance_id,
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
        ).on_done(done)

    def _heartbeat(self, exchange: Exchange, answer: Answer) -> None:
        request: HeartbeatRequest = exchange.request
        code = self.coordinator.heartbeat(GROUP, request.generation_id, request.member_id, request.group_instance_id)
        answer(HeartbeatResponse(error_code=code))

    def _leave(self, exchange: Exchange, answer: Answer) -> None:
        leaving = [LeavingMember(m.member_id, m.group_instance_id, m.reason) for m in exchange.request.members]
        answer(LeaveGroupResponse(error_code=self.coordinator.leave_group(GROUP, leaving).error_code))

    def _commit(self, exchange: Exchange, answer: Answer) -> None:
        request: OffsetCommitRequest = exchange.request
        brokers = self.brokers
        offsets = {
            TopicPartition(topic.name, one.partition_index): CommittedOffset(one.committed_offset)
            for topic in request.topics
            for one in topic.partitions
        }

        def done(codes: dict[TopicPartition, int]) -> None:
            answer(
                OffsetCommitResponse(
                    topics=[
                        OffsetCommitResponseTopic(
                            name=topic.name,
                            partitions=[
                                OffsetCommitResponsePartition(
                                    partition_index=one.partition_index,
                                    error_code=codes[TopicPartition(topic.name, one.partition_index)],
                                )
                                for one in topic.partitions
                            ],
                        )
                        for topic in request.topics
                    ]
                )
            )

        before = brokers.writes
        generation, member_id = request.generation_id_or_member_epoch, request.member_id
        result = self.coordinator.commit_offsets(
            GROUP,
            offsets,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=request.group_instance_id,
        )
        if brokers.writes > before:
            numbers = {tp: value.offset for tp, value in offsets.items()}
            brokers.world.rules.on_commit_stored(exchange.connection.client.name, member_id, generation, numbers)
        result.on_done(done)

    def _fetch(self, exchange: Exchange, answer: Answer) -> None:
        request: OffsetFetchRequest = exchange.request
        wanted = [
            TopicPartition(topic.name, index)
            for topic in request.groups[0].topics or ()
            for index in topic.partition_indexes
        ]

        def done(result: Any) -> None:
            error_code, found = result
            if error_code == 0:
                values = {tp: one.offset for tp, one in found.items() if not one.error_code}
                self.brokers.world.rules.on_offsets_read(self, values)
            topics: dict[str, OffsetFetchResponseTopics] = {}
            for tp, one in found.items():
                topics.setdefault(tp.topic, OffsetFetchResponseTopics(name=tp.topic)).partitions.append(
                    OffsetFetchResponsePartitions(
                        partition_index=tp.partition, committed_offset=one.offset, error_code=one.error_code
                    )
                )
            group = OffsetFetchResponseGroup(group_id=GROUP, error_code=error_code, topics=list(topics.values()))
            answer(OffsetFetchResponse(groups=[group]))

        self.coordinator.fetch_offsets(GROUP, wanted, require_stable=request.require_stable).on_done(done)


_HANDLERS: dict[type[Message], Callable[[Broker, Exchange, Answer], None]] = {
    FindCoordinatorRequest: Broker._find,
    JoinGroupRequest: Broker._join,
    SyncGroupRequest: Broker._sync,
    HeartbeatRequest: Broker._heartbeat,
    LeaveGroupRequest: Broker._leave,
    OffsetCommitRequest: Broker._commit,
    OffsetFetchRequest: Broker._fetch,
}


class Brokers:
    """The cluster.

    Attributes:
        leader: of the partition that holds the group; it coordinates.
        append_delay: longest time that an append waits for the replicas, seconds.
        writes: batches written.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.log = MemoryStorage(world.clock, partitions=1)
        self.append_delay = 0.0
        self.writes = 0
        self._epoch = 0
        self._pending = 0
        self.by_id: dict[int, Broker] = {}
        for number in (1, 2):
            self.by_id[number] = Broker(self, number)
        self.leader = self.by_id[1]
        self._told = dict.fromkeys(self.by_id, 1)
        self._heard = dict.fromkeys(self.by_id, 0.0)
        self.leader.coordinator.on_become_leader(0, self._epoch)

    @property
    def in_trouble(self) -> bool:
        """Whether one is down, or the coordinator is on the move."""
        return self._pending > 0 or not all(broker.up for broker in self.by_id.values())

    def known_leader(self, asked: Broker) -> Broker | None:
        """Who coordinates, as far as a broker has heard."""
        known = self.by_id[self._told[asked.node_id]]
        return known if known.up else None

    def group(self) -> GroupMetadata | None:
        """The group in the memory of its coordinator; None while that has none."""
        manager = self.leader.coordinator.manager
        if not self.leader.up or manager.is_loading(GROUP):
            return None
        return manager.get_group(GROUP)

    def move(self) -> None:
        """The other broker coordinates from now on; both, and those who ask, hear of it at different times."""
        old = self.leader
        new = next(broker for broker in self.by_id.values() if broker is not old)
        if not new.up:
            return
        self._epoch += 1
        epoch = self._epoch
        self.leader = new
        self.world.note("cluster", f"the coordinator moves from {old.name} to {new.name}")
        for broker in self.by_id.values():
            self._announce(broker, epoch)

    def _announce(self, broker: Broker, epoch: int) -> None:
        """Let a broker hear of the present leader after a while; it hears of all changes in their order."""
        leader, life = self.leader, broker.life

        def hear() -> None:
            self._told[broker.node_id] = leader.node_id
            if broker.life != life or not broker.up:
                return
            if leader is broker:
                broker.coordinator.on_become_leader(0, epoch)
            else:
                broker.coordinator.on_resign(0, epoch)

        self._heard[broker.node_id] = max(self._heard[broker.node_id], self.world.clock.now()) + (
            self.world.random.uniform(0.0, 1.0)
        )
        self._pending += 1

        def run() -> None:
            self._pending -= 1
            hear()

        self.world.timer.schedule(self._heard[broker.node_id], run)

    def restart(self, broker: Broker, seconds: float, *, move: bool) -> None:
        """A broker dies and comes back; meanwhile the other one may coordinate."""
        if not broker.up:
            return
        self.world.note("cluster", f"{broker.name} dies for {seconds:.1f} s")
        broker.stop()
        if move and broker is self.leader:
            self.move()

        def back() -> None:
            self.world.note("cluster", f"{broker.name} is back")
            broker.start()
            self._told[broker.node_id] = self.leader.node_id
            if self.leader is broker:
                broker.coordinator.on_become_leader(0, self._epoch)

        self.world.after(seconds, back)
