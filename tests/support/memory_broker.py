"""A broker in this thread's memory for whole clients: their sockets, their selector and their clock.

Nothing here waits or runs beside the test. A request that a client writes is answered at once, or at a later time of
the clock. A wait without an event moves the clock to the next event. So a test runs the same steps each time, and it
can interrupt a client at any of them. The broker keeps fetch sessions as Kafka does (KIP-227): a client that loses
count of a session does not get its partitions.
"""

from __future__ import annotations

import errno
import heapq
import itertools
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import RLock
from types import SimpleNamespace
from typing import Any
from unittest import mock

from pyconsumer.clock import ManualClock
from pyconsumer.consumer import delegate
from pyconsumer.consumer.coordinator import consumer_coordinator
from pyconsumer.consumer.coordinator.membership import GroupMember
from pyconsumer.network.selector import EVENT_READ, EVENT_WRITE, Waker
from pyconsumer.protocol.api import API, ApiKey, decode_request_header, encode_response
from pyconsumer.protocol.messages import request_type
from pyconsumer.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from pyconsumer.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from pyconsumer.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from pyconsumer.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from pyconsumer.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from pyconsumer.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from pyconsumer.protocol.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from pyconsumer.protocol.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from pyconsumer.protocol.messages.sync_group import SyncGroupResponse
from pyconsumer.protocol.records import BatchBuilder
from pyconsumer.structs import TopicPartition

__all__ = ["MemoryBroker"]

_LATENCY_S = 0.001
_NOT_FOUND, _WRONG_EPOCH = 70, 71  # error codes of fetch sessions
_ILLEGAL_GENERATION, _MEMBER_ID_REQUIRED, _UNKNOWN_MEMBER = 22, 79, 25
_BY_NAME = {ApiKey.OFFSET_FETCH: 7, ApiKey.OFFSET_COMMIT: 8}  # the last versions for one group, with topics' names


class _Socket:
    """A socket of the client."""

    def __init__(self, broker: MemoryBroker) -> None:
        self._broker = broker
        self._requests = bytearray()
        self.waiting: deque[bytes] = deque()  # requests; the first one is being answered
        self.responses = bytearray()
        self.closed = False

    def setblocking(self, flag: bool) -> None: ...

    def setsockopt(self, *arguments: Any) -> None: ...

    def getsockopt(self, *arguments: Any) -> int:
        return 0

    def connect_ex(self, address: Any) -> int:
        return errno.EINPROGRESS

    def recv_into(self, view: memoryview) -> int:
        if not self.responses:
            raise BlockingIOError
        count = min(len(view), len(self.responses))
        view[:count] = self.responses[:count]
        del self.responses[:count]
        return count

    def sendmsg(self, pieces: list[memoryview]) -> int:
        data = b"".join(pieces)
        self._requests += data
        while len(self._requests) >= 4:
            end = 4 + int.from_bytes(self._requests[:4], "big")
            if len(self._requests) < end:
                break
            frame = bytes(self._requests[4:end])
            del self._requests[:end]
            self.waiting.append(frame)
            if len(self.waiting) == 1:
                self._broker.serve(self)
        return len(data)

    def close(self) -> None:
        self.closed = True


class _Selector:
    """The selector of the client: a wait moves the clock."""

    def __init__(self, broker: MemoryBroker) -> None:
        self._broker = broker
        self._keys: dict[Any, SimpleNamespace] = {}

    def register(self, fileobj: Any, events: int, data: Any = None) -> None:
        self._keys[fileobj] = SimpleNamespace(events=events, data=data)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> None:
        self._keys[fileobj] = SimpleNamespace(events=events, data=data)

    def unregister(self, fileobj: Any) -> None:
        del self._keys[fileobj]

    def close(self) -> None:
        self._keys.clear()

    def select(self, timeout: float | None = None) -> list[tuple[Any, int]]:
        found = self._ready()
        while not found and self._broker.advance(timeout):
            found = self._ready()
        return found

    def _ready(self) -> list[tuple[Any, int]]:
        found = []
        for fileobj, key in self._keys.items():
            if isinstance(fileobj, Waker):
                events = EVENT_READ if fileobj._set else 0
            else:
                events = key.events & (EVENT_WRITE | (EVENT_READ if fileobj.responses else 0))
            if events:
                found.append((key, events))
        return found


class MemoryBroker:
    """The only broker of a cluster, node 0, with one topic ``t``. See the module's docstring.

    Args:
        logs: the numbers of records in each batch, for each partition.

    Attributes:
        clock: the client's.
        committed: offsets of the group, by partition.
        requests: API keys of the requests received.
    """

    def __init__(self, *logs: list[int]) -> None:
        self.clock = ManualClock(100.0)
        self.requests: list[int] = []
        self.handlers: dict[int, Callable[[Any, int], Any]] = {
            ApiKey.API_VERSIONS: self._versions,
            ApiKey.METADATA: self._metadata,
            ApiKey.LIST_OFFSETS: self._offsets,
            ApiKey.FETCH: self._fetch,
            ApiKey.FIND_COORDINATOR: self._coordinator,
            ApiKey.JOIN_GROUP: self._join,
            ApiKey.SYNC_GROUP: self._sync,
            ApiKey.OFFSET_FETCH: self._committed,
            ApiKey.OFFSET_COMMIT: self._commit,
        }
        self.committed: dict[int, int] = {}
        self._generation = 0
        self._member_ids = itertools.count(1)
        self._member = ""
        self._logs = [list(_batches(counts)) for counts in logs]
        self._sessions: dict[int, tuple[int, dict[int, int]]] = {}
        self._session_ids = itertools.count(1)
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Connect the clients that are made in this block to this broker."""
        make = delegate.ConsumerNetworkClient

        def made(*arguments: Any, **options: Any) -> Any:
            return make(*arguments, selector=_Selector(self), open_socket=lambda family: _Socket(self), **options)

        with (
            mock.patch.object(delegate, "ConsumerNetworkClient", made),
            mock.patch.object(consumer_coordinator, "HeartbeatThread", _NoThread),
        ):
            yield

    # -- time --------------------------------------------------------------------------------------------------------

    def later(self, delay: float, action: Callable[[], None]) -> None:
        """Do something after a time in seconds."""
        heapq.heappush(self._events, (self.clock.now() + delay, next(self._order), action))

    def advance(self, timeout: float | None) -> bool:
        """Move the clock to the next event, or by the timeout if that is earlier. False at the end of the timeout."""
        at = self._events[0][0] if self._events else None
        now = self.clock.now()
        if at is None and timeout is None:
            raise AssertionError("the client waits for ever")
        if at is None or (timeout is not None and at > now + timeout):
            self.clock.advance(timeout or 0.0)
            return False
        self.clock.advance(max(0.0, at - now))
        heapq.heappop(self._events)[2]()
        return timeout is None or timeout > 0

    # -- requests ----------------------------------------------------------------------------------------------------

    def serve(self, socket: _Socket) -> None:
        """Answer the next request of a connection. The one behind it waits until then, as at Kafka."""
        frame = socket.waiting[0]
        header = decode_request_header(frame)
        self.requests.append(header.api_key)
        request = request_type(header.api_key).decode(frame[header.body_offset :], header.api_version)
        answer, delay = self.handlers[header.api_key](request, header.api_version), _LATENCY_S
        if isinstance(answer, tuple):
            answer, delay = answer
        data = b"".join(encode_response(answer, header.api_version, header.correlation_id))

        def respond() -> None:
            if not socket.closed:
                socket.responses += data
                socket.waiting.popleft()
                if socket.waiting:
                    self.serve(socket)

        self.later(delay, respond)

    @staticmethod
    def _versions(request: Any, version: int) -> ApiVersionsResponse:
        keys = [
            ApiVersion(api_key=key, min_version=i.min_version, max_version=min(i.max_version, _BY_NAME.get(key, 99)))
            for key, i in API.items()
        ]
        return ApiVersionsResponse(api_keys=keys)

    def _metadata(self, request: Any, version: int) -> MetadataResponse:
        partitions = [
            MetadataResponsePartition(
                partition_index=number, leader_id=0, leader_epoch=1, replica_nodes=[0], isr_nodes=[0]
            )
            for number in range(len(self._logs))
        ]
        topic = MetadataResponseTopic(name="t", topic_id=_TOPIC_ID, partitions=partitions)
        broker = MetadataResponseBroker(node_id=0, host="127.0.0.1", port=9)
        topics = [topic] if request.topics is None or request.topics else []
        return MetadataResponse(brokers=[broker], controller_id=0, cluster_id="c", topics=topics)

    def _offsets(self, request: Any, version: int) -> ListOffsetsResponse:
        return ListOffsetsResponse(
            topics=[
                ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=[
                        ListOffsetsPartitionResponse(partition_index=p.partition_index, offset=0, leader_epoch=1)
                        for p in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    def _fetch(self, request: Any, version: int) -> Any:
        asked = {p.partition: p.fetch_offset for topic in request.topics for p in topic.partitions}
        session_id, epoch = request.session_id, request.session_epoch
        if epoch <= 0:
            self._sessions.pop(session_id, None)
            session_id = next(self._session_ids) if epoch == 0 else 0
            held = asked
        elif session_id not in self._sessions:
            return FetchResponse(error_code=_NOT_FOUND)
        elif self._sessions[session_id][0] != epoch:
            return FetchResponse(error_code=_WRONG_EPOCH)
        else:
            held = self._sessions[session_id][1]
            for topic in request.forgotten_topics_data:
                for number in topic.partitions:
                    held.pop(number, None)
            held.update(asked)
        if session_id:
            self._sessions[session_id] = epoch + 1, held
        found = []
        for number, offset in held.items():
            batch = next((data for first, end, data in self._logs[number] if first <= offset < end), None)
            if batch is not None or epoch <= 0:
                end = self._logs[number][-1][1]
                found.append(
                    PartitionData(
                        partition_index=number,
                        high_watermark=end,
                        last_stable_offset=end,
                        log_start_offset=0,
                        records=batch,
                    )
                )
        topics = [FetchableTopicResponse(topic_id=_TOPIC_ID, topic="t", partitions=found)] if found else []
        answer = FetchResponse(session_id=session_id, responses=topics)
        has_records = any(each.records for each in found)
        return answer, _LATENCY_S if has_records else request.max_wait_ms / 1000

    # -- the group, which has one member -----------------------------------------------------------------------------

    @staticmethod
    def _coordinator(request: Any, version: int) -> FindCoordinatorResponse:
        found = [Coordinator(key=key, node_id=0, host="127.0.0.1", port=9) for key in request.coordinator_keys]
        return FindCoordinatorResponse(coordinators=found)

    def _join(self, request: Any, version: int) -> JoinGroupResponse:
        if not request.member_id:
            self._member = f"m{next(self._member_ids)}"
            return JoinGroupResponse(error_code=_MEMBER_ID_REQUIRED, member_id=self._member)
        if request.member_id != self._member:
            return JoinGroupResponse(error_code=_UNKNOWN_MEMBER, member_id=request.member_id)
        self._generation += 1
        protocol = request.protocols[0]
        return JoinGroupResponse(
            generation_id=self._generation,
            protocol_type="consumer",
            protocol_name=protocol.name,
            leader=self._member,
            member_id=self._member,
            members=[JoinGroupResponseMember(member_id=self._member, metadata=protocol.metadata)],
        )

    def _sync(self, request: Any, version: int) -> SyncGroupResponse:
        if request.generation_id != self._generation:
            return SyncGroupResponse(error_code=_ILLEGAL_GENERATION)
        share = next((each.assignment for each in request.assignments), b"")
        return SyncGroupResponse(protocol_type="consumer", protocol_name=request.protocol_name, assignment=share)

    def _committed(self, request: Any, version: int) -> OffsetFetchResponse:
        topics = [
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=number, committed_offset=self.committed.get(number, -1), metadata=""
                    )
                    for number in topic.partition_indexes
                ],
            )
            for topic in request.topics
        ]
        return OffsetFetchResponse(topics=topics)

    def _commit(self, request: Any, version: int) -> OffsetCommitResponse:
        code = 0 if request.generation_id_or_member_epoch == self._generation else _ILLEGAL_GENERATION
        topics = []
        for topic in request.topics:
            found = OffsetCommitResponseTopic(name=topic.name, partitions=[])
            topics.append(found)
            for each in topic.partitions:
                if not code:
                    self.committed[each.partition_index] = each.committed_offset
                found.partitions.append(
                    OffsetCommitResponsePartition(partition_index=each.partition_index, error_code=code)
                )
        return OffsetCommitResponse(topics=topics)


class _NoThread:
    """Stands for the heartbeat thread: the broker expects no heartbeat."""

    alive = True

    def __init__(self, core: GroupMember, lock: RLock, **options: Any) -> None:
        self._core = core

    @classmethod
    def of_client(cls, core: GroupMember, lock: RLock, *args: Any, **options: Any) -> _NoThread:
        return cls(core, lock)

    def start(self) -> None: ...

    def set_brokers(self, brokers: Any) -> None: ...

    def notify(self) -> None:
        if self._core.leaving:
            self._core.next_background(0.0)  # the request
            self._core.on_leave_done()

    def end(self, within: float = 0.0) -> None: ...

    def abandon(self, reason: str, leave: bool | None = None) -> None: ...

    def close(self, timeout: float) -> bool:
        self.notify()
        return True


_TOPIC_ID = b"t" * 16


def _batches(counts: list[int]) -> Iterator[tuple[int, int, bytes]]:
    first = 0
    for count in counts:
        builder = BatchBuilder()
        for offset in range(first, first + count):
            builder.try_append(1_000 + offset, None, b"%d" % offset, [])
        yield first, first + count, builder.build(base_offset=first, leader_epoch=1)
        first += count


def partitions(count: int) -> list[TopicPartition]:
    """Return the first partitions of the topic."""
    return [TopicPartition("t", number) for number in range(count)]
