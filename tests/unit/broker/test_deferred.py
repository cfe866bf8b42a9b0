"""Handlers that wait, fetches that wait for bytes, and partitions that notify them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyconsumer.broker.deferred import Deferred, run_handler, wait_for
from pyconsumer.broker.partition import Partition
from pyconsumer.broker.purgatory import DelayedFetch
from pyconsumer.broker.timer import Timer
from pyconsumer.errors import (
    FencedLeaderEpochError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    UnknownLeaderEpochError,
)
from tests.unit.broker.support import TP, batch, log_in


class TestHandlers:
    def test_a_completed_value_needs_no_wait(self) -> None:
        results: list[int] = []

        async def handler() -> int:
            return await wait_for(Deferred.of(1)) + await wait_for(Deferred.of(2))

        run_handler(handler(), results.append, lambda error: pytest.fail(str(error)))
        assert results == [3]

    def test_a_handler_continues_when_its_deferred_is_set(self) -> None:
        first, second = Deferred[int](), Deferred[int]()
        results: list[int] = []

        async def handler() -> int:
            return await wait_for(first) + await wait_for(second)

        run_handler(handler(), results.append, lambda error: pytest.fail(str(error)))
        second.set(2)
        assert results == []
        first.set(1)
        assert results == [3]

    def test_an_error_is_raised_before_and_after_a_wait(self) -> None:
        waiting = Deferred[int]()
        errors: list[BaseException] = []

        async def handler(deferred: Deferred[int]) -> int:
            await wait_for(deferred)
            raise ValueError("no")

        run_handler(handler(Deferred.of(1)), pytest.fail, errors.append)
        run_handler(handler(waiting), pytest.fail, errors.append)
        waiting.set(1)
        assert [str(error) for error in errors] == ["no", "no"]

    def test_a_cancelled_handler_cleans_up_silently(self) -> None:
        waiting = Deferred[int]()
        events: list[str] = []

        async def handler() -> int:
            try:
                return await wait_for(waiting)
            finally:
                events.append("cleaned up")

        coroutine = handler()
        run_handler(coroutine, lambda _: events.append("answered"), lambda _: events.append("failed"))
        coroutine.close()
        waiting.set(1)
        assert events == ["cleaned up"]


def led(**config: object) -> Partition:
    partition = Partition(0, TP, bytes(16), log_in(None, **config))
    partition.lead(0, 3, (0,), (0,))
    return partition


class Later:
    """Runs calls on request."""

    def __init__(self) -> None:
        self.calls: list[Callable[[], None]] = []

    def __call__(self, call: Callable[[], None]) -> None:
        self.calls.append(call)

    def run(self) -> None:
        calls, self.calls = self.calls, []
        for call in calls:
            call()


class TestDelayedFetch:
    def test_it_ends_when_enough_bytes_have_come(self) -> None:
        partition, later = led(), Later()
        size = len(batch(b"a"))
        wait = DelayedFetch(Timer(), later, 10.0, [partition], 2 * size)
        partition.append(batch(b"a"))
        assert not later.calls
        partition.append(batch(b"b"))
        assert not wait.deferred.done  # not inside the append
        later.run()
        assert wait.deferred.done

    def test_it_ends_when_its_time_is_over(self) -> None:
        timer = Timer()
        wait = DelayedFetch(timer, Later(), 10.0, [led()], 100)
        timer.run_due(9.9)
        assert not wait.deferred.done
        timer.run_due(10.0)
        assert wait.deferred.done

    def test_it_ends_when_a_partition_is_led_by_another_or_gone(self) -> None:
        for end in (lambda p: p.lead(1, 4, (0, 1), (1,)), lambda p: p.close()):
            partition, later = led(), Later()
            wait = DelayedFetch(Timer(), later, 10.0, [led(), partition], 100)
            end(partition)
            later.run()
            assert wait.deferred.done

    def test_a_cancelled_wait_leaves_no_watcher_behind(self) -> None:
        partition, timer = led(), Timer()
        wait = DelayedFetch(timer, lambda call: pytest.fail("called"), 10.0, [partition], 1)
        wait.cancel()
        partition.append(batch(b"a"))
        assert timer.run_due(20.0) == 0
        assert not wait.deferred.done


class TestPartition:
    def test_the_high_watermark_follows_the_slowest_replica_in_sync(self) -> None:
        partition = Partition(0, TP, bytes(16), log_in(None))
        partition.lead(0, 0, (0, 1), (0, 1))
        partition.append(batch(b"a", b"b"))
        assert partition.high_watermark == 0
        partition.lead(0, 1, (0, 1), (0,))
        assert partition.high_watermark == 2

    def test_watchers_are_called_in_the_order_of_their_registration(self) -> None:
        """With this order appends to the group coordinators' topic complete in the order in which they were made."""
        partition = led()
        notified: list[int] = []
        watchers = [lambda _, number=number: notified.append(number) for number in range(20)]
        for watcher in watchers:
            partition.watch(watcher)
        partition.unwatch(watchers[3])
        partition.append(batch(b"a"))
        assert notified == [number for number in range(20) if number != 3]

    def test_a_follower_answers_not_leader(self) -> None:
        partition = led()
        partition.check_leader(3)
        partition.check_leader(-1)
        with pytest.raises(FencedLeaderEpochError):
            partition.check_leader(2)
        with pytest.raises(UnknownLeaderEpochError):
            partition.check_leader(4)
        partition.lead(1, 4, (0, 1), (1,))
        with pytest.raises(NotLeaderOrFollowerError):
            partition.check_leader(4)

    def test_acks_all_needs_min_insync_replicas(self) -> None:
        partition = led(min_insync_replicas=2)
        partition.append(batch(b"a"), acks=-1)  # more than there are cannot be wanted
        partition.lead(0, 3, (0, 1), (0,))
        with pytest.raises(NotEnoughReplicasError):
            partition.append(batch(b"a"), acks=-1)
        partition.append(batch(b"a"), acks=1)

    def test_an_election_starts_an_epoch_at_the_end_of_the_log(self) -> None:
        partition = led()
        partition.append(batch(b"a", b"b"))
        partition.lead(0, 5, (0,), (0,))
        partition.append(batch(b"c"))
        assert partition.log.epochs.entries() == [(3, 0), (5, 2)]
        assert partition.log.epochs.end_offset(3, 3) == (3, 2)
        assert partition.log.epochs.end_offset(4, 3) == (3, 2)
        assert partition.log.epochs.end_offset(5, 3) == (5, 3)
        assert partition.log.epochs.end_offset(6, 3) == (-1, -1)
        assert partition.log.epochs.end_offset(2, 3) == (2, 0)
        assert [partition.log.epochs.epoch_of(offset) for offset in (0, 1, 2)] == [3, 3, 5]
