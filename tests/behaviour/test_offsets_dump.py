"""``pyconsumer offsets dump``: of clusters, of the files of both brokers, of files that are damaged."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from pyconsumer import KafkaAdminClient, KafkaConsumer, OffsetAndMetadata, SubscriptionPattern, TopicPartition
from pyconsumer.broker.group.common.offset_records import partition_for
from pyconsumer.cli import _run
from pyconsumer.protocol.offsets_topic import (
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitValue,
    encode_group_key,
    encode_group_value,
    encode_offset_key,
    encode_offset_value,
)
from pyconsumer.protocol.records import BatchBuilder, build_end_transaction_marker
from pyconsumer.protocol.records.control import ControlRecordType
from tests.support.cluster import Cluster
from tests.support.java import KafkaTools, documents
from tests.support.process import wait_until

Dump = Callable[..., tuple[int, str, str]]


@pytest.fixture
def dump(capfd: pytest.CaptureFixture[str]) -> Dump:
    """``offsets dump`` in this process: ``(status, standard output, standard error)``."""

    def run(*arguments: str) -> tuple[int, str, str]:
        status = _run(["offsets", "dump", *arguments])
        out, err = capfd.readouterr()
        assert "Traceback" not in err
        return status, out, err

    return run


def use_group(cluster: Cluster, group_id: str, topic: str) -> str:
    """A static member joins and commits, another partition's offset comes and goes. Returns the member's id."""
    p0, p1 = TopicPartition(topic, 0), TopicPartition(topic, 1)
    with KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.alter_group_offsets(group_id, {p1: OffsetAndMetadata(7)})
        admin.delete_group_offsets(group_id, [p1])
        with KafkaConsumer(
            topic,
            bootstrap_servers=cluster.bootstrap_servers,
            group_id=group_id,
            client_id="the-reader",
            group_instance_id="first",
            enable_auto_commit=False,
        ) as consumer:

            def assigned() -> bool:
                consumer.poll(timeout_ms=100)
                return bool(consumer.assignment())

            wait_until(assigned, 60, "the member")
            consumer.commit({p0: OffsetAndMetadata(42, 'a "note"', 0)})
            return consumer.group_metadata().member_id


# ---------------------------------------------------------------- clusters


@pytest.mark.smoke
def test_the_records_of_a_group_are_shown(
    cluster: Cluster, make_topic: Callable[..., str], group_id: str, dump: Dump
) -> None:
    topic = make_topic(2)
    member_id = use_group(cluster, group_id, topic)
    servers = ("-b", cluster.bootstrap_servers)
    number = partition_for(group_id, 5)

    status, out, err = dump("--group", group_id, *servers)
    assert (status, err) == (0, "")
    lines = [re.fullmatch(rf"{number}@\d+ {group_id} (.*)", line) for line in out.splitlines()]
    assert None not in lines
    told = [line[1] for line in lines if line]
    time = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
    assert re.fullmatch(rf"{topic}-1 -> 7, committed {time}", told[0])
    assert told[1] == f"{topic}-1 -> tombstone"
    joined = (
        rf"group -> generation 1, protocol type consumer, assignor range, since {time}, 1 member: {member_id} "
        rf"\(the-reader at /?127\.0\.0\.1, instance first, leader\) has {topic}-0 {topic}-1"
    )
    assert any(re.fullmatch(joined, line) for line in told)
    note = re.escape(r'"a \"note\""')
    assert any(re.fullmatch(rf"{topic}-0 -> 42, leader epoch 0, metadata {note}, committed {time}", x) for x in told)

    documents = [json.loads(line) for line in dump("--group", group_id, "--json", *servers)[1].splitlines()]
    assert len(documents) == len(told)
    assert documents[0]["key"] == {"type": 1, "data": {"group": group_id, "topic": topic, "partition": 1}}
    assert (documents[0]["value"]["data"]["offset"], documents[1]["value"]) == (7, None)
    assert {"assigned": {member_id: [[topic, 0], [topic, 1]]}}.items() <= next(
        one for one in documents if one["key"]["type"] == 2 and one["value"]["data"]["members"]
    ).items()

    offsets = dump("-p", str(number), "--only", "offsets", "--format", "2.0", *servers)[1].splitlines()
    assert re.fullmatch(
        rf"\[{group_id},{topic},1\]::\[OffsetMetadata\[7,NO_METADATA\],CommitTime \d+,ExpirationTime -1\]",
        next(line for line in offsets if group_id in line),
    )
    assert f"[{group_id},{topic},1]::NULL" in offsets
    groups = dump("-p", str(number), "--only", "groups", "--format", "2.0", *servers)[1].splitlines()
    assert groups
    assert not [line for line in groups if line.startswith("[")]
    assert [
        line for line in groups if line.startswith(f"{group_id}::[{group_id},Some(consumer),Stable,Map({member_id} ->")
    ]
    everything = dump("--json", *servers)[1].splitlines()
    places = [(one["partition"], one["offset"]) for one in map(json.loads, everything)]
    assert places == sorted(places)
    assert {(number, one["offset"]) for one in documents} <= set(places)
    status, out, err = dump("-p", "99", *servers)
    assert (status, out, err) == (1, "", "Error: __consumer_offsets has no partition 99, only 0 to 4\n")


def test_a_cluster_without_groups(new_cluster: Callable[..., Cluster], dump: Dump) -> None:
    cluster = new_cluster("embedded")

    status, out, err = dump("-b", cluster.bootstrap_servers)

    assert (status, out) == (0, "")
    assert err == "there is no topic __consumer_offsets yet: no group has used this cluster\n"


# ---------------------------------------------------------------- files, beside what Kafka's tools say of them


@pytest.mark.kafka
@pytest.mark.slow
def test_files_and_topic_print_the_same_as_kafkas_own_tools(
    new_cluster: Callable[..., Cluster],
    cluster_kind: str,
    tmp_path: Path,
    topic_name: str,
    group_id: str,
    kafka_tools: KafkaTools,
    dump: Dump,
) -> None:
    cluster = new_cluster(cluster_kind, data_dir=tmp_path, config={"offsets.topic.num.partitions": 2})
    cluster.create_topic(topic_name, 2)
    use_group(cluster, group_id, topic_name)
    status, out, _ = dump("--json", "-b", cluster.bootstrap_servers)
    live = [json.loads(line) for line in out.splitlines()]
    assert (status, len(live) >= 4) == (0, True)
    for kind, formatter in ((1, "OffsetsMessageFormatter"), (2, "GroupMetadataMessageFormatter")):
        read = kafka_tools.run(
            "ConsoleConsumer",
            *("--bootstrap-server", cluster.bootstrap_servers, "--topic", "__consumer_offsets", "--from-beginning"),
            *("--formatter", f"org.apache.kafka.tools.consumer.{formatter}", "--timeout-ms", "10000"),
        )
        theirs = [one for one in documents(read.stdout) if one["key"]["data"]["group"] == group_id]
        ours = [one for one in live if one["key"]["type"] == kind]
        assert [plain(one) for one in ours] == [plain(one) for one in theirs]
    cluster.stop()

    status, out, _ = dump("--json", "--data-dir", str(tmp_path))
    stored = [json.loads(line) for line in out.splitlines()]
    assert status == 0
    assert [one for one in stored if one["key"]["data"]["group"] == group_id][: len(live)] == live
    number = partition_for(group_id, 2)
    (log,) = tmp_path.rglob(f"__consumer_offsets-{number}/*.log")
    dumped = kafka_tools.run("DumpLogSegments", "--deep-iteration", "--offsets-decoder", "--files", str(log)).stdout
    theirs = [
        {"key": json.loads(key), "value": json.loads(value) if value.startswith("{") else None}
        for key, value in re.findall(r" key: (\{.*\}) payload: (\{.*\}|null|<DELETE>|)", dumped)
    ]
    ours = [one for one in stored if one["partition"] == number]
    # This tool shows what a member asked for and got in a JSON of its own, which the topic does not hold.
    got = [
        {
            member["memberId"]: sorted(
                [entry["topic"], partition]
                for entry in member["assignment"]["assignedPartitions"]
                for partition in entry["partitions"]
            )
            for member in one["value"]["data"]["members"]
        }
        for one in theirs
        if one["value"] and "members" in one["value"]["data"]
    ]
    assert [one["assigned"] for one in ours if "assigned" in one] == got
    assert [plain(one, "subscription", "assignment") for one in ours] == [
        plain(one, "subscription", "assignment") for one in theirs
    ]
    assert f"{number}@{ours[0]['offset']} " in dump("--data-dir", str(log.parent))[1]


@pytest.mark.kafka
@pytest.mark.slow
def test_kafkas_dump_tool_and_ours_show_the_same_of_a_consumer_group(
    new_cluster: Callable[..., Cluster], cluster_kind: str, kafka_tools: KafkaTools, tmp_path: Path, dump: Dump
) -> None:
    """All kinds of records that such a group has, written by either broker, and a classic member in it."""
    cluster = new_cluster(cluster_kind, data_dir=tmp_path, config={"offsets.topic.num.partitions": 1})
    cluster.create_topic("things", 4)
    newer: dict[str, Any] = {"group_protocol": "consumer", "client_rack": "r1", "group_instance_id": "one"}
    with ExitStack() as open_ones:

        def member(**settings: Any) -> KafkaConsumer:
            settings = {"bootstrap_servers": cluster.bootstrap_servers, "group_id": "g"} | settings
            return open_ones.enter_context(KafkaConsumer(**settings))

        first, second = member(**newer), member(group_protocol="consumer")
        first.subscribe(["things"])
        second.subscribe(pattern=SubscriptionPattern("thi.*"))
        consumers = [first, second]

        def shared() -> bool:
            for consumer in consumers:
                consumer.poll(timeout_ms=50)
            return all(consumer.assignment() for consumer in consumers)

        wait_until(shared, 60, "two members", 0.0)
        third = member(heartbeat_interval_ms=200)
        third.subscribe(["things"])
        consumers.append(third)
        wait_until(shared, 60, "three members", 0.0)
        first.commit({TopicPartition("things", tp.partition): OffsetAndMetadata(3) for tp in first.assignment()})
    cluster.stop()

    (log,) = tmp_path.rglob("__consumer_offsets-0/*.log")
    dumped = kafka_tools.run("DumpLogSegments", "--deep-iteration", "--offsets-decoder", "--files", str(log)).stdout
    theirs = [
        {"key": json.loads(key), "value": json.loads(value) if value.startswith("{") else None}
        for key, value in re.findall(r" key: (\{.*\}) payload: (\{.*\}|null|<DELETE>|)", dumped)
    ]
    status, out, _ = dump("--json", "--data-dir", str(tmp_path))
    ours = [json.loads(line) for line in out.splitlines()]
    newer_kinds = {3, 5, 6, 7, 8, 16}
    left = [one for one in ours if one["key"]["type"] in newer_kinds]
    right = [one for one in theirs if int(one["key"]["type"]) in newer_kinds]
    assert status == 0
    assert {one["key"]["type"] for one in left if one["value"]} == newer_kinds
    assert [plain(one) for one in left] == [plain(one) for one in right]
    words = dump("--data-dir", str(tmp_path), "--only", "groups")[1]
    assert "instance one, rack r1, subscribed to things" in words
    assert "subscribed to the pattern thi.*" in words
    assert "classic member with range cooperative-sticky" in words
    assert " bytes" not in words


def plain(document: dict[str, Any], *left_out: str) -> Any:
    """Key and value, without some fields of members. Kafka's tools differ in whether version numbers are strings."""
    key, value = document["key"], document["value"]
    number = int(key.get("type", key.get("version")))
    if value is None:
        return number, key["data"], None
    data = dict(value["data"])
    if "members" in data:
        data["members"] = [
            {name: item for name, item in member.items() if name not in left_out} for member in data["members"]
        ]
    return number, key["data"], int(value["version"]), data


# ---------------------------------------------------------------- files made by hand


def offset(number: int, group: str = "g", **fields: Any) -> tuple[bytes, bytes | None]:
    return encode_offset_key(group, "t", 0), encode_offset_value(OffsetCommitValue(number, -1, "", 5, **fields))


def batch(base_offset: int, *records: tuple[bytes | None, bytes | None]) -> bytes:
    builder = BatchBuilder()
    for key, value in records:
        assert builder.try_append(1000, key, value, ()) is not None
    return builder.build(base_offset=base_offset)


def segment(folder: Path, base_offset: int, *parts: bytes, partition: int = 3) -> Path:
    path = folder / f"__consumer_offsets-{partition}" / f"{base_offset:020}.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(parts))
    return path


def test_every_kind_of_record_has_a_line(tmp_path: Path, dump: Dump) -> None:
    member = MemberMetadata("m", None, "c d", "/h", 1, 2, b"own", b"own")
    segment(
        tmp_path,
        0,
        batch(0, offset(5), (encode_offset_key("g", "t", 0), None), offset(6, expire_timestamp=9)),
        batch(3, (encode_group_key(""), None)),
        batch(4, (encode_group_key("g"), encode_group_value(GroupMetadataValue("connect", 2, "p", "m", 0, [member])))),
        batch(5, (b"\0\x63\0\1a", b"123"), (b"\0\x64\0\1a", None)),
        build_end_transaction_marker(
            ControlRecordType.COMMIT,
            producer_id=1,
            producer_epoch=0,
            coordinator_epoch=0,
            timestamp_ms=1,
            base_offset=7,
        ),
    )
    files = ("--data-dir", str(tmp_path))
    status, out, err = dump(*files)
    assert (status, err) == (0, "")
    since, who = "1970-01-01T00:00:00.000Z", 'm ("c d" at /h, leader)'
    assert out.splitlines() == [
        "3@0 g t-0 -> 5, committed 1970-01-01T00:00:00.005Z",
        "3@1 g t-0 -> tombstone",
        "3@2 g t-0 -> 6, committed 1970-01-01T00:00:00.005Z, expires 1970-01-01T00:00:00.009Z",
        '3@3 "" group -> tombstone',
        f"3@4 g group -> generation 2, protocol type connect, assignor p, since {since}, 1 member: {who} has 3 bytes",
        "3@5 record type 99: key of 5 bytes, value of 3 bytes",
        "3@6 record type 100: key of 5 bytes, a tombstone",
        "3@7 marker COMMIT",
    ]
    start = "[g,t,0]::OffsetAndMetadata(offset="
    rest = ", leaderEpoch=Optional.empty, metadata=, commitTimestamp=5, expireTimestamp="
    assert dump("--format", "2.1", *files)[1].splitlines() == [
        f"{start}5{rest}None)",
        "[g,t,0]::NULL",
        f"{start}6{rest}Some(9))",
    ]
    assert dump("--format", "2.0", "--only", "offsets", *files)[1].splitlines()[:2] == [
        "[g,t,0]::[OffsetMetadata[5,NO_METADATA],CommitTime 5,ExpirationTime -1]",
        "[g,t,0]::NULL",
    ]
    unknown, _, marker = [json.loads(line) for line in dump("--json", *files)[1].splitlines()[5:]]
    assert (unknown["key"], unknown["value"]["data"]) == ({"type": 99, "data": "AGMAAWE="}, "MTIz")
    assert (marker["marker"], marker["key"]["type"]) == ("COMMIT", -1)


def test_records_of_newer_group_protocols_have_names(tmp_path: Path, dump: Dump) -> None:
    segment(
        tmp_path,
        0,
        batch(0, (b"\0\3\0\1g", b"\0\0\0\0\0\7\0"), (b"\0\x0a\0\1g\0\1m", b"\0\0"), (b"\0\x10\0\1h\0\3a.*", None)),
        batch(3, (b"\0\5\0\1g", b"")),
    )
    files = ("--data-dir", str(tmp_path))
    status, out, err = dump(*files)
    assert (status, err) == (1, "Error: 1 records cannot be read\n")
    assert out.splitlines()[:3] == [
        "3@0 g ConsumerGroupMetadata (type 3) -> group epoch 7, metadata hash 0",
        "3@1 g ShareGroupMemberMetadata (type 10) m -> 2 bytes",
        "3@2 h ConsumerGroupRegularExpression (type 16) a.* -> tombstone",
    ]
    assert out.splitlines()[3].startswith("3@3 unreadable: ")
    assert dump("--group", "h", *files)[1].splitlines() == out.splitlines()[2:3]
    assert dump("--format", "2.1", "--group", "h", *files)[1] == ""
    keys = [json.loads(line)["key"] for line in dump("--json", *files)[1].splitlines()]
    assert keys[:3] == [
        {"type": 3, "data": {"groupId": "g"}},
        {"type": 10, "data": {"groupId": "g", "memberId": "m"}},
        {"type": 16, "data": {"groupId": "h", "regularExpression": "a.*"}},
    ]


def test_unreadable_records_are_named_and_counted(tmp_path: Path, dump: Dump) -> None:
    segment(
        tmp_path,
        0,
        batch(0, (None, b"x"), (b"\0", b"x"), (b"\0\1\0\5a", b""), (offset(1)[0], b"\0\x63")),
        batch(4, offset(8)),
    )

    status, out, err = dump("-d", str(tmp_path))

    lines = out.splitlines()
    assert (status, err) == (1, "Error: 4 records cannot be read\n")
    assert [line.split(" ")[1] for line in lines] == ["unreadable:"] * 4 + ["g"]
    assert "no key" in lines[0]
    assert "not 99" in lines[3]
    status, out, _ = dump("-d", str(tmp_path), "--json")
    assert (status, ["problem" in json.loads(line) for line in out.splitlines()]) == (1, [True] * 4 + [False])


def flip(data: bytes, position: int) -> bytes:
    return data[:position] + bytes([data[position] ^ 0xFF]) + data[position + 1 :]


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda one: flip(one, 70), "byte {at}: the record batch of offsets 1 to 1 is damaged: its checksum is wrong"),
        (lambda one: flip(one, 16), "the header of the batch at byte {at} is damaged: magic"),
        (lambda one: one[:8] + b"\0\0\0\1" + one[12:], "the header of the batch at byte {at} is damaged: length 1 is"),
        (lambda one: one[:-1], "byte {at}: the last {size} bytes are not a complete batch"),
    ],
    ids=["bytes", "magic", "length", "cut off"],
)
def test_a_damaged_file_is_named_with_the_place(
    tmp_path: Path, dump: Dump, damage: Callable[[bytes], bytes], told: str
) -> None:
    first, second = batch(0, offset(10)), damage(batch(1, offset(11)))
    path = segment(tmp_path, 0, first, second)
    segment(tmp_path, 2, batch(2, offset(12)))
    segment(tmp_path, 0, batch(0, offset(13)), partition=4)

    status, out, err = dump("--data-dir", str(tmp_path))

    assert status == 1
    assert [line.split(" -> ")[1][:2] for line in out.splitlines()] == ["10", "12", "13"]
    assert err.startswith(f"Error: {path}: ")
    assert told.format(at=len(first), size=len(second)) in err
    assert err.count("\n") == 1


def test_the_end_of_the_newest_file_may_be_incomplete(tmp_path: Path, dump: Dump) -> None:
    first = batch(0, offset(10))
    path = segment(tmp_path, 0, first, batch(1, offset(11))[:-1])
    status, out, err = dump("--data-dir", str(tmp_path))
    assert (status, out.count("\n")) == (0, 1)
    assert err.startswith(f"{path}: the last ")
    assert f"from byte {len(first)} on, are not a complete batch" in err
    segment(tmp_path, 0, first, bytes(4096))
    segment(tmp_path, 0, partition=4)
    assert dump("--data-dir", str(tmp_path))[::2] == (0, "")


def test_folders_that_are_no_data_of_one_broker(tmp_path: Path, dump: Dump) -> None:
    status, out, err = dump("--data-dir", str(tmp_path))
    assert (status, out) == (1, "")
    assert f"{tmp_path} contains no folder named __consumer_offsets-NUMBER" in err
    for broker in ("broker-0", "broker-1"):
        segment(tmp_path / broker, 0, batch(0, offset(10)))
    status, out, err = dump("--data-dir", str(tmp_path))
    assert (status, out) == (1, "")
    assert "name the folder of one broker" in err
    assert dump("--data-dir", str(tmp_path / "broker-1"))[1].startswith("3@0 g t-0 -> 10,")
    assert "__consumer_offsets has no partition 1, only" in dump("--data-dir", str(tmp_path / "broker-1"), "-p", "1")[2]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--data-dir", "/no/such/folder"], "/no/such/folder"),
        (["--data-dir", ".", "-b", "localhost:1"], "cannot be combined"),
        (["--json", "--format", "2.0"], "--format cannot be combined"),
        (["--format", "1.0"], "'1.0'"),
        (["--only", "topics"], "'topics'"),
        (["-p", "-1"], "--partition"),
        (["extra"], "extra"),
    ],
    ids=lambda value: "".join(value) if isinstance(value, list) else "",
)
def test_wrong_usage_has_status_2(arguments: list[str], told: str, dump: Dump) -> None:
    status, out, err = dump(*arguments)

    assert (status, out) == (2, "")
    assert told in err.splitlines()[-1]
