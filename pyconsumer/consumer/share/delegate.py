"""``ShareDelegate``: the work of a share consumer's calls, as generators. Any driver of ``Wait`` can run them.

Rules

1. A poll first settles the records of the poll before. Implicit mode accepts them. Explicit mode queues what the
   application has acknowledged, and refuses the poll if a record is left.
2. Then, until it has records: the group's work, callbacks, errors, and what can be returned, in this order: records
   that a Ctrl-C kept from the application, renewed records, buffered records. Only if there are none, it fetches.
   Records whose lock has expired by our clock are dropped: another member may have them by now.
3. While a renewal is on its way, nothing is fetched (as in Java 4.3.1). Renewed records are returned alone.
4. No wait and no error comes between the take of records and their return. So a wakeup or a cancelled call keeps them.
5. Iteration takes the records of a poll one by one. What it has not yielded when another call comes is taken back: it
   is returned again, and no commit accepts it. ``close`` accepts what was yielded before the last record: asking for a
   record says that the ones before are processed.
6. ``close`` sends what is acknowledged and ends the sessions, by which the brokers release everything else. In implicit
   mode the records of the last poll are released: nobody has said that they were processed. Then it leaves the group.
7. Every step ends at its deadline, with dead brokers, too.
8. A record that is released in its last delivery goes to the dead-letter sink, if there is one (:mod:`.last_delivery`).
9. Workers *hold* the records of many polls. Their polls settle acknowledged records, in any mode, and leave the
   others. While they are full, polls neither take nor fetch records. They renew locks without a second delivery. If a
   held record comes again, its lock had ended, and a fetch that waited at the broker has taken it. The earlier delivery
   ends then. Otherwise its outcome would count for the later one.
10. An acknowledgement is queued before its record leaves the delivery. After Ctrl-C between the two, the record leaves
    it, and nothing is queued twice.
11. A commit waits for all that an earlier commit has queued and not waited for, dead letters included.
12. With ``share_acquire_mode="batch_optimized"`` a poll without a number of records returns all that a response of a
    partition has. The broker ends it with the batch that reaches ``max_poll_records``. So does Java's share consumer.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Self

from pyconsumer.clock import Clock
from pyconsumer.consumer.arrivals import Arrivals
from pyconsumer.consumer.deserializers import Deserialization
from pyconsumer.consumer.network_client import ConsumerNetworkClient
from pyconsumer.consumer.records import ConsumerRecords
from pyconsumer.consumer.share.acknowledgements import GAP, Delivery, Piece, not_delivered
from pyconsumer.consumer.share.acquired_fetch import Convert
from pyconsumer.consumer.share.config import SHARE_CONSUMER_SETTINGS
from pyconsumer.consumer.share.context import ShareContext
from pyconsumer.consumer.share.coordinator import ShareCoordinator
from pyconsumer.consumer.share.fetcher import ShareFetcher
from pyconsumer.consumer.share.group_settings import GroupSettings
from pyconsumer.consumer.share.last_delivery import LastDeliveries, is_sink
from pyconsumer.consumer.share.metrics import ShareMetrics
from pyconsumer.consumer.share.session import Queued, Ticket
from pyconsumer.errors import IllegalStateError, KafkaError, KafkaTimeoutError, SchemaUnavailableError
from pyconsumer.generic import PendingError
from pyconsumer.metrics.source import windows_of
from pyconsumer.network.futures import Steps, Wait, wait_for_callback
from pyconsumer.network.metadata import Metadata
from pyconsumer.protocol.compiled import report_missing
from pyconsumer.protocol.records import ConsumerRecord
from pyconsumer.structs import AcknowledgeType, TopicPartition

__all__ = ["AcknowledgementCallback", "CommitResults", "ShareDelegate"]

_log = logging.getLogger("pyconsumer.consumer")

AcknowledgementCallback = Callable[[dict[TopicPartition, set[int]], KafkaError | None], Any]
"""Called with the offsets of each partition whose acknowledgements have ended, and with their error or None."""

CommitResults = dict[TopicPartition, KafkaError | None]
"""The outcome of a commit for each partition: None, or the error."""

_ADVICE = ". The record has been released. Set on_record_error to reject such records"


class _Move(NamedTuple):
    """Acknowledgements on their way out of a delivery (rule 10)."""

    delivery: Delivery
    pieces: list[Piece]
    queued: Queued  # those that no dead letter precedes
    letters: list[Queued]


class ShareDelegate:
    """The work of a share consumer without the waiting. See the module.

    Args:
        context: the parts of the consumer.
    """

    def __init__(self, context: ShareContext) -> None:
        self.config, self.client, self.metadata, self.clock = context
        self.metrics = ShareMetrics(self.clock.now(), windows_of(self.config))
        self.coordinator = ShareCoordinator(context)
        self.fetcher = ShareFetcher(
            context, lambda: self.coordinator.member_id, self.metrics, self._on_outcome, self._on_lost
        )
        config = self.config
        self.group = GroupSettings(context)
        self._last: LastDeliveries | None = None
        if config.is_explicit and is_sink(config.on_record_error):
            self._last = LastDeliveries(
                config.on_record_error, lambda: self.group.delivery_limit, self.client.wake_poll
            )
            self.group.want()
        self._holds = False  # rule 9
        self._is_full = False
        self.deserialization = Deserialization(
            config.key_deserializer, config.value_deserializer, config.on_record_error, advice=_ADVICE
        )
        self._convert = self.deserialization if self.deserialization.needed else None
        self._arrivals = Arrivals(self.client.wake_poll, self.clock.now)
        self.topics: frozenset[str] = frozenset()
        self._delivered: list[Delivery] = []  # to the application, and not acknowledged
        self._unseen: list[Delivery] = []  # of the last take, until the next call shows that it was returned
        self._move: _Move | None = None
        self._callback: AcknowledgementCallback | None = None
        self._outcomes: list[tuple[Queued, KafkaError | None]] = []  # for the callback
        self._assignment_id = -1

    @classmethod
    def open(cls, options: Mapping[str, Any], clock: Clock) -> Self:
        """Create all parts of a share consumer.

        Args:
            options: settings by name (see :data:`.config.SHARE_CONSUMER_SETTINGS`).
            clock: the source of time.

        Raises:
            ConfigurationError: a setting is unknown, has a wrong value, or belongs to the group on the broker.
        """
        config = SHARE_CONSUMER_SETTINGS.build(options)
        report_missing()
        metadata = Metadata.from_config(config, allow_auto_topic_creation=config.allow_auto_create_topics)
        client = ConsumerNetworkClient(config, metadata, clock=clock)
        try:
            return cls(ShareContext(config, client, metadata, clock))
        except BaseException:
            client.close()
            raise

    @property
    def grace_s(self) -> float:
        """Return how much longer than its deadline a poll may wait for a schema (seconds)."""
        return self.config.schema_timeout_ms / 1000 if self.deserialization.may_wait else 0.0

    # -- subscription ------------------------------------------------------------------------------------------------

    def subscribe(self, topics: Iterable[str]) -> None:
        """Replace the subscription. Without topics, leave the group."""
        self.topics = frozenset(topics)
        self.metadata.set_topics(self.topics)
        if self.topics:
            self.coordinator.subscribe(self.topics)
        else:
            self.coordinator.leave("the consumer was unsubscribed")

    # -- poll --------------------------------------------------------------------------------------------------------

    def fetched(
        self, deadline: float, most: int | None, *, as_bytes: bool = False
    ) -> Steps[ConsumerRecords[Any, Any] | None]:
        """Take records as soon as there are any. Return None at the deadline.

        Args:
            deadline: the end of the call (monotonic seconds).
            most: the most records. None: ``max_poll_records``, or whole batches (rule 12).
            as_bytes: True leaves out the deserializers.

        Raises:
            IllegalStateError: nothing is subscribed, or a record is not acknowledged in explicit mode.
            KafkaError: an error of the group, a fetch or a record.
        """
        if not self.topics:
            raise IllegalStateError("nothing is subscribed: call subscribe() first")
        self.coordinator.note_poll(self.clock.now())
        self._settle_poll()
        served = False
        while True:
            self.coordinator.advance()
            if self._outcomes:
                yield from self._run_callbacks()
            self._follow_assignment()
            self._serve_last()
            error = self.fetcher.take_error()
            if error is not None:
                raise error
            found = None
            fetcher = self.fetcher
            if fetcher.has_records and (fetcher.buffer or not self._is_full):  # records there would lose their lock
                found = self._take(most, None if as_bytes else self._convert)
            if found is not None:
                return found
            asked = self.group.refresh()
            waits = self._is_full or not self.group.is_settled or fetcher.buffer or fetcher.is_renewing
            sent = fetcher.send_acknowledgements() if waits else fetcher.send_fetches(self.coordinator.assignment)
            if sent or asked:
                self.client.flush()
            now = self.clock.now()
            end = self._arrivals.extended(deadline)
            if served and now >= end:
                return None
            served = True
            due = min(self.coordinator.next_due_at, fetcher.next_due_at(now), self.group.next_due_at)
            yield Wait(None, min(end, due))

    def _follow_assignment(self) -> None:
        if self._assignment_id != self.coordinator.assignment_id:
            self._assignment_id = self.coordinator.assignment_id
            self.fetcher.drop_unassigned(self.coordinator.assignment)

    def _settle_poll(self) -> None:
        """Settle the records of the poll before (rule 1)."""
        if not self._delivered:
            return
        if self.config.is_explicit and not self._holds:
            for delivery in self._delivered:
                offset = delivery.first_open
                if offset is not None:
                    raise IllegalStateError(
                        f"a record is not acknowledged: {delivery.source.topic_partition} offset {offset}. With"
                        " share_acknowledgement_mode='explicit', acknowledge every record before the next poll"
                    )
        self._settle(None)

    def _settle(self, ticket: Ticket | None) -> None:
        """Queue the acknowledgements of delivered records."""
        self._finish_move()
        for delivery in self._delivered:
            pieces = delivery.pieces(accept_rest=not self._holds and not self.config.is_explicit)
            if not pieces:
                continue
            now, last = pieces, list[Piece]()
            if self._last is not None and not self._holds:
                now, last = self._last.split(delivery, pieces)
            source = delivery.source
            letters = [Queued(source, [piece], ticket) for piece in last]
            self._move = _Move(delivery, pieces, Queued(source, now, ticket), letters)
            self._finish_move()
        self._delivered = [delivery for delivery in self._delivered if delivery.runs]

    def _finish_move(self) -> None:
        """Queue acknowledgements, then take them out of their delivery. After Ctrl-C, do the rest of it (rule 10)."""
        move = self._move
        if move is None:
            return
        if move.queued.pieces and not self.fetcher.has(move.queued):
            self.fetcher.acknowledge(move.queued)
        if self._last is not None:
            self._last.add(move.delivery, move.letters)
        move.delivery.take_out(move.pieces)
        self._move = None

    def _serve_last(self) -> None:
        """Acknowledge the records that the dead-letter sink has taken or refused (rule 8)."""
        if self._last is not None:
            self._last.serve(self._on_letter)

    def _on_letter(self, queued: Queued, error: Exception | None) -> None:
        if error is not None:
            _log.error("a record in its last delivery was released, since the dead-letter sink failed: %s", error)
            self.fetcher.keep_error(error)
        if not self.fetcher.has(queued):
            self.fetcher.acknowledge(queued)
        if queued.ticket is not None:
            queued.ticket.end(queued.source.topic_partition, None)

    def _take(self, most: int | None, convert: Convert | None) -> ConsumerRecords[Any, Any] | None:
        """Take records for the application (rules 2 to 4)."""
        fetcher = self.fetcher
        fetcher.drop_expired()
        reopened = 0
        if convert is not None and (kept := fetcher.again or fetcher.renewed):
            reopened = fetcher.reopen(kept)
        if fetcher.again:
            taken = self._unseen = fetcher.again
            fetcher.drop_again()
        elif reopened:
            taken = self._take_buffered(most, convert, reopened)
        elif fetcher.renewed:
            taken = self._unseen = fetcher.take_renewed()
        elif fetcher.is_renewing:
            return None
        else:
            taken = self._take_buffered(most, convert, len(fetcher.buffer))
        if not taken:
            return None
        places: dict[TopicPartition, int] = {}
        for delivery in taken:
            places.setdefault(delivery.source.topic_partition, len(places))
        if len(places) < len(taken):  # in the order in which the application gets the records (rule 5)
            taken.sort(key=lambda delivery: places[delivery.source.topic_partition])
        if self._holds:
            self._end_earlier(taken)
        self._delivered += taken
        if fetcher.has_queued and fetcher.buffer and fetcher.send_acknowledgements():
            self.client.flush()
        by_partition: dict[TopicPartition, list[ConsumerRecord[Any, Any]]] = {}
        for delivery in taken:
            by_partition.setdefault(delivery.source.topic_partition, []).extend(delivery.records)
        self.metrics.on_polled(by_partition)
        return ConsumerRecords(by_partition)

    def _end_earlier(self, taken: Sequence[Delivery]) -> None:
        """End the deliveries of held records that have come again (rule 9)."""
        for delivery in self._delivered:
            if any(delivery.shares_records(later) for later in taken):
                delivery.end_lock()

    def _take_buffered(self, most: int | None, convert: Convert | None, fetches: int) -> list[Delivery]:
        """Take records of the first fetches of the buffer."""
        takes_whole = most is None and not self.config.limits_records
        left = self.config.max_poll_records if most is None else most
        reopens = convert is None and not self._holds and self.deserialization.needed
        taken: list[Delivery] = []
        self._unseen = taken  # Ctrl-C in another fetch keeps what was taken of the first one
        buffer = self.fetcher.buffer
        for _ in range(fetches):
            if left <= 0:
                break
            fetch = buffer[0]
            try:
                delivery = fetch.take(fetch.size if takes_whole else left, convert, reopens=reopens)
            except PendingError as pending:
                self._arrivals.expect(pending, self.grace_s)
                buffer.rotate(-1)
                continue
            except Exception as error:
                if not taken:
                    raise
                if not isinstance(error, SchemaUnavailableError):  # the record of that one stays
                    self.fetcher.keep_error(error)
                break
            finally:
                self.fetcher.acknowledge_extra(fetch)
                if fetch.is_done:
                    buffer.remove(fetch)
            if delivery is not None:
                taken.append(delivery)
                left -= len(delivery.records)
        return taken

    # -- acknowledgements --------------------------------------------------------------------------------------------

    def acknowledge(self, tp: TopicPartition, offset: int, kind: AcknowledgeType) -> None:
        """Acknowledge one delivered record. It is sent by the next poll or commit.

        Raises:
            IllegalStateError: the mode is implicit, or the record was not delivered by the last poll.
        """
        self._refuse_implicit()
        for delivery in self._delivered:
            if delivery.source.topic_partition == tp and delivery.holds(offset):
                delivery.choose(offset, kind)
                return
        raise not_delivered(tp, offset)

    def _refuse_implicit(self) -> None:
        if not self.config.is_explicit:
            raise IllegalStateError(
                "records are accepted by the next poll or commit: set share_acknowledgement_mode='explicit' to"
                " acknowledge them one by one"
            )

    def acknowledge_rows(self, rows: Mapping[tuple[TopicPartition, AcknowledgeType], Sequence[int]]) -> None:
        """Acknowledge many delivered records, or none if there is an error.

        Args:
            rows: offsets by partition and type.

        Raises:
            IllegalStateError: as for :meth:`acknowledge`.
        """
        self._refuse_implicit()
        found: list[tuple[Delivery, list[int], AcknowledgeType]] = []
        for (tp, kind), offsets in rows.items():
            left = list(offsets)
            for delivery in self._delivered:
                if not left:
                    break
                if delivery.source.topic_partition == tp:
                    held = set(delivery.offsets)
                    found.append((delivery, [offset for offset in left if offset in held], kind))
                    left = [offset for offset in left if offset not in held]
            if left:
                raise not_delivered(tp, left[0])
        for delivery, offsets, kind in found:
            delivery.choose_all(offsets, kind)

    def last_taken(self) -> list[Delivery]:
        """Return the deliveries that the last poll has taken."""
        return self._unseen

    def delivery_count(self, tp: TopicPartition, offset: int) -> int:
        """Return how often a record of the last poll was delivered, this time included. 0 if it is not one of them."""
        for delivery in self._delivered:
            if delivery.source.topic_partition == tp:
                count = delivery.delivery_count(offset)
                if count:
                    return count
        return 0

    def commit(self, deadline: float) -> Steps[CommitResults]:
        """Send all acknowledgements, and wait for their outcomes."""
        ticket = Ticket()
        self._settle(ticket)
        fetcher = self.fetcher
        fetcher.adopt(ticket)
        if self._last is not None:
            self._last.adopt(ticket)
        while ticket.pending:
            self._serve_last()
            if fetcher.send_acknowledgements():
                self.client.flush()
            now = self.clock.now()
            if now >= deadline:
                break
            yield Wait(None, min(deadline, fetcher.next_due_at(now)))
        if ticket.pending:
            late = KafkaTimeoutError("the acknowledgements were not confirmed in time, they may still be")
            for tp in ticket.unfinished():
                ticket.results[tp] = ticket.results[tp] or late
        if self._outcomes:
            yield from self._run_callbacks()
        return dict(ticket.results)

    def commit_async(self) -> None:
        """Send all acknowledgements without waiting."""
        self._settle(None)
        self._serve_last()
        self.fetcher.send_acknowledgements()
        self.client.flush()

    def set_callback(self, callback: AcknowledgementCallback | None) -> None:
        """Set the function that is called with the outcome of acknowledgements."""
        self._callback = callback
        if callback is None:
            self._outcomes = []

    def _on_outcome(self, queued: Queued, error: KafkaError | None) -> None:
        count = sum(piece.size for piece in queued.pieces if piece.kind != GAP)
        now = self.clock.now()
        (self.metrics.acknowledged if error is None else self.metrics.refused).add(count, now)
        if self._callback is not None and count:
            self._outcomes.append((queued, error))

    def _run_callbacks(self) -> Steps[None]:
        """Call the callback: once for all that succeeded, and once for each error. Raise its first error at the end."""
        outcomes, self._outcomes = self._outcomes, []
        found: dict[KafkaError | None, dict[TopicPartition, set[int]]] = {}
        for queued, error in outcomes:
            offsets = found.setdefault(error, {}).setdefault(queued.source.topic_partition, set())
            for piece in queued.pieces:
                if piece.kind != GAP:
                    offsets.update(range(piece.first, piece.last + 1))
        failure: Exception | None = None
        for error, by_partition in found.items():
            if self._callback is not None:
                try:
                    yield from wait_for_callback(self._callback(by_partition, error))
                except Exception as raised:
                    failure = failure or raised
        if failure is not None:
            raise failure

    def _on_lost(self, node_id: int) -> None:
        """Note that the locks of all records from a node have ended, with its session."""
        for delivery in self._delivered:
            if delivery.source.node_id == node_id:
                delivery.end_lock()

    # -- records that workers hold (rule 9) --------------------------------------------------------------------------

    def hold(self) -> None:
        """Begin to hold the records of many polls. Records stay bytes meanwhile.

        Raises:
            IllegalStateError: a record of an earlier poll is not acknowledged, in explicit mode.
        """
        self._settle_poll()
        self._holds = True
        self._convert = None
        self.group.want()

    def end_hold(self) -> None:
        """End it. What is not acknowledged stays acquired until its lock expires."""
        self._holds = self._is_full = False
        self._convert = self.deserialization if self.deserialization.needed else None
        self._delivered = []

    def set_full(self, is_full: bool) -> None:
        """Say whether polls leave the records where they are."""
        self._is_full = is_full

    def take_unseen(self) -> list[Delivery]:
        """Return the records that the last poll has taken, once."""
        taken, self._unseen = self._unseen, []
        return taken

    def held(self) -> list[Delivery]:
        """Queue acknowledgements, and return the deliveries with records that have none."""
        self._settle(None)
        return self._delivered

    def renew(self, delivery: Delivery) -> None:
        """Renew the lock of the records that are not acknowledged, without a second delivery."""
        self.fetcher.acknowledge(Queued(delivery.source, delivery.renewal()))

    def drop(self, deliveries: Collection[Delivery]) -> None:
        """Forget records whose lock has ended."""
        self._delivered = [each for each in self._delivered if each not in deliveries]

    # -- iteration and interrupts ------------------------------------------------------------------------------------

    def give_back(self, unyielded: int) -> None:
        """Take the last records of the last poll back, because iteration has not yielded them (rule 5)."""
        back: list[Delivery] = []
        for delivery in reversed(self._delivered):
            if not unyielded:
                break
            count = min(unyielded, len(delivery.records))
            rest = delivery.split(delivery.records[-count].offset)
            if rest is not None:
                back.append(rest)
            unyielded -= count
        self._delivered = [delivery for delivery in self._delivered if delivery.runs]
        self.fetcher.keep_again(back[::-1])

    def accept_before(self, record: ConsumerRecord[Any, Any]) -> None:
        """Accept the records that iteration yielded before one, in implicit mode (rule 5)."""
        if self.config.is_explicit:
            return
        tp = TopicPartition(record.topic, record.partition)
        for at, delivery in enumerate(self._delivered):
            if delivery.source.topic_partition == tp and delivery.holds(record.offset):
                rest = delivery.split(record.offset)
                kept = ([] if rest is None else [rest]) + self._delivered[at + 1 :]
                self._delivered = self._delivered[: at + 1]
                self._settle(None)
                self._delivered = kept
                return

    def note_returned(self) -> None:
        """Record that the records of the last poll have reached the application."""
        self._unseen = []

    def on_interrupt(self, error: BaseException) -> None:
        """Recover from a poll that raised. After Ctrl-C, records that did not reach the application are kept."""
        if isinstance(error, Exception):
            return
        self.keep_unseen()
        self.recover()

    def keep_unseen(self) -> None:
        """Let the next poll return the records of the last take, which did not reach the application."""
        unseen, self._unseen = self._unseen, []
        self._delivered = [delivery for delivery in self._delivered if delivery not in unseen]
        self.fetcher.keep_again(unseen)

    def recover(self) -> None:
        """Repair the state after Ctrl-C, without I/O."""
        self._finish_move()
        if self._last is not None:
            self._last.recover(self._on_letter)
        self.group.recover()
        self.coordinator.recover()

    # -- the end -----------------------------------------------------------------------------------------------------

    def unsubscribe(self) -> None:
        """Send what is acknowledged, leave the group and drop the subscription."""
        if self.config.is_explicit:
            self._settle(None)
            self._serve_last()
        if self.fetcher.send_acknowledgements():
            self.client.flush()
        self.subscribe(())

    def close(self, deadline: float) -> Steps[None]:
        """Send what is acknowledged, end the sessions and leave the group (rule 6)."""
        self.fetcher.drop_again()
        if self.config.is_explicit:
            self._settle(None)
        self._delivered = []
        fetcher = self.fetcher
        fetcher.buffer.clear()
        until = -math.inf  # after Ctrl-C nothing is waited for
        try:
            now = self.clock.now()
            letters_until = now + (deadline - now) / 2  # the other half is for acknowledgements and the sessions
            while self._last and self.clock.now() < letters_until:
                self._serve_last()
                if fetcher.send_acknowledgements():
                    self.client.flush()
                if self._last:
                    yield Wait(None, letters_until)
            if self._last:
                _log.warning("%d records in their last delivery may have no dead letter", len(self._last))
            closing: set[int] = set()
            while self.clock.now() < deadline:
                for session in fetcher.sessions.values():
                    if session.is_open and not session.is_busy and session.node_id not in closing:
                        closing.add(session.node_id)
                        fetcher.send_acknowledgement(session, close=True)
                self.client.flush()
                if not fetcher.is_busy:
                    break
                yield Wait(None, deadline)
            fetcher.drop_queued()
            if self._outcomes and self.clock.now() < deadline:
                yield from self._run_callbacks()
            until = deadline
        except Exception:
            until = deadline
            raise
        finally:
            yield from self.coordinator.close(until)

    def abandon(self, reason: str) -> None:
        """Let the heartbeat thread leave the group and end. This returns at once, and takes no lock."""
        self.coordinator.abandon(reason)
