"""The compiled codecs: encoded messages decode at every version, and bad bytes raise ProtocolError alone."""

from __future__ import annotations

import random
import subprocess
import sys
import tracemalloc

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyconsumer.errors import ProtocolError, UnsupportedVersionError
from pyconsumer.protocol.consumer_protocol import ConsumerProtocolSubscription
from pyconsumer.protocol.messages.fetch import FetchRequest, FetchResponse
from pyconsumer.protocol.messages.heartbeat import HeartbeatRequest
from pyconsumer.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from pyconsumer.protocol.messages.list_groups import ListGroupsRequest
from pyconsumer.protocol.messages.metadata import MetadataRequest, MetadataResponse
from pyconsumer.protocol.messages.produce import ProduceRequest
from pyconsumer.protocol.primitives import encode_uvarint
from pyconsumer.protocol.schema import INT32, STRING, Message, Versions, array, codec_source, field, message
from tests.support.examples import FULL, examples
from tests.unit.protocol.strategies import all_versions, structs

VERSIONS = all_versions()
MESSAGES = {cls: range(cls.MIN_VERSION, cls.MAX_VERSION + 1) for cls, _ in VERSIONS}
#: Versions with random values: all of them in a full run, else a message's first and last one.
DRAWN = [(cls, version) for cls, version in VERSIONS if FULL or version in (cls.MIN_VERSION, cls.MAX_VERSION)]


@pytest.mark.parametrize(("cls", "version"), DRAWN, ids=[f"{cls.__name__}-v{version}" for cls, version in DRAWN])
@settings(max_examples=examples(6), deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(data=st.data())
def test_decoding_returns_the_encoded_message(cls: type[Message], version: int, data: st.DataObject) -> None:
    value = data.draw(structs(cls, version))

    assert cls.decode(value.encode(version), version) == value


def test_messages_of_defaults_survive() -> None:
    for cls, versions in MESSAGES.items():
        value = cls()
        for version in versions:
            assert cls.decode(value.encode(version), version) == value, f"{cls.__name__} v{version}"


def test_damaged_and_random_bytes_give_protocol_errors_only() -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    chance = random.Random(seed)
    failures = 0
    for cls, version in VERSIONS:
        good = cls().encode(version)
        for _ in range(40):
            kind = chance.randrange(3)
            if kind == 0:
                bad = chance.randbytes(chance.randrange(200))
            elif kind == 1:
                bad = good[: chance.randrange(len(good) + 1)]
            else:
                changed = bytearray(good + chance.randbytes(8))
                changed[chance.randrange(len(changed))] = chance.randrange(256)
                bad = bytes(changed)
            try:
                cls.decode(bad, version)
            except ProtocolError:
                failures += 1
            except Exception as error:  # the seed makes it repeatable
                pytest.fail(f"seed {seed}: {cls.__name__} v{version} of {bad.hex()}: {error!r}")
    assert failures > len(VERSIONS) * 10


def test_messages_truncated_anywhere_are_rejected() -> None:
    accepted = []
    messages = set()
    for cls, version in VERSIONS:
        good = cls().encode(version)
        for data in (*(good[:end] for end in range(len(good))), good + b"\0"):
            try:
                cls.decode(data, version)
                accepted.append((cls.__name__, version, data))
            except ProtocolError as error:
                messages.add((len(data) > len(good), "left over" in str(error)))
    assert accepted == []
    assert messages == {(False, False), (True, True)}


def test_a_huge_length_allocates_no_memory() -> None:
    # 2**31 - 1 members in a JoinGroup response of a few bytes
    body = JoinGroupResponse().encode(5)[:-4] + (0x7FFFFFFF).to_bytes(4, "big")
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError, match="claims 2147483647"):
            JoinGroupResponse.decode(body, 5)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000


def test_a_heartbeat_is_written_byte_for_byte() -> None:
    request = HeartbeatRequest(group_id="g", generation_id=3, member_id="m", group_instance_id=None)

    assert request.encode(0) == b"\0\1g\0\0\0\3\0\1m"
    assert request.encode(3) == b"\0\1g\0\0\0\3\0\1m\xff\xff"
    assert request.encode(4) == b"\2g\0\0\0\3\2m\0\0"


def test_a_field_missing_in_the_version_is_rejected_unless_it_is_ignorable() -> None:
    with pytest.raises(UnsupportedVersionError, match=r"version 2 has no field for HeartbeatRequest.group_inst"):
        HeartbeatRequest(group_id="g", group_instance_id="i").encode(2)
    ignorable = JoinGroupRequest(group_id="g", rebalance_timeout_ms=5, reason="because")
    assert JoinGroupRequest.decode(ignorable.encode(0), 0) == JoinGroupRequest(group_id="g")


def test_an_unknown_version_is_rejected() -> None:
    with pytest.raises(UnsupportedVersionError, match="FetchRequest has versions 4-18, not 3"):
        FetchRequest().encode(3)
    with pytest.raises(UnsupportedVersionError):
        FetchRequest.decode(b"", 19)


def test_null_is_rejected_where_the_version_has_none() -> None:
    with pytest.raises(ProtocolError, match=r"MetadataRequest.topics is null"):
        MetadataRequest(topics=None).encode(0)
    assert MetadataRequest.decode(MetadataRequest(topics=None).encode(1), 1).topics is None
    with pytest.raises(ProtocolError, match="is null"):
        HeartbeatRequest.decode(b"\xff\xff\0\0\0\0\0\0", 0)


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (HeartbeatRequest(generation_id=1 << 31), "argument out of range|format requires"),
        (HeartbeatRequest(generation_id="x"), "required argument is not an integer"),  # type: ignore[arg-type]
        (HeartbeatRequest(group_id=b"x"), "cannot encode HeartbeatRequest"),  # type: ignore[arg-type]
        (HeartbeatRequest(group_id="x" * 32768), "32768 bytes, more than the 32767"),
    ],
)
def test_a_value_out_of_range_raises_a_protocol_error(bad: HeartbeatRequest, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        bad.encode(0)


@pytest.mark.parametrize(("length", "fits"), [(32_767, True), (32_768, False), (40_000, False)])
def test_a_compact_string_is_no_longer_than_others(length: int, fits: bool) -> None:
    """Without it the value would be accepted, and no response or record could carry it."""
    empty = HeartbeatRequest().encode(4)
    assert empty[0] == 1
    body = encode_uvarint(length + 1) + b"x" * length + empty[1:]
    states = ListGroupsRequest(states_filter=[""]).encode(4)
    assert states[:2] == b"\2\1"
    element = states[:1] + encode_uvarint(length + 1) + b"x" * length + states[2:]

    if fits:
        assert HeartbeatRequest.decode(body, 4).group_id == "x" * length
        assert ListGroupsRequest.decode(element, 4).states_filter == ["x" * length]
        return
    with pytest.raises(ProtocolError, match=f"HeartbeatRequest.group_id has {length} bytes, more than the 32767"):
        HeartbeatRequest.decode(body, 4)
    with pytest.raises(ProtocolError, match=rf"states_filter\[\] has {length} bytes, more than the 32767"):
        ListGroupsRequest.decode(element, 4)


def test_compact_bytes_may_be_longer_than_strings() -> None:
    request = JoinGroupRequest(protocols=[JoinGroupRequestProtocol(name="p", metadata=bytes(40_000))])

    assert JoinGroupRequest.decode(request.encode(6), 6) == request


def test_unknown_tagged_fields_are_skipped() -> None:
    plain = HeartbeatRequest(group_id="g", member_id="m").encode(4)
    tagged = plain[:-1] + b"\2" + b"\7\3abc" + b"\xc8\1\0"

    assert HeartbeatRequest.decode(tagged, 4) == HeartbeatRequest(group_id="g", member_id="m")


def test_a_tagged_field_of_the_wrong_size_is_rejected() -> None:
    body = FetchRequest().encode(12)
    assert body[-1] == 0  # no tagged fields
    too_long = body[:-1] + b"\1" + b"\0\4\2x__"  # cluster id "x" in 4 bytes where 2 are used

    with pytest.raises(
        ProtocolError, match=r"tagged field FetchRequest.cluster_id claims 4 bytes, but its value has 2"
    ):
        FetchRequest.decode(too_long, 12)


def test_tagged_fields_are_written_only_when_set() -> None:
    unset = FetchRequest().encode(15)
    request = FetchRequest(cluster_id="c")
    request.replica_state.replica_id = 4

    assert len(request.encode(15)) > len(unset)
    assert FetchRequest.decode(request.encode(15), 15) == request


def test_record_sets_are_read_and_written_without_a_copy() -> None:
    records = memoryview(bytes(range(256)) * 64)
    from pyconsumer.protocol.messages import fetch, produce

    response = FetchResponse(
        responses=[fetch.FetchableTopicResponse(topic="t", partitions=[fetch.PartitionData(records=records)])]
    )
    data = response.encode(11)
    view = FetchResponse.decode(data, 11).responses[0].partitions[0].records
    assert isinstance(view, memoryview)
    assert view.obj is data

    request = ProduceRequest(
        topic_data=[produce.TopicProduceData(name="t", partition_data=[produce.PartitionProduceData(records=records)])]
    )
    assert any(part is records for part in request.encode_parts(9))


@pytest.mark.parametrize("error", ["", "3-2x", "a"])
def test_an_invalid_version_range_is_rejected(error: str) -> None:
    with pytest.raises(ValueError):
        Versions.parse(error)


def test_version_ranges_are_read_in_kafkas_form() -> None:
    assert [str(Versions.parse(text)) for text in ("3", "3-5", "3+", "none")] == ["3", "3-5", "3+", "none"]
    assert 4 in Versions.parse("3-5")
    assert 6 not in Versions.parse("3-5")
    assert 0 not in Versions.parse("none")


def test_blobs_with_a_newer_version_are_read_as_our_newest() -> None:
    blob = ConsumerProtocolSubscription(topics=["a"], rack_id="r").encode_with_version(3)
    newer = b"\0\x09" + blob[2:] + b"what comes later"

    value, version = ConsumerProtocolSubscription.decode_with_version(newer)

    assert (value.topics, value.rack_id, version) == (["a"], "r", 9)
    for bad in (b"", b"\0", b"\xff\xff\0\0\0\0"):
        with pytest.raises(ProtocolError):
            ConsumerProtocolSubscription.decode_with_version(bad)


def test_a_struct_may_be_null_where_its_version_allows_it() -> None:
    assert MetadataResponse.decode(MetadataResponse().encode(12), 12) == MetadataResponse()


def test_the_source_of_a_codec_can_be_read() -> None:
    assert "def enc_HeartbeatRequest(m, a):" in codec_source(HeartbeatRequest, 4)


def test_a_message_can_be_declared_in_a_few_lines() -> None:
    @message(-1, "data", versions="0-1", flexible="1+")
    class Point(Message):
        x: int = field(INT32, "0+", default=7)
        name: str | None = field(STRING, "1+", nullable="1+", default=None)

    assert Point().encode(0) == b"\0\0\0\7"
    assert Point.decode(Point(1, "n").encode(1), 1) == Point(1, "n")


def test_the_constructor_of_a_struct_is_compiled_at_its_first_call_and_not_before() -> None:
    @message(-1, "data", versions="0", flexible="none")
    class Example(Message):
        name: str = field(STRING, "0", default="")
        numbers: list[int] = array(INT32, "0", factory=list)

    before = Example.__init__
    first, second = Example("a"), Example(numbers=[1])

    assert Example.__init__ is not before
    assert (first.name, first.numbers) == ("a", [])
    assert (second.name, second.numbers) == ("", [1])
    assert first.numbers is not Example().numbers
    assert not hasattr(first, "__dict__")
    assert Example.__qualname__.endswith("<locals>.Example")
    with pytest.raises(TypeError, match="unexpected keyword argument 'nam'"):
        Example(nam="b")


def test_importing_the_consumer_compiles_no_constructor_of_a_message() -> None:
    program = (
        "import pyconsumer.consumer.consumer, pyconsumer.protocol.schema as schema\n"
        "from pyconsumer.protocol.messages.fetch import FetchRequest, FetchResponse\n"
        "print(FetchRequest.__init__.__name__, FetchResponse.__init__.__name__)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)

    assert done.stdout.split() == ["compile_and_call", "compile_and_call"]
