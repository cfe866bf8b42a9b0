"""Odd bytes: requests that no encoder makes."""

from __future__ import annotations

from pyconsumer.protocol.api import API, ApiKey, decode_response
from pyconsumer.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.support.odd.world import NO_ANSWER, Case, World

__all__ = ["CASES"]

NULL_CLIENT, NO_TAGS = b"\xff\xff", b"\0"
NULL_ARRAY, NO_ARRAY, MANY = b"\xff" * 4, b"\0" * 4, b"\x7f\xff\xff\xff"
HUGE_VARINT = b"\xff\xff\xff\xff\x0f"


def name(text: bytes) -> bytes:
    return len(text).to_bytes(2, "big") + text


def sent(
    api: ApiKey,
    version: int,
    body: bytes,
    *,
    client: bytes = NULL_CLIENT,
    tags: bytes = NO_TAGS,
    is_flexible: bool | None = None,
    answers: bool = True,
) -> Case:
    """Return the case of a request with this body. The answer is its error codes, each once."""

    def case(world: World) -> str:
        known = API[api].min_version <= version <= API[api].max_version
        flexible = API[api].is_flexible(version) if is_flexible is None else is_flexible
        frame = api.to_bytes(2, "big") + version.to_bytes(2, "big", signed=True) + b"\0\0\0\7" + client
        frame += (tags if flexible else b"") + body
        world.client.send_bytes(len(frame).to_bytes(4, "big") + frame)
        if not answers and not world.client.answered(within_s=1.0):
            return NO_ANSWER
        answer = world.client.receive_frame()
        if not known:
            return "an answer"
        return ", ".join(sorted(set(world.seen(decode_response(api, version, answer)[1])))) or "nothing"

    return case


FIXED: dict[str, Case] = {
    "Metadata 0, null topics": sent(ApiKey.METADATA, 0, NULL_ARRAY),
    "Metadata 1, -2 topics": sent(ApiKey.METADATA, 1, b"\xff\xff\xff\xfe"),
    "Metadata 1, 2**31 - 1 topics": sent(ApiKey.METADATA, 1, MANY),
    "Metadata 1, a null name": sent(ApiKey.METADATA, 1, b"\0\0\0\1\xff\xff"),
    "Metadata 1, a name longer than the request": sent(ApiKey.METADATA, 1, b"\0\0\0\1\0\x05ab"),
    "Metadata 1, a name of -2 bytes": sent(ApiKey.METADATA, 1, b"\0\0\0\1\xff\xfe"),
    "Metadata 4, a name that is not UTF-8": sent(ApiKey.METADATA, 4, b"\0\0\0\1" + name(b"\xff\xfe") + b"\0"),
    "Metadata 4, a Boolean of 2": sent(ApiKey.METADATA, 4, NO_ARRAY + b"\2"),
    "Metadata 4, without its last field": sent(ApiKey.METADATA, 4, NO_ARRAY),
    "Metadata 4, a byte behind it": sent(ApiKey.METADATA, 4, NO_ARRAY + b"\0\0"),
    "Metadata 4, 1000 bytes behind it": sent(ApiKey.METADATA, 4, NO_ARRAY + b"\0" * 1001),
    "Metadata 4, no body": sent(ApiKey.METADATA, 4, b""),
    "an empty client id": sent(ApiKey.METADATA, 4, NO_ARRAY + b"\0", client=b"\0\0"),
    "a client id that is not UTF-8": sent(ApiKey.METADATA, 4, NO_ARRAY + b"\0", client=name(b"\xff\xfe")),
    "a client id of -2 bytes": sent(ApiKey.METADATA, 4, NO_ARRAY + b"\0", client=b"\xff\xfe"),
    "a client id longer than the request": sent(ApiKey.METADATA, 4, b"", client=b"\x7f\xff"),
    "Produce 3, null topics": sent(ApiKey.PRODUCE, 3, b"\xff\xff\xff\xff\0\0\0\0" + NULL_ARRAY),
    "Produce 3, null partitions": sent(
        ApiKey.PRODUCE, 3, b"\xff\xff\xff\xff\0\0\0\0\0\0\0\1" + name(b"odd") + NULL_ARRAY
    ),
    "Produce 3, records longer than the request": sent(
        ApiKey.PRODUCE, 3, b"\xff\xff\xff\xff\0\0\0\0\0\0\0\1" + name(b"odd") + b"\0\0\0\1\0\0\0\0" + MANY
    ),
    "Produce 3, records of -2 bytes": sent(
        ApiKey.PRODUCE, 3, b"\xff\xff\xff\xff\0\0\0\0\0\0\0\1" + name(b"odd") + b"\0\0\0\1\0\0\0\0\xff\xff\xff\xfe"
    ),
    "Fetch 4, null topics": sent(ApiKey.FETCH, 4, b"\xff" * 4 + b"\0" * 12 + b"\0" + NULL_ARRAY),
    "ListOffsets 1, null topics": sent(ApiKey.LIST_OFFSETS, 1, b"\xff" * 4 + NULL_ARRAY),
    "OffsetCommit 2, null topics": sent(
        ApiKey.OFFSET_COMMIT, 2, name(b"odd") + b"\xff" * 4 + name(b"") + b"\xff" * 8 + NULL_ARRAY
    ),
    "OffsetFetch 1, null topics": sent(ApiKey.OFFSET_FETCH, 1, name(b"odd") + NULL_ARRAY),
    "OffsetFetch 1, a null group id": sent(ApiKey.OFFSET_FETCH, 1, b"\xff\xff" + NO_ARRAY),
    "JoinGroup 0, null protocols": sent(
        ApiKey.JOIN_GROUP, 0, name(b"odd") + b"\0\0\x27\x10" + name(b"") + name(b"consumer") + NULL_ARRAY
    ),
    "JoinGroup 0, null metadata": sent(
        ApiKey.JOIN_GROUP,
        0,
        name(b"odd") + b"\0\0\x27\x10" + name(b"") + name(b"consumer") + b"\0\0\0\1" + name(b"range") + NULL_ARRAY,
    ),
    "JoinGroup 0, a null group id": sent(
        ApiKey.JOIN_GROUP, 0, b"\xff\xff" + b"\0\0\x27\x10" + name(b"") + name(b"consumer") + NO_ARRAY
    ),
    "SyncGroup 0, null assignments": sent(ApiKey.SYNC_GROUP, 0, name(b"odd") + b"\0\0\0\1" + name(b"m") + NULL_ARRAY),
    "Heartbeat 0, a null member id": sent(ApiKey.HEARTBEAT, 0, name(b"odd") + b"\0\0\0\1\xff\xff"),
    "FindCoordinator 0, a null key": sent(ApiKey.FIND_COORDINATOR, 0, b"\xff\xff"),
    "CreateTopics 2, null topics": sent(ApiKey.CREATE_TOPICS, 2, NULL_ARRAY + b"\0\0\x27\x10\0"),
    "CreateTopics 2, null settings": sent(
        ApiKey.CREATE_TOPICS,
        2,
        b"\0\0\0\1" + name(b"odd-null") + b"\0\0\0\1\0\1" + NO_ARRAY + NULL_ARRAY + b"\0\0\x27\x10\1",
    ),
    "CreateTopics 2, null assignments": sent(
        ApiKey.CREATE_TOPICS,
        2,
        b"\0\0\0\1" + name(b"odd-null") + b"\0\0\0\1\0\1" + NULL_ARRAY + NO_ARRAY + b"\0\0\x27\x10\1",
    ),
    "DeleteTopics 1, null names": sent(ApiKey.DELETE_TOPICS, 1, NULL_ARRAY + b"\0\0\x27\x10"),
    "DescribeConfigs 1, null resources": sent(ApiKey.DESCRIBE_CONFIGS, 1, NULL_ARRAY + b"\0"),
    "InitProducerId 0, cut off": sent(ApiKey.INIT_PRODUCER_ID, 0, b"\xff\xff\0\0"),
    "EndTxn 0, a null transactional id": sent(ApiKey.END_TXN, 0, b"\xff\xff" + b"\0" * 11),
    "AddPartitionsToTxn 0, null topics": sent(ApiKey.ADD_PARTITIONS_TO_TXN, 0, name(b"odd") + b"\0" * 10 + NULL_ARRAY),
    "DeleteGroups 0, null names": sent(ApiKey.DELETE_GROUPS, 0, NULL_ARRAY),
    "DescribeGroups 0, null names": sent(ApiKey.DESCRIBE_GROUPS, 0, NULL_ARRAY),
}

NONE_WANTED = b"\1\0\0\0"  # Metadata 9 to 10 without cluster operations: no topics, three Booleans
FLEXIBLE: dict[str, Case] = {
    "Metadata 12": sent(ApiKey.METADATA, 12, b"\1\0\0" + NO_TAGS),
    "an unknown tag in the header": sent(ApiKey.METADATA, 12, b"\1\0\0\0", tags=b"\1\x63\3abc"),
    "an unknown tag in the body": sent(ApiKey.METADATA, 12, b"\1\0\0\1\x63\3abc"),
    "an unknown empty tag": sent(ApiKey.METADATA, 12, b"\1\0\0\1\x63\0"),
    "two unknown tags in the wrong order": sent(ApiKey.METADATA, 12, b"\1\0\0\2\x63\1a\x62\1b"),
    "a tag twice": sent(ApiKey.METADATA, 12, b"\1\0\0\2\x63\1a\x63\1b"),
    "a tag longer than the request": sent(ApiKey.METADATA, 12, b"\1\0\0\1\x63\x40a"),
    "more tags than there are": sent(ApiKey.METADATA, 12, b"\1\0\0\5\x63\1a"),
    "2**32 - 1 tags": sent(ApiKey.METADATA, 12, b"\1\0\0" + HUGE_VARINT),
    "a count of tags of 6 bytes": sent(ApiKey.METADATA, 12, b"\1\0\0\x80\x80\x80\x80\x80\0"),
    "a count of tags of 5 bytes": sent(ApiKey.METADATA, 12, b"\1\0\0\x80\x80\x80\x80\0"),
    "without tags": sent(ApiKey.METADATA, 12, b"\1\0\0"),
    "a known tag twice": sent(
        ApiKey.FETCH, 12, b"\xff" * 4 + b"\0" * 12 + b"\0" + b"\0" * 4 + b"\xff" * 4 + b"\1\1\1" + b"\2\0\2a\0\2b"
    ),
    "a known tag of the wrong length": sent(
        ApiKey.FETCH, 12, b"\xff" * 4 + b"\0" * 12 + b"\0" + b"\0" * 4 + b"\xff" * 4 + b"\1\1\1" + b"\1\0\5\2abcd"
    ),
    "2**32 - 1 topics": sent(ApiKey.METADATA, 12, HUGE_VARINT + b"\0\0\0"),
    "more topics than there are": sent(ApiKey.METADATA, 12, b"\x40\0\0\0"),
    "a name of 2**32 - 1 bytes": sent(ApiKey.METADATA, 12, b"\2" + b"\0" * 16 + HUGE_VARINT + b"\0\0\0\0"),
    "a name of 40000 bytes": sent(
        ApiKey.METADATA, 12, b"\2" + b"\0" * 16 + b"\xc1\xb8\x02" + b"x" * 40_000 + b"\0\0\0\0"
    ),
    "Produce 9, null topics": sent(ApiKey.PRODUCE, 9, b"\0" + b"\xff\xff" + b"\0" * 4 + b"\0\0"),
    "Produce 9, null partitions": sent(ApiKey.PRODUCE, 9, b"\0" + b"\xff\xff" + b"\0" * 4 + b"\2\4odd\0\0\0"),
    "Produce 9, a null name": sent(ApiKey.PRODUCE, 9, b"\0" + b"\xff\xff" + b"\0" * 4 + b"\2\0\1\0\0"),
    "FindCoordinator 4, null keys": sent(ApiKey.FIND_COORDINATOR, 4, b"\0\0\0"),
    "FindCoordinator 4, a null key": sent(ApiKey.FIND_COORDINATOR, 4, b"\0\2\0\0"),
    "Heartbeat 4, a null group id": sent(ApiKey.HEARTBEAT, 4, b"\0\0\0\0\1\2m\0\0"),
    "OffsetFetch 8, null groups": sent(ApiKey.OFFSET_FETCH, 8, b"\0\0\0"),
    "ConsumerGroupHeartbeat 0, a null group id": sent(
        ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, b"\0\2m" + b"\0" * 4 + b"\0\0" + b"\xff" * 4 + b"\0\0\0\0"
    ),
    "DescribeGroups 5, null names": sent(ApiKey.DESCRIBE_GROUPS, 5, b"\0\0\0"),
    "CreateTopics 7, null topics": sent(ApiKey.CREATE_TOPICS, 7, b"\0\0\0\x27\x10\0\0"),
    "DescribeCluster 0, a Boolean of 255": sent(ApiKey.DESCRIBE_CLUSTER, 0, b"\xff\0"),
    "ApiVersions 3, null names": sent(ApiKey.API_VERSIONS, 3, b"\0\0\0"),
    "ApiVersions 3, cut off": sent(ApiKey.API_VERSIONS, 3, b"\2a"),
    "ApiVersions 0, bytes behind it": sent(ApiKey.API_VERSIONS, 0, b"abc"),
    "ApiVersions 3, bytes behind it": sent(ApiKey.API_VERSIONS, 3, b"\2a\2b\0abc"),
}

VERSIONS: dict[str, Case] = {}
for _api in API:
    if _api in (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE):
        continue
    _info = API[_api]
    if _info.min_version > 0 and _api != ApiKey.PRODUCE:
        VERSIONS[f"{_info.name} before its oldest version"] = sent(_api, _info.min_version - 1, b"\0" * 64)
VERSIONS |= {
    "Metadata 99": sent(ApiKey.METADATA, 99, b"\0" * 16),
    "Metadata -1": sent(ApiKey.METADATA, -1, b"\0" * 16, is_flexible=False),
    "Metadata 32767": sent(ApiKey.METADATA, 32767, b"\0" * 16),
    "Produce 2": sent(ApiKey.PRODUCE, 2, b"\0\0\0\0\0\0" + NO_ARRAY),
    "Produce 0": sent(ApiKey.PRODUCE, 0, b"\0\0\0\0\0\0" + NO_ARRAY),
    "SaslHandshake without SASL": sent(ApiKey.SASL_HANDSHAKE, 1, name(b"PLAIN")),
    "SaslAuthenticate without SASL": sent(ApiKey.SASL_AUTHENTICATE, 1, b"\0\0\0\0"),
}


def sequence(world: World) -> str:
    """Send a request that closes the connection behind a good one, in one go."""
    good = b"\0\3\0\4\0\0\0\7\xff\xff" + NO_ARRAY + b"\0"
    bad = b"\0\3\0\4\0\0\0\x08\xff\xff" + MANY
    world.client.send_bytes(b"".join(len(each).to_bytes(4, "big") + each for each in (good, bad)))
    first = world.client.receive_frame()[:4] == b"\0\0\0\7"
    return f"{'an answer' if first else 'nonsense'}, then {'closes' if world.client.closed_by_broker else 'goes on'}"


def repeated_id(world: World) -> str:
    """Send two requests with one correlation id."""
    good = b"\0\3\0\4\0\0\0\7\xff\xff" + NO_ARRAY + b"\0"
    world.client.send_bytes((len(good).to_bytes(4, "big") + good) * 2)
    return ", ".join(str(int.from_bytes(world.client.receive_frame()[:4], "big")) for _ in range(2))


def after_an_error(world: World) -> str:
    """Return if a connection lives on after a request that was refused."""
    world.client.request(MetadataRequest([MetadataRequestTopic(name="a/b")], allow_auto_topic_creation=False), 12)
    return world.asked(MetadataRequest([], allow_auto_topic_creation=False), 12)


OTHER: dict[str, Case] = {
    "a bad request behind a good one": sequence,
    "a correlation id twice": repeated_id,
    "a good request behind a refused one": after_an_error,
}

CASES: dict[str, Case] = {
    f"bytes: {words}": case for table in (FIXED, FLEXIBLE, VERSIONS, OTHER) for words, case in table.items()
}
