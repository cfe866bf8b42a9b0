"""Odd record batches and odd Produce requests."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import cramjam

from pyconsumer.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pyconsumer.protocol.records import scan
from tests.support.odd.batches import (
    CONTROL,
    DELETE_HORIZON,
    GZIP,
    LZ4,
    SNAPPY,
    TIMESTAMP_TYPE,
    TRANSACTIONAL,
    ZSTD,
    batch,
    gzipped,
    legacy,
    lz4,
    lz4_block,
    now_ms,
    payload,
    record,
    snappy,
    varint,
    xxh32,
)
from tests.support.odd.world import Case, World, name_of

__all__ = ["CASES"]

DAY_MS = 86_400_000
LAST = 2**31 - 1
APPEND_TIME = {"message.timestamp.type": "LogAppendTime"}
COMPACT = {"cleanup.policy": "compact"}
OLDEST = {"message.timestamp.before.max.ms": DAY_MS}
NEWEST = {"message.timestamp.after.max.ms": DAY_MS}
HUNDRED = {"max.message.bytes": len(batch(record(b"x" * 100)))}
ONE, TWO = record(), (record(), record(offset=1))


def sent(make: Callable[[], bytes | None], config: Mapping[str, object] | None = None, **request: Any) -> Case:
    """Return the case of one Produce request with the result of ``make``."""
    return lambda world: world.produce(make(), config=config, **request)


def in_turn(*made: Callable[[], bytes], config: Mapping[str, object] | None = None) -> Case:
    """Return the case of batches that are sent to one partition in turn. The answer is all codes and offsets."""

    def case(world: World) -> str:
        at = world.partition(config)
        answers = []
        for make in made:
            code, offset, _ = world.send_batch(make(), at)
            answers.append(name_of(code) + ("" if code else f" at {offset}"))
        return ", ".join(answers)

    return case


def packed(codec: int, content: bytes, **fields: Any) -> Case:
    """Return the case of a batch with the given bytes after its header."""
    return sent(lambda: batch(codec=codec, content=content, **fields))


HEADERS: dict[str, Case] = {
    "a good batch": sent(batch),
    "base offset 1": sent(lambda: batch(base_offset=1)),
    "base offset -1": sent(lambda: batch(base_offset=-1)),
    "base offset 2**62": sent(lambda: batch(base_offset=2**62)),
    "base offset 2**63 - 1": sent(lambda: batch(base_offset=2**63 - 1)),
    "length one less": sent(lambda: batch(length=len(batch()) - 13)),
    "length one more": sent(lambda: batch(length=len(batch()) - 11)),
    "length 0": sent(lambda: batch(length=0)),
    "length 13": sent(lambda: batch(length=13)),
    "length 48": sent(lambda: batch(length=48)),
    "length -1": sent(lambda: batch(length=-1)),
    "length 2**31 - 1": sent(lambda: batch(length=LAST)),
    "one byte behind it": sent(lambda: batch() + b"\0"),
    "12 bytes behind it": sent(lambda: batch() + b"\0" * 12),
    "17 bytes behind it": sent(lambda: batch() + b"\0" * 17),
    "100 bytes behind it": sent(lambda: batch() + b"\0" * 100),
    "half a batch behind it": sent(lambda: batch() + batch()[:40]),
    "a batch behind it": sent(lambda: batch() + batch(base_offset=1)),
    "a damaged batch behind it": sent(lambda: batch() + batch(base_offset=1, crc=1)),
    "a message of format v1 behind it": sent(lambda: batch() + legacy(1)),
    "leader epoch 0": sent(lambda: batch(leader_epoch=0)),
    "leader epoch 7": sent(lambda: batch(leader_epoch=7)),
    "leader epoch -2": sent(lambda: batch(leader_epoch=-2)),
    "magic -1": sent(lambda: batch(magic=-1)),
    "magic 0": sent(lambda: batch(magic=0)),
    "magic 1": sent(lambda: batch(magic=1)),
    "magic 3": sent(lambda: batch(magic=3)),
    "magic 127": sent(lambda: batch(magic=127)),
    "a message of format v0": sent(lambda: legacy(0)),
    "a message of format v1": sent(lambda: legacy(1)),
    "a message of format v1 by Produce 3": sent(lambda: legacy(1), version=3),
    "two messages of format v1": sent(lambda: legacy(1) + legacy(1, offset=1)),
    "a compressed message of format v1": sent(lambda: legacy(1, gzipped(legacy(1)), None, attributes=1)),
    "checksum 0": sent(lambda: batch(crc=0)),
    "codec 5": sent(lambda: batch(codec=5)),
    "codec 6": sent(lambda: batch(codec=6)),
    "codec 7": sent(lambda: batch(codec=7)),
    "the timestamp type's bit": sent(lambda: batch(attributes=TIMESTAMP_TYPE)),
    "the transactional bit": sent(lambda: batch(attributes=TRANSACTIONAL)),
    "the transactional bit of a producer": sent(
        lambda: batch(attributes=TRANSACTIONAL, producer_id=7, producer_epoch=0, sequence=0)
    ),
    "the control bit": sent(lambda: batch(attributes=CONTROL)),
    "the control and the transactional bit": sent(lambda: batch(attributes=CONTROL | TRANSACTIONAL)),
    "the delete horizon's bit": sent(lambda: batch(attributes=DELETE_HORIZON)),
    "the delete horizon's bit, compacted": sent(lambda: batch(attributes=DELETE_HORIZON), COMPACT),
    "the delete horizon's bit in gzip": sent(lambda: batch(codec=GZIP, attributes=DELETE_HORIZON)),
    "attribute 0x80": sent(lambda: batch(attributes=0x80)),
    "attribute 0x100": sent(lambda: batch(attributes=0x100)),
    "attribute 0x8000": sent(lambda: batch(attributes=0x8000)),
    "last offset delta 1 of one record": sent(lambda: batch(last_offset_delta=1)),
    "last offset delta 0 of two records": sent(lambda: batch(*TWO, last_offset_delta=0)),
    "last offset delta -1": sent(lambda: batch(last_offset_delta=-1)),
    "last offset delta 2**31 - 1": sent(lambda: batch(last_offset_delta=LAST)),
    "count 0 of one record": sent(lambda: batch(count=0)),
    "count 0 of one record, last offset delta 0": sent(lambda: batch(count=0, last_offset_delta=0)),
    "count -1": sent(lambda: batch(count=-1)),
    "count -1, last offset delta 0": sent(lambda: batch(count=-1, last_offset_delta=0)),
    "count 2 of one record": sent(lambda: batch(count=2)),
    "count 2 of one record, last offset delta 0": sent(lambda: batch(count=2, last_offset_delta=0)),
    "count 1 of two records": sent(lambda: batch(*TWO, count=1)),
    "count 1 of two records in gzip": sent(lambda: batch(*TWO, codec=GZIP, count=1)),
    "count 2 of one record in gzip": sent(lambda: batch(codec=GZIP, count=2)),
    "count 2**31 - 1": sent(lambda: batch(count=LAST)),
    "count 2**31 - 1 in gzip": sent(lambda: batch(codec=GZIP, count=LAST)),
    "an empty batch": sent(lambda: batch(content=b"", count=0, last_offset_delta=0)),
    "an empty batch, last offset delta -1": sent(lambda: batch(content=b"", count=0)),
    "no records, count 1": sent(lambda: batch(content=b"", count=1)),
    "null": sent(lambda: None),
    "no bytes": sent(lambda: b""),
    "one byte": sent(lambda: b"\0"),
    "16 bytes": sent(lambda: batch()[:16]),
    "17 bytes": sent(lambda: batch()[:17]),
    "60 bytes": sent(lambda: batch()[:60]),
    "61 bytes": sent(lambda: batch()[:61]),
    "all but the last byte": sent(lambda: batch()[:-1]),
    "100 times 0x00": sent(lambda: b"\0" * 100),
    "100 times 0xff": sent(lambda: b"\xff" * 100),
}


def length_prefixed(body: bytes) -> bytes:
    return varint(len(body)) + body


#: Records of an otherwise good batch. Each set is sent in four ways, because Kafka reads it by another way in each.
RECORD_SETS: dict[str, tuple[bytes, ...]] = {
    "a good record": (record(headers=[(b"h", b"x"), (b"n", None)]),),
    "length one less": (record(length=7),),
    "length one more": (record(length=9),),
    "length 0": (record(length=0),),
    "length -1": (record(length=-1),),
    "length 2**31 - 1": (record(length=LAST),),
    "a length of 5 bytes": (record(length_as=varint(8, size=5)),),
    "a length of 6 bytes": (record(length_as=varint(8, size=6)),),
    "attributes 1": (record(attributes=1),),
    "attributes -1": (record(attributes=-1),),
    "a byte behind the headers": (record(tail=b"\0"),),
    "a byte behind the last record": (record() + b"\0",),
    "cut off": (record()[:-1],),
    "offset delta 1 of the first": (record(offset=1),),
    "offset delta -1": (record(offset=-1),),
    "offset deltas 0, 2": (
        record(),
        record(offset=2),
    ),
    "offset deltas 0, 0": (
        record(),
        record(),
    ),
    "offset deltas 1, 0": (
        record(offset=1),
        record(),
    ),
    "offset deltas 0, 2**31 - 1": (
        record(),
        record(offset=LAST),
    ),
    "offset deltas 0, 2**31": (
        record(),
        record(offset=2**31),
    ),
    "timestamp delta -1": (record(timestamp=-1),),
    "timestamp delta of 11 bytes": (length_prefixed(b"\0" + varint(0, size=11) + b"\0\x02k\x02v\0"),),
    "timestamp delta of 10 bytes": (length_prefixed(b"\0" + varint(0, size=10) + b"\0\x02k\x02v\0"),),
    "null key": (record(key=None),),
    "null value": (record(value=None),),
    "empty key and value": (record(b"", b""),),
    "key length -2": (record(key=b"", key_length=-2),),
    "key length too great": (record(key_length=100),),
    "key length 2**31 - 1": (record(key_length=LAST),),
    "value length -2": (record(value=b"", value_length=-2),),
    "value length too great": (record(value_length=100),),
    "value length too small": (record(b"vvv", value_length=1),),
    "no header count": (record(headers_as=b""),),
    "header count -1": (record(header_count=-1),),
    "header count 1 of none": (record(header_count=1),),
    "header count 2**31 - 1": (record(header_count=LAST),),
    "a header with a null name": (record(headers=[(None, b"x")]),),
    "a header with an empty name": (record(headers=[(b"", b"x")]),),
    "a header's name that is not UTF-8": (record(headers=[(b"\xff", b"x")]),),
    "a header's value of length -2": (record(headers_as=varint(1) + b"\x02h" + varint(-2)),),
    "a header's value too long": (record(headers_as=varint(1) + b"\x02h" + varint(9)),),
    "the same header twice": (record(headers=[(b"h", b"x"), (b"h", b"y")]),),
    "the second of two is damaged": (
        record(),
        record(offset=1, value_length=100),
    ),
}

RECORDS: dict[str, Case] = {
    "offset deltas 0, 2, last offset delta 2": sent(lambda: batch(record(), record(offset=2), last_offset_delta=2)),
    "timestamp delta 2**63 - 1": sent(lambda: batch(record(timestamp=2**63 - 1), first_timestamp=1)),
}
for _words, _records in RECORD_SETS.items():
    RECORDS |= {
        _words: sent(partial(batch, *_records)),
        f"{_words}, compacted": sent(partial(batch, *_records), COMPACT),
        f"{_words}, in gzip": sent(partial(batch, *_records, codec=GZIP)),
        f"{_words}, in gzip, compacted": sent(partial(batch, *_records, codec=GZIP), COMPACT),
        f"{_words}, from gzip to zstd": sent(partial(batch, *_records, codec=GZIP), {"compression.type": "zstd"}),
    }

TIMES: dict[str, Case] = {
    "no timestamp": sent(lambda: batch(first_timestamp=-1)),
    "no timestamp in gzip": sent(lambda: batch(first_timestamp=-1, codec=GZIP)),
    "first timestamp -2": sent(lambda: batch(first_timestamp=-2)),
    "first timestamp 0": sent(lambda: batch(first_timestamp=0)),
    "first timestamp -2**63": sent(lambda: batch(first_timestamp=-(2**63))),
    "no first timestamp, delta as large as the time": sent(
        lambda: batch(record(timestamp=now_ms()), first_timestamp=0, max_timestamp=now_ms())
    ),
    "max timestamp too small": sent(lambda: batch(max_timestamp=now_ms() - 1000)),
    "max timestamp too great": sent(lambda: batch(max_timestamp=now_ms() + 1000)),
    "max timestamp -1": sent(lambda: batch(max_timestamp=-1)),
    "max timestamp of another year": sent(lambda: batch(max_timestamp=now_ms() + 400 * DAY_MS)),
    "max timestamp too great in gzip": sent(lambda: batch(codec=GZIP, max_timestamp=now_ms() + 1000)),
    "two hours ahead": sent(lambda: batch(first_timestamp=now_ms() + 7_200_000)),
    "half an hour ahead": sent(lambda: batch(first_timestamp=now_ms() + 1_800_000)),
    "the second record two hours ahead": sent(lambda: batch(record(), record(offset=1, timestamp=7_200_000))),
    "all of three records two hours ahead": sent(
        lambda: batch(record(), record(offset=1), record(offset=2), first_timestamp=now_ms() + 7_200_000)
    ),
    "two hours ahead where a day is allowed": sent(lambda: batch(first_timestamp=now_ms() + 7_200_000), NEWEST),
    "ten years old": sent(lambda: batch(first_timestamp=now_ms() - 3650 * DAY_MS)),
    "two days old where one is allowed": sent(lambda: batch(first_timestamp=now_ms() - 2 * DAY_MS), OLDEST),
    "two days old where one is allowed, in lz4": sent(
        lambda: batch(codec=LZ4, first_timestamp=now_ms() - 2 * DAY_MS), OLDEST
    ),
    "no timestamp where a day is allowed": sent(lambda: batch(first_timestamp=-1), OLDEST),
    "timestamp 0 where a day is allowed": sent(lambda: batch(first_timestamp=0), OLDEST),
    "LogAppendTime": sent(batch, APPEND_TIME),
    "LogAppendTime in gzip": sent(lambda: batch(codec=GZIP), APPEND_TIME),
    "LogAppendTime, the timestamp type's bit": sent(lambda: batch(attributes=TIMESTAMP_TYPE), APPEND_TIME),
    "LogAppendTime, the timestamp type's bit in gzip": sent(
        lambda: batch(attributes=TIMESTAMP_TYPE, codec=GZIP), APPEND_TIME
    ),
    "LogAppendTime, two hours ahead": sent(lambda: batch(first_timestamp=now_ms() + 7_200_000), APPEND_TIME),
    "LogAppendTime, no timestamp": sent(lambda: batch(first_timestamp=-1), APPEND_TIME),
    "the timestamp type's bit in gzip": sent(lambda: batch(attributes=TIMESTAMP_TYPE, codec=GZIP)),
}

LINKED = bytes(cramjam.lz4.compress(ONE))
NAMED = gzipped(ONE)[:3] + b"\x08" + gzipped(ONE)[4:10] + b"name\0" + gzipped(ONE)[10:]
SKIPPED = b"\x50\x2a\x4d\x18\x03\0\0\0abc"


def lz4_sum(data: bytes) -> bytes:
    return struct.pack("<I", xxh32(data))


CODECS: dict[str, Case] = {}
for _name, _codec in {"gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}.items():
    _good = payload(_codec, ONE)
    CODECS |= {
        f"{_name}, good": packed(_codec, _good),
        f"{_name}, two records": sent(lambda codec=_codec: batch(*TWO, codec=codec)),  # type: ignore[misc]
        f"{_name}, no bytes": packed(_codec, b""),
        f"{_name}, of nothing": packed(_codec, payload(_codec, b"")),
        f"{_name}, not compressed": packed(_codec, ONE),
        f"{_name}, a byte less": packed(_codec, _good[:-1]),
        f"{_name}, half": packed(_codec, _good[: len(_good) // 2]),
        f"{_name}, a byte behind it": packed(_codec, _good + b"\0"),
        f"{_name}, 100 bytes behind it": packed(_codec, _good + b"x" * 100),
        f"{_name}, twice": packed(_codec, _good * 2),
        f"{_name}, of each record": packed(_codec, b"".join(payload(_codec, one) for one in TWO), count=2),
        f"{_name}, compressed twice": packed(_codec, payload(_codec, _good)),
        f"{_name}, of a batch": packed(_codec, payload(_codec, batch())),
        f"{_name}, its last byte changed": packed(_codec, _good[:-1] + bytes((_good[-1] ^ 0xFF,))),
        f"{_name}, its middle changed": packed(
            _codec, _good[: len(_good) // 2] + bytes((_good[len(_good) // 2] ^ 0xFF,)) + _good[len(_good) // 2 + 1 :]
        ),
        f"{_name}, with too many records": packed(_codec, _good, count=2),
        f"{_name}, with a null key": sent(lambda codec=_codec: batch(record(key=None), codec=codec)),  # type: ignore[misc]
    }
CODECS |= {
    "gzip with a file's name": packed(GZIP, NAMED),
    "gzip, zeros behind it": packed(GZIP, gzipped(ONE) + b"\0" * 100),
    "gzip, an empty member behind it": packed(GZIP, gzipped(ONE) + gzipped(b"")),
    "gzip, wrong checksum": packed(GZIP, gzipped(ONE)[:-8] + b"\1\2\3\4" + gzipped(ONE)[-4:]),
    "gzip, method 7": packed(GZIP, gzipped(ONE)[:2] + b"\x07" + gzipped(ONE)[3:]),
    "zlib instead of gzip": packed(GZIP, zlib.compress(ONE)),
    "snappy without xerial blocks": packed(SNAPPY, bytes(cramjam.snappy.compress_raw(ONE))),
    "snappy, xerial version 2": packed(SNAPPY, snappy(ONE, header=b"\x82SNAPPY\0\0\0\0\2\0\0\0\2")),
    "snappy, xerial version 0": packed(SNAPPY, snappy(ONE, header=b"\x82SNAPPY\0\0\0\0\0\0\0\0\0")),
    "snappy, only xerial's header": packed(SNAPPY, b"\x82SNAPPY\0\0\0\0\1\0\0\0\1"),
    "snappy, a block of 0 bytes behind it": packed(SNAPPY, snappy(ONE) + b"\0\0\0\0"),
    "snappy, a block of -1 bytes behind it": packed(SNAPPY, snappy(ONE) + b"\xff\xff\xff\xff"),
    "snappy, a block of 2**30 bytes behind it": packed(SNAPPY, snappy(ONE) + b"\x40\0\0\0abcd"),
    "snappy, framed": packed(SNAPPY, bytes(cramjam.snappy.compress(ONE))),
    "lz4 with linked blocks": packed(LZ4, LINKED),
    "lz4 with linked blocks, uncompressed topic": sent(
        lambda: batch(codec=LZ4, content=LINKED), {"compression.type": "uncompressed"}
    ),
    "lz4 with linked blocks, LogAppendTime": sent(lambda: batch(codec=LZ4, content=LINKED), APPEND_TIME),
    "lz4, linked flag of one block": packed(LZ4, lz4(ONE, flags=0x40)),
    "lz4 with a checksum of each block": packed(LZ4, lz4(ONE, flags=0x70, block_sum=lz4_sum(lz4_block(ONE)[4:]))),
    "lz4 with a wrong checksum of a block": packed(LZ4, lz4(ONE, flags=0x70, block_sum=b"\1\2\3\4")),
    "lz4 with a checksum of the content": packed(LZ4, lz4(ONE, flags=0x64, end=b"\0\0\0\0" + lz4_sum(ONE))),
    "lz4 with a wrong checksum of the content": packed(LZ4, lz4(ONE, flags=0x64, end=b"\0\0\0\0\1\2\3\4")),
    "lz4 without the checksum of the content": packed(LZ4, lz4(ONE, flags=0x64)),
    "lz4 with the content's size": packed(LZ4, lz4(ONE, flags=0x68, extra=struct.pack("<Q", len(ONE)))),
    "lz4 with a wrong size of the content": packed(LZ4, lz4(ONE, flags=0x68, extra=struct.pack("<Q", 99))),
    "lz4 with a wrong checksum of the header": packed(LZ4, lz4(ONE, header_sum=0)),
    "lz4 with format v0's checksum of the header": packed(LZ4, lz4(ONE, sum_from=0)),
    "lz4 with a dictionary": packed(LZ4, lz4(ONE, flags=0x61, extra=b"\1\0\0\0")),
    "lz4 with the reserved flag": packed(LZ4, lz4(ONE, flags=0x62)),
    "lz4, version 0": packed(LZ4, lz4(ONE, flags=0x20)),
    "lz4, version 2": packed(LZ4, lz4(ONE, flags=0xA0)),
    "lz4, block size 3": packed(LZ4, lz4(ONE, sizes=0x30)),
    "lz4, block size 7": packed(LZ4, lz4(ONE, sizes=0x70)),
    "lz4, a reserved bit of the block size": packed(LZ4, lz4(ONE, sizes=0x41)),
    "lz4, the last bit of the block size": packed(LZ4, lz4(ONE, sizes=0xC0)),
    "lz4 without an end": packed(LZ4, lz4(ONE, end=b"")),
    "lz4 with a block larger than its size": packed(LZ4, lz4(ONE, blocks=struct.pack("<I", 0x10001) + b"x" * 0x10001)),
    "lz4 with a stored block": packed(LZ4, lz4(ONE, blocks=struct.pack("<I", len(ONE) | 1 << 31) + ONE)),
    "lz4 with an empty stored block": packed(LZ4, lz4(ONE, blocks=lz4_block(ONE) + struct.pack("<I", 1 << 31))),
    "lz4 behind a frame to skip": packed(LZ4, SKIPPED + lz4(ONE)),
    "lz4 before a frame to skip": packed(LZ4, lz4(ONE) + SKIPPED),
    "zstd behind a frame to skip": packed(ZSTD, SKIPPED + payload(ZSTD, ONE)),
    "zstd before a frame to skip": packed(ZSTD, payload(ZSTD, ONE) + SKIPPED),
    "zstd with a dictionary": packed(ZSTD, b"\x28\xb5\x2f\xfd\x21\x07" + bytes((len(ONE),)) + b"\x51\0\0" + ONE),
    "zstd, a stored block": packed(
        ZSTD, b"\x28\xb5\x2f\xfd\x20" + bytes((len(ONE),)) + struct.pack("<I", len(ONE) << 3 | 1)[:3] + ONE
    ),
    "zstd, a wrong size of the content": packed(
        ZSTD, b"\x28\xb5\x2f\xfd\x20" + bytes((len(ONE) + 1,)) + struct.pack("<I", len(ONE) << 3 | 1)[:3] + ONE
    ),
    "zstd, a wrong checksum": packed(
        ZSTD,
        b"\x28\xb5\x2f\xfd\x24" + bytes((len(ONE),)) + struct.pack("<I", len(ONE) << 3 | 1)[:3] + ONE + b"\1\2\3\4",
    ),
    "zstd by Produce 6": sent(lambda: batch(codec=ZSTD), version=6),
    "lz4 content in a batch of gzip": packed(GZIP, lz4(ONE)),
    "gzip content in a batch of zstd": packed(ZSTD, gzipped(ONE)),
}

#: Topics with settings that the broker compares with each batch.
TOPICS: dict[str, Case] = {
    "compacted, a key": sent(batch, COMPACT),
    "compacted, no key": sent(lambda: batch(record(key=None)), COMPACT),
    "compacted, the second of two without key": sent(lambda: batch(record(), record(key=None, offset=1)), COMPACT),
    "compacted, two without key in zstd": sent(
        lambda: batch(record(key=None), record(key=None, offset=1), codec=ZSTD), COMPACT
    ),
    "compacted, an empty key": sent(lambda: batch(record(key=b"")), COMPACT),
    "compacted, a null value": sent(lambda: batch(record(value=None)), COMPACT),
    "compacted and deleted, no key": sent(lambda: batch(record(key=None)), {"cleanup.policy": "compact,delete"}),
    "compacted, no key and two hours ahead": sent(
        lambda: batch(record(key=None), first_timestamp=now_ms() + 7_200_000), COMPACT
    ),
    "compacted, one without key, one two hours ahead": sent(
        lambda: batch(record(key=None), record(offset=1, timestamp=7_200_000)), COMPACT
    ),
    "as large as allowed": sent(lambda: batch(record(b"x" * 100)), HUNDRED),
    "a byte too large": sent(lambda: batch(record(b"x" * 101)), HUNDRED),
    "too large when decompressed": sent(lambda: batch(record(b"x" * 1000), codec=GZIP), {"max.message.bytes": 300}),
    "too large when stored without its codec": sent(
        lambda: batch(record(b"x" * 1000), codec=GZIP),
        {"max.message.bytes": 300, "compression.type": "uncompressed"},
    ),
    "too large before it gets the topic's codec": sent(
        lambda: batch(record(b"x" * 1000)), {"max.message.bytes": 300, "compression.type": "gzip"}
    ),
    "larger than a segment": sent(
        lambda: batch(record(b"x" * 1_100_000)), {"segment.bytes": 1 << 20, "max.message.bytes": 1 << 21}
    ),
    "too large, and damaged": sent(lambda: batch(record(b"x" * 101), crc=1), {"max.message.bytes": 100}),
    "stored in gzip": sent(batch, {"compression.type": "gzip"}),
    "stored without the producer's codec": sent(lambda: batch(codec=ZSTD), {"compression.type": "uncompressed"}),
    "stored in another codec": sent(lambda: batch(codec=LZ4), {"compression.type": "zstd"}),
    "stored in the same codec": sent(lambda: batch(codec=LZ4), {"compression.type": "lz4"}),
    "stored in another codec, the timestamp type's bit": sent(
        lambda: batch(codec=LZ4, attributes=TIMESTAMP_TYPE), {"compression.type": "zstd"}
    ),
    "stored in another codec, offset deltas 1, 0": sent(
        lambda: batch(record(offset=1), record(), codec=LZ4), {"compression.type": "zstd"}
    ),
    "stored in another codec, attribute 0x100": sent(
        lambda: batch(codec=LZ4, attributes=0x100), {"compression.type": "zstd"}
    ),
    "too few replicas for acks all": sent(batch, {"min.insync.replicas": 2}),
    "too few replicas for acks 1": sent(batch, {"min.insync.replicas": 2}, acks=1),
    "too few replicas, and damaged": sent(lambda: batch(crc=1), {"min.insync.replicas": 2}),
}


def of(producer_id: int = 7, epoch: int = 0, sequence: int = 0, *records: bytes, **more: Any) -> Callable[[], bytes]:
    return lambda: batch(*records, producer_id=producer_id, producer_epoch=epoch, sequence=sequence, **more)


PRODUCERS: dict[str, Case] = {
    "no id, epoch 0 and sequence 0": sent(of(-1)),
    "no id, epoch 0": sent(of(-1, 0, -1)),
    "no id, sequence 5": sent(of(-1, -1, 5)),
    "id -2": sent(of(-2)),
    "an unknown id": sent(of()),
    "an unknown id from sequence 7": sent(of(sequence=7)),
    "id 0": sent(of(0)),
    "id 2**63 - 1": sent(of(2**63 - 1)),
    "epoch -1": sent(of(epoch=-1)),
    "epoch -2": sent(of(epoch=-2)),
    "epoch 32767": sent(of(epoch=32767)),
    "sequence -1": sent(of(sequence=-1)),
    "sequence -2": sent(of(sequence=-2)),
    "epoch -1 and sequence -1": sent(of(epoch=-1, sequence=-1)),
    "sequence 2**31 - 1": sent(of(sequence=LAST)),
    "in order": in_turn(of(), of(sequence=1), of(7, 0, 2, *TWO), of(sequence=4)),
    "a gap": in_turn(of(), of(sequence=2)),
    "the same twice": in_turn(of(), of()),
    "the fifth before": in_turn(*(of(sequence=n) for n in range(5)), of()),
    "the sixth before": in_turn(*(of(sequence=n) for n in range(6)), of()),
    "a part of the last": in_turn(of(7, 0, 0, *TWO), of(sequence=1)),
    "the last and more": in_turn(of(), of(7, 0, 0, *TWO)),
    "the same with other records": in_turn(of(), of(7, 0, 0, record(b"other"))),
    "an older epoch": in_turn(of(epoch=1), of(epoch=0)),
    "an older epoch, next sequence": in_turn(of(epoch=1), of(epoch=0, sequence=1)),
    "a new epoch": in_turn(of(), of(epoch=1)),
    "a new epoch from sequence 1": in_turn(of(), of(epoch=1, sequence=1)),
    "an epoch left out": in_turn(of(), of(epoch=5)),
    "sequences beyond 2**31 - 1": in_turn(of(sequence=LAST), of(), of(sequence=1)),
    "a batch across 2**31 - 1": in_turn(of(7, 0, LAST, *TWO), of(sequence=1)),
    "a batch without producer between": in_turn(of(), batch, of(sequence=1)),
    "a duplicate that is damaged": in_turn(of(), of(crc=1)),
    "a duplicate with a null key, compacted": in_turn(of(), of(7, 0, 0, record(key=None)), config=COMPACT),
    "a duplicate two hours ahead": in_turn(of(), of(first_timestamp=2**50)),
    "a refused batch, then the next": in_turn(of(first_timestamp=2**50), of(sequence=1)),
    "transactional, then not": in_turn(of(attributes=TRANSACTIONAL), of(sequence=1)),
}


def requested(make: Callable[[World], ProduceRequest], version: int = 9) -> Case:
    """Return the case of a Produce request. The answer is the codes of its partitions, sorted."""

    def case(world: World) -> str:
        answer = world.client.request(make(world), version)
        parts = [part for topic in answer.responses for part in topic.partition_responses]
        for part in parts:
            if part.error_code:
                world.refusals.append((part.error_code, part.error_message))
        return ", ".join(sorted(name_of(part.error_code) for part in parts)) or "no partitions"

    return case


def to(*topics: tuple[str, tuple[int, ...]], acks: int = -1, **more: Any) -> ProduceRequest:
    data = [
        TopicProduceData(name, partition_data=[PartitionProduceData(n, batch()) for n in each]) for name, each in topics
    ]
    return ProduceRequest(acks=acks, timeout_ms=more.pop("timeout_ms", 10_000), topic_data=data, **more)


def beside(*made: Callable[[], bytes | None], **more: Any) -> Case:
    """Return the case of several batches in one request, each for a partition of its own."""

    def request(world: World) -> ProduceRequest:
        parts = [PartitionProduceData(index, make()) for index, make in enumerate(made)]
        data = [TopicProduceData(world.topic(len(made)), partition_data=parts)]
        return ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=data, **more)

    return requested(request)


def last_of(*made: Callable[[], bytes]) -> Case:
    """Return the case of several batches for one partition: how many records are there afterwards."""

    def case(world: World) -> str:
        name = world.topic()
        data = [TopicProduceData(name, partition_data=[PartitionProduceData(0, make()) for make in made])]
        world.client.request(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=data), 9)
        return f"stored {', '.join(str(each.record_count) for each in scan(world.fetched((name, 0))))}"

    return case


def unacknowledged(make: Callable[[World], ProduceRequest]) -> Case:
    """Return the case of a request without an answer, with the answer to the connection's next request."""

    def case(world: World) -> str:
        world.client.versions  # noqa: B018
        world.client.send(make(world), 9)
        name, index = world.partition()
        code, _, _ = world.send_batch(batch(), (name, index))
        return f"no answer, and the next is {name_of(code)}"

    return case


def by_id(topic_id: bytes) -> ProduceRequest:
    return ProduceRequest(
        acks=-1,
        timeout_ms=10_000,
        topic_data=[TopicProduceData(topic_id=topic_id, partition_data=[PartitionProduceData(0, batch())])],
    )


REQUESTS: dict[str, Case] = {
    "acks 2": sent(batch, acks=2),
    "acks -2": sent(batch, acks=-2),
    "acks 1": sent(batch, acks=1),
    "acks 2 and a damaged batch": sent(lambda: batch(crc=0), acks=2),
    "acks 2, an unknown topic": requested(lambda world: to((world.fresh(), (0,)), acks=2)),
    "acks 0": unacknowledged(lambda world: to((world.topic(), (0,)), acks=0)),
    "acks 0, an unknown topic": unacknowledged(lambda world: to((world.fresh(), (0,)), acks=0)),
    "acks 0, one of two topics unknown": unacknowledged(
        lambda world: to((world.topic(), (0,)), (world.fresh(), (0,)), acks=0)
    ),
    "timeout 0": sent(batch, timeout_ms=0),
    "timeout -1": sent(batch, timeout_ms=-1),
    "no topics": requested(lambda world: to()),
    "no topics, acks 0": unacknowledged(lambda world: to(acks=0)),
    "no partitions": requested(lambda world: to((world.topic(), ()))),
    "an unknown topic": requested(lambda world: to((world.fresh(), (0,)))),
    "an empty name": requested(lambda world: to(("", (0,)))),
    "an illegal name": requested(lambda world: to(("a b", (0,)))),
    "a name of 300 letters": requested(lambda world: to(("x" * 300, (0,)))),
    "an unknown partition": requested(lambda world: to((world.topic(), (1,)))),
    "partition -1": requested(lambda world: to((world.topic(), (-1,)))),
    "a partition twice": requested(lambda world: to((world.topic(), (0, 0)))),
    "a topic twice": requested(lambda world: to(*[(world.topic(2), (0,))] * 2)),
    "a topic twice, other partitions": requested(lambda world: (lambda t: to((t, (0,)), (t, (1,))))(world.topic(2))),
    "a partition twice, one and two records": last_of(batch, lambda: batch(*TWO)),
    "a partition twice, two records and one": last_of(lambda: batch(*TWO), batch),
    "a good batch beside one with a wrong checksum": beside(batch, lambda: batch(crc=1)),
    "a good batch beside one of length 0": beside(batch, lambda: batch(length=0)),
    "a batch of length 0 beside a good one": beside(lambda: batch(length=0), batch),
    "a batch without producer beside a transactional one": beside(batch, of(attributes=TRANSACTIONAL)),
    "two transactional producers": beside(
        of(attributes=TRANSACTIONAL), of(8, attributes=TRANSACTIONAL), transactional_id="odd-unknown"
    ),
    "two idempotent producers": beside(of(), of(8)),
    "a good and an unknown topic": requested(lambda world: to((world.topic(), (0,)), (world.fresh(), (0,)))),
    "the internal topic of offsets": requested(lambda world: to(("__consumer_offsets", (0,)))),
    "the internal topic of transactions": requested(lambda world: to(("__transaction_state", (0,)))),
    "an unknown topic id": requested(lambda world: by_id(b"?" * 16), 13),
    "topic id 0": requested(lambda world: by_id(bytes(16)), 13),
    "a transactional id for a batch outside": sent(batch, transactional_id="odd"),
    "an empty transactional id for a batch outside": sent(batch, transactional_id=""),
    "an unknown transactional id": sent(of(attributes=TRANSACTIONAL), transactional_id="odd-unknown"),
    "an unknown transactional id by Produce 12": sent(
        of(attributes=TRANSACTIONAL), transactional_id="odd-unknown", version=12
    ),
    "an empty transactional id": sent(of(attributes=TRANSACTIONAL), transactional_id=""),
    "transactional without a producer id": sent(
        lambda: batch(attributes=TRANSACTIONAL), transactional_id="odd-unknown"
    ),
}

CASES: dict[str, Case] = {
    f"{kind}: {words}": case
    for kind, table in {
        "batch": HEADERS,
        "record": RECORDS,
        "times": TIMES,
        "codec": CODECS,
        "topic": TOPICS,
        "producer": PRODUCERS,
        "request": REQUESTS,
    }.items()
    for words, case in table.items()
}
