"""A program that consumes, transforms and produces in transactions: the real sender, and an application in steps.

The application follows the documentation: it asks for the committed position, and then in each transaction
takes the next few inputs, sends a record for each, sends the new position, and commits. After an abort it asks for the
position again. After a fatal error it ends, so does a program that a newer one with its transactional id replaced.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from pyconsumer.errors import Errors, KafkaConnectionError, KafkaError, TransactionAbortableError
from pyconsumer.network.backoff import Backoff
from pyconsumer.network.client_requests import ClientResponse
from pyconsumer.network.futures import RequestFuture
from pyconsumer.producer.accumulator import ProducerBatch, RecordAccumulator
from pyconsumer.producer.config import PRODUCER_SETTINGS
from pyconsumer.producer.pending_request import TransactionResult
from pyconsumer.producer.sender import Sender
from pyconsumer.producer.transaction_manager import TransactionManager
from pyconsumer.protocol.api_keys import ApiKey
from pyconsumer.protocol.messages import request_type
from pyconsumer.protocol.messages.end_txn import EndTxnRequest
from pyconsumer.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from pyconsumer.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from pyconsumer.structs import (
    BrokerMetadata,
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    PartitionMetadata,
    TopicPartition,
)
from tests.simulation.network import Connection, Exchange, SimulatedClient
from tests.simulation.transactions import broken
from tests.simulation.transactions.cluster import SINK, SINKS, SOURCE

if TYPE_CHECKING:
    from tests.simulation.transactions.world import TransactionWorld

Steps = Generator[float | Callable[[], bool], None, Any]
_PATIENCE = 25.0
_TV2_REQUEST = 5  # of EndTxn and TxnOffsetCommit


class Network(SimulatedClient):
    """The sender's network client."""

    def __init__(self, world: TransactionWorld, name: str, deliver: Any, woken: Callable[[], None]) -> None:
        super().__init__(world, name, deliver, woken)  # type: ignore[arg-type]
        self.next_turn = 0.0
        self._seen: dict[Connection, tuple[int, int]] = {}

    def send(  # type: ignore[override]
        self,
        node: Any,
        api: Any,
        request: Any,
        *,
        timeout: float | None = None,
        max_version: int | None = None,
        **_: Any,
    ) -> RequestFuture[ClientResponse]:
        node_id = node.node_id if isinstance(node, BrokerMetadata) else node
        version = min(request_type(api).MAX_VERSION, 99 if max_version is None else max_version)
        message = request(version) if callable(request) else request
        link = self.connections.get((node_id, "main"))
        world: Any = self.world
        if link is None:
            link = self.connections[node_id, "main"] = Connection(self, world.brokers.by_id[node_id])
            controller = world.cluster.brokers.controller
            self._seen[link] = controller.features_epoch, controller.features["transaction.version"]
        exchange = Exchange(link, world.carried(message, version), version)
        if not self.connected:
            world.after(0.01, lambda: self.finish(exchange, KafkaConnectionError("no network")))
        else:
            link.send(exchange, 5.0)
        return exchange.future

    def send_any(self, api: Any, request: Any, **options: Any) -> RequestFuture[ClientResponse]:
        return self.send(self.world.random.choice(list(self.world.brokers.by_id)), api, request, **options)

    def loses_late(self, exchange: Exchange) -> bool:
        """See rule 7 of the ledger: before version 2 such a request looks like one of the next transaction."""
        return isinstance(exchange.request, EndTxnRequest | TxnOffsetCommitRequest) and exchange.version < _TV2_REQUEST

    def finalized_feature(self, name: str) -> tuple[int, int]:
        return max((self._seen[link] for link in self.connections.values()), default=(-1, 0))

    def poll(self, until: float) -> None:
        self.next_turn = until

    def backoff_until(self, node: int) -> float:
        return 0.0

    def node_error(self, node: int) -> KafkaError | None:
        return None


class Accumulator(RecordAccumulator):
    """One whose partitions come in an order that does not depend on the hashes of strings."""

    def busy_partitions(self) -> list[TopicPartition]:
        return sorted(super().busy_partitions())

    def expired(self, now: float) -> list[ProducerBatch]:
        return sorted(super().expired(now), key=lambda batch: batch.topic_partition)

    def drop_waiting(self, *, sent_ones: bool = True) -> list[ProducerBatch]:
        return sorted(super().drop_waiting(sent_ones=sent_ones), key=lambda batch: batch.topic_partition)


class Metadata:
    """Leaders as the sender knows them: as they were when it last asked."""

    fatal_error = None
    update_requested = False

    def __init__(self, world: TransactionWorld, changed: Callable[[], None]) -> None:
        self._world = world
        self._changed = changed
        self._leaders: dict[TopicPartition, int] = {}
        self._asked = False
        self.update_count = 0

    def add_topic(self, topic: str) -> None:
        pass

    def request_update(self) -> None:
        if not self._asked:
            self._asked = True
            self._world.after(self._world.delay() + 0.05, self._update)

    def _update(self) -> None:
        self._asked = False
        self.update_count += 1
        partitions = self._world.cluster.brokers.controller.topics[SINK].partitions
        self._leaders = {TopicPartition(SINK, index): state.leader for index, state in enumerate(partitions)}
        self._changed()

    def leader(self, tp: TopicPartition) -> PartitionMetadata | None:
        leader = self._leaders.get(tp, -1)
        return None if leader < 0 else PartitionMetadata(tp.topic, tp.partition, leader, -1)

    def topic_id(self, name: str) -> bytes:
        return self._world.cluster.brokers.controller.topics[name].topic_id


class Program:
    """One process.

    Args:
        transactional_id: the one of its producer. Its group has the same name.
        leaves: it ends in the middle of a transaction, and no other program follows it.
    """

    def __init__(self, world: TransactionWorld, name: str, transactional_id: str, *, leaves: bool = False) -> None:
        self.world = world
        self.name = name
        self.transactional_id = transactional_id
        self.alive = True
        self._leaves = leaves
        self.paused_until = 0.0
        self.client = Network(world, name, self._deliver, self._wake)
        self.metadata = Metadata(world, self._wake)
        config = PRODUCER_SETTINGS.build(
            {
                "bootstrap_servers": "simulated:1",
                "transactional_id": transactional_id,
                "transaction_timeout_ms": world.random.choice([2000, 10_000]),
                "request_timeout_ms": 5000,
                "delivery_timeout_ms": world.random.choice([5005, 12_000]),
                "linger_ms": world.random.choice([0, 5]),
                "client_id": name,
            }
        )
        lock = threading.Condition()
        self.accumulator = Accumulator(
            batch_size=config.batch_size,
            linger=config.linger_ms / 1000,
            delivery_timeout=config.delivery_timeout_ms / 1000,
            buffer_memory=config.buffer_memory,
            codec=config.compression_type,
        )
        pauses = Backoff.ms(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self.manager = TransactionManager(transactional_id, pauses.delay)
        broken.break_manager(self.manager, world.broken)
        self.sender = Sender(
            config,
            self.client,  # type: ignore[arg-type]
            self.metadata,  # type: ignore[arg-type]
            self.accumulator,
            lock,
            world.clock,
            transactions=self.manager,
            on_metadata=lambda: None,
        )
        self._turn_at: float | None = None
        self._waits: float | Callable[[], bool] = 0.0
        self._steps = self._life()
        self._wake()

    # --- the two threads

    def _deliver(self, action: Callable[[], None]) -> None:
        if not self.alive:
            return
        if self.paused_until > self.world.clock.now():
            self.world.timer.schedule(self.paused_until, lambda: self._deliver(action))
            return
        action()
        self._wake()

    def _wake(self) -> None:
        self._turn_soon(self.world.clock.now())

    def _turn_soon(self, when: float) -> None:
        if self._turn_at is not None and self._turn_at <= when:
            return
        self._turn_at = when
        self.world.timer.schedule(when, lambda: self._turn(when))

    def _turn(self, when: float) -> None:
        if not self.alive or self._turn_at != when:
            return
        self._turn_at = None
        now = self.world.clock.now()
        if self.paused_until > now:
            self._turn_soon(self.paused_until)
            return
        before = self.sender.counters.batches
        self.sender._run_once()
        until = self.client.next_turn
        if self._resume() or self.sender.counters.batches != before:
            until = now
        self._turn_soon(max(until, now + 0.0005))

    def _resume(self) -> bool:
        """Let the application continue as far as it can. Return True if it did."""
        moved = False
        while self.alive:
            waits = self._waits
            if callable(waits):
                if not waits():
                    return moved
            elif self.world.clock.now() < waits:
                self._turn_soon(waits)
                return moved
            moved = True
            try:
                self._waits = next(self._steps)
            except StopIteration:
                self.end("ends")
            else:
                if not callable(self._waits):
                    self._waits += self.world.clock.now()
        return moved

    def pause(self, seconds: float) -> None:
        """Stand still, as a process that the system does not let run."""
        self.paused_until = self.world.clock.now() + seconds

    def end(self, why: str) -> None:
        """End at once, without closing. Requests in flight may still arrive."""
        if self.alive:
            self.world.note(self.name, why)
            self.alive = False
            self.client.cut(why)
            self.world.on_end(self)

    # --- the application

    def _life(self) -> Steps:
        world = self.world
        try:
            yield from self._call(self.manager.initialize)
            while True:
                position = yield from self._position()
                if position is None:
                    return
                while True:
                    yield world.random.choice([0.0, 0.01, 0.3])
                    if world.stopping(self):
                        self.end("has done its work")
                        return
                    try:
                        position = yield from self._transaction(position)
                    except TransactionAbortableError as error:
                        world.note(self.name, f"aborts: {error}")
                        yield from self._abort()
                        break
        except KafkaError as error:
            world.note(self.name, f"cannot continue: {type(error).__name__}: {error}")

    def _transaction(self, position: int) -> Steps:
        world, draw = self.world, self.world.random
        count = draw.randint(1, 3)
        self.manager.begin()
        number = world.ledger.begin(self.transactional_id, self.name, range(position, position + count))
        self.number = number
        for one in range(position, position + count):
            tp = TopicPartition(SINK, draw.randrange(SINKS))
            value = f"{self.transactional_id}:{one}:{number}".encode()
            self.manager.add_partition(tp)
            self.accumulator.append(tp, world.clock.wall_ms(), None, value, (), 64, world.clock.now())
            if draw.random() < 0.3:
                yield draw.choice([0.0, 0.05])
        if draw.random() < 0.05 and not world.healing:
            yield draw.uniform(1.0, 12.0)  # it computes, perhaps for longer than the transaction may last
        if draw.random() < 0.1:
            world.note(self.name, f"aborts transaction {number} on purpose")
            raise TransactionAbortableError("on purpose")
        offsets = {SOURCE: OffsetAndMetadata(position + count, "")}
        group = ConsumerGroupMetadata(self.transactional_id, -1, "", None)
        yield from self._finished(self.manager.add_offsets(offsets, group))
        if self._leaves:
            self.end("leaves its transaction open")
            return position
        if draw.random() < 0.1:
            yield draw.uniform(0.1, 3.0)
        world.ledger.commit_asked(number)
        yield from self._call(self.manager.commit)
        world.ledger.committed(number)
        return position + count

    def _abort(self) -> Steps:
        world = self.world
        world.ledger.abort_asked(self.number)
        yield from self._call(self.manager.abort)
        world.ledger.aborted(self.number)

    def _call(self, call: Callable[[], TransactionResult]) -> Steps:
        """Make a call that may end by its timeout, again and again."""
        for _ in range(4):
            result = call()
            done = yield from self._finished(result, patient=False)
            if done:
                return
        raise KafkaError(f"{result.call} did not end: {result.last_failure}")

    def _finished(self, result: TransactionResult, *, patient: bool = True) -> Steps:
        self._wake()
        until = self.world.clock.now() + (4 if patient else 1) * _PATIENCE
        self._turn_soon(until)
        yield lambda: result.done or self.world.clock.now() >= until
        if not result.done:
            if patient:
                raise KafkaError(f"{result.call} did not end: {result.last_failure}")
            return False
        result.wait(0)
        if result.error is not None:
            raise result.error
        return True

    def _position(self) -> Steps:
        """Ask for the committed position, until it is stable."""
        controller = self.world.cluster.brokers.controller
        topic = OffsetFetchRequestTopics(name=SOURCE.topic, partition_indexes=[0])
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=self.transactional_id, topics=[topic])], require_stable=True
        )
        until = self.world.clock.now() + 4 * _PATIENCE
        while self.world.clock.now() < until:
            leader = controller.topics["__consumer_offsets"].partitions[0].leader
            if leader >= 0:
                future = self.client.send(leader, ApiKey.OFFSET_FETCH, request, max_version=9)
                yield lambda future=future: future.done  # type: ignore[misc]
                if future.exception is None:
                    group = future.value.message.groups[0]
                    if group.error_code == Errors.NONE:
                        found = group.topics[0].partitions[0]
                        if found.error_code == Errors.NONE:
                            position = max(found.committed_offset, 0)
                            self.world.ledger.position_read(self, position)
                            return position
            yield 0.1
        return None
