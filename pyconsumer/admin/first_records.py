"""The first record at or after an offset, by fetches of one batch each. Its timestamp is the lag of a group as time.

Rules

1. Each partition has a request of its own, since a broker returns a whole batch only for the first partition of a
   response. At most :data:`MOST_AT_ONCE` requests are in flight, the same number to each broker.
2. Markers and batches without records are passed over, by further fetches of some batches, at most
   :data:`MOST_ROUNDS` in all. Records of transactions count, also of open and aborted ones, as they do in a lag.
3. An offset below the start of the log stands for the start. One beyond the end has no record.
4. A partition without a result has a reason: it has no leader, its leader has not answered, or an error of the broker.
5. A request has :data:`LONGEST_S`, or half of the time that is left if that is less, so that the others have theirs. A
   leader that does not answer one in that time is asked no more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from pyconsumer.admin import log_ends
from pyconsumer.admin.types import OffsetSpec
from pyconsumer.errors import Errors, KafkaError, KafkaTimeoutError, for_code
from pyconsumer.network.calls import Bell, Calls, await_update
from pyconsumer.protocol.api_keys import ApiKey
from pyconsumer.protocol.messages.fetch import FetchResponse, PartitionData
from pyconsumer.protocol.primitives import Buffer
from pyconsumer.protocol.records import Cursor
from pyconsumer.protocol.requests.fetch import FetchSettings, fetch_request, newest_version
from pyconsumer.structs import OffsetAndTimestamp, TopicPartition

if TYPE_CHECKING:
    from pyconsumer.network.client_requests import ClientResponse
    from pyconsumer.network.futures import RequestFuture, Steps

__all__ = ["LONGEST_S", "MOST_AT_ONCE", "MOST_ROUNDS", "FirstRecords", "find"]

MOST_AT_ONCE: Final = 64
MOST_ROUNDS: Final = 8
LONGEST_S: Final = log_ends.LONGEST_S
_ONE_BATCH: Final = 1  # byte: a broker returns the first batch whole
_SOME_BATCHES: Final = 65_536  # bytes
_RETRY_S: Final = 0.1


class FirstRecords(NamedTuple):
    """The first records at or after offsets.

    Attributes:
        records: by partition, None where no record follows.
        reasons: why the record of another partition is unknown, for people.
    """

    records: dict[TopicPartition, OffsetAndTimestamp | None]
    reasons: dict[TopicPartition, str]


def find(calls: Calls, offsets: Mapping[TopicPartition, int], deadline: float) -> Steps[FirstRecords]:
    """Return the first record at or after an offset of each partition, or the reason why it is unknown.

    Raises:
        KafkaTimeoutError: the time is up, and no partition has a result.
    """
    found = FirstRecords({}, {})
    try:
        yield from _rounds(calls, offsets, found, deadline)
    except KafkaTimeoutError as error:
        if not found.records:
            raise
        found.reasons.update({tp: found.reasons.get(tp, str(error)) for tp in offsets})
    for tp in found.records:
        found.reasons.pop(tp, None)
    return found


def _rounds(calls: Calls, offsets: Mapping[TopicPartition, int], found: FirstRecords, deadline: float) -> Steps[None]:
    yield from calls.find_leaders(offsets.keys(), deadline)
    pending = dict(offsets)
    limit = _ONE_BATCH
    silent: dict[int, str] = {}
    for _ in range(MOST_ROUNDS):
        again: dict[TopicPartition, int] = {}
        outside: dict[TopicPartition, int] = {}
        moved: dict[TopicPartition, int] = {}
        for tp, at, part in (yield from _fetch(calls, pending, limit, found, silent, deadline)):
            error = for_code(part.error_code) if part.error_code else None
            if error is None:
                _read(tp, at, part.records or b"", found, again)
                continue
            found.reasons[tp] = str(error)
            if part.error_code == Errors.OFFSET_OUT_OF_RANGE:
                outside[tp] = at
            elif error.retriable:
                moved[tp] = at
        if outside:
            again |= yield from _starts(calls, outside, found, deadline)
        if moved:
            yield from await_update(calls.metadata, calls.clock, deadline=deadline, backoff=_RETRY_S)
        pending, limit = again | moved, _SOME_BATCHES
        if not pending:
            break
    for tp in pending:
        found.reasons.setdefault(tp, f"no record was found in {MOST_ROUNDS} fetches")


def _until(calls: Calls, deadline: float) -> float:
    """Return when a request ends that is sent now (rule 5)."""
    now = calls.clock.now()
    return now + min(LONGEST_S, max(0.0, deadline - now) / 2)


def _fetch(
    calls: Calls,
    offsets: Mapping[TopicPartition, int],
    limit: int,
    found: FirstRecords,
    silent: dict[int, str],
    deadline: float,
) -> Steps[list[tuple[TopicPartition, int, PartitionData]]]:
    """Fetch from each offset. Partitions without a leader or a response get a reason.

    ``silent`` are the nodes that get no other request, with the reason.
    """
    waiting: dict[int, deque[tuple[TopicPartition, int]]] = {}
    for tp, at in offsets.items():
        node = calls.leader_and_epoch(tp)[0]
        if node >= 0 and node not in silent:
            waiting.setdefault(node, deque()).append((tp, at))
        else:
            found.reasons[tp] = silent.get(node, "the partition has no leader")
    share = max(1, MOST_AT_ONCE // max(1, len(waiting)))
    flying: dict[int, list[tuple[TopicPartition, int, RequestFuture[ClientResponse]]]] = {}
    bell = Bell()
    answered = []
    while waiting or any(flying.values()):
        for node in [*waiting]:
            mine = flying.setdefault(node, [])
            while waiting[node] and len(mine) < share:
                tp, at = waiting[node].popleft()
                future = _send(calls, tp, at, limit, _until(calls, deadline))
                bell.watch(future)
                mine.append((tp, at, future))
            if not waiting[node]:
                del waiting[node]
        if not any(one[2].done for mine in flying.values() for one in mine):
            yield from bell.wait(deadline)
        for node, mine in flying.items():
            for one in [one for one in mine if one[2].done]:
                mine.remove(one)
                tp, at, future = one
                part = _partition(future.value) if future.succeeded else None
                if part is not None:
                    answered.append((tp, at, part))
                    continue
                reason = f"its leader, node {node}: {future.exception or 'the request has failed'}"
                if isinstance(future.exception, KafkaTimeoutError) and node not in silent:  # rule 5
                    silent[node] = reason
                    found.reasons.update({rest: reason for rest, _ in waiting.pop(node, ())})
                found.reasons[tp] = silent.get(node, reason)
    return answered


def _send(calls: Calls, tp: TopicPartition, at: int, limit: int, deadline: float) -> RequestFuture[ClientResponse]:
    topic_id = calls.metadata.topic_id(tp.topic)
    request = fetch_request(FetchSettings(0, 0, limit), [(tp, (topic_id, at, limit, -1))])
    return calls.send(
        calls.leader_and_epoch(tp)[0], ApiKey.FETCH, request, deadline, max_version=newest_version([topic_id])
    )


def _partition(response: ClientResponse) -> PartitionData | None:
    """Return the part of the only partition. None if there is no part, or the request as a whole has failed."""
    message = response.message
    assert isinstance(message, FetchResponse)
    parts = [part for topic in message.responses for part in topic.partitions]
    return parts[0] if len(parts) == 1 and not message.error_code else None


def _read(tp: TopicPartition, at: int, records: Buffer, found: FirstRecords, again: dict[TopicPartition, int]) -> None:
    """Note the first record of a response, or the offset to go on at."""
    cursor = Cursor(tp, records, fetch_offset=at)
    try:
        taken = cursor.take(1)
    except KafkaError as error:  # the header of a batch that cannot be decoded has a time
        timestamp = Cursor(tp, records, fetch_offset=at).next_timestamp
        if timestamp is not None:
            found.records[tp] = OffsetAndTimestamp(at, timestamp)
        else:
            found.reasons[tp] = str(error)
        return
    if taken:
        found.records[tp] = OffsetAndTimestamp(taken[0].offset, taken[0].timestamp, taken[0].leader_epoch)
    elif cursor.end_offset > at:
        again[tp] = cursor.end_offset
    elif len(records):
        again[tp] = at  # the batch is larger than the limit of an old broker
    else:
        found.records[tp] = None


def _starts(
    calls: Calls, outside: Mapping[TopicPartition, int], found: FirstRecords, deadline: float
) -> Steps[dict[TopicPartition, int]]:
    """Return the starts of logs that begin after the offset. The others end before it, and have no record."""
    starts = yield from log_ends.find(calls, outside, _until(calls, deadline), at=OffsetSpec.EARLIEST)
    found.reasons.update(starts.reasons)
    later = {tp: start for tp, start in starts.ends.items() if start > outside[tp]}
    found.records.update(dict.fromkeys(starts.ends.keys() - later.keys()))
    return later
