"""The client's side of a fetch session with one broker (KIP-227, KIP-516).

A core: it plans the content of requests and checks responses. It has no clock and no positions, and does no I/O.

Rules

1. A session is (id, epoch). (0, 0) requests everything and a new session. (id, n > 0) sends only the changes.
   (id, 0) closes the session ``id`` and opens a new one. Epoch -1 closes it and opens none.
2. After an accepted full response with a session id the next epoch is 1, then 2, 3, ... and 1 again after 2147483647.
   An accepted response with id 0 means that the broker keeps no session: back to (0, 0).
3. FETCH_SESSION_ID_NOT_FOUND: the broker evicted the session, (0, 0). Any other error, a response that does not match
   the request, or a lost connection: (id, 0). Such a response is rejected as a whole.
4. A full response contains exactly the requested partitions, an incremental one only partitions of the session. An
   empty full response with a throttle time is a throttle signal.
5. Topic ids are used if every topic of the session has one. When that changes, a new session is opened. A topic that
   was deleted and created again has another id: one request forgets the old id and adds the new one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from operator import itemgetter
from typing import Final, NamedTuple

from pyconsumer.errors import Errors, error_name
from pyconsumer.protocol.messages.fetch import FetchResponse, PartitionData
from pyconsumer.protocol.primitives import ZERO_UUID, uuid_to_str
from pyconsumer.protocol.requests.fetch import FIRST_VERSION_WITH_TOPIC_IDS
from pyconsumer.structs import TopicPartition, make_tuple

__all__ = ["FetchSessionHandler", "SessionPartition", "SessionRequest", "SessionResponse"]

_MAX_EPOCH: Final = 0x7FFFFFFF


class SessionPartition(NamedTuple):
    """The request for one partition. ``fetch_epoch`` is local and is never sent (see ``TopicPartitionState``)."""

    topic_id: bytes
    fetch_offset: int
    max_bytes: int
    leader_epoch: int
    fetch_epoch: int


_SENT: Final = slice(4)
"""The fields of a :class:`SessionPartition` that the broker sees."""


_PARTITION: Final = itemgetter(0)


class SessionRequest(NamedTuple):
    """The content of a fetch request.

    It has the session, the partitions to send, and the partitions to remove from the session.
    """

    session_id: int
    epoch: int
    to_send: dict[TopicPartition, SessionPartition]
    to_forget: list[tuple[TopicPartition, bytes]]
    use_topic_ids: bool

    @property
    def is_full(self) -> bool:
        return self.epoch in (0, -1)


class SessionResponse(NamedTuple):
    """A checked response: each partition with its request, or the error of the whole response."""

    partitions: list[tuple[TopicPartition, PartitionData, SessionPartition]]
    problem: str | None = None
    throttled: bool = False


class FetchSessionHandler:
    """The client's side of the fetch session with one node.

    Args:
        node_id: the broker.
        incremental: False requests all partitions every time, without a session at the broker.

    Attributes:
        partitions: all partitions of the session. The broker knows them after the next request.
    """

    def __init__(self, node_id: int, *, incremental: bool = True) -> None:
        self.node_id = node_id
        self.partitions: dict[TopicPartition, SessionPartition] = {}
        self.session_id = 0
        self.next_epoch = 0 if incremental else -1
        self._incremental = incremental
        self._without_id = 0
        self._used_topic_ids = False
        self._names: dict[bytes, str] = {}
        self._by_topic: dict[str, dict[int, TopicPartition]] = {}

    def plan(
        self, changed: Mapping[TopicPartition, SessionPartition], removed: Iterable[TopicPartition]
    ) -> SessionRequest:
        """Plan the next request.

        Args:
            changed: partitions that join the session, or may have changed since the last request.
            removed: partitions that leave the session. Those not in it are ignored.
        """
        to_send: dict[TopicPartition, SessionPartition] = {}
        to_forget: list[tuple[TopicPartition, bytes]] = []
        partitions = self.partitions
        for tp in removed:
            old = partitions.pop(tp, None)
            if old is not None:
                self._without_id -= old.topic_id == ZERO_UUID
                del self._by_topic[tp.topic][tp.partition]
                to_forget.append((tp, old.topic_id))
        is_full = self.next_epoch <= 0
        for tp, new in changed.items():
            if is_full:
                old = partitions.pop(tp, None)  # those that brought data go to the end: the others first (fairness)
            else:
                old = partitions.get(tp)
                if old is not None and old[1] != new[1] and old[0] == new[0]:  # as a rule: from another offset
                    partitions[tp] = to_send[tp] = new
                    continue
            if old is None or old[0] != new[0]:
                self._on_topic_id(tp, old, new, to_forget)
            partitions[tp] = new
            if old is None or new[_SENT] != old[_SENT]:
                to_send[tp] = new
        use_topic_ids = self._without_id == 0
        if self.next_epoch > 0 and use_topic_ids != self._used_topic_ids:
            self.next_epoch = 0
        self._used_topic_ids = use_topic_ids
        if self.next_epoch <= 0:
            self._names = {p.topic_id: tp.topic for tp, p in self.partitions.items()}
            return SessionRequest(self.session_id, self.next_epoch, dict(self.partitions), [], use_topic_ids)
        made: SessionRequest = make_tuple(
            SessionRequest, (self.session_id, self.next_epoch, to_send, to_forget, use_topic_ids)
        )
        return made

    def _on_topic_id(
        self,
        tp: TopicPartition,
        old: SessionPartition | None,
        new: SessionPartition,
        to_forget: list[tuple[TopicPartition, bytes]],
    ) -> None:
        """Note a partition that is new in the session, or whose topic has another id now."""
        if old is not None:
            self._without_id -= old.topic_id == ZERO_UUID
            if old.topic_id != ZERO_UUID:
                to_forget.append((tp, old.topic_id))
        self._without_id += new.topic_id == ZERO_UUID
        self._names[new.topic_id] = tp.topic
        self._by_topic.setdefault(tp.topic, {})[tp.partition] = tp

    def close_request(self) -> SessionRequest | None:
        """Return the request that closes the session at the broker, or None if there is no session."""
        if self.session_id == 0:
            return None
        request = SessionRequest(self.session_id, -1, {}, [], self._used_topic_ids)
        self.session_id, self.next_epoch = 0, self._first_epoch
        return request

    def on_response(self, response: FetchResponse, api_version: int) -> SessionResponse:
        """Check a response, and set :attr:`session_id` and :attr:`next_epoch` for the next request."""
        was_full = self.next_epoch <= 0
        if response.error_code:
            if response.error_code == Errors.FETCH_SESSION_ID_NOT_FOUND:
                self.session_id, self.next_epoch = 0, self._first_epoch
            else:
                self.on_failure()
            return SessionResponse([], error_name(response.error_code))
        found, problem = self._resolve(response, api_version)
        if was_full and not found and problem is None and response.throttle_time_ms > 0:
            self.session_id, self.next_epoch = 0, self._first_epoch
            return SessionResponse([], "throttled", throttled=True)
        if problem is None and was_full and len(found) != len(self.partitions):
            missing = self.partitions.keys() - {tp for tp, _, _ in found}
            problem = f"a full response lacks {', '.join(map(str, sorted(missing)))}"
        if problem is not None:
            if was_full:
                self.session_id, self.next_epoch = 0, self._first_epoch
            else:
                self.on_failure()
            return SessionResponse([], problem)
        if response.session_id == 0 or not self._incremental:
            self.session_id, self.next_epoch = 0, self._first_epoch
        elif was_full:
            self.session_id, self.next_epoch = response.session_id, 1
        else:
            self.next_epoch = 1 if self.next_epoch >= _MAX_EPOCH else self.next_epoch + 1
        accepted: SessionResponse = make_tuple(SessionResponse, (found, None, False))
        return accepted

    def on_failure(self) -> None:
        """Open a new session with the next request, because this request failed or its response was rejected."""
        self.next_epoch = self._first_epoch

    def recover(self) -> None:
        """Forget all partitions, after Ctrl-C that may have come before the last request was sent."""
        self.on_failure()
        self.partitions.clear()
        self._names.clear()
        self._by_topic.clear()
        self._without_id = 0

    @property
    def _first_epoch(self) -> int:
        return 0 if self._incremental else -1

    def _resolve(
        self, response: FetchResponse, api_version: int
    ) -> tuple[list[tuple[TopicPartition, PartitionData, SessionPartition]], str | None]:
        """Match the partitions of a response with those of the session. The second value is a mismatch, or None."""
        found: list[tuple[TopicPartition, PartitionData, SessionPartition]] = []
        by_id = api_version >= FIRST_VERSION_WITH_TOPIC_IDS
        partitions = self.partitions
        for topic in response.responses:
            topic_id = topic.topic_id
            name = self._names.get(topic_id) if by_id else topic.topic
            if name is None:
                return [], f"topic id {uuid_to_str(topic_id)} was not requested"
            known = self._by_topic.get(name) or {}
            for data in topic.partitions:
                tp = known.get(data.partition_index)
                if tp is None or ((asked := partitions[tp])[0] != topic_id and by_id):
                    return [], f"{name}-{data.partition_index} was not requested"
                found.append((tp, data, asked))
        if len(found) > 1 and len(set(map(_PARTITION, found))) < len(found):
            return [], f"{Counter(map(_PARTITION, found)).most_common(1)[0][0]} comes twice"
        return found, None
