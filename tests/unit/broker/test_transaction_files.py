"""Files of transactions equal those of Kafka's own classes, byte by byte, and are read back."""

from __future__ import annotations

import pytest

from pyconsumer.broker.log.producer_state import ProducerState
from pyconsumer.broker.log.storage import MemoryStorage
from pyconsumer.broker.log.transaction_index import AbortedTransaction, TransactionIndex
from pyconsumer.broker.transaction.metadata import (
    PREDECESSORS,
    TransactionMetadata,
    TransactionRecord,
    TransactionState,
)
from pyconsumer.broker.transaction.records import metadata_from_value, state_record
from pyconsumer.errors import IllegalStateError, ProtocolError
from pyconsumer.protocol.transaction_topic import decode_value
from pyconsumer.structs import TopicPartition
from tests.vectors.make_transactions import read_vectors

_ID = "transactionalId"
_TIME = 1538843128354
_SINK = frozenset({TopicPartition("topic-sink", 0)})


class _Scenario:
    """One id that goes through its states. ``written`` are the values of its records."""

    def __init__(self, version: int, epoch: int) -> None:
        self.version = version
        record = TransactionRecord(1000, epoch, timeout_ms=60_000, last_update_ms=_TIME)
        self.metadata = TransactionMetadata(_ID, record)
        self.written: list[str] = []

    def _write(self, record: TransactionRecord) -> None:
        _, value = state_record(_ID, record, self.version)
        assert value is not None
        self.written.append(value.hex())
        self.metadata.complete(record)

    def init(self, expected: int | None) -> None:
        self._write(self.metadata.prepare_increment_epoch(60_000, expected, _TIME))

    def add(self) -> None:
        self._write(self.metadata.prepare_add_partitions(_SINK, _TIME + 1, self.version))

    def end(self, *, commit: bool, next_id: int = -1, is_empty: bool = False) -> None:
        state = TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT
        self._write(self.metadata.prepare_end(state, self.version, next_id, _TIME + 2, is_empty=is_empty))

    def fence(self) -> None:
        epoch = self.metadata.prepare_fence()
        self._write(self.metadata.prepare_fenced_abort(epoch, self.version, _TIME + 2))

    def complete(self) -> None:
        self._write(self.metadata.prepare_complete(_TIME + 3))

    def rotate(self) -> None:
        self._write(self.metadata.prepare_new_producer_id(2000, 60_000, _TIME + 4, keep_last_epoch=True))


def _play(name: str, version: int) -> list[str]:
    scenario = _Scenario(version, {"fence": 7, "exhausted": 32766, "empty": 3}.get(name, -1))
    if name in ("commit", "abort"):
        scenario.init(None)
        scenario.add()
        scenario.end(commit=name == "commit")
        scenario.complete()
        scenario.init(scenario.metadata.record.producer_epoch)
    elif name == "fence":
        scenario.add()
        scenario.fence()
        scenario.complete()
    elif name == "exhausted":
        scenario.add()
        scenario.end(commit=True, next_id=2000 if version == 2 else -1)
        scenario.complete()
        if version < 2:
            scenario.rotate()
    else:
        scenario.end(commit=False, is_empty=True)
        scenario.complete()
    return scenario.written


def _expected() -> dict[tuple[int, str], list[str]]:
    found: dict[tuple[int, str], list[str]] = {}
    for version, name, _, data in read_vectors("state"):
        found.setdefault((int(version), name), []).append(data)
    return found


_STATES = _expected()


@pytest.mark.parametrize(("version", "name"), _STATES, ids=[f"{name}-{version}" for version, name in _STATES])
def test_records_of_states_equal_those_of_kafka(version: int, name: str) -> None:
    assert _play(name, version) == _STATES[version, name]


def test_the_codes_of_states_are_those_of_kafka() -> None:
    assert {state.name: int(state) for state in TransactionState} == {
        "EMPTY": 0,
        "ONGOING": 1,
        "PREPARE_COMMIT": 2,
        "PREPARE_ABORT": 3,
        "COMPLETE_COMMIT": 4,
        "COMPLETE_ABORT": 5,
        "DEAD": 6,
        "PREPARE_EPOCH_FENCE": 7,
    }


@pytest.mark.parametrize(("version", "name"), _STATES, ids=[f"{name}-{version}" for version, name in _STATES])
def test_records_of_states_are_read_back(version: int, name: str) -> None:
    for data in _STATES[version, name]:
        value = bytes.fromhex(data)
        record = metadata_from_value(_ID, value).record
        assert record.producer_id in (1000, 2000)
        written = decode_value(value)
        assert written.transaction_status == record.state
        assert {TopicPartition(topic.topic, 0) for topic in written.transaction_partitions or ()} == record.partitions


@pytest.mark.parametrize(
    ("item", "code", "label"),
    [
        ("transactions:TXL-04a", 0, "Empty"),
        ("transactions:TXL-04b", 1, "Ongoing"),
        ("transactions:TXL-04c", 2, "PrepareCommit"),
        ("transactions:TXL-04d", 3, "PrepareAbort"),
        ("transactions:TXL-04e", 4, "CompleteCommit"),
        ("transactions:TXL-04f", 5, "CompleteAbort"),
        ("transactions:TXL-04g", 6, "Dead"),
        ("transactions:TXL-04h", 7, "PrepareEpochFence"),
    ],
)
def test_the_codes_of_states(item: str, code: int, label: str) -> None:
    assert TransactionState(code).label == label


def test_another_code_is_an_error() -> None:
    value = bytearray.fromhex(_STATES[0, "commit"][0])
    value[16] = 8
    with pytest.raises(ProtocolError, match="8 is not a transaction state"):
        metadata_from_value(_ID, bytes(value))


def test_the_allowed_transitions_are_those_of_kafka() -> None:
    ours = {(before.name, after.name) for after, allowed in PREDECESSORS.items() for before in allowed}
    assert ours == {(before, after) for before, after in read_vectors("follows")}


def test_a_transition_that_is_not_allowed_is_rejected() -> None:
    scenario = _Scenario(2, 0)
    with pytest.raises(IllegalStateError, match="cannot move to PREPARE_COMMIT"):
        scenario.end(commit=True)
    scenario.metadata.prepare_add_partitions(_SINK, _TIME, 2)
    with pytest.raises(IllegalStateError, match="while a transition is pending"):
        scenario.add()


def test_a_snapshot_of_producers_equals_that_of_kafka() -> None:
    ((data,),) = read_vectors("snapshot")
    state = ProducerState()
    state.load(bytes.fromhex(data), 200)
    assert state.snapshot().hex() == data
    assert state.first_unstable_offset == 121
    assert [(entry.producer_id, entry.epoch, entry.coordinator_epoch) for entry in state] == [
        (1000, 3, 5),
        (1001, 0, -1),
        (1002, 9, 2),
    ]


@pytest.mark.parametrize("damaged", [3, 9, 60])
def test_a_corrupt_snapshot_is_rejected(damaged: int) -> None:
    ((data,),) = read_vectors("snapshot")
    content = bytearray.fromhex(data)
    content[damaged] ^= 1
    with pytest.raises(ValueError, match=r"checksum|version|length"):
        ProducerState().load(bytes(content), 200)


def test_a_transaction_index_equals_that_of_kafka() -> None:
    ((data,),) = read_vectors("index")
    storage = MemoryStorage()
    storage.durable = True  # type: ignore[misc]
    index = TransactionIndex(storage, "0.txnindex")
    entries = [AbortedTransaction(1000, 0, 10, 11), AbortedTransaction(1001, 5, 30, 12)]
    index.append(entries)
    index.write()
    written = storage.read_small("0.txnindex")
    assert written is not None
    assert written.hex() == data
    assert TransactionIndex(storage, "0.txnindex").entries == entries
