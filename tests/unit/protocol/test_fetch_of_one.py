"""Fetches of one partition: the short encoder and decoder equal the full codecs."""

from __future__ import annotations

import functools
import random
from typing import Any

import pytest

from pyconsumer.errors import ProtocolError
from pyconsumer.protocol import _codegen
from pyconsumer.protocol.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from pyconsumer.protocol.requests.fetch import (
    FIRST_VERSION_OF_ONE,
    FIRST_VERSION_WITH_TOPIC_IDS,
    FetchOfOne,
    FetchSettings,
    fetch_request,
)
from pyconsumer.structs import TopicPartition

TOPIC_ID = bytes(range(16))
NEWEST = FetchResponse.MAX_VERSION


@pytest.mark.parametrize("version", range(FIRST_VERSION_OF_ONE, NEWEST + 1))
@pytest.mark.parametrize(
    "settings",
    [
        FetchSettings(500, 1, 8 << 20),
        FetchSettings(0, 0, 0, read_committed=True),
        FetchSettings(0x7FFFFFFF, 1 << 20, 0x7FFFFFFF, rack_id="r"),
        FetchSettings(1, 2, 3, rack_id="é" * 100),
    ],
)
@pytest.mark.parametrize("fields", [(TOPIC_ID, 0, 1 << 20, -1), (TOPIC_ID, (1 << 63) - 1, 1, 7, 99)])
def test_a_request_of_one_partition_has_the_bytes_of_the_codec(
    version: int, settings: FetchSettings, fields: Any
) -> None:
    whole = fetch_request(settings, [(TopicPartition("t", 5), fields)], session=(17, 3))
    assert b"".join(FetchOfOne(settings, 5, fields, (17, 3)).encode_parts(version)) == whole.encode(version)


def response(**of_partition: Any) -> FetchResponse:
    partition = PartitionData(
        **({"partition_index": 3, "high_watermark": 9, "aborted_transactions": None, "records": b"abc"} | of_partition)
    )
    return FetchResponse(
        throttle_time_ms=4,
        session_id=77,
        responses=[FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[partition])],
    )


def two_partitions() -> FetchResponse:
    found = response()
    found.responses[0].partitions.append(PartitionData(partition_index=4, records=b"d"))
    return found


def with_endpoints() -> FetchResponse:
    found = response()
    return FetchResponse(session_id=1, responses=found.responses, node_endpoints=[NodeEndpoint(1, "h", 9092, None)])


FORMS = {
    "a record": response(),
    "no records": response(records=b""),
    "null": response(records=None),
    "the most with a length of one byte": response(records=bytes(126)),
    "the least with one of two bytes": response(records=bytes(127)),
    "the most with one of two bytes": response(records=bytes(0x3FFE)),
    "the least with one of three bytes": response(records=bytes(0x3FFF)),
    "much": response(records=bytes(3 << 20)),
    "an error": response(error_code=6, records=None),
    "a preferred replica": response(preferred_read_replica=2, last_stable_offset=8, log_start_offset=1),
    "no aborted transactions": response(aborted_transactions=[]),
    "aborted transactions": response(aborted_transactions=[AbortedTransaction(1, 2)]),
    "a leader": response(current_leader=LeaderIdAndEpoch(1, 2)),
    "endpoints": with_endpoints(),
    "two partitions": two_partitions(),
    "no topic": FetchResponse(session_id=5),
}


def general(data: bytes, version: int) -> tuple[Any, int]:
    """Read with the codec alone, which knows every form."""
    return decoder(version)(memoryview(data), 0)


@functools.cache
def decoder(version: int) -> Any:
    """Compile the codec once for each version, which takes longer than all that it reads."""
    return _codegen.compile_codec(FetchResponse, version, True)[1]


@pytest.mark.parametrize("version", range(FIRST_VERSION_WITH_TOPIC_IDS, NEWEST + 1))
def test_any_response_is_read_as_by_the_codec(version: int) -> None:
    for name, message in FORMS.items():
        if name == "endpoints" and version < 16:
            continue
        data = message.encode(version)
        for more in (b"", b"more"):
            assert FetchResponse.decode_from(data + more, version, 0) == general(data + more, version), name
        assert FetchResponse.decode_from(b"before" + data, version, 6)[0] == general(data, version)[0], name


def test_records_stay_views_of_the_response() -> None:
    data = memoryview(response().encode(NEWEST))
    found, _ = FetchResponse.decode_from(data, NEWEST, 0)
    records: Any = found.responses[0].partitions[0].records
    assert records.obj is data.obj


def test_damaged_responses_decode_as_by_the_codec() -> None:
    """Each byte takes many values, and each length is tried: the same message and end offset, or an error from both."""
    chance = random.Random(20261126)
    decode = _codegen.compile_codec(FetchResponse, NEWEST, True)[1]
    short = errors = 0
    for name in ("a record", "the least with one of two bytes", "no aborted transactions", "a leader", "null"):
        whole = FORMS[name].encode(NEWEST)
        cut = [whole[:size] for size in range(len(whole))]
        changed = []
        for _ in range(2000):
            data = bytearray(whole)
            for _ in range(chance.choice((1, 1, 1, 2, 5))):
                data[chance.randrange(len(data))] = chance.choice((0, 1, 2, 3, 127, 128, 255, chance.randrange(256)))
            changed.append(bytes(data))
        for data in map(bytes, cut + changed):
            try:
                wanted = decode(memoryview(data), 0)
            except Exception:  # what it raises, Message turns into ProtocolError
                errors += 1
                with pytest.raises(ProtocolError):
                    FetchResponse.decode_from(data, NEWEST, 0)
            else:
                short += 1
                assert FetchResponse.decode_from(data, NEWEST, 0) == wanted
    assert short > 2000
    assert errors > 500
