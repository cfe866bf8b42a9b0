"""Records that the application released in their last delivery: they go to the dead-letter sink.

The broker archives such a record when it is released, and would not be seen again.

Rules

1. A record is in its last delivery if it was delivered as often as the group allows. If ``on_record_error`` is a sink,
   a record that is released then goes to the sink. It is rejected when the sink has it. If the sink fails, the record
   is released, and the next poll raises the error.
2. The lock is kept meanwhile. Polls and commits continue, and a commit waits for the outcome.
3. A process that dies in the last delivery sends no dead letter. The same holds for records whose lock expires, and for
   those that ``close`` releases, since they were not acknowledged.

This is a core: the sink is called here, and its future is looked at. No I/O, no clock.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from pyconsumer.consumer.share.acknowledgements import Delivery, Piece
from pyconsumer.consumer.share.session import Queued, Ticket
from pyconsumer.errors import LastDeliveryError
from pyconsumer.generic import Arrival
from pyconsumer.structs import AcknowledgeType

__all__ = ["LastDeliveries", "is_sink"]


def is_sink(policy: Any) -> bool:
    """Return whether ``on_record_error`` is a dead-letter sink."""
    return hasattr(policy, "begin") or hasattr(policy, "send")


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
        self._pending: list[tuple[Queued, Arrival]] = []

    @property
    def is_pending(self) -> bool:
        """Return whether a record is on its way."""
        return bool(self._pending)

    def take_out(self, delivery: Delivery, pieces: list[Piece], ticket: Ticket | None) -> list[Piece]:
        """Send records to the sink that are released in their last delivery. Return the pieces to acknowledge now."""
        limit = self._limit()
        left: list[Piece] = []
        for piece in pieces:
            if piece.kind != AcknowledgeType.RELEASE:
                left.append(piece)
                continue
            for offset in range(piece.first, piece.last + 1):
                one = piece._replace(first=offset, last=offset)
                if delivery.delivery_count(offset) < limit:
                    left.append(one)
                    continue
                if ticket is not None:
                    ticket.add(delivery.source.topic_partition)
                self._pending.append((Queued(delivery.source, [one], ticket), self._begin(delivery, offset)))
        return left

    def _begin(self, delivery: Delivery, offset: int) -> Arrival:
        done = Future[None]()
        try:
            record = delivery.raw(offset)
            count = delivery.delivery_count(offset)
            tp = delivery.source.topic_partition
            error = LastDeliveryError(
                f"the record {tp} at offset {offset} was released in delivery {count}, its last one",
                delivery_count=count,
                topic_partition=tp,
                offset=offset,
                timestamp=record.timestamp,
                key=record.key,
                value=record.value,
                headers=record.headers,
            )
            begin = getattr(self._sink, "begin", None)
            if begin is not None:
                sent: Arrival = begin(error)
                sent.add_done_callback(lambda _: self._wake())
                return sent
            self._sink.send(error)
        except Exception as failure:
            done.set_exception(failure)
        else:
            done.set_result(None)
        return done

    def adopt(self, ticket: Ticket) -> None:
        """Let a commit wait for records that no commit waits for."""
        for at, (queued, sent) in enumerate(self._pending):
            if queued.ticket is None:
                ticket.add(queued.source.topic_partition)
                self._pending[at] = queued._replace(ticket=ticket), sent

    def take_ended(self) -> tuple[list[Queued], list[Exception]]:
        """Return acknowledgements of records whose outcome is known, and the errors of those that the sink refused."""
        ended: list[Queued] = []
        errors: list[Exception] = []
        pending, self._pending = self._pending, []
        for queued, sent in pending:
            if not sent.done():
                self._pending.append((queued, sent))
                continue
            kind = AcknowledgeType.REJECT
            try:
                sent.result()
            except Exception as error:
                errors.append(error)
                kind = AcknowledgeType.RELEASE
            ended.append(queued._replace(pieces=[piece._replace(kind=kind) for piece in queued.pieces]))
        return ended, errors
