"""Records that the application released in their last delivery: they go to the dead-letter sink.

The broker archives such a record when it is released, and would not be seen again.

Rules

1. A record is in its last delivery if it was delivered as often as the group allows. If ``on_record_error`` is a sink,
   a record that is released then goes to the sink. It is rejected when the sink has it. If the sink fails, the record
   is released, and the next poll raises the error.
2. The lock is kept meanwhile. Polls and commits continue, and a commit waits for the outcome.
3. A sink that takes records in the background has a bounded number of them at a time. The others wait here.
4. A process that dies in the last delivery sends no dead letter. The same holds for records whose lock expires, and for
   those that ``close`` releases, since they were not acknowledged.
5. Ctrl-C may come between any two steps. The rest is done by :meth:`LastDeliveries.recover`, with the same
   acknowledgement, so that its receiver can see whether it has it.

This is a core: the sink is called here, and its future is looked at. No I/O, no clock.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, NamedTuple

from pyconsumer.consumer.share.acknowledgements import Delivery, Piece
from pyconsumer.consumer.share.session import Queued, Ticket
from pyconsumer.errors import LastDeliveryError
from pyconsumer.generic import Arrival
from pyconsumer.protocol.records import ConsumerRecord
from pyconsumer.structs import AcknowledgeType

__all__ = ["MOST_LETTERS", "LastDeliveries", "is_sink", "last_delivery_error"]

#: The most records that a sink has at a time, each perhaps in a thread of its own.
MOST_LETTERS: Final = 16


def is_sink(policy: Any) -> bool:
    """Return whether ``on_record_error`` is a dead-letter sink."""
    return hasattr(policy, "begin") or hasattr(policy, "send")


def last_delivery_error(delivery: Delivery, record: ConsumerRecord[Any, Any], cause: str) -> LastDeliveryError:
    """Return the error of a record whose last delivery ends.

    Args:
        delivery: the delivery of the record.
        record: has the bytes that came.
        cause: why it ends, behind "the record".
    """
    tp, offset = delivery.source.topic_partition, record.offset
    count = delivery.delivery_count(offset)
    return LastDeliveryError(
        f"the record {tp} at offset {offset} {cause} in delivery {count}, its last one",
        delivery_count=count,
        topic_partition=tp,
        offset=offset,
        timestamp=record.timestamp,
        key=record.key,
        value=record.value,
        headers=record.headers,
    )


class _Letter:
    """A record for the sink: its delivery, the acknowledgement to come, and what the sink returned, once it has it."""

    __slots__ = ("delivery", "queued", "sent")

    def __init__(self, delivery: Delivery, queued: Queued) -> None:
        self.delivery = delivery
        self.queued = queued
        self.sent: Arrival | None = None

    def wait_with(self, ticket: Ticket) -> None:
        """Let a commit wait for it."""
        ticket.add(self.queued.source.topic_partition)
        self.queued = self.queued._replace(ticket=ticket)

    def begin(self, sink: Any, wake: Callable[[], object]) -> None:
        """Give the record to the sink, once."""
        if self.sent is None:
            self.sent = self._given(sink, wake)

    def _given(self, sink: Any, wake: Callable[[], object]) -> Arrival:
        done = Future[None]()
        (piece,) = self.queued.pieces
        try:
            record = self.delivery.raw(piece.first)
            error = last_delivery_error(self.delivery, record, "was released")
            begin = getattr(sink, "begin", None)
            if begin is not None:
                sent: Arrival = begin(error)
                sent.add_done_callback(lambda _: wake())
                return sent
            sink.send(error)
        except Exception as failure:
            done.set_exception(failure)
        else:
            done.set_result(None)
        return done


class _Ending(NamedTuple):
    """A record that the sink has taken, or refused with an error, on its way out (rule 5)."""

    letter: _Letter
    queued: Queued
    failure: Exception | None


class LastDeliveries:
    """Records on their way to the sink. See the module.

    Args:
        sink: ``on_record_error``, which is a sink.
        limit: returns how often a record is delivered at most.
        wake: is called in any thread when the sink has taken a record, or has failed.
    """

    def __init__(self, sink: Any, limit: Callable[[], int], wake: Callable[[], object]) -> None:
        self._sink = sink
        self._limit = limit
        self._wake = wake
        self._letters: list[_Letter] = []
        self._ending: _Ending | None = None

    def __len__(self) -> int:
        """Return how many records are on their way."""
        return len(self._letters)

    def split(self, delivery: Delivery, pieces: list[Piece]) -> tuple[list[Piece], list[Piece]]:
        """Return the pieces to acknowledge now, and a piece for each record that is for the sink."""
        limit = self._limit()
        now: list[Piece] = []
        last: list[Piece] = []
        for piece in pieces:
            if piece.kind != AcknowledgeType.RELEASE:
                now.append(piece)
                continue
            for offset in range(piece.first, piece.last + 1):
                goes = delivery.delivery_count(offset) >= limit
                (last if goes else now).append(piece._replace(first=offset, last=offset))
        return now, last

    def add(self, delivery: Delivery, several: list[Queued]) -> None:
        """Take over acknowledgements of single records that are for the sink, unless they are here."""
        for queued in several:
            if all(letter.queued is not queued for letter in self._letters):
                if queued.ticket is not None:
                    queued.ticket.add(queued.source.topic_partition)
                self._letters.append(_Letter(delivery, queued))

    def adopt(self, ticket: Ticket) -> None:
        """Let a commit wait for all records. No earlier commit waits for them any more."""
        for letter in self._letters:
            if letter.queued.ticket is not ticket:
                letter.wait_with(ticket)

    def serve(self, acknowledge: Callable[[Queued, Exception | None], object]) -> None:
        """Give records to the sink, and look at those that it has (rule 3).

        Args:
            acknowledge: is called for each record that the sink has taken, or refused with an error.
        """
        while True:
            for letter in self._letters[:MOST_LETTERS]:
                letter.begin(self._sink, self._wake)
            ended = [
                letter for letter in self._letters[:MOST_LETTERS] if letter.sent is not None and letter.sent.done()
            ]
            if not ended:
                return
            for letter in ended:
                self._end(letter, acknowledge)

    def _end(self, letter: _Letter, acknowledge: Callable[[Queued, Exception | None], object]) -> None:
        assert letter.sent is not None
        kind, failure = AcknowledgeType.REJECT, None
        try:
            letter.sent.result()
        except Exception as error:
            kind, failure = AcknowledgeType.RELEASE, error
        queued = letter.queued
        pieces = [piece._replace(kind=kind) for piece in queued.pieces]
        self._ending = _Ending(letter, queued._replace(pieces=pieces), failure)
        self.recover(acknowledge)

    def recover(self, acknowledge: Callable[[Queued, Exception | None], object]) -> None:
        """Do the rest of what Ctrl-C has interrupted, if it has (rule 5).

        Args:
            acknowledge: as for :meth:`serve`. It may get an acknowledgement again that it has.
        """
        ending = self._ending
        if ending is None:
            return
        acknowledge(ending.queued, ending.failure)
        if ending.letter in self._letters:
            self._letters.remove(ending.letter)
        self._ending = None
