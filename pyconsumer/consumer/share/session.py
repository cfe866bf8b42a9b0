"""A share session with one broker (KIP-932). A core: no I/O, no clock.

Rules

1. A broker keeps a session for each member: the partitions that it wants, and an epoch. The first request opens it
   (epoch 0), each later one has the next epoch, and epoch -1 closes it. So one request at a time is in flight.
2. A request names changes only. The first one names all partitions, and carries no acknowledgement: there is nothing to
   acknowledge in a session that is about to be opened.
3. If the broker does not know the session, or expects another epoch, or the request got no response, the session is
   lost: the next request opens a new one. The broker releases what was acquired in a session that it drops. So what was
   not acknowledged by then fails with the error, and the records are delivered again.
4. Acknowledgements that are queued leave with the next request, whether it fetches or not.
5. A partition of a topic that was created again has another topic id, and so is another partition.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from pyconsumer.consumer.share.acknowledgements import Piece, Source, without_overlaps
from pyconsumer.errors import Errors, KafkaError
from pyconsumer.protocol.messages.share_fetch import CLOSE_SESSION_EPOCH, OPEN_SESSION_EPOCH
from pyconsumer.structs import AcknowledgeType, TopicPartition

__all__ = ["LOST_SESSION", "Key", "Queued", "ShareSession", "Ticket"]

#: Errors of a whole response after which the session is lost (rule 3).
LOST_SESSION: Final = frozenset(
    (Errors.SHARE_SESSION_NOT_FOUND, Errors.INVALID_SHARE_SESSION_EPOCH, Errors.SHARE_SESSION_LIMIT_REACHED)
)


class Key(NamedTuple):
    """A partition of a topic that has this id."""

    topic_id: bytes
    topic_partition: TopicPartition


class Ticket:
    """The outcome of a commit: counts what is not acknowledged yet, and keeps an error for each partition."""

    def __init__(self) -> None:
        self._pending: Counter[TopicPartition] = Counter()
        self.results: dict[TopicPartition, KafkaError | None] = {}

    @property
    def pending(self) -> int:
        """Return the number of acknowledgements without an outcome."""
        return self._pending.total()

    def unfinished(self) -> list[TopicPartition]:
        """Return the partitions with acknowledgements without an outcome."""
        return [tp for tp, count in self._pending.items() if count]

    def add(self, tp: TopicPartition) -> None:
        """Count one more acknowledgement."""
        self._pending[tp] += 1
        self.results.setdefault(tp, None)

    def end(self, tp: TopicPartition, error: KafkaError | None) -> None:
        """Record the outcome of one acknowledgement."""
        self._pending[tp] -= 1
        self.results[tp] = self.results.get(tp) or error


class Queued(NamedTuple):
    """Acknowledgements of one partition on their way to the broker."""

    source: Source
    pieces: list[Piece]
    ticket: Ticket | None = None


class ShareSession:
    """The session with one broker. See the module.

    Attributes:
        node_id: the broker.
        epoch: of the next request.
        partitions: those that the broker has in the session.
        is_busy: True while a request is in flight.
        queue: acknowledgements for the next request.
        retry_at: the earliest time of the next request (monotonic seconds).
        failures: how many requests in a row have failed.
    """

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.epoch = OPEN_SESSION_EPOCH
        self.partitions: dict[Key, None] = {}
        self._wanted: Mapping[Any, Key] | None = None
        self.is_busy = False
        self.queue: list[Queued] = []
        self.retry_at = -math.inf
        self.failures = 0

    @property
    def is_open(self) -> bool:
        """Return whether the broker has a session of ours, as far as we know."""
        return self.epoch > OPEN_SESSION_EPOCH

    @property
    def has_renewals(self) -> bool:
        """Return whether a renewal is queued."""
        return any(piece.kind == AcknowledgeType.RENEW for queued in self.queue for piece in queued.pieces)

    def enqueue(self, queued: Queued) -> None:
        """Queue acknowledgements for the next request."""
        self.queue.append(queued)

    def want(self, wanted: Mapping[Any, Key]) -> tuple[list[Key], list[Key]]:
        """Change the partitions of the session. Return the ones to add and the ones to forget (rule 2).

        Args:
            wanted: all that the session should have. It is not changed later, so the same object adds and forgets none.
        """
        if wanted is self._wanted:
            return [], []
        self._wanted = wanted
        keys = dict.fromkeys(wanted.values())
        added = [key for key in keys if key not in self.partitions]
        forgotten = [key for key in self.partitions if key not in keys]
        self.partitions = keys
        return added, forgotten

    def take_queue(self) -> list[Queued]:
        """Take the acknowledgements for a request out of the queue. Those that would name an offset twice stay."""
        taken: list[Queued] = []
        pieces: dict[Source, list[Piece]] = {}
        left: list[Queued] = []
        for queued in self.queue:
            before = pieces.get(queued.source, [])
            found, again = without_overlaps((*before, *queued.pieces))
            if again:
                left.append(queued)
                continue
            pieces[queued.source] = found
            taken.append(queued)
        self.queue = left
        return taken

    def drop_queue(self) -> list[Queued]:
        """Take all acknowledgements out of the queue."""
        queue, self.queue = self.queue, []
        return queue

    def begin(self, *, close: bool = False) -> int:
        """Record that a request is sent now. Return its epoch."""
        self.is_busy = True
        return CLOSE_SESSION_EPOCH if close else self.epoch

    def on_success(self) -> None:
        """Record that the broker has processed the request."""
        self.is_busy = False
        self.failures = 0
        self.retry_at = -math.inf
        self._advance()

    def on_refusal(self, code: int, retry_at: float) -> None:
        """Record that the broker has answered with an error. ``retry_at``: the time of the next request."""
        self.is_busy = False
        self.failures += 1
        self.retry_at = retry_at
        if code in LOST_SESSION or not self.is_open:
            self.reset()  # a session that was not opened has no partitions: the next request names all of them again
        else:
            self._advance()

    def on_unsent(self) -> None:
        """Record that a request was never sent, because the broker does not have its version."""
        self.is_busy = False

    def on_failure(self, retry_at: float) -> None:
        """Record that a request got no response (rule 3)."""
        self.is_busy = False
        self.failures += 1
        self.retry_at = retry_at
        self.reset()

    def _advance(self) -> None:
        self.epoch = self.epoch + 1 if self.epoch < 0x7FFFFFFF else 1

    def reset(self) -> None:
        """Forget the session."""
        self.epoch = OPEN_SESSION_EPOCH
        self.partitions = {}
        self._wanted = None
