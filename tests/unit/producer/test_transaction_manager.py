"""The producer's side of transactions: states, order of requests, and the effect of errors, as in Java's producer."""

from __future__ import annotations

import uuid

import pytest

from pyconsumer.errors import (
    CommitFailedError,
    Errors,
    IllegalStateError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    OutOfOrderSequenceNumberError,
    ProducerFencedError,
    ProtocolError,
    TransactionAbortableError,
    TransactionAbortedError,
    UnsupportedVersionError,
    for_code,
)
from pyconsumer.producer.pending_request import PendingRequest, TransactionResult
from pyconsumer.producer.transaction_errors import (
    RequestKind,
    TransactionErrorAction,
    ends_producer,
    transaction_error_action,
)
from pyconsumer.producer.transaction_manager import (
    PREDECESSORS,
    DetachedTransaction,
    TransactionManager,
    TransactionState,
)
from pyconsumer.producer.transaction_requests import call_for, rejects_topic_id, take_response
from pyconsumer.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from pyconsumer.structs import BrokerMetadata, ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from tests.support.java import tools
from tests.vectors.make_transactions import VECTORS, expected, read_vectors

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
NODE = BrokerMetadata(7, "here", 9092)
S = TransactionState


class Producer:
    """A manager, and a cluster's responses to it."""

    def __init__(self, version: int = 2, *, supports_bump: bool = True) -> None:
        self.version = version
        self.supports_bump = supports_bump
        self.core = TransactionManager("id", lambda failures: 0.1 * (failures + 1))
        self.core.on_features(1, version)
        self.now = 0.0
        self.sent: list[str] = []
        self.epoch = 0

    def next(self, *, has_incomplete: bool = False) -> PendingRequest | None:
        request = self.core.next_request(self.now, has_incomplete=has_incomplete)
        if request is not None:
            self.sent.append(request.kind.value)
        return request

    def take(self, kind: RequestKind) -> PendingRequest:
        """Answer all requests before the next one of a kind, and return that one."""
        while (request := self.next()) is not None:
            if request.kind is kind:
                return request
            self.answer(request)
        raise AssertionError(f"no {kind.value} is sent")

    def answer(self, request: PendingRequest) -> None:
        """Answer with success."""
        core = self.core
        if request.kind is RequestKind.FIND_COORDINATOR:
            core.on_coordinator(request, NODE)
        elif request.kind is RequestKind.INIT_PRODUCER_ID:
            core.on_producer(request, (1, self.epoch), supports_bump=self.supports_bump)
            self.epoch += 1
        elif request.kind is RequestKind.ADD_PARTITIONS:
            core.on_partitions_added(request, dict.fromkeys(request.details, 0), self.now)
        elif request.kind is RequestKind.ADD_OFFSETS:
            core.on_offsets_added(request)
        elif request.kind is RequestKind.COMMIT_OFFSETS:
            core.on_offsets_committed(request, dict.fromkeys(request.details.left, 0), self.now)
        else:
            producer = (-1, -1)
            if core.is_v2 and request.max_version is None:
                producer, self.epoch = (1, self.epoch), self.epoch + 1
            core.on_ended(request, producer)

    def run(self) -> None:
        """Answer every request that can be sent."""
        while (request := self.next()) is not None:
            self.answer(request)

    def wait(self, result: TransactionResult) -> None:
        self.run()
        assert result.wait(0)
        if result.error is not None:
            raise result.error

    def opened(self) -> Producer:
        """A manager in a transaction with a partition to which a batch was sent."""
        self.wait(self.core.initialize())
        self.core.begin()
        self.core.add_partition(P0)
        self.run()
        self.core.on_sent()
        return self


def offsets(*partitions: TopicPartition) -> dict[TopicPartition, OffsetAndMetadata]:
    return {tp: OffsetAndMetadata(5) for tp in partitions}


# The same as Java


def test_the_moves_are_javas() -> None:
    """Without those of prepared transactions (KIP-939), which no released broker has."""
    javas = {(S[a], S[b]) for a, b in read_vectors("move") if "PREPARED_TRANSACTION" not in (a, b)}
    ours = {(a, b) for b, before in PREDECESSORS.items() for a in before}
    assert ours == javas


_KINDS = {
    "INIT": RequestKind.INIT_PRODUCER_ID,
    "FIND": RequestKind.FIND_COORDINATOR,
    "FIND_GROUP": RequestKind.FIND_COORDINATOR,
    "ADD_PARTITIONS": RequestKind.ADD_PARTITIONS,
    "ADD_OFFSETS": RequestKind.ADD_OFFSETS,
    "COMMIT_OFFSETS": RequestKind.COMMIT_OFFSETS,
    "COMMIT": RequestKind.END,
    "ABORT": RequestKind.END,
}


def _in_state(request: str, version: int) -> tuple[Producer, PendingRequest]:
    """A producer whose next response is that to a request, as ``TransactionVectors.java`` prepares Java's."""
    producer = Producer(version)
    core = producer.core
    if request in ("INIT", "FIND"):
        core.initialize()
        return producer, producer.take(_KINDS[request])
    producer.wait(core.initialize())
    core.begin()
    core.is_v2 = False
    if request == "ADD_PARTITIONS":
        core.add_partition(P0)
    elif request == "ADD_OFFSETS":
        core.add_offsets(offsets(P0), ConsumerGroupMetadata("g"))
    elif request in ("COMMIT_OFFSETS", "FIND_GROUP"):
        core.is_v2 = True
        core.add_offsets(offsets(P0), ConsumerGroupMetadata("g"))
    else:
        core.on_sent()
        if request == "COMMIT":
            core.commit()
        else:
            core.abort()
    found = producer.take(_KINDS[request])
    core.is_v2 = version == 2
    return producer, found


#: Codes that TxnOffsetCommit has from version 6 on: Java's producer aborts since 4.4, which is newer than the vectors.
_SINCE_KIP_1319 = [("COMMIT_OFFSETS", "GROUP_ID_NOT_FOUND"), ("COMMIT_OFFSETS", "STALE_MEMBER_EPOCH")]


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("request_name", _KINDS)
def test_errors_have_the_effect_of_javas_producer(request_name: str, version: int) -> None:
    """For every error code. ``TransactionVectors.java`` ran Java's own TransactionManager."""
    rows = [row for row in read_vectors("error") if row[:2] == [str(version), request_name]]
    assert len(rows) > 100
    for _, _, name, state, repeated, lookup, bump, _ in rows:
        if (request_name, name) == ("ABORT", "UNKNOWN_PRODUCER_ID"):
            continue  # Java's producer is left in ABORTING_TRANSACTION, which nothing ends
        if (request_name, name) in _SINCE_KIP_1319:
            state, repeated, lookup, bump = "ABORTABLE_ERROR", "", "", ""
        producer, request = _in_state(request_name, version)
        core = producer.core
        code = Errors[name]
        if request_name == "ADD_PARTITIONS":
            core.on_partitions_added(request, {P0: code}, 0.0)
        elif request_name == "COMMIT_OFFSETS":
            core.on_offsets_committed(request, {P0: code}, 0.0)
        else:
            core.on_error(request, code, 0.0)
        known = core.coordinator(request) is None and request.kind is not RequestKind.FIND_COORDINATOR
        assert core.state.name == state, name
        assert (request in core._waiting) is (repeated == "repeated"), name
        assert known is (lookup == "lookup"), name
        assert core._needs_bump is (bump == "bump"), name


def test_batches_fail_as_with_java() -> None:
    rows = [row for row in read_vectors("error") if row[1] == "PRODUCE"]
    for version, _, name, state, _, _, bump, _ in rows:
        producer = Producer(int(version)).opened()
        error = for_code(Errors[name])
        producer.core.on_batch_failed(error, uncertain=False)
        assert producer.core.state.name == state, name
        if state == "ABORTABLE_ERROR":
            assert producer.core._needs_bump is (bump == "bump"), name
        assert ends_producer(error) is (state == "FATAL_ERROR")


@pytest.mark.kafka
def test_java_still_produces_the_vectors() -> None:
    import gzip

    assert expected(tools()) == gzip.decompress(VECTORS.read_bytes()).decode()


# What is sent, and when


def test_the_requests_of_version_1() -> None:
    producer = Producer(1).opened()
    result = producer.core.add_offsets(offsets(P0, P1), ConsumerGroupMetadata("g"))
    producer.wait(result)
    producer.wait(producer.core.commit())
    assert producer.sent == [
        "FindCoordinator",
        "InitProducerId",
        "AddPartitionsToTxn",
        "AddOffsetsToTxn",
        "FindCoordinator",
        "TxnOffsetCommit",
        "EndTxn",
    ]
    assert producer.core.producer == (1, 0)


def test_the_requests_of_version_2() -> None:
    producer = Producer(2).opened()
    producer.wait(producer.core.add_offsets(offsets(P0), ConsumerGroupMetadata("g")))
    producer.wait(producer.core.commit())
    assert producer.sent == ["FindCoordinator", "InitProducerId", "FindCoordinator", "TxnOffsetCommit", "EndTxn"]
    assert producer.core.producer == (1, 1)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("commit", [True, False])
def test_an_empty_transaction_needs_no_request(version: int, commit: bool) -> None:
    producer = Producer(version)
    producer.wait(producer.core.initialize())
    before = list(producer.sent)
    producer.core.begin()
    producer.wait(producer.core.commit() if commit else producer.core.abort())
    assert producer.sent == before
    assert producer.core.state is S.READY


def test_the_end_waits_for_all_batches() -> None:
    producer = Producer().opened()
    producer.core.commit()
    assert producer.next(has_incomplete=True) is None
    assert producer.take(RequestKind.END).details is True


def test_a_partition_may_be_sent_to_after_it_was_added() -> None:
    producer = Producer(1)
    producer.wait(producer.core.initialize())
    producer.core.begin()
    producer.core.add_partition(P0)
    assert not producer.core.may_send(P0)
    producer.core.add_partition(P1)
    request = producer.take(RequestKind.ADD_PARTITIONS)
    assert request.details == {P0, P1}
    producer.core.add_partition(P0)
    producer.answer(request)
    assert producer.core.may_send(P0)
    assert producer.next() is None
    assert Producer(2).opened().core.may_send(P0)


def test_the_first_partition_of_a_transaction_waits_20_ms_for_the_one_before() -> None:
    producer, request = _in_state("ADD_PARTITIONS", 1)
    producer.core.on_partitions_added(request, {P0: Errors.CONCURRENT_TRANSACTIONS}, 0.0)
    assert producer.next() is None
    assert producer.core.wake_at() == pytest.approx(0.02)
    producer.now = 0.02
    producer.run()
    producer.core.add_partition(P1)
    again = producer.take(RequestKind.ADD_PARTITIONS)
    producer.core.on_partitions_added(again, {P1: Errors.CONCURRENT_TRANSACTIONS}, producer.now)
    assert producer.core.wake_at() == pytest.approx(0.12)


def test_the_partition_that_was_not_attempted_is_not_the_cause() -> None:
    producer, request = _in_state("ADD_PARTITIONS", 1)
    errors = {P1: Errors.OPERATION_NOT_ATTEMPTED, P0: Errors.TOPIC_AUTHORIZATION_FAILED}
    producer.core.on_partitions_added(request, errors, 0.0)
    assert producer.core.state is S.ABORTABLE_ERROR
    with pytest.raises(TransactionAbortableError, match=r"abort_transaction\(\).*cannot add t-0"):
        producer.core.commit()


def test_an_incomplete_response_is_fatal() -> None:
    producer, request = _in_state("ADD_PARTITIONS", 1)
    producer.core.on_partitions_added(request, {}, 0.0)
    assert isinstance(producer.core.last_error, ProtocolError)
    producer, request = _in_state("COMMIT_OFFSETS", 2)
    producer.core.on_offsets_committed(request, {}, 0.0)
    assert producer.core.state is S.FATAL_ERROR


def test_only_offsets_with_a_retriable_error_are_repeated() -> None:
    producer = Producer(2).opened()
    result = producer.core.add_offsets(offsets(P0, P1), ConsumerGroupMetadata("g"))
    request = producer.take(RequestKind.COMMIT_OFFSETS)
    producer.core.on_offsets_committed(request, {P0: 0, P1: Errors.NOT_COORDINATOR}, 0.0)
    assert not result.done
    producer.now = 1.0
    again = producer.take(RequestKind.COMMIT_OFFSETS)
    assert producer.sent[-2:] == ["FindCoordinator", "TxnOffsetCommit"]
    assert set(again.details.left) == {P1}
    producer.answer(again)
    assert result.done
    assert result.error is None


def test_a_consumer_that_has_left_its_group_ends_the_transaction() -> None:
    producer, request = _in_state("COMMIT_OFFSETS", 2)
    producer.core.on_offsets_committed(request, {P0: Errors.ILLEGAL_GENERATION}, 0.0)
    with pytest.raises(TransactionAbortableError, match="not a member") as raised:
        raise request.result.error  # type: ignore[misc]
    assert isinstance(raised.value.__cause__, CommitFailedError)


# Calls


def test_calls_in_the_wrong_state_name_the_right_call() -> None:
    core = TransactionManager("id", lambda _: 0.0)
    for call in (core.begin, core.commit, core.abort, core.check_send):
        with pytest.raises(IllegalStateError, match=r"init_transactions\(\) was not called"):
            call()
    producer = Producer()
    core = producer.core
    producer.wait(core.initialize())
    for call in (core.commit, core.abort, core.check_send, lambda: core.add_offsets({}, ConsumerGroupMetadata("g"))):
        with pytest.raises(IllegalStateError, match=r"call begin_transaction\(\) first"):
            call()
    with pytest.raises(IllegalStateError, match="called before"):
        core.initialize()
    core.begin()
    with pytest.raises(IllegalStateError, match="commit or abort it first"):
        core.begin()


def test_a_call_that_timed_out_may_only_be_repeated() -> None:
    producer = Producer().opened()
    core = producer.core
    first = core.commit()
    assert not first.wait(0)
    with pytest.raises(IllegalStateError, match=r"commit_transaction\(\) has not finished"):
        core.abort()
    with pytest.raises(IllegalStateError, match="has not finished"):
        core.begin()
    assert core.commit() is first
    producer.run()
    assert core.commit() is first
    assert first.wait(0)
    core.begin()


def test_fatal_errors_name_the_reason_and_the_way_out() -> None:
    producer = Producer().opened()
    result = producer.core.commit()
    producer.core.on_error(producer.take(RequestKind.END), Errors.INVALID_PRODUCER_EPOCH, 0.0)
    for call in (lambda: producer.wait(result), producer.core.abort, producer.core.begin, producer.core.check_send):
        with pytest.raises(ProducerFencedError, match=r"'id' cannot be used any more: .*make a new one"):
            call()


def test_after_an_abortable_error_only_an_abort_is_possible() -> None:
    producer = Producer().opened()
    core = producer.core
    core.on_batch_failed(OutOfOrderSequenceNumberError(), uncertain=False)
    for call in (core.commit, core.check_send, core.begin):
        with pytest.raises(TransactionAbortableError, match="OUT_OF_ORDER_SEQUENCE_NUMBER"):
            call()
    assert core.drop_reason is not None
    assert isinstance(core.drop_reason[0], OutOfOrderSequenceNumberError)
    result = core.abort()
    assert core.drop_reason is not None
    assert isinstance(core.drop_reason[0], TransactionAbortedError)
    producer.wait(result)
    core.begin()
    assert core.drop_reason is None


def test_a_failed_batch_fails_the_waiting_commit() -> None:
    producer = Producer().opened()
    result = producer.core.commit()
    assert producer.next(has_incomplete=True) is None
    producer.core.on_batch_failed(KafkaTimeoutError("too slow"), uncertain=True)
    with pytest.raises(TransactionAbortableError, match="too slow"):
        producer.wait(result)
    producer.wait(producer.core.abort())


# Epochs


def test_an_uncertain_batch_raises_the_epoch_before_the_next_transaction() -> None:
    producer = Producer(1).opened()
    producer.core.on_batch_failed(KafkaTimeoutError("lost"), uncertain=True)
    result = producer.core.abort()
    end = producer.take(RequestKind.END)
    producer.answer(end)
    assert not result.done
    assert producer.core.state is S.INITIALIZING
    bump = producer.take(RequestKind.INIT_PRODUCER_ID)
    assert bump.details == (1, 0)
    producer.answer(bump)
    assert result.done
    assert (producer.core.state, producer.core.producer) == (S.READY, (1, 1))


def test_without_a_way_to_raise_the_epoch_an_uncertain_batch_ends_the_producer() -> None:
    producer = Producer(0, supports_bump=False).opened()
    producer.core.on_batch_failed(KafkaTimeoutError("lost"), uncertain=True)
    assert producer.core.state is S.FATAL_ERROR


def test_the_version_changes_between_two_transactions_only() -> None:
    producer = Producer(1).opened()
    core = producer.core
    core.on_features(2, 2)
    assert not core.is_v2
    result = core.commit()
    end = producer.take(RequestKind.END)
    assert end.max_version == 4
    producer.answer(end)
    assert producer.take(RequestKind.INIT_PRODUCER_ID).is_bump  # so that version 2 begins with an epoch of its own
    assert core.is_v2
    assert not result.done
    core.on_features(1, 0)  # older news
    assert core.is_v2


def test_a_downgrade_to_version_1() -> None:
    producer = Producer(2).opened()
    core = producer.core
    core.on_features(2, 1)
    producer.wait(core.commit())
    assert not core.is_v2
    core.begin()
    core.add_partition(P0)
    assert producer.take(RequestKind.ADD_PARTITIONS)


# Losses


def test_a_lost_coordinator_is_looked_up_again() -> None:
    producer = Producer().opened()
    result = producer.core.commit()
    end = producer.take(RequestKind.END)
    producer.core.on_lost(end, KafkaConnectionError("gone"), 0.0)
    assert str(result.last_failure) == "gone"
    find = producer.next()
    assert find is not None
    assert find.kind is RequestKind.FIND_COORDINATOR
    producer.core.on_error(find, Errors.COORDINATOR_NOT_AVAILABLE, 0.0)
    assert producer.next() is None
    producer.now = 5.0
    producer.wait(result)


def test_a_too_old_broker_is_a_fatal_error() -> None:
    producer = Producer()
    result = producer.core.initialize()
    producer.core.on_refused(producer.take(RequestKind.INIT_PRODUCER_ID), UnsupportedVersionError("too old"))
    with pytest.raises(KafkaError, match="too old"):
        producer.wait(result)


def test_an_abort_drops_pending_partitions_and_offsets() -> None:
    producer = Producer(2).opened()
    result = producer.core.add_offsets(offsets(P0), ConsumerGroupMetadata("g"))
    request = producer.take(RequestKind.COMMIT_OFFSETS)
    abort = producer.core.abort()
    producer.core.on_offsets_committed(request, {P0: Errors.UNKNOWN_TOPIC_OR_PARTITION}, 0.0)
    assert isinstance(result.error, TransactionAbortedError)
    producer.wait(abort)
    assert producer.core.state is S.READY


def test_a_rejected_initialization_may_be_retried() -> None:
    producer = Producer()
    result = producer.core.initialize()
    request = producer.take(RequestKind.INIT_PRODUCER_ID)
    producer.core.on_error(request, Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, 0.0)
    with pytest.raises(TransactionAbortableError, match="TRANSACTIONAL_ID_AUTHORIZATION_FAILED"):
        producer.wait(result)
    assert not producer.core.has_open_transaction  # so that a close does not wait for an abort
    producer.wait(producer.core.abort())
    producer.wait(producer.core.initialize())


@pytest.mark.parametrize("version", [1, 2])
def test_an_open_transaction_is_handed_over_and_not_ended(version: int) -> None:
    producer = Producer(version).opened()
    with pytest.raises(IllegalStateError, match="flush first"):
        producer.core.detach(has_incomplete=True)
    found = producer.core.detach(has_incomplete=False)
    assert found == DetachedTransaction("id", 1, 0, version == 2)
    assert not producer.core.has_open_transaction  # so that a close ends the thread without an abort
    for call in (producer.core.begin, producer.core.commit, producer.core.abort):
        with pytest.raises(KafkaError, match="handed over"):
            call()
    producer.run()
    assert "EndTxn" not in producer.sent


def test_only_an_intact_transaction_with_records_is_detached() -> None:
    producer = Producer()
    producer.wait(producer.core.initialize())
    with pytest.raises(IllegalStateError, match="no transaction is open"):
        producer.core.detach(has_incomplete=False)
    producer.core.begin()
    assert producer.core.detach(has_incomplete=False) is None
    failed = Producer().opened()
    failed.core.on_batch_failed(KafkaTimeoutError("late"), uncertain=False)
    with pytest.raises(TransactionAbortableError):
        failed.core.detach(has_incomplete=False)
    assert failed.core.has_open_transaction


def test_a_close_fails_waiting_calls() -> None:
    producer = Producer().opened()
    result = producer.core.commit()
    producer.core.close(KafkaError("closed"))
    assert str(result.error) == "closed"


def test_each_action_occurs() -> None:
    found = {transaction_error_action(kind, code) for kind in RequestKind for code in Errors if code}
    assert found == set(TransactionErrorAction)


def test_offsets_are_committed_by_topic_ids_if_all_are_known() -> None:
    """KIP-1319."""
    producer, request = _in_state("COMMIT_OFFSETS", 2)
    by_name = call_for(producer.core, request, 60_000)
    assert by_name.max_version == 5
    ids = {P0.topic: uuid.uuid4().bytes}
    by_id = call_for(producer.core, request, 60_000, ids)
    assert by_id.max_version is None
    sent = TxnOffsetCommitRequest.decode(by_id.build(6).encode(6), 6)
    assert [(topic.name, topic.topic_id) for topic in sent.topics] == [("", ids[P0.topic])]
    done = [TxnOffsetCommitResponsePartition(P0.partition, Errors.NONE)]
    response = TxnOffsetCommitResponse(topics=[TxnOffsetCommitResponseTopic(topic_id=ids[P0.topic], partitions=done)])
    assert not rejects_topic_id(response)
    take_response(producer.core, request, response, 6, 0.0, ids)
    assert request.result.wait(0)
    assert request.result.error is None


def test_an_unknown_topic_id_is_seen() -> None:
    failed = [TxnOffsetCommitResponsePartition(0, Errors.UNKNOWN_TOPIC_ID)]
    response = TxnOffsetCommitResponse(topics=[TxnOffsetCommitResponseTopic(topic_id=bytes(16), partitions=failed)])
    assert rejects_topic_id(response)
