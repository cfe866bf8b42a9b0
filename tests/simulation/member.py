"""A consumer and its application: the real coordinator driver, two simulated threads, a life of polls and commits."""

from __future__ import annotations

import math
import traceback
from collections.abc import Callable, Collection, Generator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from pyconsumer.broker.timer import TimerHandle
from pyconsumer.consumer.config import CONSUMER_SETTINGS
from pyconsumer.consumer.context import ConsumerContext
from pyconsumer.consumer.coordinator import ConsumerCoordinator
from pyconsumer.consumer.coordinator.consumer_group_membership import ConsumerMembership
from pyconsumer.consumer.coordinator.group_state import Sleep, Stop
from pyconsumer.consumer.coordinator.heartbeat_thread import HeartbeatThread
from pyconsumer.consumer.interface import ConsumerRebalanceListener
from pyconsumer.consumer.partition_state import FetchPosition
from pyconsumer.consumer.subscription_state import SubscriptionState
from pyconsumer.errors import (
    CommitFailedError,
    FencedInstanceIdError,
    InconsistentGroupProtocolError,
    KafkaError,
    KafkaTimeoutError,
    RebalanceInProgressError,
)
from pyconsumer.network.futures import Steps, Wait
from pyconsumer.network.metadata import Metadata
from pyconsumer.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from pyconsumer.structs import TopicPartition
from tests.simulation import broken
from tests.simulation.brokers import GROUP, TOPIC, TOPIC_ID
from tests.simulation.network import REQUEST_TIMEOUT, SimulatedClient
from tests.simulation.rules import REBALANCE_TIMEOUT, SESSION_TIMEOUT

if TYPE_CHECKING:
    from tests.simulation.world import World

_COMMIT_INTERVAL = 2.5  # seconds
_SPINS = 200  # resumptions at one moment that are taken for a busy loop


class Crashed(BaseException):
    """Unwinds the user's thread of a process that was killed."""


class Busy(NamedTuple):
    """The application works until then and looks at no socket."""

    until: float


class Background(HeartbeatThread):
    """The heartbeat thread without a thread: the world calls :meth:`advance` when it would wake up."""

    def __init__(self, member: Member, changed: Callable[[], object]) -> None:
        self._member = member
        self._world = member.world
        self._wake: TimerHandle | None = None
        self._inbox: list[Callable[[], None]] = []
        self._notified = False
        self._revision = -1
        self.stopped = False
        self.network = SimulatedClient(self._world, f"{member.name}/hb", self.deliver, self.notify)
        coordinator = member.coordinator
        super().__init__(
            coordinator._core,
            coordinator._lock,
            make_client=lambda: self.network,  # type: ignore[arg-type, return-value]
            clock=self._world.clock,
            changed=changed,
        )
        self._client = self.network  # type: ignore[assignment]

    @property
    def alive(self) -> bool:
        return not self.stopped

    def start(self) -> None:
        self.notify()

    def close(self, timeout: float) -> bool:
        self.notify()
        return True

    def notify(self) -> None:
        if not self._notified:
            self._notified = True
            self._world.after(0.0, self._on_notified)

    def _on_notified(self) -> None:
        self._notified = False
        self.advance()

    def deliver(self, run: Callable[[], None]) -> None:
        self._inbox.append(run)
        self.notify()

    def advance(self) -> None:
        """Do the work that is due, and sleep."""
        if self.stopped or not self._member.alive or self._member.paused:
            return
        if self._wake is not None:
            self._wake.cancel()
            self._wake = None
        inbox, self._inbox = self._inbox, []
        for run in inbox:
            run()
        core, now = self._core, self._world.clock.now()
        while True:
            step = core.next_background(now)
            moved, self._revision = self._revision != core.revision, core.revision
            if moved:
                self._changed()
            if isinstance(step, Stop):
                self.stopped = True
                return
            if isinstance(step, Sleep):
                if step.until < math.inf:
                    self._wake = self._world.timer.schedule(max(step.until, now), self.advance)
                return
            self._do(self.network, step)  # type: ignore[arg-type]


class Threadless:
    """A driver without a thread: its heartbeats are simulated. It stands before the coordinator's class."""

    def make_background(self) -> Background:
        raise NotImplementedError

    def _start_heartbeat(self) -> None:
        driver: Any = self
        if driver._heartbeat is None:
            background = self.make_background()
            background.set_brokers(driver._metadata.brokers())
            driver._heartbeat = background
            background.start()


class Coordinator(Threadless, ConsumerCoordinator):
    """The driver of a member."""

    member: Member

    def make_background(self) -> Background:
        return Background(self.member, self._changed_in_background)


class Member(ConsumerRebalanceListener):
    """One process of the group.

    Args:
        world: it lives in.
        name: for the trace.
        instance_id: of a static member.
        commits: "auto", "sync", "async".
        group_protocol: "classic" or "consumer".
        settings: of the consumer, in place of the usual ones.

    Attributes:
        told: the partitions that the member owns by the calls of its listener.
        patience: how long closing may take, seconds.
        slow_callback: how long the next callback takes, seconds.
        fenced_callback: it runs without network.
    """

    def __init__(
        self,
        world: World,
        name: str,
        instance_id: str | None,
        commits: str,
        *,
        group_protocol: str = "classic",
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self.world = world
        self.name = name
        self.instance_id = instance_id
        self.alive = True
        self.ended = False
        self.closing = False
        self.leave_group: bool | None = None
        self.patience: float | None = None
        self.paused = False
        self.stalled_until = 0.0
        self.slow_callback = 0.0
        self.fenced_callback = False
        self.in_callback = False
        self.told: set[TopicPartition] = set()
        self._commits = commits
        self._commit_at = 0.0
        self._busy_until = -math.inf
        self._running = False
        self._seen: tuple[object, object] = (None, None)
        self._wake: TimerHandle | None = None
        self._inbox: list[Callable[[], None]] = []
        self.network = SimulatedClient(world, name, self._deliver, lambda: self._deliver(_nothing))
        self.group_protocol = group_protocol
        config = CONSUMER_SETTINGS.build(
            {
                "bootstrap_servers": "h:1",
                "group_id": GROUP,
                "group_instance_id": instance_id,
                "group_protocol": group_protocol,
                "enable_auto_commit": commits == "auto",
                "auto_commit_interval_ms": round(_COMMIT_INTERVAL * 1000),
                "max_poll_interval_ms": round(REBALANCE_TIMEOUT * 1000),
                "request_timeout_ms": round(REQUEST_TIMEOUT * 1000),
            }
            | (
                {
                    "session_timeout_ms": round(SESSION_TIMEOUT * 1000),
                    "heartbeat_interval_ms": 3000,
                    "partition_assignment_strategy": world.new_assignors(),
                    "rebalance_delay_ms": round(world.rebalance_delay * 1000),
                }
                if group_protocol == "classic"
                else {}
            )
            | dict(settings or {})
        )
        metadata = self._metadata = Metadata.from_config(config)
        self.subscriptions = SubscriptionState(config.auto_offset_reset)
        self.coordinator = Coordinator(
            ConsumerContext(
                config,
                self.network,  # type: ignore[arg-type]
                metadata,
                self.subscriptions,
                world.clock,
            ),
            on_commit=lambda offsets: world.rules.on_commit_acknowledged(self, offsets),
        )
        self.coordinator.member = self
        broken.break_member(self.coordinator, world.broken)
        self.core = self.coordinator._core
        if isinstance(self.core, ConsumerMembership):
            self.core.member_id = f"member-{world.new_id()}"
        self.subscriptions.subscribe([TOPIC], self)
        metadata.set_topics([TOPIC])
        self._update_metadata()
        self.coordinator.on_subscription_change()
        self._life = self._application()

    @property
    def owned(self) -> set[TopicPartition]:
        return self.subscriptions.assignment()

    @property
    def background(self) -> Background | None:
        heartbeat = self.coordinator._heartbeat
        assert heartbeat is None or isinstance(heartbeat, Background)
        return heartbeat

    @property
    def clients(self) -> list[SimulatedClient]:
        background = self.background
        return [self.network] if background is None else [self.network, background.network]

    @property
    def in_trouble(self) -> bool:
        """Return whether a fault of its own lasts."""
        now = self.world.clock.now()
        return (
            self.paused
            or self.in_callback
            or self.closing
            or self.stalled_until > now
            or self.slow_callback > 0.0
            or any(
                not client.connected
                or client.reachable_at > now
                or any(c.swallows for c in client.connections.values())
                for client in self.clients
            )
        )

    # -- the user's thread -------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._run()

    def _deliver(self, run: Callable[[], None]) -> None:
        self._inbox.append(run)
        if self.world.clock.now() >= self._busy_until:
            self._run()

    def _on_wake(self) -> None:
        self._wake = None
        self._run()

    def hear_metadata(self) -> None:
        """Its metadata becomes the cluster's of now."""
        self._update_metadata()
        self._deliver(_nothing)

    def _update_metadata(self) -> None:
        self._metadata.update(_metadata(self.world), 12, self.world.clock.now())

    def _drain(self) -> None:
        while self._inbox:
            self._inbox.pop(0)()

    def _run(self) -> None:
        """Resume the application where it waits, until it waits again."""
        if self._running or self.paused or not self.alive or self.ended:
            return
        self._running = True
        world = self.world
        spins = 0
        try:
            while True:
                if self._wake is not None:
                    self._wake.cancel()
                    self._wake = None
                self._drain()
                step = self._life.send(None)
                now = world.clock.now()
                if isinstance(step, Busy):
                    self._busy_until = step.until
                    self._wake = world.timer.schedule(step.until, self._on_wake)
                    break
                if self._inbox or step.until <= now or (step.future is not None and step.future.done):
                    spins += 1
                    if spins > _SPINS:
                        world.fail(f"{self.name} does not stop calling at {now:.3f}")
                        break
                    continue
                if step.until < math.inf:
                    self._wake = world.timer.schedule(step.until, self._on_wake)
                break
        except StopIteration:
            self._end()
        except Crashed:
            pass
        except Exception as error:
            where = "".join(traceback.format_exception(error)[-4:])
            world.fail(f"{self.name} ended with {error!r}\n{where}")
        finally:
            self._running = False
        seen = self.core.generation, self.subscriptions._assignment
        if seen[0] != self._seen[0] or seen[1] is not self._seen[1]:
            self._seen = seen
            world.rules.check_owners()

    def _end(self) -> None:
        self.ended = True
        if self.owned:
            self.world.fail(f"{self.name} is closed and still has {sorted(self.owned)}")
        self.world.remove(self)

    # -- its life ----------------------------------------------------------------------------------------------------

    def _application(self) -> Generator[Wait | Busy, None, None]:
        """Poll, work, commit. Close in the end."""
        world, coordinator, random = self.world, self.coordinator, self.world.random
        clock = world.clock
        try:
            while not self.closing:
                now = clock.now()
                coordinator.note_poll(now)
                if now >= coordinator.next_due_at or coordinator.has_user_output:
                    yield from coordinator.poll(now, wait_for_join=False)
                if not self.subscriptions.has_all_fetch_positions:
                    yield from self._find_positions()
                    continue  # it waited for answers: look what is due before anything is handed out
                self._read()
                work = clock.now() + random.uniform(0.01, world.longest_work)
                yield Busy(max(work, self.stalled_until))
                if self._commits != "auto" and clock.now() >= self._commit_at:
                    self._commit_at = clock.now() + _COMMIT_INTERVAL
                    yield from self._commit()
                wait = min(clock.now() + random.uniform(0.1, 1.5), coordinator.next_due_at)
                if wait > clock.now():
                    yield Wait(None, wait)
        except FencedInstanceIdError:
            world.note(self.name, "is fenced: somebody has its instance id")
            self.closing = True
        except InconsistentGroupProtocolError as error:
            # a coordinator that was restarted knows only the assignor that members chose, until they join again
            if not world.mixed:
                world.fail(f"{self.name} was told of {error!r}")
            world.note(self.name, "has no assignor that the coordinator knows the others to have")
            self.closing = True
        except KafkaError as error:
            world.fail(f"{self.name} was told of {error!r}")
        world.note(self.name, "closes")
        if world.rebalance_delay and self.patience is None:
            self.patience = random.choice([1.0, 3.0, 9.0])
        yield from coordinator.close(clock.now() + (self.patience or 3.0), self.leave_group)

    def _find_positions(self) -> Steps[None]:
        wanted = self.subscriptions.initializing()
        try:
            found = yield from self.coordinator.fetch_committed(sorted(wanted), self.world.clock.now() + 2.0)
        except KafkaTimeoutError:
            return
        for tp, committed in found.items():
            if committed is not None:
                self.subscriptions.initialise(tp, committed)
            elif tp in self.subscriptions.initializing():
                self.subscriptions.seek(tp, FetchPosition(0))

    def _read(self) -> None:
        """Records of one partition are returned to the application."""
        partitions = self.subscriptions.assigned_list()
        if partitions:
            tp = self.world.random.choice(partitions)
            position = self.subscriptions.state(tp).fetch_position
            if position is not None and self.subscriptions.state(tp).is_fetchable:
                self.world.rules.on_read(self, tp)
                self.subscriptions.seek(tp, FetchPosition(position.offset + self.world.random.randint(1, 9)))

    def _commit(self) -> Steps[None]:
        offsets = self.subscriptions.all_consumed()
        if self._commits == "async":
            self.coordinator.commit_async(offsets)
            return
        try:
            yield from self.coordinator.commit(offsets, self.world.clock.now() + 3.0)
        except (CommitFailedError, RebalanceInProgressError, KafkaTimeoutError, FencedInstanceIdError) as error:
            self.world.note(self.name, f"could not commit: {type(error).__name__}")

    # -- callbacks ---------------------------------------------------------------------------------------------------

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        self._callback("assigned", sorted(assigned))

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        self._callback("revoked", sorted(revoked))

    def on_partitions_lost(self, lost: Collection[TopicPartition]) -> None:
        self._callback("lost", sorted(lost))

    def _callback(self, name: str, partitions: list[TopicPartition]) -> None:
        world = self.world
        generation = self.core.generation.generation_id
        numbers = " ".join(str(tp.partition) for tp in partitions)
        world.note(self.name, f"{name} [{numbers}] in generation {generation}")
        world.callbacks[name] += 1
        world.rules.on_callback(self, name, partitions, eager=world.eager and self.group_protocol == "classic")
        world.rules.check_owners()
        if world.nested:
            return  # one callback at a time may take time: they would have to end in the order in which they began
        world.nested = self.in_callback = True
        try:
            if name == "revoked" and self._commits == "sync":
                self._nested(self._commit())
            seconds, self.slow_callback = self.slow_callback, 0.0
            if seconds:
                world.note(self.name, f"stays in the callback for {seconds:.1f} s")
                if self.fenced_callback:
                    self.fenced_callback = False
                    world.disconnect(self, seconds)
                self._busy_until = world.clock.now() + seconds
                world.run(self._busy_until, lambda: not self.alive)
                if not self.alive:
                    raise Crashed
        finally:
            world.nested = self.in_callback = False

    def _nested(self, steps: Steps[Any]) -> None:
        """A blocking call inside a callback."""
        while True:
            self._drain()
            try:
                step = steps.send(None)
            except StopIteration:
                return
            if step.future is None or not step.future.done:
                self.world.run(step.until, lambda: bool(self._inbox) or not self.alive)
                if not self.alive:
                    raise Crashed

    # -- what happens to it ------------------------------------------------------------------------------------------

    def crash(self) -> None:
        """Its process is killed. The operating system closes its connections."""
        self.alive = False
        for client in self.clients:
            client.cut("the process ends")
        self.world.remove(self)

    def pause(self, seconds: float) -> None:
        """Its process is stopped, both threads, as by SIGSTOP."""
        if self.paused:
            return
        self.paused = True
        self.world.after(seconds, self.unpause)

    def unpause(self) -> None:
        if not self.paused:
            return
        self.paused = False
        if not self.alive:
            return
        self.world.note(self.name, "goes on")
        if self.background is not None:
            self.background.notify()
        if self.world.clock.now() >= self._busy_until:
            self._run()
        else:
            self._wake = self.world.timer.schedule(self._busy_until, self._on_wake)

    def recover(self) -> None:
        """Whatever holds its application up ends now."""
        self.stalled_until = self.slow_callback = 0.0
        self.fenced_callback = False
        self.unpause()
        self._busy_until = min(self._busy_until, self.world.clock.now())
        self._deliver(_nothing)

    def close(self, *, leave_group: bool | None = None) -> None:
        """The application ends after its present poll."""
        self.leave_group = leave_group
        self.closing = True


def _nothing() -> None:
    pass


def _metadata(world: World) -> MetadataResponse:
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=broker.node_id, host=broker.name, port=9092)
            for broker in world.brokers.by_id.values()
        ],
        topics=[
            MetadataResponseTopic(
                name=TOPIC,
                topic_id=TOPIC_ID,
                partitions=[
                    MetadataResponsePartition(partition_index=tp.partition, leader_id=1, leader_epoch=0)
                    for tp in sorted(world.partitions)
                ],
            )
        ],
    )
