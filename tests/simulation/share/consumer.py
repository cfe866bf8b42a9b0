"""A process with a share consumer: the real delegate on a simulated network, two threads, and an application.

The application polls, works, and acknowledges in one of three ways: implicitly, record by record, or as workers do,
which hold the records of many polls. Its thread may be stopped, its polls are woken up, and Ctrl-C comes between the
take of records and their return.
"""

from __future__ import annotations

import math
import traceback
from collections import Counter
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING

from pyconsumer.broker.timer import TimerHandle
from pyconsumer.consumer.share.acknowledgements import Delivery
from pyconsumer.consumer.share.config import SHARE_CONSUMER_SETTINGS
from pyconsumer.consumer.share.context import ShareContext
from pyconsumer.consumer.share.coordinator import ShareCoordinator
from pyconsumer.consumer.share.delegate import ShareDelegate
from pyconsumer.consumer.share.session import Queued
from pyconsumer.errors import KafkaError, KafkaTimeoutError
from pyconsumer.network.client_requests import ClientResponse
from pyconsumer.network.futures import RequestFuture, Steps, Wait
from pyconsumer.network.metadata import Metadata, MetadataQuery
from pyconsumer.protocol.messages.metadata import MetadataRequest
from pyconsumer.structs import AcknowledgeType, TopicPartition
from tests.simulation.member import Background, Busy, Threadless
from tests.simulation.share.members import TOPICS, Place
from tests.simulation.share.network import Network

if TYPE_CHECKING:
    from tests.simulation.share.consumers import ConsumersWorld

__all__ = ["WAYS", "Consumer"]

WAYS = ("implicit", "explicit", "held")
_SPINS = 200  # resumptions at one moment that are taken for a busy loop
_KINDS = (*AcknowledgeType, AcknowledgeType.ACCEPT, AcknowledgeType.ACCEPT, AcknowledgeType.ACCEPT)


class _Heartbeats(Background):
    """The heartbeat thread without a thread."""

    def __init__(self, consumer: Consumer, changed: Callable[[], object]) -> None:
        super().__init__(consumer, changed)  # type: ignore[arg-type]
        self.network = Network(
            consumer.world, f"{consumer.name}/hb", lambda: consumer.member_id, self.deliver, self.notify
        )
        self._client = self.network  # type: ignore[assignment]

    def abandon(self, reason: str, leave_group: bool | None = None) -> None:
        self.stopped = True


class _Coordinator(Threadless, ShareCoordinator):
    """The driver of a consumer."""

    consumer: Consumer

    def make_background(self) -> Background:
        return _Heartbeats(self.consumer, self._changed_in_background)


class Consumer:
    """One process of the share group.

    Attributes:
        pending: acknowledgements without an outcome.
        unheard: outcomes that the callback has not got.
    """

    def __init__(self, world: ConsumersWorld, name: str, way: str) -> None:
        self.world = world
        self.name = name
        self.way = way
        self.alive = True
        self.ended = self.closing = self.paused = False
        self.pending = Counter[tuple[Place, int]]()
        self._running = False
        self._busy_until = -math.inf
        self._wake: TimerHandle | None = None
        self._inbox: list[Callable[[], None]] = []
        self._asked_at = -math.inf
        self._seen: set[Place] = set()  # records that the application was given since it accepted some
        self.network = Network(world, name, lambda: self.member_id, self._deliver, lambda: self._deliver(_nothing))
        draw = world.random
        config = SHARE_CONSUMER_SETTINGS.build(
            {
                "bootstrap_servers": "h:1",
                "group_id": world.group,
                "client_id": name,
                "share_acknowledgement_mode": "implicit" if way == "implicit" else "explicit",
                "share_acquire_mode": draw.choice(("batch_optimized", "record_limit")),
                "max_poll_records": draw.choice((1, 5, 500)),
                "fetch_max_wait_ms": draw.choice((100, 500, 2000)),
                "request_timeout_ms": 5000,
            }
        )
        self.metadata = Metadata.from_config(config)
        context = ShareContext(config, self.network, self.metadata, world.brokers.clock)  # type: ignore[arg-type]
        self.delegate = ShareDelegate(context)
        coordinator = self.delegate.coordinator = _Coordinator(context)
        coordinator.consumer = self
        coordinator._core.member_id = f"{name}-id"
        self.unheard: set[tuple[TopicPartition, int, KafkaError | None]] = set()  # by the callback
        self._report = self.delegate.fetcher._on_outcome
        self.delegate.fetcher._on_outcome = self._on_outcome
        self.delegate.set_callback(self._callback)
        self._lose = self.delegate.fetcher._on_lost
        self.delegate.fetcher._on_lost = self._on_lost
        self.delegate.subscribe(TOPICS)
        if way == "held":
            self.delegate.hold()
        self._life = self._application()
        world.after(0.0, self._run)

    # -- what the world sees -----------------------------------------------------------------------------------------

    @property
    def member_id(self) -> str:
        return self.delegate.coordinator.member_id

    @property
    def coordinator(self) -> ShareCoordinator:
        return self.delegate.coordinator

    @property
    def epoch(self) -> int:
        return self.coordinator._core.generation.generation_id

    @property
    def assigned(self) -> set[tuple[bytes, int]]:
        return {(topic_id, tp.partition) for tp, topic_id in self.coordinator.assignment.items()}

    @property
    def clients(self) -> list[Network]:
        background = self.coordinator._heartbeat
        return [self.network] if background is None else [self.network, background.network]  # type: ignore[attr-defined]

    def leave(self, *, crash: bool) -> None:
        """End: by a close, or without."""
        self.world.note(self.name, "crashes" if crash else "closes")
        if crash:
            self.alive = False
            for client in self.clients:
                client.cut("the process ends")
            return
        self.unpause()
        self.closing = True
        self._deliver(_nothing)

    def pause(self, seconds: float) -> None:
        """Stop both threads, as by SIGSTOP."""
        if not self.paused:
            self.paused = True
            self.world.after(seconds, self.unpause)

    def unpause(self) -> None:
        """Let both threads go on."""
        if not self.paused:
            return
        self.paused = False
        if not self.alive:
            return
        if self.coordinator._heartbeat is not None:
            self.coordinator._heartbeat.notify()
        self._on_wake()

    # -- the application's thread ------------------------------------------------------------------------------------

    def _deliver(self, run: Callable[[], None]) -> None:
        self._inbox.append(run)
        if self.world.now >= self._busy_until:
            self.world.after(0.0, self._run)

    def _on_wake(self) -> None:
        self._wake = None
        self._run()

    def _run(self) -> None:
        """Resume the application where it waits, until it waits again."""
        if self._running or self.paused or not self.alive or self.ended:
            return
        world = self.world
        if world.now < self._busy_until:
            self._wake_at(self._busy_until)
            return
        self._running = True
        try:
            for _ in range(_SPINS):
                while self._inbox:
                    self._inbox.pop(0)()
                self._ask_metadata()
                step = self._life.send(None)
                if isinstance(step, Busy):
                    self._busy_until = step.until
                elif self._inbox or step.until <= world.now or (step.future is not None and step.future.done):
                    continue
                self._wake_at(min(step.until, self._ask_metadata()))
                break
            else:
                world.fail(f"{self.name} does not stop calling")
        except StopIteration:
            self._end()
        except Exception as error:
            where = "".join(traceback.format_exception(error)[-4:])
            world.fail(f"{self.name} ended with {error!r}\n{where}")
        finally:
            self._running = False

    def _wake_at(self, when: float) -> None:
        if self._wake is not None:
            self._wake.cancel()
            self._wake = None
        if when < math.inf:
            self._wake = self.world.timer.schedule(max(when, self.world.now), self._on_wake)

    def _end(self) -> None:
        self.ended = True
        self.coordinator.abandon("the consumer was closed")
        for client in self.clients:
            client.cut("the consumer is closed")

    def _ask_metadata(self) -> float:
        """Ask for metadata when that is due, as the network client does. Return when it is due next."""
        now = self.world.now
        if now < self._asked_at:
            return math.inf
        due = self.metadata.next_update_at(now)
        if due > now:
            return due
        query = self.metadata.query(now)
        self._asked_at = math.inf
        future = self.network.send_any(MetadataRequest, query.request, connection="metadata")
        future.add_callback(lambda found: self._on_metadata(query, found))
        return math.inf

    def _on_metadata(self, query: MetadataQuery, future: RequestFuture[ClientResponse]) -> None:
        self._asked_at = -math.inf
        now = self.world.now
        if future.exception is not None:
            self.metadata.failed(now)
        else:
            self.metadata.update(future.value.message, future.value.api_version, now, query)

    # -- its life ----------------------------------------------------------------------------------------------------

    def _application(self) -> Generator[Wait | Busy, None, None]:
        while not self.closing:
            try:
                yield from self._turn()
            except KafkaError as error:
                self.world.error(self.name, error)
                yield Wait(None, self.world.now + 0.1)
        draw = self.world.random
        if self.way != "implicit":
            self._say(lambda delivery: self._choose(delivery, AcknowledgeType.ACCEPT if draw.random() < 0.5 else None))
            self._settled()
        yield from self.delegate.close(self.world.now + 3.0)

    def _turn(self) -> Generator[Wait | Busy, None, None]:
        world, draw, delegate = self.world, self.world.random, self.delegate
        if self.way == "held":
            self._look_after_held()
        delegate.note_returned()
        if self.way == "implicit":
            self._implied()
        else:
            self._settled()
        steps = delegate.fetched(world.now + draw.choice((0.0, 0.3, 1.5)), draw.choice((None, 1, 7)))
        wakes = draw.random() < 0.05 and not world.is_draining
        while True:
            try:
                wait = steps.send(None)
            except StopIteration as end:
                found = end.value
                break
            if wakes:  # wakeup() ends it
                steps.close()
                return
            yield wait
        if not found:
            return
        if draw.random() < 0.03 and not world.is_draining:  # Ctrl-C, before the application has it
            delegate.on_interrupt(KeyboardInterrupt())
            return
        world.returned(self, delegate.last_taken())
        ids = {delivery.source.topic_partition: delivery.source.topic_id for delivery in delegate.last_taken()}
        seen = [
            (ids[TopicPartition(record.topic, record.partition)], record.partition, record.offset)
            for record in found.records()
        ]
        if self.way == "implicit" and draw.random() < 0.2:  # iteration, which ends in between
            unyielded = draw.randint(0, len(seen))
            delegate.note_returned()
            delegate.give_back(unyielded)
            seen = seen[: len(seen) - unyielded]
        self._seen.update(seen)
        yield Busy(world.now + self._work_s())
        if self.way == "explicit":
            self._say(lambda delivery: self._choose(delivery, None, whole=True))
        yield from self._maybe_commit()

    def _work_s(self) -> float:
        draw = self.world.random
        if self.world.is_draining:
            return 0.01
        return draw.uniform(3.0, 6.0) if draw.random() < 0.05 else draw.uniform(0.0, 0.3)

    def _maybe_commit(self) -> Steps[None]:
        choice = self.world.random.random()
        if choice > 0.4:
            return
        before = self.pending.copy()
        if self.way == "implicit":
            self._implied()
        else:
            self._settled()
        if choice < 0.2:
            self.delegate.commit_async()
            return
        mine = self.pending - before
        results = yield from self.delegate.commit(self.world.now + 2.0)
        left = [one for one in mine if self.pending[one] > before[one]]
        if left and not any(isinstance(error, KafkaTimeoutError) for error in results.values()):
            self.world.broken(f"rule 9: {self.name} has committed, and there is no outcome of {left}")
        if self.unheard:
            self.world.broken(f"rule 9: {self.name} has committed, and its callback has not got {self.unheard}")

    # -- acknowledgements --------------------------------------------------------------------------------------------

    def _say(self, choose: Callable[[Delivery], None]) -> None:
        for delivery in self.delegate._delivered:
            choose(delivery)

    def _choose(self, delivery: Delivery, kind: AcknowledgeType | None, *, whole: bool = False) -> None:
        """Acknowledge records of a delivery, by one type or by any."""
        world, draw = self.world, self.world.random
        for offset in delivery.offsets:
            if not whole and not world.is_draining and draw.random() < 0.5:
                continue
            chosen = AcknowledgeType.ACCEPT if world.is_draining else kind or draw.choice(_KINDS)
            if self.way == "explicit":
                self.delegate.acknowledge(delivery.source.topic_partition, offset, chosen)
            elif chosen is AcknowledgeType.RENEW:
                continue  # workers renew by themselves
            else:
                delivery.choose(offset, chosen)
            world.said[self.member_id, _place(delivery, offset)].add(int(chosen))

    def _settled(self) -> None:
        """Note the acknowledgements that the next call queues."""
        for delivery in self.delegate._delivered:
            for offset, kind in delivery._chosen.items():
                self._expect(delivery, offset, kind)

    def _implied(self) -> None:
        """Note that the next call accepts the other records."""
        for place in self._seen:
            self.world.said[self.member_id, place].add(int(AcknowledgeType.ACCEPT))
        self._seen.clear()
        for delivery in self.delegate._delivered:
            for offset in delivery.offsets:
                self._expect(delivery, offset, AcknowledgeType.ACCEPT)

    def _expect(self, delivery: Delivery, offset: int, kind: AcknowledgeType) -> None:
        self.pending[_place(delivery, offset), int(kind)] += 1

    def _look_after_held(self) -> None:
        """Acknowledge and renew as workers do, before each poll."""
        world, draw, delegate = self.world, self.world.random, self.delegate
        self._say(lambda delivery: self._choose(delivery, None))
        self._settled()
        ended = []
        for delivery in delegate.held():
            left = delivery.locked_until - world.now
            if left <= 0:
                ended.append(delivery)
            elif left < world.lock_s / 2 and not delivery.is_renewing:
                for offset in delivery.offsets:
                    world.said[self.member_id, _place(delivery, offset)].add(int(AcknowledgeType.RENEW))
                    self._expect(delivery, offset, AcknowledgeType.RENEW)
                delegate.renew(delivery)
        delegate.drop(ended)
        delegate.set_full(draw.random() < 0.3 and not world.is_draining)

    def _on_lost(self, node: int) -> None:
        """Note that the consumer knows of the end of a session."""
        self.world.lost(self.member_id, node)
        if self._lose is not None:
            self._lose(node)

    def _on_outcome(self, queued: Queued, error: KafkaError | None) -> None:
        """Note an outcome on its way to the delegate."""
        tp = queued.source.topic_partition
        for piece in queued.pieces:
            for offset in range(piece.first, piece.last + 1):
                self.unheard.add((tp, offset, error))
                self.world.outcome(self, (queued.source.topic_id, tp.partition, offset), piece.kind, error)
        self._report(queued, error)

    def _callback(self, found: dict[TopicPartition, set[int]], error: KafkaError | None) -> None:
        """Take outcomes, as an application does."""
        told = {(tp, offset, error) for tp, offsets in found.items() for offset in offsets}
        if not told <= self.unheard:
            self.world.fail(f"rule 9: {self.name} hears of {told - self.unheard} without an outcome")
        self.unheard -= told


def _place(delivery: Delivery, offset: int) -> Place:
    return delivery.source.topic_id, delivery.source.topic_partition.partition, offset


def _nothing() -> None:
    pass
