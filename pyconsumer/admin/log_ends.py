"""The ends of logs, as far as they can be read now. A leader that does not answer costs its own partitions alone.

Rules

1. Each leader gets one request for all of its partitions. All requests are sent at once.
2. A leader has :data:`LONGEST_S`, or the time of the call if that is less. A request to a leader that has moved or was
   lost is sent again in that time, and does not wait for the other leaders.
3. A partition without an end has a reason: it has no leader, its leader has not answered, or an error of the broker.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from pyconsumer.admin.types import OffsetSpec
from pyconsumer.errors import KafkaError, for_code
from pyconsumer.network.calls import Bell, Calls, group_by_leader
from pyconsumer.network.futures import Wait
from pyconsumer.protocol.api_keys import ApiKey
from pyconsumer.protocol.requests.list_offsets import list_offsets_request, read_offsets
from pyconsumer.structs import TopicPartition

if TYPE_CHECKING:
    from pyconsumer.network.client_requests import ClientResponse
    from pyconsumer.network.futures import RequestFuture, Steps

__all__ = ["LONGEST_S", "LogEnds", "find"]

LONGEST_S: Final = 5.0
_FIRST_PAUSE_S: Final = 0.1  # before the next attempt. It doubles
_LONGEST_PAUSE_S: Final = 1.0

_Sent: TypeAlias = "tuple[int, list[TopicPartition], RequestFuture[ClientResponse]]"
"""A node, the partitions that it was asked for, and the future of the request."""


class LogEnds(NamedTuple):
    """The ends of logs.

    Attributes:
        ends: by partition.
        reasons: why the end of another partition is unknown, for people.
    """

    ends: dict[TopicPartition, int]
    reasons: dict[TopicPartition, str]


def find(
    calls: Calls, partitions: Iterable[TopicPartition], deadline: float, *, at: int = OffsetSpec.LATEST
) -> Steps[LogEnds]:
    """Return the ends of the logs of partitions, or the reason why they are unknown.

    Args:
        deadline: monotonic seconds.
        at: ``OffsetSpec.EARLIEST`` returns the starts instead.

    Raises:
        KafkaTimeoutError: no broker has sent metadata in time.
    """
    found = LogEnds({}, {})
    pending = set(partitions)
    yield from calls.find_leaders(pending, deadline, fresh=True)
    began = calls.clock.now()
    until = min(deadline, began + LONGEST_S)
    flying: list[_Sent] = []
    bell = Bell()
    pause, next_try = _FIRST_PAUSE_S, began
    while pending or flying:
        if pending and calls.clock.now() >= next_try:
            for sent in _ask(calls, pending, found, until, at):
                bell.watch(sent[2])
                flying.append(sent)
            pending = set()
        ended = [sent for sent in flying if sent[2].done]
        flying = [sent for sent in flying if sent not in ended]
        again = {tp for sent in ended for tp in _read(sent, found)}
        now = calls.clock.now()
        if again and now + pause < until:
            pending |= again
            calls.metadata.request_update()
            next_try = now + pause
            pause = min(pause * 2, _LONGEST_PAUSE_S)
        if flying and not ended:
            yield from bell.wait(next_try if pending else deadline)
        elif pending and not ended:
            yield Wait(None, next_try)
    return found


def _ask(calls: Calls, partitions: set[TopicPartition], found: LogEnds, until: float, at: int) -> list[_Sent]:
    """Send a request to each leader."""
    groups, leaderless = group_by_leader(sorted(partitions), calls.leader_and_epoch)
    found.reasons.update(dict.fromkeys(leaderless, "the partition has no leader"))
    sent = []
    for node, led in groups.items():
        request = list_offsets_request(dict.fromkeys(led, at))
        sent.append((node, list(led), calls.send(node, ApiKey.LIST_OFFSETS, request, until)))
    return sent


def _read(sent: _Sent, found: LogEnds) -> set[TopicPartition]:
    """Note the results of a request that has ended. Return the partitions to ask for again."""
    node, led, future = sent
    error = future.exception
    if error is not None:
        found.reasons.update(dict.fromkeys(led, f"its leader, node {node}: {error}"))
        return set(led) if isinstance(error, KafkaError) and error.retriable else set()
    again = set()
    offsets = read_offsets(future.value.message)
    for tp in led:
        code, end = offsets.get(tp, (0, None))
        if code:
            of_partition = for_code(code)
            found.reasons[tp] = str(of_partition)
            if of_partition.retriable:
                again.add(tp)
        elif end is None:
            found.reasons[tp] = f"its leader, node {node}, has left it out of the answer"
        else:
            found.ends[tp] = end.offset
            found.reasons.pop(tp, None)
    return again
