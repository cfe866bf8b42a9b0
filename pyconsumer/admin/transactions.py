"""Admin calls for transactions: list, describe, fence, abort, and find hanging ones (KIP-664)."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from pyconsumer.admin.types import HangingTransaction, ProducerState, TransactionDescription, TransactionListing
from pyconsumer.errors import (
    InvalidTxnStateError,
    KafkaError,
    ProtocolError,
    TransactionalIdNotFoundError,
    for_code,
)
from pyconsumer.network.calls import Calls
from pyconsumer.protocol.api_keys import ApiKey
from pyconsumer.protocol.messages import (
    describe_producers,
    describe_transactions,
    init_producer_id,
    list_transactions,
    write_txn_markers,
)
from pyconsumer.structs import TopicPartition

if TYPE_CHECKING:
    from pyconsumer.network.futures import Steps

__all__ = ["abort", "describe", "describe_producers_of", "fence", "find_hanging", "list_all"]

#: The timeout of an id that is only fenced: it opens no transaction.
_FENCING_TIMEOUT_MS = 1


def list_all(
    calls: Calls,
    deadline: float,
    *,
    states: Iterable[str] = (),
    producer_ids: Iterable[int] = (),
    min_duration_ms: int | None = None,
    pattern: str | None = None,
) -> Steps[list[TransactionListing]]:
    """Return the transactional ids of all brokers, sorted.

    Raises:
        UnsupportedVersionError: a broker is too old for one of the filters.
        KafkaError: a broker did not answer, or a filter has an unknown value.
    """
    yield from calls.known_cluster(deadline)
    request = list_transactions.ListTransactionsRequest(
        list(states), list(producer_ids), -1 if min_duration_ms is None else min_duration_ms, pattern
    )
    found: dict[str, TransactionListing] = {}
    for broker in calls.metadata.brokers():
        response = yield from calls.call(
            ApiKey.LIST_TRANSACTIONS,
            request,
            list_transactions.ListTransactionsResponse,
            deadline,
            target=calls.node(broker.node_id),
            check=lambda response: for_code(response.error_code) if response.error_code else None,
            min_version=2 if pattern else 1 if min_duration_ms is not None else 0,
            what="listing transactions",
        )
        if response.unknown_state_filters:
            unknown = ", ".join(response.unknown_state_filters)
            raise ValueError(f"no transaction has a state named {unknown}. Ongoing is one, for example")
        for item in response.transaction_states:
            found[item.transactional_id] = TransactionListing(
                item.transactional_id, item.producer_id, item.transaction_state, broker.node_id
            )
    return [found[name] for name in sorted(found)]


def describe(calls: Calls, transactional_id: str, deadline: float) -> Steps[TransactionDescription]:
    """Describe the transaction of a transactional id.

    Raises ``TransactionalIdNotFoundError`` if no producer has recently used the id.
    """
    coordinator = None

    def target(until: float) -> Steps[int | None]:
        nonlocal coordinator
        coordinator = yield from calls.transaction_coordinator(transactional_id)(until)
        return coordinator

    response = yield from calls.call(
        ApiKey.DESCRIBE_TRANSACTIONS,
        describe_transactions.DescribeTransactionsRequest([transactional_id]),
        describe_transactions.DescribeTransactionsResponse,
        deadline,
        target=target,
        check=lambda response: _first_error(response.transaction_states, transactional_id),
        what=f"describing transactional id {transactional_id!r}",
    )
    state = response.transaction_states[0]
    return TransactionDescription(
        transactional_id,
        state.transaction_state,
        state.producer_id,
        state.producer_epoch,
        state.transaction_timeout_ms,
        None if state.transaction_start_time_ms < 0 else state.transaction_start_time_ms,
        tuple(sorted(TopicPartition(topic.topic, one) for topic in state.topics for one in topic.partitions)),
        -1 if coordinator is None else coordinator,
    )


def _first_error(states: list[describe_transactions.TransactionState], transactional_id: str) -> KafkaError | None:
    if len(states) != 1 or states[0].transactional_id != transactional_id:
        return ProtocolError(f"the response is not about transactional id {transactional_id!r}")
    code = states[0].error_code
    return for_code(code, f"transactional id {transactional_id!r}") if code else None


def describe_producers_of(calls: Calls, tp: TopicPartition, deadline: float) -> Steps[list[ProducerState]]:
    """Return the producers that the leader of a partition knows."""
    topic = describe_producers.TopicRequest(tp.topic, [tp.partition])

    def check(response: describe_producers.DescribeProducersResponse) -> KafkaError | None:
        found = [one for each in response.topics if each.name == tp.topic for one in each.partitions]
        if len(found) != 1 or found[0].partition_index != tp.partition:
            return ProtocolError(f"the response is not about {tp}")
        code = found[0].error_code
        return for_code(code, found[0].error_message or None) if code else None

    response = yield from calls.call(
        ApiKey.DESCRIBE_PRODUCERS,
        describe_producers.DescribeProducersRequest([topic]),
        describe_producers.DescribeProducersResponse,
        deadline,
        target=calls.leader(tp),
        check=check,
        what=f"describing the producers of {tp}",
    )
    return [
        ProducerState(
            one.producer_id,
            one.producer_epoch,
            one.last_sequence,
            one.last_timestamp,
            one.coordinator_epoch,
            None if one.current_txn_start_offset < 0 else one.current_txn_start_offset,
        )
        for one in response.topics[0].partitions[0].active_producers
    ]


def _abort(calls: Calls, tp: TopicPartition, producer: ProducerState, deadline: float) -> Steps[None]:
    marker = write_txn_markers.WritableTxnMarker(
        producer.producer_id,
        producer.producer_epoch,
        False,
        [write_txn_markers.WritableTxnMarkerTopic(tp.topic, [tp.partition])],
        max(producer.coordinator_epoch, 0),
    )

    def check(response: write_txn_markers.WriteTxnMarkersResponse) -> KafkaError | None:
        codes = [one.error_code for each in response.markers for topic in each.topics for one in topic.partitions]
        if len(codes) != 1:
            return ProtocolError(f"the response is not about {tp}")
        return for_code(codes[0], f"the transaction of producer {producer.producer_id} in {tp}") if codes[0] else None

    yield from calls.call(
        ApiKey.WRITE_TXN_MARKERS,
        write_txn_markers.WriteTxnMarkersRequest([marker]),
        write_txn_markers.WriteTxnMarkersResponse,
        deadline,
        target=calls.leader(tp),
        check=check,
        what=f"aborting the transaction of producer {producer.producer_id} in {tp}",
    )


def abort(calls: Calls, tp: TopicPartition, start_offset: int, deadline: float) -> Steps[None]:
    """Abort the transaction that begins at an offset of a partition.

    Raises:
        InvalidTxnStateError: no transaction begins at this offset.
    """
    producers = yield from describe_producers_of(calls, tp, deadline)
    found = [one for one in producers if one.transaction_start_offset == start_offset]
    if not found:
        known = ", ".join(str(one.transaction_start_offset) for one in producers if one.is_open) or "none"
        raise InvalidTxnStateError(
            f"no transaction of {tp} begins at offset {start_offset}. Open ones begin at: {known}"
        )
    yield from _abort(calls, tp, found[0], deadline)


def fence(calls: Calls, transactional_id: str, deadline: float) -> Steps[tuple[int, int]]:
    """Fence the producer of a transactional id, and abort its open transaction.

    Returns:
        The producer id and the new epoch.
    """
    response = yield from calls.call(
        ApiKey.INIT_PRODUCER_ID,
        init_producer_id.InitProducerIdRequest(transactional_id, _FENCING_TIMEOUT_MS),
        init_producer_id.InitProducerIdResponse,
        deadline,
        target=calls.transaction_coordinator(transactional_id),
        check=lambda response: (
            for_code(response.error_code, f"transactional id {transactional_id!r}") if response.error_code else None
        ),
        what=f"fencing transactional id {transactional_id!r}",
    )
    return response.producer_id, response.producer_epoch


def find_hanging(
    calls: Calls, partitions: Iterable[TopicPartition], max_timeout_ms: int, deadline: float
) -> Steps[list[HangingTransaction]]:
    """Find transactions that hold up readers of partitions, and that no coordinator knows (KIP-664).

    Args:
        max_timeout_ms: the brokers' setting ``transaction.max.timeout.ms``. A younger transaction may still be ended.
    """
    now_ms = int(time.time() * 1000)
    suspects: list[tuple[TopicPartition, ProducerState]] = []
    for tp in partitions:
        producers = yield from describe_producers_of(calls, tp, deadline)
        old = [one for one in producers if one.is_open and now_ms - one.last_timestamp_ms > max_timeout_ms]
        suspects += [(tp, one) for one in old]
    if not suspects:
        return []
    ids = {producer.producer_id for _, producer in suspects}
    listed = yield from list_all(calls, deadline, producer_ids=ids)
    known: dict[int, TransactionDescription] = {}
    for listing in listed:
        try:
            known[listing.producer_id] = yield from describe(calls, listing.transactional_id, deadline)
        except TransactionalIdNotFoundError:
            continue
    return list(_hanging(suspects, known))


def _hanging(
    suspects: Iterable[tuple[TopicPartition, ProducerState]], known: dict[int, TransactionDescription]
) -> Iterator[HangingTransaction]:
    for tp, producer in suspects:
        owner = known.get(producer.producer_id)
        if owner is None:
            yield HangingTransaction(tp, producer, None)
        elif tp not in owner.partitions and owner.producer_epoch >= producer.producer_epoch:
            yield HangingTransaction(tp, producer, owner.transactional_id)
