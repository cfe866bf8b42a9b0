"""Record sets that Apache Kafka's own classes made (``RecordVectors.java``), read and made again by ours."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pyconsumer.protocol.records import (
    LOG_APPEND_TIME,
    BatchBuilder,
    ConsumerRecord,
    ControlRecordType,
    Cursor,
    build_end_transaction_marker,
    decode_end_transaction_marker,
    iter_records,
    patch_batch,
    scan,
)
from pyconsumer.structs import TopicPartition
from tests.support.java import tools

HERE = Path(__file__).parent
TP = TopicPartition("vectors", 3)
SETS: list[dict[str, Any]] = json.loads((HERE / "records.json").read_text())
BY_NAME = {one["name"]: one for one in SETS}
V2_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

# What the Java program appended, where Kafka's answer no longer says it: the append time hides each record's own.
TIME = 1_700_000_000_000
APPEND_TIME = TIME + 5_000
MIXED_TIMES = (TIME, TIME + 70, TIME - 9_000, TIME + 3_000_000, TIME + 1, TIME + 2, TIME + 3)


def pattern(size: int) -> bytes:
    return (b"abc" * (size // 3 + 1))[:size]


MIXED: tuple[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]], ...] = (
    (None, b"value without a key", []),
    (b"key", None, []),
    (b"", b"", []),
    (None, None, []),
    ("kéy".encode(), pattern(300), [("trace", b"abc"), ("trace", None), ("über", b""), ("", pattern(200))]),
    (pattern(64), pattern(63), []),
    (pattern(8191), pattern(8192), []),
)


def content(data: bytes | None) -> str | None:
    """Bytes in the form of the golden file: long ones by size and CRC-32."""
    if data is None:
        return None
    return data.hex() if len(data) <= 400 else f"{len(data)}:{zlib.crc32(data):x}"


def as_golden(record: ConsumerRecord) -> dict[str, Any]:
    return {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": content(record.key),
        "value": content(record.value),
        "headers": [[name, None if value is None else value.hex()] for name, value in record.headers],
    }


@contextmanager
def noted(golden: dict[str, Any]) -> Iterator[None]:
    """Let an error name the record set."""
    try:
        yield
    except Exception as error:
        error.add_note(f"record set {golden['name']!r}")
        raise


def test_headers_of_kafkas_batches_are_read() -> None:
    for golden in SETS:
        with noted(golden):
            check_headers(golden)


def check_headers(golden: dict[str, Any]) -> None:
    data = bytes.fromhex(golden["hex"])
    infos = scan(data, topic_partition=TP)
    assert len(infos) == len(golden["batches"])
    for info, batch in zip(infos, golden["batches"], strict=True):
        expected = {name: batch[name] for name in batch if name not in ("records", "delete_horizon_ms")}
        if info.magic < 2:
            # Kafka decompresses a message set to find its first offset and its highest timestamp; a scan does not.
            assert info.base_offset == info.last_offset
            del expected["base_offset"], expected["record_count"], expected["max_timestamp"]
        assert {name: getattr(info, name) for name in expected} == expected
        assert info.delete_horizon_ms == batch.get("delete_horizon_ms")


@pytest.mark.parametrize("take", [1, 2, 500])
def test_records_of_kafkas_batches_are_read(take: int) -> None:
    for golden in SETS:
        with noted(golden):
            check_records(golden, take)


def check_records(golden: dict[str, Any], take: int) -> None:
    data = bytes.fromhex(golden["hex"])
    visible = [batch for batch in golden["batches"] if not batch["is_control"]]
    cursor = Cursor(TP, memoryview(data), fetch_offset=0)
    found: list[ConsumerRecord] = []
    while not cursor.exhausted:
        found += cursor.take(take)
    assert [as_golden(record) for record in found] == [record for batch in visible for record in batch["records"]]
    assert cursor.next_offset == golden["batches"][-1]["next_offset"] == cursor.end_offset
    expected_types = [batch["timestamp_type"] for batch in visible for _ in batch["records"]]
    assert [record.timestamp_type for record in found] == expected_types
    epochs = [batch["partition_leader_epoch"] for batch in visible for _ in batch["records"]]
    assert [record.leader_epoch for record in found] == epochs


def test_a_log_is_read_with_its_control_records() -> None:
    for golden in SETS:
        with noted(golden):
            check_control_records(golden)


def check_control_records(golden: dict[str, Any]) -> None:
    found = list(iter_records(bytes.fromhex(golden["hex"])))
    expected = [(record["offset"], batch["is_control"]) for batch in golden["batches"] for record in batch["records"]]
    assert [(record.offset, record.is_control) for record in found] == expected


def mixed_batch(codec: str, timestamp_type: int) -> bytes:
    builder = BatchBuilder(codec, timestamp_type)
    records = MIXED[:-1] if timestamp_type == LOG_APPEND_TIME else MIXED
    for time, (key, value, headers) in zip(MIXED_TIMES, records, strict=False):
        builder.try_append(time, key, value, headers)
    return builder.build(1000, log_append_time_ms=APPEND_TIME if timestamp_type == LOG_APPEND_TIME else None)


def compacted_batch(codec: str) -> bytes:
    builder = BatchBuilder(codec)
    for offset, key, value in (
        (1003, b"a", b"3"),
        (1080, b"b", b"80"),
        (10_000, b"c", b"10000"),
        (200_000, b"d", b"200000"),
    ):
        builder.try_append(TIME, key, value, relative_offset=offset - 1000)
    return builder.build(1000, last_offset_delta=199_007)


def transactional_batch(codec: str) -> bytes:
    builder = BatchBuilder(codec)
    for i in "123":
        builder.try_append(TIME, b"k" + i.encode(), b"v" + i.encode())
    return builder.build(2000, 77, 3, 2147483646, is_transactional=True, leader_epoch=8)


def delete_horizon_batch() -> bytes:
    builder = BatchBuilder(delete_horizon_ms=TIME + 86_400_000)
    builder.try_append(TIME, b"gone", None)
    builder.try_append(TIME + 1, b"here", b"v")
    return builder.build(3000, leader_epoch=5)


def marker(kind: ControlRecordType) -> bytes:
    return build_end_transaction_marker(
        kind, producer_id=77, producer_epoch=3, coordinator_epoch=9, timestamp_ms=TIME, base_offset=700, leader_epoch=6
    )


UNCOMPRESSED = {
    "v2 none CreateTime": lambda: mixed_batch("none", 0),
    "v2 none LogAppendTime": lambda: mixed_batch("none", LOG_APPEND_TIME),
    "v2 none compacted": lambda: compacted_batch("none"),
    "v2 none transactional": lambda: transactional_batch("none"),
    "v2 delete horizon": delete_horizon_batch,
    "v2 without records": lambda: BatchBuilder().build(
        500, 77, 3, 15, is_transactional=True, leader_epoch=4, log_append_time_ms=TIME, last_offset_delta=3
    ),
    "v2 abort marker": lambda: marker(ControlRecordType.ABORT),
    "v2 commit marker": lambda: marker(ControlRecordType.COMMIT),
}


@pytest.mark.parametrize("name", UNCOMPRESSED)
def test_our_batches_are_byte_for_byte_kafkas(name: str) -> None:
    assert UNCOMPRESSED[name]().hex() == BY_NAME[name]["hex"]


@pytest.mark.parametrize("kind", [ControlRecordType.ABORT, ControlRecordType.COMMIT])
def test_a_transaction_marker_is_one_control_batch_of_78_bytes(kind: ControlRecordType) -> None:
    data = bytes.fromhex(BY_NAME[f"v2 {kind.name.lower()} marker"]["hex"])
    assert marker(kind) == data
    (info,) = scan(data)
    assert (info.size_bytes, info.attributes, info.last_offset_delta) == (78, 0x30, 0)
    assert (info.producer_id, info.producer_epoch, info.base_sequence, info.record_count) == (77, 3, -1, 1)
    (record,) = iter_records(data)
    assert (record.timestamp, record.offset) == (info.first_timestamp, info.base_offset)
    assert decode_end_transaction_marker(record.key, record.value) == (kind, 9)


def test_a_patched_batch_equals_one_built_by_kafka() -> None:
    builder = BatchBuilder()
    for time, (key, value, headers) in zip(MIXED_TIMES, MIXED[:-1], strict=False):
        builder.try_append(time, key, value, headers)
    patched = bytearray(b"??" + builder.build())
    patch_batch(patched, position=2, base_offset=1000, leader_epoch=-1, log_append_time_ms=APPEND_TIME)
    assert patched[2:].hex() == BY_NAME["v2 none LogAppendTime"]["hex"]


def our_batches() -> list[bytes]:
    batches = [make() for make in UNCOMPRESSED.values()]
    for codec in V2_CODECS:
        batches += [mixed_batch(codec, 0), compacted_batch(codec), transactional_batch(codec)]
        builder = BatchBuilder(codec)
        for i in range(200):
            builder.try_append(TIME + i, b"k%d" % i, bytes((i * j) % 251 for j in range(1500)))
        batches.append(builder.build(50))
        incompressible = BatchBuilder(codec)
        incompressible.try_append(TIME, None, b"".join(zlib.crc32(b"%d" % i).to_bytes(4, "big") for i in range(40_000)))
        batches.append(incompressible.build(60))
    return batches


@pytest.mark.kafka
def test_kafka_reads_our_batches(tmp_path: Path) -> None:
    batches = our_batches()
    (tmp_path / "ours.json").write_text(json.dumps([batch.hex() for batch in batches]))
    output = tools().run_source(HERE / "RecordVectors.java", "read", str(tmp_path / "ours.json")).stdout
    for batch, answer in zip(batches, json.loads(output.strip().splitlines()[-1]), strict=True):
        (theirs,) = answer["batches"]
        ours = [(r.offset, r.timestamp, content(r.key), content(r.value)) for r in iter_records(batch)]
        assert [(r["offset"], r["timestamp"], r["key"], r["value"]) for r in theirs["records"]] == ours
        (info,) = scan(batch)
        assert info.last_offset == theirs["last_offset"]
        assert info.codec == theirs["codec"]
