"""Requests that end, fence and describe transactions of other producers.

An admin client runs them for the driver of an exactly-once write, which ends transactions that its tasks have begun. No
application should do that.
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

#: The transaction timeout of ids that were fenced here; it marks them.
FENCED_TIMEOUT_MS: Final = 1
#: Requests in flight at a time.
MAX_IN_FLIGHT = 64
_FIRST_WITHOUT_EPOCHS: Final = 4  # the newest version of EndTxn for a transaction up to version 1
_WITH_STABLE: Final = 7  # the oldest version of OffsetFetch that waits for transactions (KIP-447)

T = TypeVar("T")


class _Call(NamedTuple):
    """A request for a transactional id."""

    api: ApiKey
    request: Any
    max_version: int | None = None


def _coordinators(calls: Calls, ids: Sequence[str], deadline: float) -> Steps[dict[str, int]]:
    """Return the node id of the coordinator of each transactional id.

    Raises:
        KafkaTimeoutError: not all were found in time.
        KafkaError: a lookup failed with an error that is not retriable.
    """
    left = list(dict.fromkeys(ids))
    found: dict[str, int] = {}
    one_by_one: list[str] = []
    failures = 0
    while left:

        def build(version: int, keys: list[str] = left) -> Message:
            return find_coordinator_request(keys[0], version, of_transactions=True, more=keys[1:])

        response = yield from calls.call(
            ApiKey.FIND_COORDINATOR,
            build,
            FindCoordinatorResponse,
            deadline,
            min_version=1,
            what="finding the coordinators of transactions",
        )
        if not response.coordinators:  # an older broker: one key per request
            one_by_one, left = left, []
            break
        for item in response.coordinators:
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
    """Send a request for each id to its coordinator, again after retriable errors, and return the other errors by id.

    Args:
        on_done: called with each id that has succeeded.

    Raises:
        KafkaTimeoutError: not all have succeeded or failed in time.
    """
    left, refused = list(wanted), dict[str, KafkaError]()
    nodes: dict[str, int] = {}
    failures = 0
    while left:
        unknown = [key for key in left if key not in nodes]
        if unknown:
            nodes |= yield from _coordinators(calls, unknown, deadline)
        again: list[str] = []
        for at in range(0, len(left), MAX_IN_FLIGHT):
            some = left[at : at + MAX_IN_FLIGHT]
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
    """Commit or abort transactions of other producers. Return the transactions that failed, each with its error.

    A commit of a transaction that is already committed succeeds (KIP-360, and KIP-890 with the previous epoch).

    Args:
        deadline: seconds on the client's clock.
        on_done: called with each transactional id that has succeeded.

    Raises:
        KafkaTimeoutError: some transactions were not ended in time.
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
    """Fence producers, which aborts their open transactions. Return the ids that failed, each with its error.

    Raises:
        KafkaTimeoutError: some producers were not fenced in time.
    """
    wanted = {one: _Call(ApiKey.INIT_PRODUCER_ID, InitProducerIdRequest(one, FENCED_TIMEOUT_MS)) for one in ids}
    return (yield from _each(calls, wanted, deadline))


def describe(calls: Calls, ids: Iterable[str], deadline: float) -> Steps[dict[str, TransactionState]]:
    """Return the states of transactional ids. Ids that their coordinator does not know are left out.

    Raises:
        KafkaTimeoutError: some ids were not described in time.
        KafkaError: a request failed with an error that is not retriable.
    """
    left = list(ids)
    found: dict[str, TransactionState] = {}
    failures = 0
    while left:
        nodes = yield from _coordinators(calls, left, deadline)
        again: list[str] = []
        for node in sorted(set(nodes.values())):
            some = [key for key in left if nodes.get(key) == node]
            response = yield from calls.call(
                ApiKey.DESCRIBE_TRANSACTIONS,
                DescribeTransactionsRequest(some),
                DescribeTransactionsResponse,
                deadline,
                target=calls.node(node),
                what="describing transactions",
            )
            states = {state.transactional_id: state for state in response.transaction_states}
            if not states.keys() >= set(some):
                raise ProtocolError(f"the response to DescribeTransactions lacks {sorted(set(some) - set(states))}")
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
    """Return the transactional ids with this prefix whose producers may write.

    Such a producer is initialized, or has a transaction.

    Raises:
        KafkaError: a request failed with an error that is not retriable, or the brokers could not be reached in time.
    """
    states = ["Empty", "Ongoing"]
    failures = 0
    pattern: str | None = f"^{re.escape(beginning)}.*"
    while True:
        try:
            found = yield from transactions.list_all(calls, deadline, states=states, pattern=pattern)
        except UnsupportedVersionError:
            if pattern is None:
                raise
            pattern = None  # the broker is older than KIP-1152: list all
        except KafkaError as error:
            if not error.retriable:
                raise
            calls.metadata.request_update()
            yield from calls.pause(failures, deadline)
            failures += 1
        else:
            return [one.transactional_id for one in found if one.transactional_id.startswith(beginning)]


def stable_offset(calls: Calls, group_id: str, tp: TopicPartition, deadline: float) -> Steps[OffsetAndMetadata | None]:
    """Return a group's committed offset for a partition.

    If pending transactions have offsets of the partition, wait until they have ended (KIP-447).

    Raises:
        KafkaError: the coordinator could not be reached in time, or access was denied.
    """

    sent_version = _WITH_STABLE

    def build(version: int) -> Message:
        nonlocal sent_version
        sent_version = version
        return offset_fetch_request(version, group_id=group_id, partitions=[tp])

    def check(response: OffsetFetchResponse) -> KafkaError | None:
        found = read_offset_fetch(sent_version, response, group_id=group_id)
        code = found.error_code or found.errors.get(tp, Errors.NONE)
        if not code and tp not in found.offsets:
            return ProtocolError(f"the response to OffsetFetch lacks {tp}")
        return for_code(code, f"group {group_id!r}") if code else None

    response = yield from calls.call(
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
    return read_offset_fetch(sent_version, response, group_id=group_id).offsets[tp]
