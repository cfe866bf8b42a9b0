"""Fetch: record batches from many partitions, at once or when there are enough bytes (KIP-74)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

from pyconsumer.acls import ResourceType
from pyconsumer.broker.access.authorizer import Access
from pyconsumer.broker.broker import Broker
from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.deferred import wait_for
from pyconsumer.broker.error_responses import error_response, storage_error
from pyconsumer.broker.fetch_sessions import CachedPartition, PartitionKey
from pyconsumer.broker.log.file_records import FileRecords
from pyconsumer.broker.partition import Partition
from pyconsumer.broker.purgatory import DelayedFetch
from pyconsumer.errors import (
    BrokerResponseError,
    Errors,
    InvalidRequestError,
    NotLeaderOrFollowerError,
    TopicAuthorizationFailedError,
    UnknownTopicIdError,
)
from pyconsumer.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from pyconsumer.protocol.records import scan

__all__ = ["handle"]

_READ_UNCOMMITTED = 0
_READ_COMMITTED = 1
_MOST_READ = 64 << 10  # bytes of records in a response. Further records are read while it is sent.
_OVERHEAD = 50  # about the bytes of a partition in a response without records, which count for quotas
_FROM_FOLLOWERS = 11  # the version from which followers serve consumers (KIP-392)
_HAS_LEADERS = 12  # the version from which a partition's error comes with its leader (KIP-951)
_BY_TOPIC_ID = 13
_NOTHING: Final[list[tuple[PartitionKey, PartitionData]]] = []
_LEADERSHIP_ERRORS = frozenset({Errors.NOT_LEADER_OR_FOLLOWER, Errors.FENCED_LEADER_EPOCH})


class _Read:
    """One read of all partitions of a request.

    Attributes:
        results: of all partitions.
        partitions: those that may get more data. ``stable_offsets`` has the last stable offset of each.
        size_bytes: of all records.
        complete: the response is sent at once, because there is an error, or more data than the limits allow.
    """

    __slots__ = ("complete", "partitions", "results", "size_bytes", "stable_offsets")

    def __init__(self) -> None:
        self.results: list[tuple[PartitionKey, PartitionData]] = []
        self.partitions: list[Partition] = []
        self.stable_offsets: list[int] = []
        self.size_bytes = 0
        self.complete = False

    def end(self) -> None:
        """Send the response at once."""
        self.complete = True

    def add(self, key: PartitionKey, result: PartitionData) -> int:
        """Add the result of a partition. Return the size of its records."""
        size = len(result.records or b"")
        self.size_bytes += size
        self.results.append((key, result))
        return size


async def handle(broker: Broker, request: FetchRequest, context: RequestContext) -> FetchResponse:
    """Read the partitions. If they have less than ``min_bytes``, wait up to ``max_wait_ms`` and read again."""
    try:
        fetch = broker.fetch_sessions.context(request, context.api_version, context.now)
    except BrokerResponseError as error:
        return FetchResponse(error_code=error.errno)
    if request.isolation_level not in (_READ_UNCOMMITTED, _READ_COMMITTED):
        response = error_response(request, context.api_version, Errors.INVALID_REQUEST)
        assert isinstance(response, FetchResponse)
        return FetchResponse(error_code=Errors.INVALID_REQUEST, responses=response.responses)
    if not fetch.partitions:
        return FetchResponse(session_id=fetch.session_id)
    partitions, denied = fetch.partitions, _NOTHING
    if context.access is not None:
        partitions, denied = _admitted(broker, request, partitions, context, context.access)
        if not partitions:
            return FetchResponse(session_id=fetch.session_id, responses=_by_topic(fetch.select(denied)))
    room = min(request.max_bytes, broker.config.integer("fetch.max.bytes"))
    if broker.rates.quotas.exist:
        room = _room(broker, context, room)
    min_bytes = min(request.min_bytes, room)
    read = _read(broker, request, partitions, context, room)
    until, now = context.now + request.max_wait_ms / 1000, context.now
    while not read.complete and read.size_bytes < min_bytes and now < until:
        wait = DelayedFetch(
            broker.timer,
            broker.call_soon,
            until,
            read.partitions,
            min_bytes - read.size_bytes,
            read.stable_offsets if request.isolation_level == _READ_COMMITTED else None,
        )
        try:
            await wait_for(wait.deferred)
        finally:
            wait.cancel()
        read = _read(broker, request, partitions, context, room)
        if request.isolation_level != _READ_COMMITTED:
            break  # the wait has counted the bytes: there are fewer only if the time is up or the leader has changed
        now = broker.clock.now()
    if broker.rates.quotas.exist:
        # An incremental response has only partitions with records or errors.
        sent = len(denied) + sum(1 for _, data in read.results if data.error_code or data.records)
        now = broker.clock.now()
        size = read.size_bytes + _OVERHEAD * sent
        context.throttle(broker.rates.fetched(context.principal, context.client_id, size, now))
        if context.throttle_ms:
            return FetchResponse(session_id=broker.fetch_sessions.unanswered(fetch))
    results = fetch.select([*read.results, *denied] if denied else read.results)
    leaders = []
    if read.complete and context.api_version >= 16:
        leader_ids = {result.current_leader.leader_id for _, result in results}
        leaders = [NodeEndpoint(*node) for node in broker.endpoints(context.listener) if node.node_id in leader_ids]
    return FetchResponse(session_id=fetch.session_id, responses=_by_topic(results), node_endpoints=leaders)


def _admitted(
    broker: Broker,
    request: FetchRequest,
    partitions: Sequence[tuple[PartitionKey, CachedPartition]],
    context: RequestContext,
    access: Access,
) -> tuple[list[tuple[PartitionKey, CachedPartition]], list[tuple[PartitionKey, PartitionData]]]:
    """Return the partitions that the client may read, and the errors for the others.

    A session is asked about at each request, since rules change. Only brokers may fetch as a replica.
    """
    is_replica = max(request.replica_id, request.replica_state.replica_id) >= 0
    may_replicate = is_replica and access.may(ResourceType.CLUSTER)
    answers: dict[str, bool] = {}
    admitted, denied = [], []
    for key, cached in partitions:
        name = broker.topic_name(key[1]) if context.api_version >= _BY_TOPIC_ID else key[0]
        allowed = may_replicate if is_replica else name is None or answers.get(name)
        if allowed is None and name is not None:
            allowed = answers[name] = access.may(ResourceType.TOPIC, name)
        if allowed:
            admitted.append((key, cached))
        else:
            refusal = TopicAuthorizationFailedError("Topic authorization failed.")
            denied.append((key, _failed(broker, name, cached.wanted, refusal, context.api_version)))
    return admitted, denied


def _room(broker: Broker, context: RequestContext, room: int) -> int:
    """Return the most bytes of the response. It must not be so large that it would be throttled each time."""
    most = broker.rates.most_fetched(context.principal, context.client_id)
    return room if most is None else min(room, most)


def _read(
    broker: Broker,
    request: FetchRequest,
    partitions: Sequence[tuple[PartitionKey, CachedPartition]],
    context: RequestContext,
    room: int,
) -> _Read:
    read = _Read()
    committed_only = request.isolation_level == _READ_COMMITTED
    for key, cached in partitions:
        result = _read_partition(broker, key, cached, request, context.api_version, room, committed_only, read)
        room = max(0, room - read.add(key, result))
    return read


def _read_partition(
    broker: Broker,
    key: PartitionKey,
    cached: CachedPartition,
    request: FetchRequest,
    version: int,
    room: int,
    committed_only: bool,
    read: _Read,
) -> PartitionData:
    wanted = cached.wanted
    name: str | None = key[0]
    try:
        if version >= _BY_TOPIC_ID:
            name = broker.topic_name(key[1])
            if name is None:
                raise UnknownTopicIdError("there is no topic with this id")
        assert name is not None
        if request.max_bytes < 0 or wanted.partition_max_bytes < 0:
            raise InvalidRequestError("the maximal number of bytes must not be negative")
        if max(request.replica_id, request.replica_state.replica_id) >= 0:
            raise NotLeaderOrFollowerError("replicas of this broker's partitions do not fetch by requests")
        find = broker.replica if version >= _FROM_FOLLOWERS else broker.partition
        partition = find(name, wanted.partition, wanted.current_leader_epoch)
        if wanted.last_fetched_epoch >= 0:
            diverging = partition.diverging(wanted.last_fetched_epoch, wanted.fetch_offset)
            if diverging is not None:
                read.end()
                return _result(partition, wanted, b"", committed_only, EpochEndOffset(*diverging))
        end = partition.last_stable_offset if committed_only else partition.high_watermark
        records = partition.log.records(
            wanted.fetch_offset,
            min(wanted.partition_max_bytes, room),
            end,
            at_least_one=not read.size_bytes,
            most_read=_MOST_READ - read.size_bytes,
        )
    except BrokerResponseError as error:
        read.end()
        return _failed(broker, name, wanted, error, version)
    except OSError as error:
        read.end()
        failure = storage_error("read", name or "", wanted.partition, broker.logs.folder, error)
        return _failed(broker, name, wanted, failure, version)
    if not records and wanted.fetch_offset < end:
        if not read.complete and not partition.log.is_readable(wanted.fetch_offset, end):
            # The file is damaged. As in Java the fetch is held: otherwise the client would fetch again at once, without
            # end. New records do not end the wait, because they cannot be read either.
            return _result(partition, wanted, records, committed_only)
        read.end()  # there are more records than the limits allow
    read.partitions.append(partition)
    read.stable_offsets.append(partition.last_stable_offset)
    return _result(partition, wanted, records, committed_only)


def _result(
    partition: Partition,
    wanted: FetchPartition,
    records: bytes | FileRecords,
    committed_only: bool,
    diverging: EpochEndOffset | None = None,
) -> PartitionData:
    return PartitionData(
        wanted.partition,
        0,
        partition.high_watermark,
        partition.last_stable_offset,
        partition.log.log_start_offset,
        diverging_epoch=diverging or EpochEndOffset(),
        aborted_transactions=_aborted(partition, wanted.fetch_offset, records) if committed_only else None,
        records=cast("bytes", records),  # the codec needs only the length of records that are read later
    )


def _aborted(partition: Partition, offset: int, records: bytes | FileRecords) -> list[AbortedTransaction]:
    """Return the aborted transactions that overlap with the records.

    As in Kafka, some may begin after the records of this read. Readers ignore them.
    """
    if not records:
        return []
    found = partition.log.aborted_transactions(offset, partition.last_stable_offset)
    if found:
        if isinstance(records, FileRecords):
            end = partition.log.upper_bound(offset, len(records))
        else:
            batches = scan(records)
            end = batches[-1].next_offset if batches else offset
        found = [entry for entry in found if entry.first_offset < end]
    return [AbortedTransaction(entry.producer_id, entry.first_offset) for entry in found]


def _failed(
    broker: Broker, topic: str | None, wanted: FetchPartition, error: BrokerResponseError, version: int
) -> PartitionData:
    leader = LeaderIdAndEpoch()
    topics = broker.controller.topics
    has_leader = error.errno in _LEADERSHIP_ERRORS and version >= _HAS_LEADERS
    if has_leader and topic in topics and 0 <= wanted.partition < len(topics[topic].partitions):
        state = topics[topic].partitions[wanted.partition]
        leader = LeaderIdAndEpoch(state.leader, state.leader_epoch)
    return PartitionData(
        wanted.partition, error.errno, -1, current_leader=leader, aborted_transactions=None, records=b""
    )


def _by_topic(results: list[tuple[PartitionKey, PartitionData]]) -> list[FetchableTopicResponse]:
    """Group adjacent partitions of one topic, in the same order."""
    topics: list[FetchableTopicResponse] = []
    last: tuple[str, bytes] | None = None
    for (name, topic_id, _), result in results:
        if (name, topic_id) != last:
            last = (name, topic_id)
            topics.append(FetchableTopicResponse(name, topic_id))
        topics[-1].partitions.append(result)
    return topics
