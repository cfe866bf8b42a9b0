"""Two brokers over one log of ``__consumer_offsets``: they restart, coordinate the group in turn, and answer late."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING

from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.deferred import Deferred
from pyconsumer.broker.group.classic.group_metadata import GroupMetadata
from pyconsumer.broker.group.common.config import GroupConfig
from pyconsumer.broker.group.common.storage import KeyValue, StoreResult
from pyconsumer.broker.group.consumer.group import ConsumerGroup
from pyconsumer.broker.group.coordinator import GroupCoordinator
from pyconsumer.errors import Errors
from pyconsumer.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from pyconsumer.protocol.messages.offset_fetch import OffsetFetchResponse
from pyconsumer.protocol.offsets_topic import GroupMetadataKey, decode_group_value, decode_key
from pyconsumer.protocol.schema import Message
from pyconsumer.structs import BrokerMetadata, TopicPartition
from tests.simulation import broken
from tests.unit.broker.group.support import NOT_LEADER, MemoryStorage, handled

if TYPE_CHECKING:
    from tests.simulation.network import Exchange
    from tests.simulation.world import World

GROUP = "g"
TOPIC = "t"
TOPIC_ID = TOPIC.encode() * 16

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
    ) -> Deferred[StoreResult]:
        brokers, broker = self._brokers, self._broker
        world = brokers.world
        if brokers.leader is not broker or not broker.up:
            return Deferred.of(StoreResult(NOT_LEADER))
        outcome = StoreResult(0, brokers.log.write(partition, records))
        brokers.writes += 1
        for key, value in records:
            if value is not None and isinstance(decode_key(key), GroupMetadataKey):
                world.rules.on_generation_stored(decode_group_value(value).generation)
        if brokers.append_delay == 0.0:
            return Deferred.of(outcome)
        result: Deferred[StoreResult] = Deferred()
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
    """One broker: whether it is up, and its group coordinator.

    Attributes:
        under_way: of commits that were written and are not acknowledged yet: the offsets that they replace.
    """

    under_way: list[dict[TopicPartition, int]]

    def __init__(self, brokers: Brokers, node_id: int) -> None:
        self.brokers = brokers
        self.world = brokers.world
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
        world = self.world
        self.up = True
        self.life += 1
        self.under_way = []
        config = GroupConfig(
            group_initial_rebalance_delay_ms=500,
            group_consumer_session_timeout_ms=10_000,
            group_consumer_min_session_timeout_ms=10_000,
            group_consumer_heartbeat_interval_ms=3000,
            group_consumer_min_heartbeat_interval_ms=3000,
        )
        self.coordinator = GroupCoordinator(config, Storage(self), world.timer, world.clock, self)
        self.coordinator._joins._new_uuid = world.new_id
        self.coordinator.consumer_groups._new_uuid = world.new_id
        broken.break_coordinator(self.coordinator, world.broken)
        self.coordinator.start()

    def stop(self) -> None:
        """The process ends: memory and connections are gone."""
        self.up = False
        self.life += 1
        self.world.cut_connections(self)
        self.coordinator.shutdown()

    # -- requests ----------------------------------------------------------------------------------------------------

    def serve(self, exchange: Exchange, answer: Answer) -> None:
        """Answer a request by the broker's own handler."""
        life, request = self.life, exchange.request
        before = self.brokers.writes
        answered = handled(self, request, exchange.version, self.world.clock, client_id=exchange.connection.client.name)
        if isinstance(request, OffsetCommitRequest) and self.brokers.writes > before:
            replaced = self._note_commit(exchange.connection.client.name, request)
            under_way = self.under_way
            under_way.append(replaced)
            answered.on_done(lambda _: under_way.remove(replaced))

        def reply(response: Message) -> None:
            if isinstance(response, OffsetFetchResponse):
                self._note_offsets(response)
            elif isinstance(response, OffsetCommitResponse):
                codes = {partition.error_code for topic in response.topics for partition in topic.partitions}
                self.brokers.stale_commits += Errors.STALE_MEMBER_EPOCH in codes
            if self.life == life:
                answer(response)

        answered.on_done(reply)

    def _note_commit(self, client: str, request: OffsetCommitRequest) -> dict[TopicPartition, int]:
        generation, member_id = request.generation_id_or_member_epoch, request.member_id
        offsets = {TopicPartition(TOPIC, p.partition_index): p.committed_offset for p in request.topics[0].partitions}
        return self.world.rules.on_commit_stored(client, member_id, generation, offsets)

    def _note_offsets(self, response: OffsetFetchResponse) -> None:
        for topic in response.groups[0].topics:
            found = [p for p in topic.partitions if not p.error_code]
            offsets = {TopicPartition(TOPIC, p.partition_index): p.committed_offset for p in found}
            self.world.rules.on_offsets_read(self, offsets)

    # -- what the handlers ask --------------------------------------------------------------------------------------

    controller = SimpleNamespace(features={"group.version": 1})

    @property
    def group_coordinator(self) -> GroupCoordinator:
        return self.coordinator

    def topic_id(self, name: str) -> bytes | None:
        return TOPIC_ID if name == TOPIC else None

    def topic_name(self, topic_id: bytes) -> str | None:
        return TOPIC if topic_id == TOPIC_ID else None

    def partition_count(self, topic: str) -> int | None:
        return len(self.world.partitions) if topic == TOPIC else None

    def topic_names(self) -> list[str]:
        return [TOPIC]

    def partition_racks(self, topic: str, partition: int) -> list[str]:
        return []

    def coordinator_node(self, topic_name: str, partition: int, context: RequestContext) -> BrokerMetadata | None:
        known = self.brokers.known_leader(self)
        return None if known is None else known.metadata


class Brokers:
    """The cluster.

    Attributes:
        leader: of the partition that holds the group. It coordinates.
        append_delay: longest time that an append waits for the replicas, seconds.
        writes: batches written.
        stale_commits: commits whose member got another epoch while they were under way, and that were refused.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.log = MemoryStorage(world.clock, partitions=1)
        self.append_delay = 0.0
        self.writes = self.stale_commits = 0
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
        """Return whether one is down, or the coordinator is on the move."""
        return self._pending > 0 or not all(broker.up for broker in self.by_id.values())

    def known_leader(self, asked: Broker) -> Broker | None:
        """Return who coordinates, as far as a broker has heard."""
        known = self.by_id[self._told[asked.node_id]]
        return known if known.up else None

    def group(self) -> GroupMetadata | ConsumerGroup | None:
        """The group in the memory of its coordinator. None while that has none."""
        manager = self.leader.coordinator.manager
        if not self.leader.up or manager.is_loading(GROUP):
            return None
        return manager.get_group(GROUP)

    def move(self) -> None:
        """The other broker coordinates from now on. Brokers and clients learn of it at different times."""
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
        """Let a broker learn of the present leader after a delay. It learns of all changes in order."""
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
        """A broker dies and restarts. Until then the other one may coordinate."""
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
