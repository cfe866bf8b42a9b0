"""Share groups whose states begin late, fail in part, or are begun while the group or a topic is deleted or moves."""

from __future__ import annotations

from typing import Any

import pytest

from pyconsumer.broker.deferred import Deferred
from pyconsumer.broker.group.common.config import GroupConfig
from pyconsumer.broker.group.coordinator import GroupCoordinator
from pyconsumer.broker.group.share.group import ShareGroup
from pyconsumer.broker.group.share.membership import ShareHeartbeatResult
from pyconsumer.broker.group.share.states import StateSummary
from pyconsumer.broker.group.share.turns import Turns
from pyconsumer.broker.timer import Timer
from pyconsumer.clock import ManualClock
from pyconsumer.errors import Errors
from pyconsumer.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from pyconsumer.structs import TopicPartition
from tests.unit.broker.group.support import MemoryStorage, Topics

GROUP = "g"
T, U = b"T" * 16, b"U" * 16


class States:
    """The share coordinators. They answer at once, or when the test says so."""

    def __init__(self) -> None:
        self.kept: dict[tuple[bytes, int], int] = {}
        self.failing: dict[tuple[bytes, int], int] = {}
        self.hold = False
        self.held: list[tuple[Deferred[int], Any]] = []
        self.calls: list[tuple[str, bytes, int]] = []

    def _serve(self, work: Any) -> Deferred[int]:
        done: Deferred[int] = Deferred()
        if self.hold:
            self.held.append((done, work))
        else:
            done.set(work())
        return done

    def release(self) -> None:
        """Answer all calls that are held."""
        self.hold = False
        held, self.held = self.held, []
        for done, work in held:
            done.set(work())

    def initialize(
        self, group_id: str, topic_id: bytes, partition: int, state_epoch: int, start_offset: int
    ) -> Deferred[int]:
        self.calls.append(("initialize", topic_id, partition))

        def work() -> int:
            code = self.failing.get((topic_id, partition), 0)
            if not code:
                self.kept[topic_id, partition] = start_offset
            return code

        return self._serve(work)

    def delete(self, group_id: str, topic_id: bytes, partition: int) -> Deferred[int]:
        self.calls.append(("delete", topic_id, partition))

        def work() -> int:
            self.kept.pop((topic_id, partition), None)
            return 0

        return self._serve(work)

    def summary(self, group_id: str, topic_id: bytes, partition: int) -> Deferred[StateSummary]:
        return Deferred.of(StateSummary(start_offset=self.kept.get((topic_id, partition), -1)))


class Coordinating:
    """A group coordinator with share coordinators that the test holds in its hand."""

    def __init__(self, storage: MemoryStorage | None = None, topics: Topics | None = None) -> None:
        self.clock = ManualClock(100.0) if storage is None else storage.clock
        self.timer = Timer()
        self.storage = storage or MemoryStorage(self.clock, partitions=1)
        self.topics = topics or Topics({"t": (T, 2), "u": (U, 1)})
        self.states = States()
        self.coordinator = GroupCoordinator(
            GroupConfig(), self.storage, self.timer, self.clock, self.topics, share_states=self.states
        )
        self.coordinator.start()
        self.lead(1)

    def lead(self, epoch: int) -> None:
        self.coordinator.on_become_leader(0, epoch)
        self.timer.run_due(self.clock.now())

    def resign(self) -> None:
        self.coordinator.on_resign(0, None)
        self.timer.run_due(self.clock.now())

    def delete_topic(self, name: str) -> None:
        del self.topics.topics[name]
        self.coordinator.on_topic_changed(name, created=False)

    def beat(self, member: str, epoch: int, *topics: str) -> ShareHeartbeatResult:
        request = ShareGroupHeartbeatRequest(
            group_id=GROUP, member_id=member, member_epoch=epoch, subscribed_topic_names=list(topics) or None
        )
        reply = self.coordinator.share_group_heartbeat(request, client_id="c", client_host="h")
        assert reply.value.error_code == 0, reply.value
        return reply.value

    def settled(self, member: str, epoch: int) -> int:
        """Send heartbeats until the epoch stays. Return it."""
        for _ in range(5):
            self.clock.advance(2)
            after = self.beat(member, epoch).member_epoch
            if after == epoch:
                return epoch
            epoch = after
        raise AssertionError(f"the epoch rises with each heartbeat: {epoch}")

    def alter(self, **offsets: int) -> Deferred[dict[TopicPartition, int]]:
        wanted = {TopicPartition(name[0], int(name[1:])): offset for name, offset in offsets.items()}
        return self.coordinator.share_offsets.alter(GROUP, wanted)

    def group(self) -> ShareGroup:
        found = self.coordinator.manager.get_share_group(GROUP)
        assert found is not None
        return found

    def initialized(self) -> dict[bytes, set[int]]:
        return {topic: set(one.partitions) for topic, one in self.group().partitions.initialized.items()}


@pytest.fixture
def world() -> Coordinating:
    return Coordinating()


def test_one_partition_of_several_fails_alone(world: Coordinating) -> None:
    world.states.failing[T, 1] = Errors.COORDINATOR_NOT_AVAILABLE
    found = world.alter(t0=7, t1=8, u0=9).value
    assert found == {
        TopicPartition("t", 0): 0,
        TopicPartition("t", 1): Errors.COORDINATOR_NOT_AVAILABLE,
        TopicPartition("u", 0): 0,
    }
    assert world.initialized() == {T: {0}, U: {0}}
    assert not world.group().partitions.initializing
    world.states.failing.clear()
    world.states.calls.clear()
    world.beat("m", 0, "t", "u")
    assert world.states.calls == [("initialize", T, 1)]  # the altered ones stay where they are
    assert world.states.kept == {(T, 0): 7, (T, 1): -1, (U, 0): 9}


def test_a_topic_that_was_deleted_during_a_load_does_not_raise_epochs(world: Coordinating) -> None:
    epoch = world.settled("m", world.beat("m", 0, "t", "u").member_epoch)
    topics = world.topics
    world.resign()
    del topics.topics["t"]  # nobody hears of it: the group is not in memory
    again = Coordinating(world.storage, topics)
    assert again.settled("m", again.beat("m", epoch).member_epoch)
    assert set(again.initialized()) == {U}


def test_a_deleted_topic_that_could_not_be_noted_does_not_raise_epochs(world: Coordinating) -> None:
    epoch = world.settled("m", world.beat("m", 0, "t", "u").member_epoch)
    world.storage.fail_with = Errors.NOT_ENOUGH_REPLICAS
    world.delete_topic("t")
    world.storage.fail_with = 0
    assert set(world.initialized()) == {T, U}
    assert world.settled("m", world.beat("m", epoch).member_epoch)


def test_a_state_that_is_begun_late_is_deleted_with_its_group(world: Coordinating) -> None:
    world.states.hold = True
    epoch = world.beat("m", 0, "t").member_epoch
    world.beat("m", -1)
    deleted = world.coordinator.delete_groups([GROUP])
    assert epoch
    assert not deleted.done
    world.states.release()
    assert deleted.value == {GROUP: 0}
    assert world.states.kept == {}
    assert [call[0] for call in world.states.calls] == ["initialize"] * 2 + ["delete"] * 2
    assert world.coordinator.manager.get_share_group(GROUP) is None
    assert Coordinating(world.storage).coordinator.manager.share_groups == []


def test_what_completes_after_the_deletion_writes_nothing(world: Coordinating) -> None:
    """Two deletions, and an alteration behind them: each waits for the one before."""
    world.alter(t0=1)
    world.states.hold = True
    first, second = world.coordinator.delete_groups([GROUP]), world.coordinator.delete_groups([GROUP])
    altered = world.alter(t0=5)
    world.states.release()
    assert (first.value, second.value) == ({GROUP: 0}, {GROUP: Errors.GROUP_ID_NOT_FOUND})
    assert altered.value == {TopicPartition("t", 0): 0}
    assert world.states.kept == {(T, 0): 5}
    assert world.initialized() == {T: {0}}


def test_a_group_that_has_moved_does_not_confirm_an_alteration(world: Coordinating) -> None:
    world.states.hold = True
    altered = world.alter(t0=5)
    world.resign()
    written = len(world.storage.appended)
    world.states.release()
    assert altered.value == {TopicPartition("t", 0): Errors.NOT_COORDINATOR}
    assert len(world.storage.appended) == written


def test_a_member_that_joins_during_a_deletion_gets_its_partitions(world: Coordinating) -> None:
    world.alter(t0=1)
    world.states.hold = True
    deleted = world.coordinator.delete_groups([GROUP])
    epoch = world.beat("m", 0, "t").member_epoch
    world.states.release()
    assert deleted.value == {GROUP: Errors.NON_EMPTY_GROUP}
    world.settled("m", epoch)
    assert world.initialized() == {T: {0, 1}}
    assert world.states.kept == {(T, 0): -1, (T, 1): -1}
    assert world.group().members["m"].assigned == {T: frozenset({0, 1})}


def test_a_topic_that_is_deleted_while_it_is_initialized_does_not_come_back(world: Coordinating) -> None:
    world.states.hold = True
    epoch = world.beat("m", 0, "t", "u").member_epoch
    world.delete_topic("t")
    world.states.release()
    assert set(world.initialized()) == {U}
    world.settled("m", epoch)


def test_an_alteration_that_cannot_be_noted_leaves_no_group(world: Coordinating) -> None:
    world.storage.fail_with = Errors.NOT_ENOUGH_REPLICAS
    assert world.alter(t0=5).value == {TopicPartition("t", 0): Errors.COORDINATOR_NOT_AVAILABLE}
    assert world.coordinator.manager.share_groups == []
    assert world.states.calls == []


def test_work_that_fails_does_not_hold_up_what_comes_after(caplog: pytest.LogCaptureFixture) -> None:
    turns = Turns()
    held: Deferred[str] = Deferred()

    def broken() -> Deferred[str]:
        raise RuntimeError("broken")

    first = turns.run("g", lambda: held, "")
    second = turns.run("g", broken, "failed")
    other = turns.run("h", lambda: Deferred.of("of another group"), "")
    many = [turns.run("g", lambda: Deferred.of("done"), "") for _ in range(2000)]
    assert (first.done, second.done, other.value) == (False, False, "of another group")
    held.set("ended")
    assert (first.value, second.value) == ("ended", "failed")
    assert {one.value for one in many} == {"done"}
    assert "work on the states of its share partitions failed" in caplog.text
    assert turns.run("g", lambda: Deferred.of("again"), "").value == "again"
