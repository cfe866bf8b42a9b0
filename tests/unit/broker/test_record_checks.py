"""Garbage in a produced batch with a valid checksum: rejected, unless the broker is set not to check."""

from __future__ import annotations

import random
import struct
from types import SimpleNamespace
from typing import Any

import pytest

from pyconsumer.broker.config import BrokerConfig, TopicConfig
from pyconsumer.broker.handlers.produce import _failed
from pyconsumer.broker.log.validation import record_columns
from pyconsumer.errors import CorruptRecordError, InvalidRecordError, InvalidTimestampError
from pyconsumer.protocol.records import CREATE_TIME, scan
from pyconsumer.protocol.records.compression import Codec, compress
from pyconsumer.protocol.records.crc import crc32c
from tests.unit.broker.support import NOW_MS, batch, keyed, log_in, records_of
from tests.unit.protocol.records.helpers import CODECS, raw_batch

CODEC_NUMBERS = [1, 2, 3, 4]


def changed(data: bytes, *fields: tuple[int, str, int]) -> bytearray:
    """A batch with other header fields (position, format, value) and a matching checksum."""
    made = bytearray(data)
    for position, kind, value in fields:
        struct.pack_into(">" + kind, made, position, value)
    made[17:21] = crc32c(bytes(made[21:])).to_bytes(4, "big")
    return made


LAST_DELTA, MAX_TIMESTAMP, COUNT = (23, "i"), (35, "q"), (57, "i")
GARBAGE = {
    "random": raw_batch(random.Random(1).randbytes(200), 3),
    "empty": raw_batch(b"", 3),
    "too many": changed(batch(b"a", b"b"), (*COUNT, 3), (*LAST_DELTA, 2)),
    "too few": changed(batch(b"a", b"b"), (*COUNT, 1), (*LAST_DELTA, 0)),
    "2^31-1": changed(batch(b"a", b"b"), (*COUNT, 2**31 - 1), (*LAST_DELTA, 2**31 - 2)),
    "last offset delta": changed(batch(b"a", b"b"), (*LAST_DELTA, 2)),
    "gap": raw_batch(compress(Codec.GZIP, b"\x0c\0\0\0\1\1\0" + b"\x0c\0\0\4\1\1\0"), 2, attributes=1),
    **{f"codec {number}": raw_batch(random.Random(2).randbytes(200), 3, attributes=number) for number in CODEC_NUMBERS},
    "codec of nothing": raw_batch(b"", 3, attributes=4),
}


@pytest.mark.parametrize("kind", GARBAGE)
def test_garbage_is_rejected(kind: str) -> None:
    log = log_in(None)
    with pytest.raises(InvalidRecordError):
        log.append(bytearray(GARBAGE[kind]), 0)
    assert log.log_end_offset == 0


@pytest.mark.parametrize("codec", CODECS)
def test_compressed_records_are_checked(codec: str) -> None:
    log = log_in(None)
    log.append(batch(b"a" * 100, b"b", codec=codec), 0)
    with pytest.raises(InvalidRecordError):
        log.append(changed(batch(b"a" * 100, b"b", codec=codec), (*COUNT, 3), (*LAST_DELTA, 2)), 0)
    assert [record.value for record in records_of(log)] == [b"a" * 100, b"b"]


def test_a_broker_can_be_set_not_to_check() -> None:
    assert TopicConfig.of({}, BrokerConfig()).validate_records
    config = TopicConfig.of({}, BrokerConfig({"pyconsumer.validate.records": "false"}))
    assert not config.validate_records
    log = log_in(None, validate_records=config.validate_records)
    assert log.append(bytearray(GARBAGE["random"]), 0).last_offset == 2
    with pytest.raises(InvalidRecordError, match="key"):
        log_in(None, validate_records=False, compact=True).append(keyed((None, b"v")), 0)


def test_each_bad_record_is_named() -> None:
    log = log_in(None, compact=True)
    with pytest.raises(InvalidRecordError) as caught:
        log.append(keyed((None, b"a"), (b"k", b"b"), (None, b"c")), 0)
    controller = SimpleNamespace(topics={})
    answer = _failed(0, caught.value, "t", SimpleNamespace(controller=controller), 9)  # type: ignore[arg-type]
    assert answer.error_code == 87
    assert [each.batch_index for each in answer.record_errors] == [0, 2]
    assert "key" in (answer.record_errors[0].batch_index_error_message or "")
    assert "record 2" in (answer.error_message or "")

    log = log_in(None, timestamp_after_max_ms=1)
    with pytest.raises(InvalidTimestampError) as late:
        log.append(batch(b"a", b"b", b"c", b"d"), 0)
    answer = _failed(0, late.value, "t", SimpleNamespace(controller=controller), 9)  # type: ignore[arg-type]
    assert (answer.error_code, [each.batch_index for each in answer.record_errors]) == (32, [2, 3])


@pytest.mark.parametrize("compression_type", ["producer", "gzip"])
@pytest.mark.parametrize("said", [-1, NOW_MS + 500, NOW_MS - 500])
def test_a_wrong_greatest_timestamp_is_corrected(said: int, compression_type: str) -> None:
    log = log_in(None, compression_type=compression_type)
    attributes: Any = (21, "h", 8)  # LogAppendTime, which is not for a producer to say
    log.append(changed(batch(b"a", b"b"), (*MAX_TIMESTAMP, said), attributes), 0)
    (header,) = scan(log.read(0, 1 << 20, 2, at_least_one=True))
    assert (header.max_timestamp, header.timestamp_type) == (NOW_MS + 1, CREATE_TIME)
    assert [record.timestamp for record in records_of(log)] == [NOW_MS, NOW_MS + 1]  # checks the checksum, too
    assert (log.offset_for_timestamp(NOW_MS + 1) or ())[:1] == (1,)


def test_the_producer_does_not_set_log_append_time() -> None:
    with pytest.raises(InvalidTimestampError):
        log_in(None, log_append_time=True).append(changed(batch(b"a"), (21, "h", 8)), 0)


def test_a_corrupt_batch_in_a_log_is_named_by_its_offset_without_a_partition() -> None:
    damaged = bytearray(batch(b"value"))
    damaged[-1] ^= 1
    with pytest.raises(CorruptRecordError, match=r"^at offset 0: ") as raised:
        list(record_columns(damaged, 0, with_keys=False, check_crc=True))
    assert (raised.value.offset, raised.value.topic_partition) == (0, None)
