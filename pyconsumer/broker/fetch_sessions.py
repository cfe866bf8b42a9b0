"""Fetch sessions, the broker's side (KIP-227): the broker remembers a client's partitions and sends only changes.

A *full* request lists all partitions. With epoch 0 it asks for a session. With epoch -1 it wants none, or ends one.
An *incremental* request has epoch n, which must be the one after the last, and lists changes to the session. Its
response leaves out partitions that have not changed.
"""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from pyconsumer.errors import (
    FetchSessionIdNotFoundError,
    FetchSessionTopicIdError,
    InvalidFetchSessionEpochError,
)
from pyconsumer.protocol.messages.fetch import FetchPartition, FetchRequest, PartitionData

__all__ = ["CachedPartition", "FetchContext", "FetchSessions", "PartitionKey"]

FINAL_EPOCH: Final = -1
INITIAL_EPOCH: Final = 0
#: A session that was not used for this long may be evicted to make room for a new one.
_EVICT_AFTER_S: Final = 120.0

#: Topic name (before version 13, else empty), topic id, partition.
PartitionKey = tuple[str, bytes, int]


@dataclass(slots=True)
class CachedPartition:
    """A partition of a fetch session: the client's request for it, and the state that was sent last."""

    wanted: FetchPartition
    high_watermark: int = -1
    log_start_offset: int = -1

    def want(self, wanted: FetchPartition) -> None:
        """Replace the client's request for this partition."""
        self.wanted = wanted

    def is_news(self, data: PartitionData) -> bool:
        """Return whether the data read from the partition has news for the client. If so, remember the data as sent."""
        news = (
            bool(data.records)
            or data.high_watermark != self.high_watermark
            or data.log_start_offset != self.log_start_offset
            or data.preferred_read_replica >= 0
            or data.diverging_epoch.epoch >= 0
        )
        self.high_watermark = data.high_watermark
        self.log_start_offset = data.log_start_offset
        if data.error_code:
            self.high_watermark = -1  # so that the next response without the error is sent, too
            news = True
        return news


class _Session:
    __slots__ = ("by_id", "epoch", "last_used", "partitions", "session_id")

    def __init__(self, session_id: int, by_id: bool, now: float) -> None:
        self.session_id = session_id
        self.by_id = by_id
        self.epoch = 1
        self.last_used = now
        self.partitions: OrderedDict[PartitionKey, CachedPartition] = OrderedDict()

    def use(self, now: float) -> None:
        """Advance to the next epoch after a request was accepted."""
        self.epoch = self.epoch + 1 if self.epoch < 0x7FFFFFFF else 1
        self.last_used = now


class FetchContext:
    """The partitions of one fetch request, in the order in which they are read."""

    def __init__(
        self, partitions: list[tuple[PartitionKey, CachedPartition]], session: _Session | None, full: bool
    ) -> None:
        self.partitions = partitions
        self._session = session
        self._full = full

    @property
    def session_id(self) -> int:
        return self._session.session_id if self._session is not None else 0

    @property
    def is_new(self) -> bool:
        """Return whether this request has begun the session."""
        return self._full and self._session is not None

    def select(self, found: Iterable[tuple[PartitionKey, PartitionData]]) -> list[tuple[PartitionKey, PartitionData]]:
        """Return the data that must be sent.

        Partitions with records go to the end of the order for the next request.
        """
        session = self._session
        if session is None:
            return list(found)
        sent = []
        for key, data in found:
            cached = session.partitions.get(key)
            if cached is None:
                continue
            if cached.is_news(data) or self._full:
                sent.append((key, data))
                if data.records:
                    session.partitions.move_to_end(key)
        return sent


class FetchSessions:
    """The fetch sessions of one broker.

    Args:
        slots: the largest number of sessions (``max.incremental.fetch.session.cache.slots``). A client that gets no
            session sends full requests.
    """

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._sessions: OrderedDict[int, _Session] = OrderedDict()
        self._random = random.Random()

    def __len__(self) -> int:
        return len(self._sessions)

    def context(self, request: FetchRequest, version: int, now: float) -> FetchContext:
        """Return the partitions that a request asks for.

        Raises:
            FetchSessionIdNotFoundError, InvalidFetchSessionEpochError, FetchSessionTopicIdError: the client must begin
                a new session.
        """
        by_id = version >= 13
        if request.session_epoch in (FINAL_EPOCH, INITIAL_EPOCH):
            if request.session_id:
                self._sessions.pop(request.session_id, None)
            listed = [(key, CachedPartition(wanted)) for key, wanted in dict(_listed(request)).items()]
            session = None
            if request.session_epoch == INITIAL_EPOCH and listed:
                session = self._create(by_id, len(listed), now)
            if session is not None:
                session.partitions.update(listed)
            return FetchContext(listed, session, full=True)
        return self._continue(request, by_id, now)

    def _continue(self, request: FetchRequest, by_id: bool, now: float) -> FetchContext:
        session = self._sessions.get(request.session_id)
        if session is None:
            raise FetchSessionIdNotFoundError(f"there is no fetch session {request.session_id}")
        if session.by_id != by_id:
            raise FetchSessionTopicIdError("the session names topics in another way than the request")
        if session.epoch != request.session_epoch:
            raise InvalidFetchSessionEpochError(
                f"fetch session {request.session_id} expects epoch {session.epoch}, not {request.session_epoch}"
            )
        for key, wanted in _listed(request):
            cached = session.partitions.get(key)
            if cached is None:
                session.partitions[key] = CachedPartition(wanted)
            else:
                cached.want(wanted)
        for topic in request.forgotten_topics_data:
            for index in topic.partitions:
                session.partitions.pop((topic.topic, topic.topic_id, index), None)
        session.use(now)
        self._sessions.move_to_end(session.session_id)
        if not session.partitions:
            del self._sessions[session.session_id]
            return FetchContext([], None, full=False)
        return FetchContext(list(session.partitions.items()), session, full=False)

    def unanswered(self, context: FetchContext) -> int:
        """Return the session's id for a response without partitions, because the client is throttled.

        A session that the request has begun is dropped. The client begins another one.
        """
        if context.is_new:
            self._sessions.pop(context.session_id, None)
            return 0
        return context.session_id

    def _create(self, by_id: bool, size: int, now: float) -> _Session | None:
        if len(self._sessions) >= self._slots and not self._evict(size, now):
            return None
        session_id = self._random.randint(1, 0x7FFFFFFF)
        while session_id in self._sessions:
            session_id = self._random.randint(1, 0x7FFFFFFF)
        session = self._sessions[session_id] = _Session(session_id, by_id, now)
        return session

    def _evict(self, size: int, now: float) -> bool:
        """Make room by evicting the least recently used session if it is old, or a smaller one."""
        if not self._sessions:
            return False
        oldest = next(iter(self._sessions.values()))
        if now - oldest.last_used > _EVICT_AFTER_S:
            del self._sessions[oldest.session_id]
            return True
        smallest = min(self._sessions.values(), key=lambda session: len(session.partitions))
        if len(smallest.partitions) < size:
            del self._sessions[smallest.session_id]
            return True
        return False


def _listed(request: FetchRequest) -> list[tuple[PartitionKey, FetchPartition]]:
    return [
        ((topic.topic, topic.topic_id, wanted.partition), wanted)
        for topic in request.topics
        for wanted in topic.partitions
    ]
