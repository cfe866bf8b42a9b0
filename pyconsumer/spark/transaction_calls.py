"""Requests about transactions of others, many at a time: generators without I/O, for an admin client to run.

They are what the driver of an exactly-once write needs, and no application should: it ends transactions that other
processes have begun.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from pyconsumer.admin import transactions
from pyconsumer.errors import (
    ConcurrentTransactionsError,
    Errors,
    KafkaError,
    ProtocolError,
    UnsupportedVersionError,
    for_code,
)
from pyconsumer.network.calls import Calls
from pyconsumer.network.futures import Steps, Wait
from pyconsumer.producer.transaction_manager import DetachedTransaction
from pyconsumer.protocol.api_keys import ApiKey
from pyconsumer.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from pyconsumer.protocol.messages.end_txn import EndTxnRequest
from pyconsumer.protocol.messages.find_coordinator import FindCoordinatorResponse
from pyconsumer.protocol.messages.init_producer_id import InitProducerIdRequest
from pyconsumer.protocol.messages.offset_fetch import OffsetFetchResponse
from pyconsumer.protocol.requests.find_coordinator import find_coordinator_request
from pyconsumer.protocol.requests.offsets import LAST_VERSION_WITH_NAMES, offset_fetch_request, read_offset_fetch
from pyconsumer.structs import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from pyconsumer.network.client import ClientResponse
    from pyconsumer.network.futures import RequestFuture
    from pyconsumer.protocol.schema import Message

__all__ = ["FENCED_TIMEOUT_MS", "describe", "end", "fence", "open_ids", "stable_offset"]

#: The timeout of an id that was fenced, by which it is known again.
FENCED_TIMEOUT_MS: Final = 1
#: Requests under way at a time.
AT_A_TIME = 64
_FIRST_WITHOUT_EPOCHS: Final = 4  # the newest version of EndTxn for a transaction up to version 1
_WITH_STABLE: Final = 7  # the oldest version of OffsetFetch that waits for transactions (KIP-447)

T = TypeVar("T")


class _Call(NamedTuple):
    """A request for a transactional id."""

    api: ApiKey
    request: Any
    max_version: int | None = None


def _coordinators(calls: Calls, ids: Sequence[str], deadline: float) -> Steps[dict[str, int]]:
    """Return the node of each transactional id's coordinator."""
    left = list(dict.fromkeys(ids))
    found: dict[str, int] = {}
    one_by_one: list[str] = []
    failures = 0
    while left:

        def build(version: int, keys: list[str] = left) -> Message:
            return find_coordinator_request(keys[0], version, of_transactions=True, more=keys[1:])

        answer = yield from calls.call(
            ApiKey.FIND_COORDINATOR,
            build,
            FindCoordinatorResponse,
            deadline,
            min_version=1,
            what="finding the coordinators of transactions",
        )
        if not answer.coordinators:  # an older broker: one key in a request
            one_by_one, left = left, []
            break
        for item in answer.coordinators:
            if item.key not in left:
                continue
            if item.error_code == Errors.NONE and item.node_id >= 0:
                found[item.key] = item.node_id
            elif item.error_code and not for_code(item.error_code).retriable:
                raise for_code(item.error_code, f"transactional id {item.key!r}")
        left = [key for key in left if key not in found]
        if left:
            yield from calls.pause(failures, deadline)
            failures += 1
    for key in one_by_one:
        node = yield from calls.transaction_coordinator(key)(deadline)
        if node is not None:
            found[key] = node
    for node in set(found.values()):
        yield from calls.node(node)(deadline)  # until metadata knows its address
    return found


def _each(
    calls: Calls,
    wanted: Mapping[str, _Call],
    deadline: float,
    on_done: Callable[[str], object] = lambda _: None,
) -> Steps[dict[str, KafkaError]]:
    """Send a request for each id to its coordinator, again until it is answered; return the refusals.

    Raises:
        KafkaTimeoutError: not all were answered in time.
    """
    left, refused = list(wanted), dict[str, KafkaError]()
    nodes: dict[str, int] = {}
    failures = 0
    while left:
        unknown = [key for key in left if key not in nodes]
        if unknown:
            nodes |= yield from _coordinators(calls, unknown, deadline)
        again: list[str] = []
        for at in range(0, len(left), AT_A_TIME):
            some = left[at : at + AT_A_TIME]
            sent = [
                calls.send(
                    nodes[key], wanted[key].api, wanted[key].request, deadline, max_version=wanted[key].max_version
                )
                for key in some
            ]
            for key, future in zip(some, sent, strict=True):
                while not future.done:
                    yield Wait(future, deadline)
                error = _error_of(future, key)
                if error is None:
                    on_done(key)
                elif not error.retriable:
                    refused[key] = error
                else:
                    again.append(key)
                    if not isinstance(error, ConcurrentTransactionsError):
                        nodes.pop(key, None)
        left = again
        if left:
            yield from calls.pause(failures, deadline)
            failures += 1
    return refused


def _error_of(future: RequestFuture[ClientResponse], key: str) -> KafkaError | None:
    if future.exception is not None:
        return future.exception
    code: int = future.value.message.error_code
    return for_code(code, f"transactional id {key!r}") if code else None


def end(
    calls: Calls,
    ended: Iterable[DetachedTransaction],
    *,
    commit: bool,
    deadline: float,
    on_done: Callable[[str], object] = lambda _: None,
) -> Steps[dict[str, KafkaError]]:
    """Commit or abort transactions that others have opened; return the refusals by transactional id.

    To commit again what is committed succeeds (KIP-360, and KIP-890 with the epoch before).
    """
    wanted = {
        one.transactional_id: _Call(
            ApiKey.END_TXN,
            EndTxnRequest(one.transactional_id, one.producer_id, one.epoch, commit),
            None if one.is_v2 else _FIRST_WITHOUT_EPOCHS,
        )
        for one in ended
    }
    return (yield from _each(calls, wanted, deadline, on_done))


def fence(calls: Calls, ids: Iterable[str], deadline: float) -> Steps[dict[str, KafkaError]]:
    """Fence the producers of transactional ids, whose open transactions are aborted; return the refusals."""
    wanted = {one: _Call(ApiKey.INIT_PRODUCER_ID, InitProducerIdRequest(one, FENCED_TIMEOUT_MS)) for one in ids}
    return (yield from _each(calls, wanted, deadline))


def describe(calls: Calls, ids: Iterable[str], deadline: float) -> Steps[dict[str, TransactionState]]:
    """Return the states of transactional ids; those that no broker knows are left out."""
    left = list(ids)
    found: dict[str, TransactionState] = {}
    failures = 0
    while left:
        nodes = yield from _coordinators(calls, left, deadline)
        again: list[str] = []
        for node in sorted(set(nodes.values())):
            some = [key for key in left if nodes.get(key) == node]
            answer = yield from calls.call(
                ApiKey.DESCRIBE_TRANSACTIONS,
                DescribeTransactionsRequest(some),
                DescribeTransactionsResponse,
                deadline,
                target=calls.node(node),
                what="describing transactions",
            )
            states = {state.transactional_id: state for state in answer.transaction_states}
            if not states.keys() >= set(some):
                raise ProtocolError(f"the answer to DescribeTransactions leaves out {sorted(set(some) - set(states))}")
            for key in some:
                code = states[key].error_code
                if code == Errors.NONE:
                    found[key] = states[key]
                elif code == Errors.TRANSACTIONAL_ID_NOT_FOUND:
                    continue
                elif for_code(code).retriable:
                    again.append(key)
                else:
                    raise for_code(code, f"transactional id {key!r}")
        left = again
        if left:
            yield from calls.pause(failures, deadline)
            failures += 1
    return found


def open_ids(calls: Calls, beginning: str, deadline: float) -> Steps[list[str]]:
    """Return the transactional ids with this beginning whose producers may still write: initialized, or open."""
    states = ["Empty", "Ongoing"]
    failures = 0
    pattern: str | None = f"^{re.escape(beginning)}.*"
    while True:
        try:
            found = yield from transactions.list_all(calls, deadline, states=states, pattern=pattern)
        except UnsupportedVersionError:
            if pattern is None:
                raise
            pattern = None  # before KIP-1152 a broker lists all
        except KafkaError as error:
            if not error.retriable:
                raise
            calls.metadata.request_update()
            yield from calls.pause(failures, deadline)
            failures += 1
        else:
            return [one.transactional_id for one in found if one.transactional_id.startswith(beginning)]


def stable_offset(calls: Calls, group_id: str, tp: TopicPartition, deadline: float) -> Steps[OffsetAndMetadata | None]:
    """Return the committed offset of a group for one partition, after transactions with it have ended (KIP-447)."""

    sent_version = _WITH_STABLE

    def build(version: int) -> Message:
        nonlocal sent_version
        sent_version = version
        return offset_fetch_request(version, group_id=group_id, partitions=[tp])

    def check(answer: OffsetFetchResponse) -> KafkaError | None:
        found = read_offset_fetch(sent_version, answer, group_id=group_id)
        code = found.error_code or found.errors.get(tp, Errors.NONE)
        if not code and tp not in found.offsets:
            return ProtocolError(f"the answer to OffsetFetch is not about {tp}")
        return for_code(code, f"group {group_id!r}") if code else None

    answer = yield from calls.call(
        ApiKey.OFFSET_FETCH,
        build,
        OffsetFetchResponse,
        deadline,
        target=calls.coordinator(group_id),
        check=check,
        min_version=_WITH_STABLE,
        max_version=LAST_VERSION_WITH_NAMES,
        what=f"reading the progress of group {group_id!r}",
    )
    return read_offset_fetch(sent_version, answer, group_id=group_id).offsets[tp]
