"""Work on the records of a share consumer: when records are acknowledged, and which locks are renewed.

Rules

1. The consumer's thread does all of this, before each poll. So acknowledgements leave with the next request.
2. A lock is renewed when half of its time is over, if the group allows it. The record is not delivered a second time,
   and new records are fetched meanwhile. So one slow record does not starve the others.
3. Records whose lock has ended are not begun any more: another member may have them.
4. While the workers end, rules 1 to 3 hold: for the functions that still run, and for dead letters.
5. At the end, other records are released. A record in its last delivery would be lost by that: it goes to the dead
   letters, if there are any. They have as long as the functions had.
6. A record is rejected only after its dead letter was acknowledged. If the letter cannot be sent, the record is
   released, and the workers end with the error. Otherwise many records would use up their deliveries.
7. The work has caught up when the group had no record for this member for a while, and all are done. What other members
   hold, or release later, is not known.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection
from concurrent.futures import Future
from functools import partial
from typing import Any, Final

from pyconsumer.consumer.share.acknowledgements import Delivery
from pyconsumer.consumer.share.calls import LentShareConsumer
from pyconsumer.consumer.share.last_delivery import MOST_LETTERS, last_delivery_error
from pyconsumer.errors import KafkaError, WakeupError
from pyconsumer.structs import AcknowledgeType, TopicPartition
from pyconsumer.workers.dead_letters import DeadLetters, Letter
from pyconsumer.workers.schedule import Task
from pyconsumer.workers.share_schedule import ShareSchedule
from pyconsumer.workers.steps import CallSteps

__all__ = ["ShareWork"]

_log = logging.getLogger("pyconsumer.workers")

#: Longest time between two looks at the locks (seconds).
_LOOK_S: Final = 1.0
#: Shortest time without a record after which the work has caught up, and before the first record (seconds).
_QUIET_S: Final = 1.0
_QUIET_AT_FIRST_S: Final = 5.0
#: Time between two looks at dead letters on their way (seconds).
_LETTER_LOOK_S: Final = 0.01


class ShareWork:
    """The records of a share consumer that workers hold. See the module.

    Args:
        consumer: the share consumer.
        schedule: has the records.
        letters: the dead letters, if there are any.
        on_buried: is called for each dead letter of rule 5.
        pause: waits for some seconds. On an event loop the result is a coroutine.

    Attributes:
        lent: the consumer's inside.
    """

    def __init__(
        self,
        consumer: Any,
        schedule: ShareSchedule,
        letters: DeadLetters | None,
        on_buried: Callable[[], object],
        pause: Callable[[float], Any],
    ) -> None:
        self.lent = LentShareConsumer(consumer)
        self._consumer = consumer
        self._schedule = schedule
        self._letters = letters
        self._on_buried = on_buried
        self._pause = pause
        group = self.lent.group
        schedule.follow(lambda: group.delivery_limit, lambda: group.renews)
        self._next_look = 0.0
        self._last_record = time.monotonic()
        self._quiet: float = max(_QUIET_AT_FIRST_S, 2 * consumer.config.fetch_max_wait_ms / 1000)

    def before_poll(self, *, is_full: bool) -> None:
        """Acknowledge finished records, look after the locks, and say whether the poll takes records."""
        self._acknowledge()
        if time.monotonic() >= self._next_look:
            self._look_at_locks()
        self.lent.set_full(is_full)

    def after_poll(self) -> None:
        """Take over the records that the poll has acquired."""
        now = time.monotonic()
        if self._schedule.take_over(self.lent.taken()):
            self._last_record = now
            self._quiet = max(_QUIET_S, 2 * self._consumer.config.fetch_max_wait_ms / 1000)
            self._next_look = min(self._next_look, now + self._between_looks)
        elif not self.lent.is_assigned:
            self._last_record = now

    @property
    def _between_looks(self) -> float:
        return max(0.05, min(_LOOK_S, self.lent.lock_s / 10))

    @property
    def is_caught_up(self) -> bool:
        """Return whether the work has caught up (rule 7)."""
        if self._schedule.undone:
            self._last_record = time.monotonic()
            return False
        return time.monotonic() - self._last_record >= self._quiet

    def _acknowledge(self) -> None:
        for delivery, offset, kind in self._schedule.take_settled():
            delivery.choose(offset, kind)

    def _look_at_locks(self) -> None:
        lent, now = self.lent, time.monotonic()
        half = lent.lock_s / 2
        self._next_look = now + self._between_looks
        ended: list[Delivery] = []
        for delivery in lent.held():
            if delivery.locked_until <= now:
                ended.append(delivery)
            elif delivery.locked_until - now < half and lent.group.renews and not delivery.is_renewing:
                lent.renew(delivery)
        if ended:
            lent.drop(ended)
            count = self._schedule.forget(ended)
            _log.warning(
                "the lock of %d records has ended before they were done, %d of them had not begun: the group delivers"
                " them again",
                sum(last - first + 1 for delivery in ended for first, last in delivery.runs),
                count,
            )

    def wait_steps(
        self, wait_running: Callable[[Collection[TopicPartition] | None, float], Any], seconds: float
    ) -> CallSteps[bool]:
        """Wait until no function runs, after ``close`` of the schedule (rule 4).

        Args:
            wait_running: waits for some seconds. Its value is False if the time ran out.
            seconds: the longest time.

        Returns:
            False if functions still run.
        """
        until = time.monotonic() + seconds
        while True:
            left = until - time.monotonic()
            if (yield partial(wait_running, None, max(0.0, min(left, self._between_looks)))):
                return True
            if left <= 0:
                return False
            yield from self._turn_steps()

    def _turn_steps(self) -> CallSteps[None]:
        """Acknowledge finished records and look at the locks, without new records."""
        self.before_poll(is_full=True)
        try:
            yield partial(self._consumer.poll, timeout_ms=0)
        except WakeupError:
            return  # the workers end already
        except KafkaError as error:
            _log.warning("while the workers end: %s", error)
            return
        self.after_poll()

    def end_steps(self, seconds: float) -> CallSteps[None]:
        """Acknowledge finished records, and release the rest (rule 5). Functions run no more, or their time is over.

        Args:
            seconds: the longest time for dead letters.
        """
        schedule, lent = self._schedule, self.lent
        if self._letters is not None:
            last = [task for task in schedule.not_done() if schedule.is_last_delivery(task)]
            yield from self._bury_steps(self._letters, last, time.monotonic() + seconds)
        schedule.forget_all()
        self._acknowledge()
        for delivery in lent.held():
            for first, last_offset in delivery.runs:
                for offset in range(first, last_offset + 1):
                    delivery.choose(offset, AcknowledgeType.RELEASE)
        while True:
            try:
                results = yield self._consumer.commit
            except WakeupError:
                continue  # once for each wakeup
            break
        failed = {str(tp): error for tp, error in results.items() if error is not None}
        if failed:
            _log.warning("records could not be acknowledged, the group delivers them again: %s", failed)

    def _bury_steps(self, letters: DeadLetters, tasks: list[Task], until: float) -> CallSteps[None]:
        """Send the dead letters of records in their last delivery, some at a time."""
        waiting = tasks[::-1]
        sent: list[tuple[Task, Future[None]]] = []
        while waiting or sent:
            while waiting and len(sent) < MOST_LETTERS:
                task = waiting.pop()
                sent.append((task, letters.begin_letter(self._letter_of(letters, task))))
            yield partial(self._pause, _LETTER_LOOK_S)
            for task, future in [each for each in sent if each[1].done()]:
                failure = future.exception()
                if failure is None:
                    self._on_buried()
                    self._schedule.leave_out(task)
                else:
                    _log.error("%s offset %d has no dead letter: %s", task.share.tp, task.record.offset, failure)
            sent = [each for each in sent if not each[1].done()]
            if time.monotonic() >= until:
                if sent or waiting:
                    _log.error("%d records in their last delivery may have no dead letter", len(sent) + len(waiting))
                return
            if time.monotonic() >= self._next_look:
                yield from self._turn_steps()

    def _letter_of(self, letters: DeadLetters, task: Task) -> Letter:
        error = last_delivery_error(
            self._schedule.delivery_of(task), task.record, "was not done when the workers ended,"
        )
        return letters.of_record(task.record, error, task.attempt, task.failed_at)
