"""Three real brokers without sockets: they die and come back, lead in turn, and copy late."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pyconsumer.broker.broker import Broker
from pyconsumer.broker.controller import OFFSETS_TOPIC, TRANSACTION_TOPIC
from pyconsumer.errors import ElectionNotNeededError, EligibleLeadersNotAvailableError
from pyconsumer.protocol.messages.end_txn import EndTxnRequest
from pyconsumer.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pyconsumer.protocol.records import Cursor
from pyconsumer.protocol.schema import Message
from pyconsumer.structs import TopicPartition
from tests.simulation.transactions import broken
from tests.unit.broker.brokers import Brokers

if TYPE_CHECKING:
    from tests.simulation.network import Exchange
    from tests.simulation.transactions.world import TransactionWorld

SOURCE = TopicPartition("source", 0)
SINK = "sink"
SINKS = 2
INTERNAL = (OFFSETS_TOPIC, TRANSACTION_TOPIC)
NODES = 3
_FETCH_BYTES = 1 << 20
_FETCH_BY_NAME = 12  # the last version without topic ids


class Endpoint:
    """One broker as clients reach it, through its lives."""

    def __init__(self, cluster: Cluster, node_id: int) -> None:
        self._cluster = cluster
        self.node_id = node_id
        self.name = f"broker{node_id}"

    @property
    def up(self) -> bool:
        return self.node_id in self._cluster.brokers.alive

    @property
    def life(self) -> int:
        return self._cluster.life(self.node_id)

    def serve(self, exchange: Exchange, answer: Callable[[Message], None]) -> None:
        """Answer a request by the broker's own handler, unless the broker dies in between."""
        self._cluster.serve(self.node_id, exchange.request, exchange.version, answer)


class Cluster:
    """The brokers.

    Attributes:
        by_id: how clients reach them.
        strike: during the next EndTxn the coordinator dies or moves, after this number of steps of the brokers.
    """

    def __init__(self, world: TransactionWorld, version: int) -> None:
        self.world = world
        self.brokers = Brokers(
            None,
            NODES,
            forgetful=True,
            clock=world.clock,
            timer=world.timer,
            offsets_topic_num_partitions=1,
            transaction_state_log_num_partitions=1,
            transaction_abort_timed_out_transaction_cleanup_interval_ms=1000,
            transaction_partition_verification_enable=world.broken != "no-verification",
            replica_lag_time_max_ms=2000,
            group_initial_rebalance_delay_ms=0,
            min_insync_replicas=2,
        )
        controller = self.brokers.controller
        controller.update_features({"transaction.version": version})
        controller.create_topic(SINK, SINKS, NODES, {})
        controller.create_topic(SOURCE.topic, 1, NODES, {})
        for name in INTERNAL:
            controller.ensure_internal(name)
        self.by_id = {node: Endpoint(self, node) for node in range(NODES)}
        self._lives = dict.fromkeys(range(NODES), 0)
        for broker in self.brokers.alive.values():
            broken.break_broker(broker, world.broken)
        self.brokers.run()
        self.strike: int | None = None
        self._look_after()

    def _look_after(self) -> None:
        for broker in list(self.brokers.alive.values()):
            broker.shrink_isrs()
        self.world.after(0.5, self._look_after)

    @property
    def partitions(self) -> list[TopicPartition]:
        topics = self.brokers.controller.topics
        return [TopicPartition(name, index) for name, topic in topics.items() for index in range(len(topic.partitions))]

    @property
    def whole(self) -> bool:
        """Return whether all brokers are up, and all replicas in sync."""
        return len(self.brokers.alive) == NODES and all(
            len(state.isr) == NODES for topic in self.brokers.controller.topics.values() for state in topic.partitions
        )

    def leader(self, tp: TopicPartition) -> Broker | None:
        return self.brokers.alive.get(self.brokers.controller.topics[tp.topic].partitions[tp.partition].leader)

    # --- requests

    def serve(self, node: int, message: Message, version: int, answer: Callable[[Message], None]) -> None:
        life = self._lives[node]

        def answered(response: Any) -> None:
            if self._lives[node] == life:
                answer(response)

        def failed(error: BaseException) -> None:
            self.world.fail(f"broker{node} cannot answer {type(message).__name__}: {error!r}")

        self.brokers.serve(node, message, version, answered, failed)
        if self.strike is not None and isinstance(message, EndTxnRequest):
            steps, self.strike = self.strike, None
            for _ in range(steps):
                self.brokers.step()
            if self.world.random.random() < 0.5 or not self.kill(2.0, node):
                self.move(TRANSACTION_TOPIC)

    def read(self, tp: TopicPartition, offset: int) -> tuple[list[bytes], int, int, int] | None:
        """Read a partition from an offset on, as consumers with ``read_committed`` do.

        Returns:
            values, the next offset, high watermark and LSO, or None if no broker can answer now.
        """
        broker = self.leader(tp)
        if broker is None:
            return None
        values: list[bytes] = []
        while True:
            wanted = FetchPartition(partition=tp.partition, fetch_offset=offset, partition_max_bytes=_FETCH_BYTES)
            topics = [FetchTopic(topic=tp.topic, partitions=[wanted])]
            request = FetchRequest(isolation_level=1, topics=topics, max_bytes=_FETCH_BYTES)
            answers: list[Any] = []
            self.serve(broker.node_id, request, _FETCH_BY_NAME, answers.append)
            self.brokers.run()
            if not answers:
                return None
            data = answers[0].responses[0].partitions[0]
            if data.error_code:
                return None
            aborted = [(one.producer_id, one.first_offset) for one in data.aborted_transactions or ()]
            records = bytes(data.records or b"")
            if not records:
                return values, offset, data.high_watermark, data.last_stable_offset
            cursor = Cursor(tp, records, fetch_offset=offset, aborted=aborted)
            values += [record.value for record in cursor.take(10_000)]
            offset = cursor.next_offset

    # --- faults

    def kill(self, seconds: float, node: int | None = None) -> bool:
        """Kill a broker for a while. Its memory is lost. Only from a cluster that is whole, else records are lost."""
        if not self.whole:
            return False
        world = self.world
        leaders = [broker.node_id for tp in self.partitions if (broker := self.leader(tp)) is not None]
        node = world.random.choice(leaders) if node is None else node
        world.note(f"broker{node}", f"dies for {seconds:.1f} s")
        self._lives[node] += 1
        self.brokers.kill(node)
        world.cut_connections(self.by_id[node])
        world.after(seconds, lambda: self.restart(node))
        return True

    def life(self, node: int) -> int:
        """Return a number that changes whenever the broker ends or starts."""
        return self._lives[node]

    def restart(self, node: int) -> None:
        if node not in self.brokers.alive:
            self.world.note(f"broker{node}", "comes back")
            self._lives[node] += 1
            broken.break_broker(self.brokers.restart(node), self.world.broken)

    def move(self, topic: str) -> None:
        """Let another replica lead."""
        controller = self.brokers.controller
        index = self.world.random.randrange(len(controller.topics[topic].partitions))
        try:
            node = controller.move_leader(topic, index)
        except (EligibleLeadersNotAvailableError, ElectionNotNeededError):
            return
        self.world.note("cluster", f"{topic}-{index} is led by broker{node}")

    def lag(self, seconds: float) -> None:
        """Stop a follower's fetches for a while."""
        node = self.world.random.choice(sorted(self.brokers.alive))
        broker = self.brokers.alive[node]
        self.world.note(f"broker{node}", f"copies nothing for {seconds:.1f} s")
        broker.fetcher.pause()
        self.world.after(seconds, broker.fetcher.resume)
