"""Frames, headers and the choice of a version."""

from __future__ import annotations

import random
import subprocess
import sys

import pytest

from pyconsumer.errors import ProtocolError, UnsupportedVersionError
from pyconsumer.protocol import api
from pyconsumer.protocol.api import API, ApiKey, BrokerVersions
from pyconsumer.protocol.messages import load
from pyconsumer.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from pyconsumer.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from pyconsumer.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from pyconsumer.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData


@pytest.mark.parametrize("key", list(API), ids=lambda key: key.name)
def test_the_table_of_apis_equals_the_declarations(key: ApiKey) -> None:
    info = API[key]
    for cls in load(key):
        flexible = cls.SCHEMA.flexible
        assert (info.min_version, info.max_version, key) == (cls.MIN_VERSION, cls.MAX_VERSION, cls.API_KEY)
        assert (flexible.first if flexible.last >= 0 else None) == info.flexible_from
        assert cls.__name__.startswith(info.name)


@pytest.mark.parametrize("version", range(5))
def test_a_request_frame_is_read_back(version: int) -> None:
    request = HeartbeatRequest(group_id="g", generation_id=2, member_id="m")
    frame = b"".join(api.encode_request(request, version, 77, "me"))

    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    header = api.decode_request_header(frame[4:])
    assert header[:4] == (ApiKey.HEARTBEAT, version, 77, "me")
    assert HeartbeatRequest.decode(frame[4 + header.body_offset :], version) == request


def test_the_request_header_of_flexible_versions_has_tagged_fields() -> None:
    plain = b"".join(api.encode_request(HeartbeatRequest(), 3, 1, "c"))
    flexible = b"".join(api.encode_request(HeartbeatRequest(), 4, 1, "c"))

    assert plain[4:].startswith(b"\0\x0c\0\3\0\0\0\1\0\1c")
    assert flexible[4:].startswith(b"\0\x0c\0\4\0\0\0\1\0\1c\0")


@pytest.mark.parametrize(("version", "request_tags", "response_tags"), [(5, b"", b""), (6, b"\0", b"\0")])
def test_the_version_of_a_header_shows_in_its_layout_alone(
    version: int, request_tags: bytes, response_tags: bytes
) -> None:
    """Header 2 of requests and 1 of responses, from JoinGroup 6 on, has tagged fields. Its number is not sent."""
    request, response = JoinGroupRequest(), JoinGroupResponse()
    asked = b"".join(api.encode_request(request, version, 1, "c"))[4:]
    assert asked == b"\0\x0b" + version.to_bytes(2, "big") + b"\0\0\0\1" + b"\0\1c" + request_tags + request.encode(
        version
    )
    encoded_response = b"".join(api.encode_response(response, version, 1))[4:]
    assert encoded_response == b"\0\0\0\1" + response_tags + response.encode(version)


def test_the_header_starts_with_the_api_key() -> None:
    kinds = {"Fetch": 1, "ListOffsets": 2, "Metadata": 3, "OffsetCommit": 8, "OffsetFetch": 9, "FindCoordinator": 10}
    kinds |= {"JoinGroup": 11, "Heartbeat": 12, "LeaveGroup": 13, "SyncGroup": 14, "OffsetForLeaderEpoch": 23}
    found = {info.name: int(key) for key, info in API.items() if info.name in kinds}
    assert found == kinds
    for key in found.values():
        request = load(ApiKey(key))[0]()
        frame = b"".join(api.encode_request(request, request.MAX_VERSION, 1, "c"))
        assert frame[4:6] == key.to_bytes(2, "big")


@pytest.mark.parametrize(("brokers", "chosen"), [(9, 9), (7, 7), (12, 9)])
def test_the_version_is_the_newest_that_both_sides_support(brokers: int, chosen: int) -> None:
    version = BrokerVersions.of([(ApiKey.JOIN_GROUP, 0, brokers)]).choose(ApiKey.JOIN_GROUP)
    assert version == chosen
    frame = b"".join(api.encode_request(JoinGroupRequest(reason="because"), version, 1, "c"))
    assert frame[6:8] == chosen.to_bytes(2, "big")
    assert (b"because" in frame) is (chosen >= 8)
    assert len(JoinGroupResponse().encode(9)) - len(JoinGroupResponse().encode(8)) == 1, (
        "whether to skip the assignment"
    )


@pytest.mark.parametrize("key", list(API), ids=lambda key: key.name)
def test_the_header_has_one_form_for_every_body(key: ApiKey) -> None:
    request = load(key)[0]()
    for version in range(request.MIN_VERSION, request.MAX_VERSION + 1):
        header = key.to_bytes(2, "big") + version.to_bytes(2, "big") + b"\0\0\0\x4d" + b"\0\2me"
        tags = b"\0" if version in request.SCHEMA.flexible else b""
        frame = b"".join(api.encode_request(request, version, 77, "me"))
        assert frame[4:] == header + tags + request.encode(version)


@pytest.mark.parametrize("version", range(5))
def test_a_response_frame_is_read_back(version: int) -> None:
    response = HeartbeatResponse(throttle_time_ms=0, error_code=27)
    frame = b"".join(api.encode_response(response, version, 5))

    assert api.decode_response(ApiKey.HEARTBEAT, version, frame[4:]) == (5, response)


@pytest.mark.parametrize("version", range(5))
def test_api_versions_responses_always_have_header_0(version: int) -> None:
    frame = b"".join(api.encode_response(ApiVersionsResponse(error_code=35), version, 9))

    assert frame[4:10] == b"\0\0\0\x09\0\x23"
    assert api.decode_response(ApiKey.API_VERSIONS, version, frame[4:])[1] == ApiVersionsResponse(error_code=35)


def test_an_api_versions_request_of_the_future_still_has_a_header() -> None:
    frame = bytearray(b"".join(api.encode_request(ApiVersionsRequest(), 4, 3, "new"))[4:])
    frame[2:4] = (99).to_bytes(2, "big")

    assert api.decode_request_header(frame)[:4] == (ApiKey.API_VERSIONS, 99, 3, "new")


@pytest.mark.parametrize("frame", [b"", b"\0\0\0", b"\0\x0c\0\4\0\0\0\1\0\5ab", b"\0\x0c\0\0\0\0\0\1"])
def test_an_invalid_header_is_rejected(frame: bytes) -> None:
    with pytest.raises(ProtocolError):
        api.decode_request_header(frame)


def test_an_unknown_api_is_rejected() -> None:
    with pytest.raises(UnsupportedVersionError, match="api key 999"):
        api.decode_request_header(b"\3\xe7\0\0\0\0\0\1\0\0")


def test_random_frames_give_protocol_errors_only() -> None:
    chance = random.Random(20)
    for _ in range(2000):
        frame = chance.randbytes(chance.randrange(40))
        try:
            api.decode_request_header(frame)
        except (ProtocolError, UnsupportedVersionError):
            pass


def test_large_record_sets_stay_pieces_of_their_own() -> None:
    records = bytes(10_000)
    request = ProduceRequest(topic_data=[TopicProduceData("t", partition_data=[PartitionProduceData(0, records)])])
    parts = api.encode_request(request, 9, 1, "c")

    assert any(part is records for part in parts)
    assert len(parts) == 3
    whole = b"".join(parts)
    assert int.from_bytes(whole[:4], "big") == len(whole) - 4


def test_the_newest_version_of_both_sides_is_chosen() -> None:
    broker = BrokerVersions.of([(ApiKey.FETCH, 0, 11), (ApiKey.HEARTBEAT, 0, 40), (ApiKey.PRODUCE, 14, 20)])

    assert broker.choose(ApiKey.FETCH) == 11
    assert broker.choose(ApiKey.FETCH, max_version=7) == 7
    assert broker.choose(ApiKey.HEARTBEAT) == 4
    assert broker.supports(ApiKey.FETCH, 11)
    assert not broker.supports(ApiKey.FETCH, 12)
    with pytest.raises(UnsupportedVersionError, match="the broker supports Fetch versions 0 to 11, and 12 to 18"):
        broker.choose(ApiKey.FETCH, min_version=12)
    with pytest.raises(UnsupportedVersionError, match="does not support JoinGroup at all"):
        broker.choose(ApiKey.JOIN_GROUP)
    with pytest.raises(UnsupportedVersionError, match="14 to 20"):
        broker.choose(ApiKey.PRODUCE)


def test_messages_are_imported_on_first_use() -> None:
    code = (
        "import sys, pyconsumer.protocol.api;"
        "loaded = [m for m in sys.modules if m.startswith('pyconsumer.protocol.messages.')];"
        "assert loaded == [], loaded"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
