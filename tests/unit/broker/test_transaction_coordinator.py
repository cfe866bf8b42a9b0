"""The transaction coordinator by its requests: states, fencing, versions, time, loads, on brokers without sockets."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from pyconsumer.broker.controller import OFFSETS_TOPIC, TRANSACTION_TOPIC
from pyconsumer.broker.group.manager import GroupMetadataManager
from pyconsumer.broker.transaction.cluster import BrokerCluster
from pyconsumer.broker.transaction.metadata import TransactionMetadata, TransactionState
from pyconsumer.broker.transaction.records import metadata_from_value
from pyconsumer.errors import Errors, ProtocolError
from pyconsumer.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from pyconsumer.protocol.messages.init_producer_id import InitProducerIdRequest
from pyconsumer.protocol.messages.write_txn_markers import WritableTxnMarker
from pyconsumer.protocol.records import scan
from pyconsumer.structs import TopicPartition
from tests.unit.broker.brokers import Brokers
from tests.unit.broker.transactions import (
    SINK,
    Producer,
    end_offset,
    log_bytes,
    markers_of,
    read,
    states_of,
    write_marker,
)

OTHER = TopicPartition("sink", 1)
_LAST = 32766  # the last epoch that a client may have

Make = Callable[..., Brokers]


@pytest.fixture
def make() -> Iterator[Make]:
    """Make a cluster with the topic ``sink``, and stop it in the end."""
    made: list[Brokers] = []

    def start(version: int = 2, count: int = 1, **config: object) -> Brokers:
        settings = {"offsets_topic_num_partitions": 1, "transaction_state_log_num_partitions": 1} | config
        brokers = Brokers(None, count, forgetful=True, **settings)
        made.append(brokers)
        brokers.controller.update_features({"transaction.version": version})
        brokers.controller.create_topic("sink", 2, count, {})
        for name in (OFFSETS_TOPIC, TRANSACTION_TOPIC):
            brokers.controller.ensure_internal(name)
        brokers.advance(0.1)
        return brokers

    yield start
    for brokers in made:
        brokers.stop()


@pytest.fixture(params=[0, 1, 2])
def any_version(request: pytest.FixtureRequest, make: Make) -> Brokers:
    """One broker under each transaction version."""
    return make(request.param)


def started(brokers: Brokers, transactional_id: str = "id") -> Producer:
    """A producer after InitProducerId."""
    producer = Producer(brokers, transactional_id)
    assert producer.init()[0] == Errors.NONE
    return producer


def hold_back(brokers: Brokers) -> None:
    """Pause the followers, so that no record reaches all replicas."""
    for broker in brokers.alive.values():
        broker.fetcher.pause()


def resume(brokers: Brokers) -> None:
    for broker in brokers.alive.values():
        broker.fetcher.resume()
    brokers.run()


# --- InitProducerId


class TestInit:
    def test_the_same_producer_id_comes_back_with_a_higher_epoch(self, any_version: Brokers) -> None:
        first = started(any_version).producer
        second = started(any_version).producer
        assert first[1] == 0
        assert second == (first[0], 1)
        assert started(any_version, "other").producer[0] != first[0]

    def test_id_and_producer_are_in_the_log(self, any_version: Brokers) -> None:
        producer = started(any_version)
        (record,) = states_of(any_version)["id"]
        assert record is not None
        assert (record.producer_id, record.producer_epoch) == producer.producer
        assert (record.state, record.timeout_ms, record.start_ms) == (TransactionState.EMPTY, 60_000, -1)

    def test_without_a_transactional_id_no_record_is_written(self, any_version: Brokers) -> None:
        numbers = {_ask_for_id(any_version) for _ in range(3)}
        assert len(numbers) == 3
        assert {epoch for _, epoch in numbers} == {0}
        assert states_of(any_version) == {}

    def test_rejected_requests(self, any_version: Brokers) -> None:
        assert Producer(any_version, "").init() == (Errors.INVALID_REQUEST, -1, -1)
        too_long = Producer(any_version).init(timeout_ms=900_001)
        assert too_long == (Errors.INVALID_TRANSACTION_TIMEOUT, -1, -1)
        assert Producer(any_version).init(timeout_ms=0)[0] == Errors.INVALID_TRANSACTION_TIMEOUT
        assert Producer(any_version).init(timeout_ms=900_000)[0] == Errors.NONE

    def test_an_open_transaction_of_an_earlier_producer_is_aborted(self, any_version: Brokers) -> None:
        old = started(any_version)
        old.add(SINK)
        assert old.send(b"lost") == Errors.NONE
        new = Producer(any_version)
        assert new.init()[0] == Errors.CONCURRENT_TRANSACTIONS
        assert new.init()[0] == Errors.NONE
        assert new.producer[0] == old.producer[0]
        assert new.producer[1] > old.producer[1] + 1, "one epoch fences, the next one is given"
        assert [kind for _, _, kind, _ in markers_of(any_version)] == ["ABORT"]
        assert read(any_version).values == []
        assert old.send(b"late") == Errors.INVALID_PRODUCER_EPOCH
        assert old.add(SINK) == [Errors.PRODUCER_FENCED]
        assert old.end(commit=True) == Errors.PRODUCER_FENCED

    def test_exhausted_epochs_lead_to_another_producer_id(self, any_version: Brokers) -> None:
        producer = started(any_version)
        set_epoch(any_version, _LAST)
        fresh = started(any_version)
        assert fresh.producer[0] != producer.producer[0]
        assert fresh.producer[1] == 0

    def test_a_repeated_request_gets_the_same_response(self, any_version: Brokers) -> None:
        """KIP-360: the response to a request that raises the epoch was lost."""
        producer = started(any_version)
        before = producer.producer
        code, number, epoch = producer.init(producer=before)
        assert (code, number, epoch) == (Errors.NONE, before[0], before[1] + 1)
        again = Producer(any_version)
        assert again.init(producer=before) == (Errors.NONE, number, epoch)
        assert again.init(producer=(before[0], before[1] + 7))[0] == Errors.PRODUCER_FENCED
        assert again.init(producer=(before[0] + 99, 0))[0] == Errors.PRODUCER_FENCED
        assert again.init(producer=(before[0] + 99, 0), version=3)[0] == Errors.INVALID_PRODUCER_EPOCH

    def test_a_repeated_request_at_the_last_epoch_gets_the_same_new_id(self, any_version: Brokers) -> None:
        producer = started(any_version)
        set_epoch(any_version, _LAST)
        old = (producer.producer[0], _LAST)
        first = producer.init(producer=old)
        assert first[0] == Errors.NONE
        assert first[1] != old[0]
        assert Producer(any_version).init(producer=old) == first

    def test_a_producer_id_without_epoch_is_rejected(self, any_version: Brokers) -> None:
        assert Producer(any_version).init(producer=(5, -1))[0] == Errors.INVALID_REQUEST


def _ask_for_id(brokers: Brokers) -> tuple[int, int]:
    answers = brokers.request(0, InitProducerIdRequest(None, 2**31 - 1), 5)
    brokers.run()
    return answers[0].producer_id, answers[0].producer_epoch


def set_epoch(brokers: Brokers, epoch: int, transactional_id: str = "id") -> None:
    """Set the producer epoch of an id at its coordinator."""
    coordinator = brokers.alive[Producer(brokers, transactional_id).coordinator].transaction_coordinator
    metadata = coordinator._manager.find(transactional_id).metadata
    assert metadata is not None
    metadata.record = metadata.record._replace(producer_epoch=epoch, last_producer_epoch=-1)


# --- what belongs to a transaction


class TestAdd:
    def test_partitions_are_in_the_log_before_the_response(self, any_version: Brokers) -> None:
        producer = started(any_version)
        assert producer.record.start_ms == -1, "no time runs before the first partition"
        any_version.clock.advance_to(any_version.clock.now() + 1)
        assert producer.add(SINK) == [Errors.NONE]
        begun = producer.record.start_ms
        assert begun == any_version.clock.wall_ms()
        any_version.clock.advance_to(any_version.clock.now() + 1)
        assert producer.add_offsets() == Errors.NONE
        records = [one for one in states_of(any_version)["id"] if one is not None]
        assert [sorted(one.partitions) for one in records] == [
            [],
            [SINK],
            [TopicPartition(OFFSETS_TOPIC, 0), SINK],
        ]
        assert records[1].start_ms == begun == records[2].start_ms, "the timer begins with the first partition"
        assert producer.state == "Ongoing"

    def test_rejected_producers(self, any_version: Brokers) -> None:
        producer = started(any_version)
        unknown = Producer(any_version, "unknown")
        unknown.producer = producer.producer
        assert unknown.add(SINK) == [Errors.INVALID_PRODUCER_ID_MAPPING]
        assert _like(producer, epoch=3).add(SINK) == [Errors.PRODUCER_FENCED]
        assert _like(producer, epoch=3).add(SINK, version=1) == [Errors.INVALID_PRODUCER_EPOCH]
        assert _like(producer, number=77).add(SINK) == [Errors.INVALID_PRODUCER_ID_MAPPING]
        nobody = Producer(any_version, "")
        assert nobody.add(SINK) == [Errors.INVALID_REQUEST]
        assert producer.add(SINK) == [Errors.NONE]
        before = len(log_bytes(any_version, TopicPartition(TRANSACTION_TOPIC, 0)))
        assert producer.add(SINK) == [Errors.NONE]
        assert len(log_bytes(any_version, TopicPartition(TRANSACTION_TOPIC, 0))) == before, "nothing new, no record"

    def test_all_partitions_or_none(self, any_version: Brokers) -> None:
        producer = started(any_version)
        absent = TopicPartition("absent", 0)
        assert producer.add(SINK, absent) == [Errors.OPERATION_NOT_ATTEMPTED, Errors.UNKNOWN_TOPIC_OR_PARTITION]
        internal = TopicPartition(OFFSETS_TOPIC, 0)
        assert producer.add(SINK, internal) == [Errors.OPERATION_NOT_ATTEMPTED, Errors.TOPIC_AUTHORIZATION_FAILED]
        assert producer.state == "Empty"

    def test_while_a_move_is_being_written_others_wait(self, make: Make) -> None:
        brokers = make(1, 3)
        producer = started(brokers)
        hold_back(brokers)
        waiting = brokers.request(producer.coordinator, _add_request(producer), 3)
        brokers.run()
        assert waiting == []
        assert producer.add(OTHER) == [Errors.CONCURRENT_TRANSACTIONS]
        assert producer.end(commit=True) == Errors.CONCURRENT_TRANSACTIONS
        assert producer.init()[0] == Errors.CONCURRENT_TRANSACTIONS
        assert producer.state == "Empty", "the move takes no effect before it is replicated"
        resume(brokers)
        assert len(waiting) == 1
        assert producer.state == "Ongoing"

    def test_brokers_verify_that_a_partition_belongs_to_the_transaction(self, any_version: Brokers) -> None:
        """KIP-890: VerifyOnly."""
        producer = started(any_version)
        assert producer.verify(SINK) == Errors.TRANSACTION_ABORTABLE
        producer.add(SINK)
        assert producer.verify(SINK) == Errors.NONE
        assert producer.verify(OTHER) == Errors.TRANSACTION_ABORTABLE
        assert _like(producer, epoch=9).verify(SINK) == Errors.PRODUCER_FENCED


def _like(producer: Producer, *, number: int | None = None, epoch: int | None = None) -> Producer:
    """Another producer with the same transactional id."""
    other = Producer(producer.brokers, producer.transactional_id)
    known_number, known_epoch = producer.producer
    other.producer = (known_number if number is None else number, known_epoch if epoch is None else epoch)
    return other


def _add_request(producer: Producer) -> object:
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=producer.transactional_id,
        v3_and_below_producer_id=producer.producer[0],
        v3_and_below_producer_epoch=producer.producer[1],
        v3_and_below_topics=[AddPartitionsToTxnTopic("sink", [0])],
    )


# --- the end


class TestEnd:
    @pytest.mark.parametrize("commit", [True, False])
    def test_the_records_of_one_transaction(self, any_version: Brokers, commit: bool) -> None:
        producer = started(any_version)
        producer.add(SINK)
        producer.add_offsets()
        assert producer.send(b"a", b"b") == Errors.NONE
        epoch = producer.producer[1]
        is_v2 = any_version.controller.features["transaction.version"] == 2
        assert producer.end(commit=commit, version=5 if is_v2 else 4) == Errors.NONE
        word = "COMMIT" if commit else "ABORT"
        records = [one for one in states_of(any_version)["id"] if one is not None]
        assert [one.state.name for one in records] == [
            "EMPTY",
            "ONGOING",
            "ONGOING",
            f"PREPARE_{word}",
            f"COMPLETE_{word}",
        ]
        both = {SINK, TopicPartition(OFFSETS_TOPIC, 0)}
        assert [set(one.partitions) for one in records] == [set(), {SINK}, both, both, set()]
        raised = epoch + is_v2
        for tp in both:
            assert markers_of(any_version, tp) == [(producer.producer[0], raised, word, 0)]
        assert read(any_version).values == ([b"a", b"b"] if commit else [])

    def test_markers_are_written_between_the_two_records_of_the_end(
        self, any_version: Brokers, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        producer = started(any_version)
        producer.add(SINK)
        write = BrokerCluster.write_markers
        seen = []

        def noting(channel: BrokerCluster, node: int, marker: WritableTxnMarker) -> object:
            seen.append([one.state.name for one in states_of(any_version)["id"] if one is not None])
            return write(channel, node, marker)

        monkeypatch.setattr(BrokerCluster, "write_markers", noting)
        assert producer.end(commit=True, version=4) == Errors.NONE
        assert seen == [["EMPTY", "ONGOING", "PREPARE_COMMIT"]]
        last = states_of(any_version)["id"][-1]
        assert last is not None
        assert last.state is TransactionState.COMPLETE_COMMIT

    def test_responses_by_state_below_version_2(self, make: Make) -> None:
        producer = started(make(1))
        assert producer.end(commit=True) == Errors.INVALID_TXN_STATE
        assert producer.end(commit=False) == Errors.INVALID_TXN_STATE
        for commit in (True, False):
            producer.add(SINK)
            assert producer.end(commit=commit) == Errors.NONE
            assert producer.end(commit=commit) == Errors.NONE, "repeated"
            assert producer.end(commit=not commit) == Errors.INVALID_TXN_STATE
        assert _like(producer, number=77).end(commit=True) == Errors.INVALID_PRODUCER_ID_MAPPING
        assert _like(producer, epoch=-1).end(commit=True) == Errors.PRODUCER_FENCED
        assert _like(producer, epoch=-1).end(commit=True, version=1) == Errors.INVALID_PRODUCER_EPOCH
        unknown = Producer(producer.brokers, "unknown")
        assert unknown.end(commit=True) == Errors.INVALID_PRODUCER_ID_MAPPING
        assert Producer(producer.brokers, "").end(commit=True) == Errors.INVALID_REQUEST

    def test_responses_by_state_under_version_2(self, make: Make) -> None:
        """KIP-890: each end raises the epoch, the epoch before repeats it, and an abort of an empty transaction
        succeeds.
        """
        producer = started(make(2))
        number, epoch = producer.producer
        assert producer.end(commit=True, version=5) == Errors.INVALID_TXN_STATE
        assert producer.end(commit=False, version=5) == Errors.NONE
        assert producer.producer == (number, epoch + 1), "an abort without a transaction raises the epoch"
        assert producer.add(SINK) == [Errors.NONE]
        before = _like(producer)
        other = _like(producer)
        assert producer.end(commit=True, version=5) == Errors.NONE
        assert producer.producer == (number, epoch + 2)
        assert before.end(commit=True, version=5) == Errors.NONE, "repeated with the epoch before"
        assert before.producer == producer.producer
        assert other.end(commit=False, version=5) == Errors.INVALID_TXN_STATE
        assert _like(producer, epoch=epoch).end(commit=True, version=5) == Errors.PRODUCER_FENCED
        assert producer.end(commit=True, version=5) == Errors.INVALID_TXN_STATE, "the next one is empty"
        assert producer.end(commit=False, version=5) == Errors.NONE
        assert producer.producer == (number, epoch + 3)

    def test_the_last_epoch_ends_with_another_producer_id(self, make: Make) -> None:
        brokers = make(2)
        producer = started(brokers)
        set_epoch(brokers, _LAST)
        producer.producer = (producer.producer[0], _LAST)
        producer.add(SINK)
        assert producer.send(b"x", sequence=0) == Errors.NONE
        before = _like(producer)
        assert producer.end(commit=True, version=5) == Errors.NONE
        assert producer.producer[1] == 0
        assert producer.producer[0] != before.producer[0]
        assert before.end(commit=True, version=5) == Errors.NONE, "repeated"
        assert before.producer == producer.producer
        assert read(brokers).values == [b"x"]
        assert markers_of(brokers)[-1][1] == _LAST + 1, "the fencing epoch goes into the marker"

    def test_the_last_epoch_is_given_to_no_client(self, make: Make) -> None:
        """This epoch is for fencing. A marker with it would look like a data batch, and be rejected for ever."""
        brokers = make(2)
        producer = started(brokers)
        set_epoch(brokers, _LAST)
        producer.producer = (producer.producer[0], _LAST)
        producer.add(SINK)
        brokers.advance(75)
        assert (producer.state, producer.record.producer_epoch) == ("CompleteAbort", _LAST + 1)
        assert producer.end(commit=False, version=5) == Errors.PRODUCER_FENCED
        fresh = started(brokers)
        assert fresh.producer[0] != producer.producer[0]
        assert fresh.producer[1] == 0

    def test_the_response_comes_before_the_markers(self, make: Make) -> None:
        brokers = make(1, 3)
        producer = started(brokers)
        producer.add(SINK)
        producer.send(b"x")
        brokers.alive[producer.coordinator].cluster.leader_of = lambda tp: -1  # type: ignore[method-assign]
        assert producer.end(commit=True) == Errors.NONE
        assert producer.state == "PrepareCommit"
        assert producer.end(commit=True) == Errors.CONCURRENT_TRANSACTIONS
        assert producer.end(commit=False) == Errors.INVALID_TXN_STATE, "the outcome cannot change"
        assert producer.add(SINK) == [Errors.CONCURRENT_TRANSACTIONS]
        assert producer.init()[0] == Errors.CONCURRENT_TRANSACTIONS
        assert read(brokers).values == []
        del brokers.alive[producer.coordinator].cluster.leader_of  # type: ignore[method-assign]
        brokers.advance(0.2)
        assert producer.state == "CompleteCommit"
        assert read(brokers).values == [b"x"]

    def test_a_deleted_partition_needs_no_marker(self, any_version: Brokers) -> None:
        producer = started(any_version)
        producer.add(SINK)
        any_version.controller.delete_topic("sink")
        any_version.run()
        assert producer.end(commit=True) == Errors.NONE
        assert producer.state == "CompleteCommit"

    def test_a_marker_rejected_by_a_leader_is_not_sent_again(self, make: Make) -> None:
        """The partition has a newer epoch of the producer: another coordinator has ended the transaction."""
        brokers = make(1)
        producer = started(brokers)
        producer.add(SINK)
        producer.send(b"x")
        assert write_marker(brokers, (producer.producer[0], 5), commit=False) == Errors.NONE
        assert producer.end(commit=True) == Errors.NONE
        brokers.advance(1.0)
        assert producer.state == "PrepareCommit"
        assert [kind for _, _, kind, _ in markers_of(brokers)] == ["ABORT"]


# --- time


class TestTime:
    def test_a_transaction_that_has_outlived_its_timeout_is_aborted(self, any_version: Brokers) -> None:
        producer = Producer(any_version)
        producer.init(timeout_ms=15_000)
        producer.add(SINK)
        producer.send(b"x")
        any_version.advance(14.9)
        assert producer.state == "Ongoing"
        any_version.advance(10.2)
        assert producer.state == "CompleteAbort"
        assert read(any_version).values == []
        assert producer.end(commit=True) == Errors.PRODUCER_FENCED
        assert producer.send(b"y") == Errors.INVALID_PRODUCER_EPOCH
        assert end_offset(any_version) == 2

    def test_an_id_that_is_not_used_is_forgotten(self, make: Make) -> None:
        brokers = make(2, transactional_id_expiration_ms=3_600_000 * 2)
        producer = started(brokers)
        open_one = started(brokers, "open")
        open_one.add(SINK)
        brokers.advance(2 * 3600 - 10)
        assert producer.state == "Empty"
        brokers.advance(3600 + 20)
        coordinator = brokers.alive[0].transaction_coordinator
        assert coordinator.describe("id")[0] == Errors.TRANSACTIONAL_ID_NOT_FOUND
        assert states_of(brokers)["id"][-1] is None
        number = producer.producer[0]
        assert started(brokers).producer[0] != number, "a new one gets another producer id"


# --- coordinators that change


class TestLoad:
    @pytest.mark.parametrize("commit", [True, False])
    def test_a_decided_transaction_is_completed_by_the_next_coordinator(self, make: Make, commit: bool) -> None:
        brokers = make(1, 3)
        producer = started(brokers)
        producer.add(SINK)
        producer.send(b"x")
        first = producer.coordinator
        brokers.alive[first].cluster.leader_of = lambda tp: -1  # type: ignore[method-assign]
        assert producer.end(commit=commit) == Errors.NONE
        assert markers_of(brokers) == []
        brokers.controller.move_leader(TRANSACTION_TOPIC, 0)
        brokers.run()
        assert producer.add(SINK)[0] in (Errors.COORDINATOR_LOAD_IN_PROGRESS, Errors.CONCURRENT_TRANSACTIONS)
        brokers.advance(0.2)
        assert producer.coordinator != first
        assert producer.state == ("CompleteCommit" if commit else "CompleteAbort")
        ((_, _, kind, epoch),) = markers_of(brokers)
        assert (kind, epoch) == ("COMMIT" if commit else "ABORT", 1)
        assert read(brokers).values == ([b"x"] if commit else [])

    def test_an_open_transaction_stays_open(self, make: Make) -> None:
        brokers = make(1, 3)
        producer = started(brokers)
        producer.add(SINK)
        producer.send(b"x")
        first = producer.coordinator
        brokers.kill(first)
        brokers.advance(0.2)
        assert producer.coordinator != first
        assert producer.state == "Ongoing"
        assert producer.end(commit=True) == Errors.NONE
        assert read(brokers).values == [b"x"]

    def test_a_load_ends_when_all_replicas_have_the_records_it_read(self, make: Make) -> None:
        """Without it a partition could get records of a transaction that is unknown to the next coordinator."""
        brokers = make(2, 3)
        producer = started(brokers)
        first, second, third = brokers.state(TRANSACTION_TOPIC)[2]
        brokers.alive[third].fetcher.pause()
        brokers.request(first, _add_request(producer), 3)
        brokers.run()
        brokers.kill(first)
        brokers.advance(0.5)
        assert producer.coordinator == second
        assert producer.add(SINK) == [Errors.COORDINATOR_LOAD_IN_PROGRESS]
        brokers.alive[third].fetcher.resume()
        brokers.advance(0.1)
        assert producer.state == "Ongoing"
        assert producer.add(SINK) == [Errors.NONE]

    def test_after_a_failed_load_no_id_is_listed_or_timed_out(
        self, make: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        brokers = make(2)
        producer = started(brokers, "first")
        producer.add(SINK)
        started(brokers, "second")

        def damaged(transactional_id: str, value: bytes) -> TransactionMetadata:
            if transactional_id == "second":
                raise ProtocolError("damaged")
            return metadata_from_value(transactional_id, value)

        monkeypatch.setattr("pyconsumer.broker.transaction.state_manager.metadata_from_value", damaged)
        coordinator = brokers.alive[0].transaction_coordinator
        coordinator.on_resign(0, None)
        coordinator.on_become_leader(0, 1)
        brokers.advance(0.1)
        assert coordinator.describe("first")[0] == Errors.NOT_COORDINATOR
        assert coordinator.list_transactions() == (Errors.NONE, [], [])
        caplog.set_level("INFO")
        brokers.advance(120)
        assert "timed out" not in caplog.text

    def test_a_broker_that_is_not_coordinator_rejects_requests(self, make: Make) -> None:
        brokers = make(2, 3, transaction_state_log_num_partitions=50)
        producer = started(brokers, "transactionalId")
        broker = brokers.alive[producer.coordinator].transaction_coordinator
        assert broker.partition_for("transactionalId") == abs(_java_hash("transactionalId")) % 50
        for node, other in brokers.alive.items():
            expected = Errors.NONE if node == producer.coordinator else Errors.NOT_COORDINATOR
            assert other.transaction_coordinator.describe("transactionalId")[0] == expected

    def test_the_topic_of_states(self, make: Make) -> None:
        brokers = Brokers(None, 3, forgetful=True)
        topic = brokers.controller.ensure_internal(TRANSACTION_TOPIC)
        assert len(topic.partitions) == 50
        assert {len(state.replicas) for state in topic.partitions} == {3}
        assert topic.config == {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": "104857600",
            "min.insync.replicas": "2",
        }
        brokers.stop()


def _java_hash(text: str) -> int:
    value = 0
    for character in text:
        value = (31 * value + ord(character)) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


# --- offsets


class TestOffsets:
    @pytest.mark.parametrize("commit", [True, False])
    def test_offsets_are_pending_until_the_end(self, any_version: Brokers, commit: bool) -> None:
        producer = started(any_version)
        assert producer.add_offsets() == Errors.NONE
        assert producer.commit_offset(43) == Errors.NONE
        assert producer.committed() == (Errors.UNSTABLE_OFFSET_COMMIT, -1)
        assert producer.committed(stable=False) == (Errors.NONE, -1)
        assert producer.end(commit=commit) == Errors.NONE
        assert producer.committed() == (Errors.NONE, 43 if commit else -1)

    def test_members_are_checked_from_version_3_on(self, any_version: Brokers) -> None:
        """KIP-447. The limit of the metadata length is that of every commit."""
        producer = started(any_version)
        producer.add_offsets()
        assert producer.commit_offset(1, version=2) == Errors.NONE
        assert producer.commit_offset(2, version=6) == Errors.NONE
        assert producer.commit_offset(2, TopicPartition("gone", 0), version=6) == Errors.UNKNOWN_TOPIC_ID
        assert producer.commit_offset(2, TopicPartition(SINK.topic, 99), version=6) == Errors.UNKNOWN_TOPIC_OR_PARTITION
        assert producer.commit_offset(1, version=3, member_id="nobody", generation_id_or_member_epoch=3) in (
            Errors.UNKNOWN_MEMBER_ID,
            Errors.ILLEGAL_GENERATION,
        )

    def test_before_version_2_a_coordinator_that_loads_is_not_available(
        self, make: Make, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """KAFKA-7296: older producers do not handle COORDINATOR_LOAD_IN_PROGRESS."""
        producer = started(make(1))
        assert producer.add_offsets() == Errors.NONE
        monkeypatch.setattr(GroupMetadataManager, "is_loading", lambda self, group_id: True)
        assert producer.commit_offset(1, version=1) == Errors.COORDINATOR_NOT_AVAILABLE
        assert producer.commit_offset(1, version=2) == Errors.COORDINATOR_LOAD_IN_PROGRESS

    def test_pending_offsets_stay_when_the_group_coordinator_moves(self, make: Make) -> None:
        brokers = make(1, 3)
        producer = started(brokers)
        producer.add_offsets()
        producer.commit_offset(43)
        brokers.controller.move_leader(OFFSETS_TOPIC, 0)
        brokers.advance(0.2)
        assert producer.committed() == (Errors.UNSTABLE_OFFSET_COMMIT, -1)
        assert producer.end(commit=True) == Errors.NONE
        brokers.advance(0.2)
        assert producer.committed() == (Errors.NONE, 43)


# --- logs


class TestLog:
    def test_the_last_stable_offset_holds_readers_back(self, any_version: Brokers) -> None:
        producer, other = started(any_version), started(any_version, "other")
        producer.add(SINK)
        other.add(SINK)
        producer.send(b"msg1", b"msg2", b"msg3")
        other.send(b"later")
        assert read(any_version) == ([], 4, 0, [])
        assert read(any_version, committed=False) == ([b"msg1", b"msg2", b"msg3", b"later"], 4, 0, None)
        assert other.end(commit=True) == Errors.NONE
        assert read(any_version).values == [], "what comes after an open transaction waits as well"
        assert (end_offset(any_version), end_offset(any_version, committed=False)) == (0, 5)
        assert producer.end(commit=False) == Errors.NONE
        assert read(any_version) == ([b"later"], 6, 6, [(producer.producer[0], 0)])
        assert end_offset(any_version) == 6
        assert read(any_version, committed=False).values == [b"msg1", b"msg2", b"msg3", b"later"]

    def test_markers_of_old_epochs_are_rejected(self, any_version: Brokers) -> None:
        producer = started(any_version)
        producer.add(SINK)
        producer.send(b"x")
        number, epoch = producer.producer
        assert write_marker(any_version, (number, epoch - 1)) == Errors.INVALID_PRODUCER_EPOCH
        assert write_marker(any_version, (number, epoch), coordinator_epoch=4) == Errors.NONE
        assert write_marker(any_version, (number, epoch), coordinator_epoch=3) == Errors.TRANSACTION_COORDINATOR_FENCED
        assert markers_of(any_version) == [(number, epoch, "COMMIT", 4)]
        assert read(any_version) == ([b"x"], 2, 2, [])

    def test_under_version_2_a_marker_has_a_greater_epoch_than_the_data(self, make: Make) -> None:
        """KIP-1228."""
        brokers = make(2)
        producer = started(brokers)
        producer.add(SINK)
        producer.send(b"x")
        number, epoch = producer.producer
        old = write_marker(brokers, (number, epoch), transaction_version=2)
        assert old == Errors.INVALID_PRODUCER_EPOCH
        assert write_marker(brokers, (number, epoch + 1), transaction_version=2) == Errors.NONE

    def test_batches_carry_producer_epoch_and_sequence(self, any_version: Brokers) -> None:
        started(any_version)
        producer = started(any_version)
        producer.add(SINK, OTHER)
        for to, count in ((SINK, 2), (OTHER, 1), (SINK, 3), (SINK, 1)):
            producer.send(*[b"v"] * count, to=to)
        batches = scan(log_bytes(any_version, SINK))
        assert {(info.producer_id, info.producer_epoch, info.is_transactional) for info in batches} == {
            (*producer.producer, True)
        }
        assert producer.producer[1] == 1
        assert [info.base_sequence for info in batches] == [0, 2, 5]
        assert [info.base_sequence for info in scan(log_bytes(any_version, OTHER))] == [0]
        assert producer.send(b"v", sequence=5) == Errors.NONE, "a duplicate"
        assert producer.send(b"v", sequence=9) == Errors.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert len(scan(log_bytes(any_version, SINK))) == 3

    def test_without_an_authorizer_any_client_may_write_markers(self, any_version: Brokers) -> None:
        producer = started(any_version)
        assert write_marker(any_version, producer.producer) == Errors.NONE

    def test_a_reader_sees_the_remaining_records_of_a_transaction(self, any_version: Brokers) -> None:
        producer = started(any_version)
        producer.add(SINK, OTHER)
        for value in (b"a", b"b", b"c"):
            producer.send(value)
        producer.send(b"elsewhere", to=OTHER)
        assert producer.end(commit=True) == Errors.NONE
        assert read(any_version).values == [b"a", b"b", b"c"]
        assert read(any_version, offset=1).values == [b"b", b"c"], "it may begin anywhere"
        any_version.leader("sink", 0).start_at(2)
        assert read(any_version, offset=2).values == [b"c"], "the beginning may be gone"

    def test_a_batch_outside_the_open_transaction_is_rejected(self, any_version: Brokers) -> None:
        producer = started(any_version)
        producer.add(SINK)
        assert producer.send(b"x") == Errors.NONE
        assert producer.send(b"y", transactional=False) == Errors.INVALID_TXN_STATE

    def test_a_transactional_batch_without_an_open_transaction_is_rejected(self, make: Make) -> None:
        """KIP-890: the transaction would hold readers back, and no producer would end it."""
        producer = started(make(1))
        assert producer.send(b"x", version=10) == Errors.INVALID_TXN_STATE
        assert producer.send(b"x", version=11) == Errors.TRANSACTION_ABORTABLE
        unchecked = started(make(1, transaction_partition_verification_enable=False))
        assert unchecked.send(b"x") == Errors.NONE

    def test_under_version_2_producing_brings_the_partition_into_the_transaction(self, make: Make) -> None:
        brokers = make(2)
        producer = started(brokers)
        assert producer.send(b"x", version=12) == Errors.NONE
        assert producer.state == "Ongoing"
        assert producer.record.partitions == {SINK}
        assert producer.end(commit=True, version=5) == Errors.NONE
        assert read(brokers).values == [b"x"]
        assert producer.send(b"y", version=12, sequence=3) == Errors.OUT_OF_ORDER_SEQUENCE_NUMBER

    def test_control_records_have_no_key_to_compact_by(self, any_version: Brokers) -> None:
        producer = started(any_version)
        for _ in range(2):
            producer.add(SINK)
            producer.send(b"x")
            producer.end(commit=False)
        assert len(markers_of(any_version)) == 2

    def test_a_new_leader_knows_the_open_transactions(self, make: Make) -> None:
        brokers = make(1, 3)
        producer = started(brokers)
        producer.add(SINK)
        producer.send(b"x")
        brokers.kill(brokers.state("sink")[0])
        brokers.advance(0.2)
        assert read(brokers) == ([], 1, 0, [])
        assert producer.end(commit=False) == Errors.NONE
        brokers.advance(0.2)
        assert read(brokers) == ([], 2, 2, [(producer.producer[0], 0)])

    def test_a_follower_forgets_transactions_before_the_start_of_the_log(self, make: Make) -> None:
        """DeleteRecords may inform the follower of the start before it learns the high watermark."""
        brokers = make(1, 3)
        producer = started(brokers)
        producer.add(SINK)
        producer.send(b"x")
        follower = next(node for node in brokers.alive if node != brokers.state("sink")[0])
        replica = brokers.replica(follower, "sink")
        assert producer.end(commit=True) == Errors.NONE
        replica.begin_at(1)
        replica.log.producers._unreplicated[0] = 1  # as if it did not know yet that the marker is everywhere
        assert replica.last_stable_offset == 0
        replica.follow(1, 2)
        assert (replica.high_watermark, replica.last_stable_offset) == (2, 2)
        assert replica.log.producers.first_unstable_offset == -1
