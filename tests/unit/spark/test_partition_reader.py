"""Reading one range: its rows, and failures of the broker."""

from __future__ import annotations

from typing import Any

import pytest

from pyconsumer.errors import (
    CorruptRecordError,
    KafkaConnectionError,
    KafkaError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)
from pyconsumer.protocol.records import ControlRecordType, build_end_transaction_marker
from pyconsumer.spark.errors import DataLossError, ReadError
from pyconsumer.spark.offset_ranges import OffsetRange
from pyconsumer.spark.partition_reader import PartitionReader
from tests.unit.protocol.records.helpers import TIME, batch, values_of
from tests.unit.spark.fake_broker import TP, FakeConnection

LEADER = 1


def end_marker(kind: ControlRecordType, offset: int) -> bytes:
    return build_end_transaction_marker(
        kind, producer_id=5, producer_epoch=0, coordinator_epoch=0, timestamp_ms=TIME, base_offset=offset
    )


def read(
    connection: FakeConnection, start: int, end: int, *, rows: int = 10_000, fail: bool = True, timeout_ms: int = 5000
) -> list[list[int]]:
    """The offsets of each block."""
    found: Any = connection
    reader = PartitionReader(found, OffsetRange(*TP, start, end), fail_on_data_loss=fail, poll_timeout_ms=timeout_ms)
    return [list(columns.offsets[:count]) for columns, count in reader.blocks(rows, 1 << 20, ())]


def offsets(connection: FakeConnection, start: int, end: int, *, fail: bool = True) -> list[int]:
    """The offsets of all blocks."""
    return [offset for block in read(connection, start, end, fail=fail) for offset in block]


def test_a_range_is_read_from_start_to_end() -> None:
    log = FakeConnection(batch(0, 10), batch(10, 10), batch(20, 10))
    assert offsets(log, 3, 25) == list(range(3, 25))
    assert [offset for offset, _ in log.fetched] == [3, 10, 20]


def test_an_empty_range_sends_no_request() -> None:
    log = FakeConnection(batch(0, 10))
    assert read(log, 4, 4) == []
    assert log.fetched == []


def test_blocks_have_at_most_the_requested_rows() -> None:
    assert [len(block) for block in read(FakeConnection(batch(0, 10)), 0, 10, rows=4)] == [4, 4, 2]


@pytest.mark.parametrize("names", [(), ("key",), ("value", "offset"), ("headers", "value", "key")])
def test_only_the_requested_columns_are_built(names: tuple[str, ...]) -> None:
    log: Any = FakeConnection(batch(0, 10))
    reader = PartitionReader(log, OffsetRange(*TP, 2, 7), fail_on_data_loss=True, poll_timeout_ms=1000)
    ((columns, count),) = reader.blocks(10_000, 1 << 20, names)
    assert list(columns.offsets[:count]) == [2, 3, 4, 5, 6]
    made = {"key": columns.keys, "value": columns.values, "headers": columns.headers}
    assert {name for name, column in made.items() if column is not None} == set(names) - {"offset"}
    for column, letter in ((columns.keys, "k"), (columns.values, "v")):
        assert column is None or values_of(column)[:count] == [f"{letter}{i}".encode() for i in range(2, 7)]


def test_the_next_fetch_is_sent_before_records_are_returned() -> None:
    log: Any = FakeConnection(batch(0, 10), batch(10, 10))
    reader = PartitionReader(log, OffsetRange(*TP, 0, 20), fail_on_data_loss=True, poll_timeout_ms=1000)
    blocks = reader.blocks(10_000, 1 << 20, ())
    next(blocks)
    assert [offset for offset, _ in log.fetched] == [0, 10]


def test_the_last_fetch_is_not_followed_by_another() -> None:
    log = FakeConnection(batch(0, 10), batch(10, 10))
    read(log, 0, 10)
    assert [offset for offset, _ in log.fetched] == [0]


def test_missing_offsets_are_skipped() -> None:
    log = FakeConnection(batch(0, offsets=[0, 3, 4], last_offset=9), batch(10, offsets=[15, 30], last_offset=40))
    assert offsets(log, 1, 20) == [3, 4, 15]


def test_a_range_may_end_without_a_record() -> None:
    marker = end_marker(ControlRecordType.COMMIT, 10)
    log = FakeConnection(batch(0, 10, producer_id=5, transactional=True), marker)
    assert offsets(log, 0, 11) == list(range(10))


def test_aborted_records_are_hidden_with_read_committed() -> None:
    batches = (
        batch(0, 2, producer_id=5, transactional=True),
        batch(2, 2),
        end_marker(ControlRecordType.ABORT, 4),
    )
    committed = FakeConnection(*batches, aborted=[(5, 0)], isolation_level="read_committed")
    assert offsets(committed, 0, 5) == [2, 3]
    assert committed.requests[0].isolation_level == 1
    uncommitted = FakeConnection(*batches)
    assert offsets(uncommitted, 0, 5) == [0, 1, 2, 3]
    assert uncommitted.requests[0].isolation_level == 0


@pytest.mark.parametrize("code", [3, 5, 6, 9, 56, 74, 75, 78, 100, 103])
def test_retriable_errors_are_retried_with_new_metadata(code: int) -> None:
    log = FakeConnection(batch(0, 10))
    log.troubles = [code, code]
    assert offsets(log, 0, 10) == list(range(10))
    assert len(log.fetched) == 3
    assert log.updates == 2


def test_a_lost_connection_is_retried() -> None:
    log = FakeConnection(batch(0, 10), batch(10, 10))
    log.troubles = [0, KafkaConnectionError("reset by peer")]
    assert offsets(log, 0, 20) == list(range(20))
    assert [offset for offset, _ in log.fetched] == [0, 10, 10]


def test_a_partition_without_a_leader_is_waited_for() -> None:
    log = FakeConnection(batch(0, 10))
    log.leader_known = False

    def found() -> int:
        log.leader_known = True
        return 0

    log.metadata.request_update = found
    assert offsets(log, 0, 10) == list(range(10))


def test_an_error_of_the_broker_is_raised_with_its_place() -> None:
    log = FakeConnection(batch(0, 10))
    log.troubles = [29]
    with pytest.raises(ReadError, match="events-2 at offset 4:") as caught:
        read(log, 4, 10)
    assert isinstance(caught.value.__cause__, TopicAuthorizationFailedError)


@pytest.mark.parametrize(
    ("trouble", "reason"),
    [(None, "no response has arrived"), (6, "NOT_LEADER_OR_FOLLOWER"), (0, "high watermark 12")],
    ids=["silence", "errors", "no records there"],
)
def test_a_read_without_progress_ends_in_time(trouble: int | None, reason: str) -> None:
    log = FakeConnection(batch(0, 10))
    log.end = 12  # a transaction that is still open
    log.troubles = [0, *[trouble] * 1000]
    before = log.clock.now()
    with pytest.raises(ReadError, match=rf"events-2 at offset 10: .* 5 s \(kafkaConsumer.pollTimeoutMs\).*{reason}"):
        read(log, 0, 12)
    assert log.clock.now() - before == pytest.approx(5.0, abs=0.2)


def deleted(log: FakeConnection, *, back_after: float | None = None) -> None:
    """Make the topic unknown from the next fetch on, for some seconds or for ever."""
    since = log.clock.now()

    def error(name: str) -> KafkaError | None:
        back = back_after is not None and log.clock.now() >= since + back_after
        return None if back else UnknownTopicOrPartitionError(name)

    log.metadata.topic_error = error
    log.leader_known = back_after is not None
    log.troubles = [3] * (0 if back_after is None else 1)


def test_a_topic_that_was_deleted_is_lost_data_and_not_waited_for_to_the_end() -> None:
    log = FakeConnection(batch(0, 10))
    deleted(log)
    before = log.clock.now()
    with pytest.raises(DataLossError, match=r"events-2: the topic was deleted before offset 3 was read"):
        read(log, 3, 10, timeout_ms=120_000)
    assert read(log, 3, 10, timeout_ms=120_000, fail=False) == []
    assert log.clock.now() - before == pytest.approx(20.0, abs=0.5)


def test_a_topic_that_is_unknown_for_a_moment_is_read() -> None:
    log = FakeConnection(batch(0, 10))
    deleted(log, back_after=4)
    assert offsets(log, 0, 10) == list(range(10))


def test_deleted_offsets_are_an_error() -> None:
    log = FakeConnection(batch(10, 10), log_start=12)
    with pytest.raises(DataLossError, match=r"COULD_NOT_READ_OFFSET_RANGE\] events-2: offsets 5 to 11 are missing"):
        read(log, 5, 20)


def test_deleted_offsets_are_skipped_where_that_is_allowed(caplog: pytest.LogCaptureFixture) -> None:
    log = FakeConnection(batch(10, 10), log_start=12)
    assert offsets(log, 5, 20, fail=False) == list(range(12, 20))
    assert "offsets 5 to 11 are missing" in caplog.text


def test_a_fully_deleted_range_has_no_records_then() -> None:
    log = FakeConnection(batch(10, 10), log_start=12)
    assert read(log, 5, 8, fail=False) == []


def test_offsets_beyond_the_end_of_a_truncated_log_are_lost() -> None:
    with pytest.raises(DataLossError, match="offset 15 lies beyond the end of the log"):
        read(FakeConnection(batch(0, 10)), 15, 20)
    assert read(FakeConnection(batch(0, 10)), 15, 20, fail=False) == []


def test_a_log_that_ends_within_the_range_has_lost_the_rest() -> None:
    with pytest.raises(DataLossError, match="offset 10 lies beyond the end of the log"):
        read(FakeConnection(batch(0, 10)), 0, 20)
    log = FakeConnection(batch(0, 10))
    before = log.clock.now()
    assert offsets(log, 0, 20, fail=False) == list(range(10))
    assert 3 <= log.clock.now() - before < 4  # a leader may need that time to learn the end of its log


def test_a_leader_that_does_not_know_the_end_of_its_log_yet_is_waited_for() -> None:
    log = FakeConnection(batch(0, 10), batch(10, 10))
    later = log.batches.pop()
    log.end, log.reported_end = 10, 20
    start = log.clock.now()

    def grow() -> None:
        if log.clock.now() > start + 4:
            log.batches[1:], log.end = [later], 20

    log.on_fetch = grow
    assert offsets(log, 0, 20) == list(range(20))


def test_corrupt_data_raises_with_its_place_after_the_good_records() -> None:
    damaged = bytearray(batch(10, 10))
    damaged[-1] ^= 1
    log: Any = FakeConnection(batch(0, 10), bytes(damaged))
    reader = PartitionReader(log, OffsetRange(*TP, 0, 20), fail_on_data_loss=True, poll_timeout_ms=1000)
    blocks = reader.blocks(10_000, 1 << 20, ())
    assert len(next(blocks)[0]) == 10
    with pytest.raises(CorruptRecordError, match="events-2 at offset 10"):
        next(blocks)


def test_checksums_may_be_left_out() -> None:
    damaged = bytearray(batch(0, 10))
    damaged[17] ^= 1
    assert offsets(FakeConnection(bytes(damaged), check_crcs="false"), 0, 10) == list(range(10))


def test_the_preferred_replica_is_used_and_left_when_it_fails() -> None:
    log = FakeConnection(batch(0, 10), batch(10, 10), client_rack="r1")
    log.preferred_replica = 2
    assert offsets(log, 0, 20) == list(range(20))
    assert log.fetched == [(0, LEADER), (0, 2), (10, 2)]
    assert log.requests[0].rack_id == "r1"
    log.fetched.clear()
    log.troubles = [0, 6]
    log.preferred_replica = 2
    assert offsets(log, 0, 10) == list(range(10))
    assert log.fetched == [(0, LEADER), (0, 2), (0, LEADER), (0, 2)]


def test_requests_carry_all_required_fields() -> None:
    log = FakeConnection(batch(0, 10), max_partition_fetch_bytes="1000", fetch_max_wait_ms="7")
    read(log, 0, 10)
    request = log.requests[0]
    partition = request.topics[0].partitions[0]
    assert (partition.partition_max_bytes, request.max_wait_ms, request.min_bytes) == (1000, 7, 1)
    assert (partition.current_leader_epoch, request.topics[0].topic_id) == (7, b"i" * 16)
    assert (request.session_id, request.session_epoch) == (0, -1)
