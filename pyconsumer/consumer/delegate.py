"""``ConsumerDelegate``: the work of ``poll``, ``position``, ``seek``, ``close``, as generators.

:class:`pyconsumer.KafkaConsumer` runs them on its selector. Any other driver of
:class:`~pyconsumer.network.futures.Wait` can do the same. Arguments are checked here, not by the facades.

Rules of ``poll``

1. No error is raised between the move of a position and the return of the records.
2. There is one wait. It ends when something arrives, or at the earliest of: the call's deadline, the coordinator's next
   task, the retry of a reset or validation, the end of a node's backoff.
3. Committed offsets are fetched in the background. Partitions that have a position are fetched from concurrently.
4. After the wait the short way of a call that finds records is tried first (:meth:`ConsumerDelegate.buffered`): a
   record that comes alone is returned as if the call began just then. The next fetch has left before.
5. A call that finds records does not read the sockets, except while a rebalance or a commit waits for a response: then
   each call checks the sockets once without waiting, as in Java. Otherwise the group would wait for this member until
   everything buffered has been returned.
6. Rules 2 to 5 are not checked in every call. After a check, calls that find records take them without another one
   until :attr:`.Checked.next_check_at`, at most :data:`CHECK_LIFETIME_S` later. Serving the sockets, any other call of
   the consumer and a change that the heartbeat thread reports end that at once. (On an event loop every call checks:
   its sockets are served between calls.)

Rules of a member whose group is driven by a task of its own, between the calls for records

1. That task alone runs :meth:`ConsumerDelegate.serve_group`. A call for records
   (:meth:`ConsumerDelegate.fetched_apart`) takes records and positions only, and notes the time for
   ``max_poll_interval_ms``.
2. While :attr:`ConsumerDelegate.group_is_busy`, which is one run of ``serve_group`` with its callbacks, no record is
   taken. A call for records waits for the end of it, at most until its deadline.
3. A call for records that finds the group due lets the task go first.
4. A partition without an offset to begin at does not hold up the others: its error waits for a call that reads it. A
   call that reads some partitions alone raises no error of another one.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from pyconsumer.clock import Clock
from pyconsumer.consumer.all_partitions import AllPartitions
from pyconsumer.consumer.arguments import (
    as_partitions,
    checked_offsets,
    checked_position,
    checked_times,
    offsets_after,
    topic_names,
)
from pyconsumer.consumer.auto_offset_reset import EARLIEST, EARLIEST_TIMESTAMP, LATEST, LATEST_TIMESTAMP
from pyconsumer.consumer.config import CONSUMER_SETTINGS
from pyconsumer.consumer.context import Checked, ConsumerContext
from pyconsumer.consumer.fetcher import Fetcher
from pyconsumer.consumer.first_positions import FirstPositions
from pyconsumer.consumer.interceptors import Interceptors
from pyconsumer.consumer.metrics import ConsumerMetrics
from pyconsumer.consumer.network_client import ConsumerNetworkClient
from pyconsumer.consumer.observation import Observation
from pyconsumer.consumer.partition_state import FetchPosition, FetchState, current_leader
from pyconsumer.consumer.records import ConsumerRecords
from pyconsumer.consumer.subscription_state import SubscriptionState, SubscriptionType
from pyconsumer.consumer.topic_metadata_fetcher import TopicMetadataFetcher, none_in_time
from pyconsumer.errors import (
    Errors,
    IllegalStateError,
    InvalidGroupIdError,
    KafkaError,
    KafkaTimeoutError,
)
from pyconsumer.generic import PendingError
from pyconsumer.metrics.source import windows_of
from pyconsumer.network.futures import RequestFuture, Steps, Wait
from pyconsumer.network.metadata import Metadata
from pyconsumer.protocol.compiled import report_missing
from pyconsumer.protocol.records import ColumnsBuilder, ConsumerRecord
from pyconsumer.structs import (
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    SubscriptionPattern,
    TopicPartition,
)
from pyconsumer.telemetry import hooks

if TYPE_CHECKING:
    from pyconsumer.consumer.arrivals import Arrivals
    from pyconsumer.consumer.coordinator.consumer_coordinator import ConsumerCoordinator
    from pyconsumer.consumer.interface import CommitCallback, ConsumerRebalanceListener, StorableOffsets
    from pyconsumer.consumer.typed_arrow import TypedRows

__all__ = ["CHECK_LIFETIME_S", "MOST_AHEAD", "ConsumerDelegate"]

_log = logging.getLogger("pyconsumer.consumer")

T = TypeVar("T")

#: For this long (seconds) records that are buffered are taken without checking anything else.
CHECK_LIFETIME_S: Final = 0.01
#: Iteration decodes this number of records at a time, at most. More would leave the processor's caches before they are
#: taken.
MOST_AHEAD: Final = 500
#: While the group waits for a response, polls that have records check for it at this interval (seconds): a check costs
#: as much as decoding some hundred records.
_CHECK_RESPONSE_S: Final = 0.002


class ConsumerDelegate:
    """The consumer's work without the waiting: fetches, positions, subscription, commits.

    Args:
        context: settings, client, metadata, subscriptions and clock of the consumer. Each of them is also an attribute.
        coordinator: group membership and commits. None if there is no group.
        interceptors: they see records before these are returned.
        metrics: the consumer's counters.
        checked: see :class:`.Checked`. The heartbeat thread also calls its ``end``.
        form: the class of the records to return. None returns ``ConsumerRecord``.
    """

    def __init__(
        self,
        context: ConsumerContext,
        *,
        coordinator: ConsumerCoordinator | None,
        interceptors: Interceptors,
        metrics: ConsumerMetrics,
        checked: Checked,
        form: type | None = None,
    ) -> None:
        self.config, self.client, self.metadata, self.subscriptions, self.clock = context
        self.coordinator = coordinator
        self.interceptors = interceptors
        self.metrics = metrics
        metrics.watch(self.subscriptions, read_committed=self.config.read_committed)
        self.fetcher = Fetcher(context, metrics, form)
        self.observation = Observation(context, metrics, self.fetcher.buffer)
        self._topics = TopicMetadataFetcher(context)
        self._all_partitions = AllPartitions(context) if coordinator is None else None
        self._first_positions = FirstPositions(context, coordinator)
        #: Call this before a call may take records: those of the previous call have reached the application.
        self.note_delivered = self.fetcher.buffer.note_delivered
        self._check_response_at = 0.0
        self.checked = checked
        self._interrupted = False
        self._unconfirmed: dict[TopicPartition, int] = {}  # assigned or subscribed; metadata's count of updates then
        #: How much longer than its deadline a poll may wait for a schema (seconds).
        self.grace_s = self.config.schema_timeout_ms / 1000 if self.fetcher.deserialization.may_wait else 0.0
        self._arrivals: Arrivals | None = None
        #: True while the task that drives the group is at work.
        self.group_is_busy = False
        self._has_task = False  # such a task
        self._longest_wait = math.inf  # seconds, of a call for records beside that task
        self._reading = False  # a call for records waits, and sends what is needed
        #: How many records iteration decodes at a time, at most.
        self.most_ahead = min(self.config.max_poll_records, MOST_AHEAD)

    @classmethod
    def open(
        cls,
        options: Mapping[str, Any],
        clock: Clock,
        *,
        on_group_change: Callable[[], object],
        form: type | None = None,
    ) -> Self:
        """Create all parts of a consumer.

        Args:
            options: settings by name (see :data:`pyconsumer.consumer.config.CONSUMER_SETTINGS`).
            clock: the source of time.
            on_group_change: called in the heartbeat thread after each change that may concern the application.
            form: the class of the records to return. None returns ``ConsumerRecord``.

        Raises:
            ConfigurationError: a setting is unknown, has a wrong value, or contradicts another one.
        """
        config = CONSUMER_SETTINGS.build(options)
        report_missing()
        interceptors = Interceptors(config.interceptors)
        subscriptions = SubscriptionState(config.auto_offset_reset, store_positions=config.enable_auto_offset_store)
        if config.group_id is None:
            subscriptions.count_by_position()
        metadata = Metadata.from_config(
            config,
            allow_auto_topic_creation=config.allow_auto_create_topics,
            exclude_internal_topics=config.exclude_internal_topics,
        )
        client = ConsumerNetworkClient(config, metadata, clock=clock)
        context = ConsumerContext(config, client, metadata, subscriptions, clock)
        checked = Checked()

        def news() -> None:
            checked.end()
            on_group_change()

        try:
            coordinator = None
            if config.group_id is not None:
                from pyconsumer.consumer.coordinator.consumer_coordinator import ConsumerCoordinator

                coordinator = ConsumerCoordinator(context, on_commit=interceptors.on_commit, on_news=news)
        except BaseException:
            client.close()
            raise
        metrics = ConsumerMetrics(clock.now(), windows_of(config))
        return cls(
            context, coordinator=coordinator, interceptors=interceptors, metrics=metrics, checked=checked, form=form
        )

    # -- poll --------------------------------------------------------------------------------------------------------

    # Records are returned in three forms. Each has a function that takes at most a number of them out of the buffer
    # (`drain` and `most`), and returns None if there is nothing: take_records for poll, take_columns for poll_arrow,
    # take_one for iteration.

    def buffered(self, now: float, drain: Callable[[int], T | None], most: int) -> T | None:
        """Take buffered records without a system call. Return None if :meth:`fetched` must be run instead."""
        coordinator, checked = self.coordinator, self.checked
        if self._interrupted:
            return None
        # Before the rest is looked at, so that what the heartbeat thread changes in the meantime ends it.
        checked.extend(now + CHECK_LIFETIME_S)
        if coordinator is not None:
            coordinator.note_poll(now)
            due_at = coordinator.next_due_at
            if due_at < checked.next_check_at:
                checked.extend(due_at)
            if now >= due_at or coordinator.has_user_output:
                return None
            if coordinator.awaits_response:
                checked.end()
                if now >= self._check_response_at:
                    return None
        elif self._all_partitions is not None and self._all_partitions.is_due:
            return None
        fetcher = self.fetcher
        if fetcher.has_error or not self.subscriptions.has_all_fetch_positions:
            return None
        if self.subscriptions.changed:
            fetcher.apply_changes(now)
        return drain(most) if fetcher.buffer else None

    def fetched(self, deadline: float, drain: Callable[[int], T | None], most: int) -> Steps[T | None]:
        """Take records as soon as there are any. Return None at the deadline.

        Raises:
            IllegalStateError: no topic is subscribed and no partition assigned.
            KafkaError: an error of the group, a fetch or a record (see ``KafkaConsumer.poll``).
        """
        fetcher = self.fetcher
        self._check_subscribed()
        if self._interrupted:
            self.recover()
        sockets_served = False  # the sockets, in this call
        try:
            while True:
                self.checked.end()
                self._interrupted = True  # until this round is over; an error of ours is no interrupt
                yield from self._coordinate()
                fetcher.raise_error()
                sent = fetcher.send_fetches()
                if self.coordinator is not None and self.coordinator.awaits_response:
                    if not sockets_served:
                        sockets_served = True
                        self._interrupted = False
                        yield Wait(None, self.clock.now())
                        self._check_response_at = self.clock.now() + _CHECK_RESPONSE_S
                        continue
                    sent = True
                if sent:
                    self.client.flush()
                found = drain(most) if fetcher.buffer else None
                now = self.clock.now()
                end = deadline if self._arrivals is None else self._arrivals.extended(deadline)
                if found is not None or (sockets_served and now >= end):
                    self._interrupted = False
                    return found
                sockets_served = True
                wait = self._wait(now, end)
                self._interrupted = False
                fetcher.await_response(True)
                try:
                    yield wait
                finally:
                    fetcher.await_response(False)
                if self.client.has_unsent:
                    self.client.flush()
                found = self.buffered(self.clock.now(), drain, most)
                if found is not None:
                    return found
        except Exception:
            self._interrupted = False
            raise

    def leave_group_to_task(self) -> None:
        """Let a separate task drive the group, by :meth:`until_group_is_due` and :meth:`serve_group`."""
        self._has_task = True
        self._first_positions.keep_errors()
        self.client.keep_topic_errors()
        if self.coordinator is not None:
            self._longest_wait = self.config.max_poll_interval_ms / 2000  # a call that waits counts as polling
            self.coordinator.live_between_polls()

    def mark_group_busy(self, is_busy: bool) -> None:
        """Record that the task begins a piece of work (True) or has ended it (False)."""
        self.group_is_busy = is_busy

    def buffered_apart(self, now: float, drain: Callable[[int], T | None], most: int) -> T | None:
        """Do the same as :meth:`buffered`, if a separate task drives the group.

        Return None if :meth:`fetched_apart` must be run instead.
        """
        coordinator = self.coordinator
        self.checked.end()
        if coordinator is not None:
            coordinator.note_poll(now)
            if coordinator.awaits_response and now >= self._check_response_at:
                return None
        if self.group_is_busy or self._group_due_at(now, something_came=False) <= now:
            return None
        fetcher = self.fetcher
        if fetcher.has_error or not self.subscriptions.has_all_fetch_positions:
            return None
        if self.subscriptions.changed:
            fetcher.apply_changes(now)
        return drain(most) if fetcher.buffer else None

    def fetched_apart(
        self,
        deadline: float,
        drain: Callable[[int], T | None],
        most: int,
        *,
        check: Callable[[], object],
        on_due: Callable[[], object],
        only: Collection[TopicPartition] = (),
    ) -> Steps[T | None]:
        """Take records as soon as there are any, if a separate task drives the group. Return None at the deadline.

        Args:
            deadline: monotonic seconds.
            drain: the function that takes the records.
            most: how many it takes at most.
            check: called in each round. If it raises an error, the call ends with it.
            on_due: called when the task has something to do.
            only: the partitions whose errors are raised, by default all. Those that are read are up to ``drain``.

        Raises:
            IllegalStateError: no topic is subscribed and no partition assigned.
            KafkaError: an error of a fetch or a record (see ``KafkaConsumer.poll``).
        """
        self._check_subscribed()
        fetcher, clock = self.fetcher, self.clock
        sockets_served = False
        while True:
            check()
            now = clock.now()
            if self.coordinator is not None:
                self.coordinator.note_poll(now)
            longest = min(deadline, now + self._longest_wait)
            found, wait = None, Wait(None, longest)
            is_due = not self.group_is_busy and self._group_due_at(now, something_came=False) <= now
            if is_due:
                on_due()
            elif not self.group_is_busy:
                self._update_positions(now)
                self._raise_of(only)
                if fetcher.send_fetches():
                    self.client.flush()
                awaited = self.coordinator is not None and self.coordinator.awaits_response
                if awaited and not sockets_served:
                    wait = Wait(None, now)
                    self._check_response_at = now + _CHECK_RESPONSE_S
                else:
                    found = drain(most) if fetcher.buffer else None
                    if found is None:
                        wait = self._wait(now, longest)
            end = deadline if self._arrivals is None else self._arrivals.extended(deadline)
            if found is not None or (sockets_served and now >= end):
                return found
            if end > deadline and wait.until == deadline:
                wait = Wait(None, min(end, now + self._longest_wait))
            sockets_served = True
            self._reading = not (is_due or self.group_is_busy)
            fetcher.await_response(True)
            try:
                yield wait
            finally:
                self._reading = False
                fetcher.await_response(False)
            if self.client.has_unsent:
                self.client.flush()

    def until_assigned(self, deadline: float, check: Callable[[], object]) -> Steps[bool]:
        """Wait until a separate task has joined the group, then set the positions.

        Without a group the call waits until the partitions are known.

        Args:
            deadline: monotonic seconds.
            check: see :meth:`fetched_apart`.

        Returns:
            True when the positions are set. This includes a member that got no partition. False at the deadline.

        Raises:
            IllegalStateError: no topic is subscribed and no partition assigned.
            KafkaError: an error of a position, or one that :meth:`fetched_apart` raises.
        """
        self._check_subscribed()
        while True:
            check()
            now = self.clock.now()
            wait = Wait(None, deadline)
            if not self.group_is_busy and self._group_due_at(now, something_came=False) > now:
                if self._is_assigned():
                    return True
                wait = self._wait(now, deadline)
                self._raise_of(())
            if now >= deadline:
                return False
            yield wait

    def until_settled(self, deadline: float) -> Steps[None]:
        """Wait while a rebalance has revoked the partitions and not yet assigned new ones, at most to the deadline."""
        group = self.coordinator
        while group is not None and group.is_rebalancing and self.clock.now() < deadline:
            yield Wait(None, deadline)

    def _raise_of(self, only: Collection[TopicPartition]) -> None:
        """Raise, once, an error of the fetches, positions or topics of these partitions, or without ``only`` of any."""
        if self._has_task:  # otherwise the client raises it
            self.client.raise_topic_error({tp.topic for tp in only})
        self.fetcher.raise_error(only)
        self._first_positions.raise_error(only)

    def _is_assigned(self) -> bool:
        group, subscriptions = self.coordinator, self.subscriptions
        if not subscriptions.has_all_fetch_positions:
            return False
        if group is not None and subscriptions.has_auto_assigned:
            return bool(subscriptions.assigned_list()) or (group.is_stable and not group.is_rebalancing)
        return self._all_partitions is None or self._all_partitions.is_complete

    def until_group_is_due(self) -> Steps[None]:
        """Wait until :meth:`serve_group` has work. Until then, set positions and fetch ahead. No callback is run.

        This is for a driver that takes part in rebalances while the application does not poll.
        """
        waited = False
        while True:
            now = self.clock.now()
            due_at = self._group_due_at(now, something_came=waited)
            if due_at <= now:
                return
            wait = Wait(None, due_at)
            if not (self._reading or self.subscriptions.has_none or self.fetcher.has_error):
                try:
                    wait = self._wait(now, due_at)
                except KafkaError as error:  # the next poll raises it, unless a seek comes before
                    _log.debug("a position could not be set between polls: %s", error)
            yield wait
            waited = True

    def _group_due_at(self, now: float, *, something_came: bool) -> float:
        if self.coordinator is not None:
            return self.coordinator.due_between_polls(now, something_came=something_came)
        return -math.inf if self._all_partitions is not None and self._all_partitions.is_due else math.inf

    def serve_group(self) -> Steps[None]:
        """Do the work of the group that is due, without waiting. This does not count as a poll.

        Raises:
            KafkaError: an error of the group.
            Exception: a callback of the application raised it.
        """
        self.checked.end()
        if self.coordinator is not None:
            yield from self.coordinator.advance()
        elif self._all_partitions is not None:
            yield from self._all_partitions.poll()

    def prefetched(self) -> tuple[list[ConsumerRecord[Any, Any]], float]:
        """Return the records that iteration may take by itself, and the time up to which it may.

        See :meth:`FetchBuffer.prefetched`.
        """
        until = self.clock.now() + CHECK_LIFETIME_S
        if self.has_user_output:
            return [], until
        if self.coordinator is not None:
            until = min(until, self.coordinator.next_due_at)
        if self.interceptors.consumes or self.fetcher.has_error or not self.subscriptions.has_all_fetch_positions:
            return [], until
        return self.fetcher.buffer.prefetched(), until

    @property
    def has_user_output(self) -> bool:
        """Return whether the application must be notified of a change in its group before it gets more records."""
        return self.coordinator is not None and self.coordinator.has_user_output

    def commit_taken(self) -> None:
        """Count the records that iteration took by itself, and move the position past them."""
        taken = self.fetcher.buffer.commit_taken()
        if taken is not None and taken[1]:
            self.metrics.on_records(*taken)
            if hooks.active is not None:
                self.observation.taken(*taken)

    def on_interrupt(self, error: BaseException) -> None:
        """Recover from a poll that raised. After Ctrl-C, records that did not reach the application are put back."""
        if isinstance(error, Exception):
            self.observation.failed(error)
            return
        self._interrupted = again = True
        self.checked.end()
        while again:
            again = False
            try:
                self.fetcher.buffer.roll_back()
                self.recover()
            except KeyboardInterrupt:  # another one: each step may be done twice
                again = True

    def recover(self) -> None:
        """Reset everything that an interrupted call may have left in an unknown state. No I/O is done."""
        self._interrupted = True  # until this has come to its end
        self.checked.end()
        self.fetcher.recover()
        if self.subscriptions.type in (SubscriptionType.USER_ASSIGNED, SubscriptionType.AUTO_TOPICS):
            self.metadata.set_topics(self.subscriptions.metadata_topics())
        if self.coordinator is not None:
            self.coordinator.recover()
        self._interrupted = False

    def take_one(self, ahead: int) -> ConsumerRecord[Any, Any] | None:
        """Take one record out of the buffer, for iteration, which decodes ``ahead`` of them. None if there is none."""
        while True:
            try:
                record = self.fetcher.buffer.next_record(ahead)
            except PendingError:
                self.expect(self.fetcher.buffer.pending)
                return None
            if record is None:
                return None
            self.metrics.on_records(TopicPartition(record.topic, record.partition), 1)
            if hooks.active is not None:
                self.observation.iterated(record)
            if self.subscriptions.changed:
                self._send_quietly()
            if not self.interceptors.consumes:
                return record
            shown = self.interceptors.on_consume(
                ConsumerRecords({TopicPartition(record.topic, record.partition): [record]})
            )
            for changed in shown.records():
                return changed

    def take_columns(
        self, columns: ColumnsBuilder | TypedRows, max_records: int, max_bytes: int
    ) -> list[tuple[TopicPartition, int]] | None:
        """Move buffered records into columns. Return each partition with its rows, or None if no position moved."""
        buffer = self.fetcher.buffer
        collect: Any = buffer.collect_columns if isinstance(columns, ColumnsBuilder) else buffer.collect_typed
        try:
            found: list[tuple[TopicPartition, int]] = collect(columns, max_records, max_bytes)
        except PendingError:
            self.expect(self.fetcher.buffer.pending)
            return None
        if not found and not buffer.has_moved:
            return None
        if self.subscriptions.changed:
            self._send_quietly()
        for tp, count in found:
            self.metrics.on_records(tp, count)
        return found

    def may_wait_for_schemas(self) -> None:
        """Let polls from now on wait for schemas."""
        self.grace_s = self.config.schema_timeout_ms / 1000

    def expect(self, waits: Iterable[PendingError], deadline: float = 0.0) -> float:
        """Let polls wait for the things that deserializers need. Return the end of one with a deadline."""
        if self._arrivals is None:
            from pyconsumer.consumer.arrivals import Arrivals  # which few consumers need

            self._arrivals = Arrivals(self.client.wake_poll, self.clock.now)
        for pending in waits:
            self._arrivals.expect(pending, self.grace_s)
        return self._arrivals.extended(deadline)

    def take_records(self, max_records: int) -> ConsumerRecords[Any, Any] | None:
        """Take buffered records, for ``poll``. Return None if there are none and no position has moved."""
        try:
            found = self.fetcher.buffer.collect(max_records)
        except PendingError:
            self.expect(self.fetcher.buffer.pending)
            return None
        if not found and not self.fetcher.buffer.has_moved:
            return None
        # Positions have moved, so nothing may raise. The next fetches are sent before these records are processed.
        if self.subscriptions.changed:
            self._send_quietly()
        self.metrics.on_polled(found)
        if hooks.active is not None:
            self.observation.polled(found)
        return self.interceptors.on_consume(found) if self.interceptors.consumes and found else found

    def _send_quietly(self) -> None:
        self.checked.end()
        try:
            if self.fetcher.send_fetches():
                self.client.flush()
        except KafkaError as error:
            # Records are about to be returned, so this must not raise; an error that persists will be raised later.
            _log.warning("the next fetches could not be sent: %s", error)

    def _wait(self, now: float, deadline: float) -> Wait:
        """Send everything that is needed to get records. Return how long to wait (all in monotonic seconds)."""
        self._update_positions(now)
        self.fetcher.send_fetches()
        if self._unconfirmed:
            self._confirm_partitions()
        until = min(deadline, self.subscriptions.next_retry_at(), self.fetcher.planner.next_due_at())
        if self.coordinator is not None and not self._has_task:
            until = min(until, self.coordinator.next_due_at)
        return Wait(None, min(until, self._first_positions.next_due_at(now)))

    def _confirm_partitions(self) -> None:
        """Warn of partitions and topics that do not exist. They are read as soon as they do, as in Java."""
        for tp, since in list(self._unconfirmed.items()):
            absence = self.metadata.absence(tp, since)
            if absence is None and self.metadata.partition(tp) is None:
                continue
            del self._unconfirmed[tp]
            if absence is not None and self.subscriptions.get(tp) is not None:
                _log.warning("%s is assigned and does not exist, waiting for it: %s", tp, absence)
            elif absence is not None and tp.topic in self.subscriptions.subscription():
                _log.warning("topic %s is subscribed and does not exist, waiting for it", tp.topic)

    def _check_subscribed(self) -> None:
        if self.subscriptions.has_none:
            raise IllegalStateError("nothing is subscribed or assigned: call subscribe() or assign() first")

    def _coordinate(self) -> Steps[None]:
        """Do the due work of the group, then update positions. Never waits."""
        if self.coordinator is not None:
            self.coordinator.note_poll(self.clock.now())
            yield from self.coordinator.poll(self.clock.now(), wait_for_join=False)
        elif self._all_partitions is not None:
            yield from self._all_partitions.poll()
        self._update_positions(self.clock.now())

    # -- positions ---------------------------------------------------------------------------------------------------

    def _update_positions(self, now: float) -> None:
        """Move every partition closer to a valid position. Never waits."""
        self.fetcher.apply_changes(now)
        self._first_positions.check()
        if self.subscriptions.has_all_fetch_positions:
            return
        self.fetcher.offsets.apply_leaders()
        self.fetcher.offsets.validate_positions(now)
        if self._first_positions.advance(now):
            # Before the first fetch is sent: a broker serves a connection's requests in order, and holds that one back.
            self.fetcher.offsets.validate_positions(now)
        self.fetcher.offsets.reset_positions(now)

    def position(self, tp: TopicPartition, deadline: float) -> Steps[int]:
        """Return the offset of the next record of an assigned partition. Wait until there is one."""
        since = self.metadata.update_count
        try:
            while True:
                state = self.subscriptions.state(tp)
                if state.position is not None and state.has_valid_position:
                    return state.position
                self._update_positions(self.clock.now())
                self._raise_of((tp,) if self._has_task else ())
                if state.has_valid_position:
                    continue
                absence = self.metadata.absence(tp, since)
                if absence is not None:
                    raise absence
                yield self._wait(self.clock.now(), deadline)
        except KafkaTimeoutError:
            cause = f"it is {self.subscriptions.state(tp).state.name}; connections: {self.client.failures()}"
            raise none_in_time(f"position for {tp}", cause) from None

    def seek(self, tp: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Continue from an offset. If it has a leader epoch, it is validated first (KIP-320)."""
        number, epoch = checked_position(offset)
        self.subscriptions.state(tp)
        self.metadata.see_epoch(tp, epoch)
        _log.info("%s: seeking to offset %d", tp, number)
        self.subscriptions.seek(tp, FetchPosition(number, epoch, current_leader(self.metadata, tp)))

    def seek_revoked(self, tp: TopicPartition, offset: int) -> bool:
        """Seek in a partition that the current rebalance may give back. Return whether there is such a partition."""
        state = self.subscriptions.revoked(tp)
        if state is None:
            return False
        state.move_to(FetchState.FETCHING, FetchPosition(offset, -1, current_leader(self.metadata, tp)))
        state.reset_by(None)
        return True

    def seek_to(self, partitions: Collection[TopicPartition], *, end: bool) -> None:
        """Continue from the start or the end of the log. The offset is looked up when it is needed."""
        for tp in partitions or self.subscriptions.assigned_list():
            self.subscriptions.request_reset(tp, LATEST if end else EARLIEST)

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], deadline: float
    ) -> Steps[dict[TopicPartition, OffsetAndTimestamp | None]]:
        found = yield from self.fetcher.offsets.fetch_offsets(checked_times(timestamps), deadline)
        return {tp: found.get(tp) for tp in timestamps}

    def end_or_beginning(
        self, partitions: Collection[TopicPartition], deadline: float, *, end: bool
    ) -> Steps[dict[TopicPartition, int]]:
        at = LATEST_TIMESTAMP if end else EARLIEST_TIMESTAMP
        found = yield from self.fetcher.offsets.fetch_offsets(dict.fromkeys(partitions, at), deadline)
        return {tp: offset.offset for tp, offset in found.items() if offset is not None}

    def current_lag(self, tp: TopicPartition) -> int | None:
        """Return how many records follow the position.

        If that is unknown, return None and request the end of the log.
        """
        state = self.subscriptions.state(tp)
        lag = self.subscriptions.partition_lag(tp, read_committed=self.config.read_committed)
        if lag is None and not state.end_offset_requested:
            state.request_end_offset()
            self.fetcher.offsets.request_end_offset(tp)
        return lag

    # -- subscription ------------------------------------------------------------------------------------------------

    def require_group(self) -> ConsumerCoordinator:
        """Return the coordinator.

        Raises:
            InvalidGroupIdError: there is no ``group_id``.
        """
        if self.coordinator is None:
            raise InvalidGroupIdError("a group_id is needed to commit, to read committed offsets and to rebalance")
        return self.coordinator

    def subscribe(self, topics: Iterable[str], listener: ConsumerRebalanceListener | None) -> Steps[None]:
        wanted = topic_names(topics)
        if not wanted:
            yield from self.unsubscribe(self.default_deadline())
            return
        self._check_assignors()
        self.subscriptions.check_type(SubscriptionType.AUTO_TOPICS)
        kept = frozenset(wanted)
        self.subscriptions.drop_fetched([tp for tp in self.subscriptions.assigned_list() if tp.topic not in kept])
        _log.info("subscribed to %s", ", ".join(sorted(kept)))
        self._unconfirmed = {TopicPartition(topic, 0): self.metadata.update_count for topic in kept}
        if self.subscriptions.subscribe(kept, listener):
            self.metadata.set_topics(self.subscriptions.metadata_topics())
        self._on_subscription_change()

    def _on_subscription_change(self) -> None:
        if self.coordinator is not None:
            self.coordinator.on_subscription_change()
        elif self._all_partitions is not None:
            self._all_partitions.on_subscription_change()

    def subscribe_pattern(
        self, pattern: str | re.Pattern[str] | SubscriptionPattern, listener: ConsumerRebalanceListener | None
    ) -> None:
        if isinstance(pattern, SubscriptionPattern):
            self._subscribe_remote_pattern(pattern, listener)
            return
        if isinstance(pattern, str):
            if not pattern:
                raise ValueError("the pattern must not be empty")
            pattern = re.compile(pattern)
        if not isinstance(pattern, re.Pattern):
            raise TypeError(f"the pattern must be a string or a compiled pattern, not {pattern!r}")
        self._check_assignors()
        _log.info("subscribed to the pattern %s", pattern.pattern)
        self.subscriptions.subscribe_pattern(pattern, listener)
        self.metadata.set_all_topics()
        self._on_subscription_change()

    def _subscribe_remote_pattern(
        self, pattern: SubscriptionPattern, listener: ConsumerRebalanceListener | None
    ) -> None:
        if self.coordinator is None or self.config.group_protocol != "consumer":
            raise IllegalStateError(
                "the broker evaluates a SubscriptionPattern, which needs a group_id and group_protocol='consumer'. A"
                " pattern given as str or re.Pattern is evaluated here"
            )
        _log.info("subscribed to the pattern %s, which the broker evaluates", pattern.pattern)
        self.subscriptions.subscribe_remote_pattern(pattern.pattern, listener)
        self._on_subscription_change()

    def _check_assignors(self) -> None:
        if self.coordinator is not None and not self.config.partition_assignment_strategy:
            raise IllegalStateError("partition_assignment_strategy names no assignor, which a subscription needs")

    def assign(self, partitions: Iterable[TopicPartition]) -> Steps[None]:
        wanted = []
        for tp in as_partitions(partitions):
            if not tp.topic.strip() or tp.partition < 0:
                raise ValueError(f"a partition must be a TopicPartition with a topic's name, not {tp!r}")
            wanted.append(tp)
        if not wanted:
            yield from self.unsubscribe(self.default_deadline())
            return
        self.subscriptions.check_type(SubscriptionType.USER_ASSIGNED)
        if self.coordinator is not None:
            self.coordinator.maybe_auto_commit_async(self.clock.now())
        _log.info("assigned %s", ", ".join(map(str, wanted)))
        self._unconfirmed = dict.fromkeys(wanted, self.metadata.update_count)
        if self.subscriptions.assign_from_user(wanted):
            self.metadata.set_topics(self.subscriptions.metadata_topics())
        self.fetcher.apply_changes(self.clock.now())

    def unsubscribe(self, deadline: float) -> Steps[None]:
        """Leave the group and drop subscription, assignment and buffers."""
        try:
            if self.coordinator is not None and self.subscriptions.has_auto_assigned:
                yield from self.coordinator.on_unsubscribe(deadline)
            elif self._all_partitions is not None:
                yield from self._all_partitions.release()
        finally:  # the member has left, even if its listener raised
            self.subscriptions.unsubscribe()
            self.metadata.set_all_topics(False)
            self.metadata.set_topic_ids(())
            self.metadata.set_topics(())
            self.fetcher.apply_changes(self.clock.now())
            _log.info("unsubscribed")

    # -- commits -----------------------------------------------------------------------------------------------------

    def offsets_to_commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Check the offsets that the user wants to commit.

        Without offsets, return all positions, or the stored offsets.
        """
        return self.subscriptions.all_consumed() if offsets is None else checked_offsets(offsets)

    def store_offsets(self, offsets: StorableOffsets) -> None:
        """Store offsets for the next commit. See ``KafkaConsumer.store_offsets``."""
        self.require_group()
        self.subscriptions.store_offsets(checked_offsets(offsets_after(offsets)))

    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None, deadline: float) -> Steps[None]:
        coordinator = self.require_group()
        checked = self.offsets_to_commit(offsets)
        for tp, offset in checked.items():
            self.metadata.see_epoch(tp, offset.leader_epoch)
        began_at = self.clock.now()
        try:
            yield from coordinator.commit(checked, deadline)
        finally:
            now = self.clock.now()
            self.metrics.commit_calls.add(now - began_at, now)

    def commit_async(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None, callback: CommitCallback | None
    ) -> RequestFuture[None]:
        coordinator = self.require_group()
        checked = self.offsets_to_commit(offsets)
        return coordinator.commit_async(checked, callback)

    def committed(
        self, partitions: Collection[TopicPartition], deadline: float
    ) -> Steps[dict[TopicPartition, OffsetAndMetadata | None]]:
        coordinator = self.require_group()
        began_at = self.clock.now()
        try:
            found = yield from coordinator.fetch_committed(frozenset(partitions), deadline)
        finally:
            now = self.clock.now()
            self.metrics.committed_calls.add(now - began_at, now)
        for tp, offset in found.items():
            if offset is not None:
                self.metadata.see_epoch(tp, offset.leader_epoch)
        return {tp: found.get(tp) for tp in partitions}

    # -- the rest ----------------------------------------------------------------------------------------------------

    def partitions_for(self, topic: str, deadline: float) -> Steps[set[int] | None]:
        """Return the numbers of a topic's partitions, or None if there is no such topic."""
        return self._topics.partitions_for(topic, deadline)

    def existing_partitions(self, topic: str, deadline: float) -> Steps[set[int]]:
        """Return the numbers of a topic's partitions, or none if there is no such topic. It is not created."""
        return self._topics.existing_partitions(topic, deadline)

    def metadata_update(self, deadline: float) -> Steps[None]:
        """Request the metadata of the topics in use again, and wait for the response."""
        return self._topics.update(deadline)

    def topics(self, deadline: float) -> Steps[set[str]]:
        """Return the names of all topics that are visible to this client."""
        return self._topics.names(deadline)

    def group_metadata(self) -> ConsumerGroupMetadata:
        self.subscriptions.count_by_position()  # a producer commits, and this consumer does not learn of it
        return self.require_group().group_metadata()

    def missing_topics(self) -> list[str]:
        """Return the subscribed or assigned topics that do not exist according to metadata.

        Any thread may call this.
        """
        reported = self.metadata.topic_errors
        return [
            topic
            for topic in sorted(self.subscriptions.metadata_topics())
            if reported.get(topic) == Errors.UNKNOWN_TOPIC_OR_PARTITION
        ]

    def default_deadline(self) -> float:
        """Return the deadline of a call that got no timeout."""
        return self.clock.now() + self.config.default_api_timeout_ms / 1000

    def abandon(self, reason: str) -> None:
        """Stop the heartbeat thread without waiting. See :meth:`ConsumerCoordinator.abandon`."""
        if self.coordinator is not None:
            self.coordinator.abandon(reason)

    def close(self, deadline: float, *, leave_group: bool | None, commit: bool = True) -> Steps[None]:
        """Commit if commits are automatic, leave the group, close the fetch sessions. Waits as little as possible.

        Args:
            deadline, leave_group, commit: see :meth:`ConsumerCoordinator.close`.
        """
        self._first_positions.end()
        if self.coordinator is not None:
            yield from self.coordinator.close(deadline, leave_group, commit=commit)
        elif self._all_partitions is not None:
            yield from self._all_partitions.release()
        if self.fetcher.close_sessions():
            self.client.flush()
