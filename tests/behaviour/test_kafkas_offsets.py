"""Our broker over a partition of ``__consumer_offsets`` that Apache Kafka wrote: used, compacted, restarted, read.

The files and Kafka's description of the groups in them: ``tests/vectors/make_offsets_log.py``.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyconsumer import KafkaAdminClient, OffsetAndMetadata, TopicPartition, errors
from pyconsumer.cli import _run
from pyconsumer.protocol.offsets_topic import decode_newer_key
from pyconsumer.protocol.records import SimpleRecord, iter_records
from tests.behaviour.group_members import join_all, running
from tests.support.cluster import Cluster
from tests.support.java import KafkaTools
from tests.support.process import wait_until
from tests.vectors.make_offsets_log import DESCRIPTION, LOG

_NO_EXPIRY = 2**31 - 1  # minutes: the data grows older than any retention
_CONFIG = {
    "offsets.topic.num.partitions": 1,
    "offsets.topic.segment.bytes": 4000,
    "offsets.retention.minutes": _NO_EXPIRY,
    "log.cleaner.backoff.ms": 50,
    "log.cleaner.min.cleanable.ratio": 0.01,
}


def told() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = json.loads(DESCRIPTION.read_text(encoding="utf-8"))
    return found


def partition_folder(data_dir: Path) -> Path:
    (folder,) = data_dir.rglob("__consumer_offsets-0")
    return folder


@pytest.fixture
def over_kafkas_log(new_cluster: Callable[..., Cluster], tmp_path: Path) -> Callable[[], Cluster]:
    """Starts our broker: the first time, with Kafka's segment in the place of its own. Its folder is ``tmp_path``."""

    def start() -> Cluster:
        if not any(tmp_path.iterdir()):
            before = new_cluster("embedded", data_dir=tmp_path, config=_CONFIG)
            before.create_topic("orders", 3)
            before.create_topic("clicks", 2)
            with KafkaAdminClient(bootstrap_servers=before.bootstrap_servers) as admin:
                admin.alter_group_offsets("first", {TopicPartition("clicks", 0): OffsetAndMetadata(1)})
            before.stop()
            folder = partition_folder(tmp_path)
            for file in folder.iterdir():
                if re.match(r"\d{20}\.", file.name) or file.name.startswith("leader-epoch"):
                    file.unlink()
            (folder / f"{0:020}.log").write_bytes(gzip.decompress(LOG.read_bytes()))
            for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint", ".kafka_cleanshutdown"):
                for file in tmp_path.rglob(name):
                    file.unlink()
        return new_cluster("embedded", data_dir=tmp_path, config=_CONFIG)

    return start


def stored(data_dir: Path) -> list[SimpleRecord]:
    segments = sorted(partition_folder(data_dir).glob("*.log"))
    return [record for path in segments for record in iter_records(path.read_bytes())]


def newest(records: list[SimpleRecord]) -> dict[bytes, bytes | None]:
    """The last value of each key of the newer protocols."""
    return {r.key: r.value for r in records if r.key and not r.is_control and decode_newer_key(r.key)}


def check_groups(admin: KafkaAdminClient, *, but: tuple[str, ...] = ()) -> None:
    for name, theirs in told().items():
        if name in but or theirs["type"] == "Share":
            continue
        offsets = {
            str(tp): [each.offset, each.metadata, each.leader_epoch]
            for tp, each in admin.list_group_offsets(name).items()
        }
        assert offsets == theirs["offsets"], name
        if theirs["type"] != "Classic" or name in ("tools", "transactional"):
            continue
        ours = admin.describe_groups([name])[name]
        assert (ours.state, ours.protocol) == (theirs["state"], theirs["assignor"])
        members = [
            {
                "member_id": member.member_id,
                "instance_id": member.group_instance_id,
                "client_id": member.client_id,
                "host": member.host,
                "assignment": [str(tp) for tp in member.assignment],
            }
            for member in ours.members
        ]
        assert sorted(members, key=str) == sorted(theirs["members"], key=str), name


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.embedded_only("it is our broker that takes Kafka's files over")
def test_kafkas_partition_is_used_compacted_added_to_and_still_kafkas(
    over_kafkas_log: Callable[[], Cluster], cluster_kind: str, tmp_path: Path, kafka_tools: KafkaTools
) -> None:
    clicks = [TopicPartition("clicks", number) for number in range(2)]
    cluster = over_kafkas_log()
    written_by_kafka = list(iter_records(gzip.decompress(LOG.read_bytes())))
    with KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
        listed = {group.group_id for group in admin.list_groups()}
        assert listed == {"dynamic", "static", "left", "tools", "transactional", "modern", "pattern", "shared"}
        check_groups(admin)
        with pytest.raises(errors.GroupIdNotFoundError):
            admin.describe_groups(["gone"])

        # Members of ours join where Kafka's were.
        with running() as start:
            member = start(cluster, "left", ["clicks"], enable_auto_commit=False)
            join_all([member], 2)
            assert member.generation == 3
            member.do(lambda consumer: consumer.commit({clicks[0]: OffsetAndMetadata(8, "ours")}))
        again = {"group_instance_id": "i-1", "partition_assignment_strategy": "cooperative-sticky"}
        with running() as start:
            static = start(cluster, "static", ["orders"], enable_auto_commit=False, **again)
            wait_until(lambda: static.assignment, 60, "the static member")
            assert static.generation == 3
            assert len(static.assignment) == 2
        admin.delete_groups(["tools"])

        for number in range(150):  # enough for several segments
            admin.alter_group_offsets("busy", {clicks[0]: OffsetAndMetadata(number), clicks[1]: OffsetAndMetadata(1)})
        first_registration = written_by_kafka[0].offset, written_by_kafka[0].key
        wait_until(
            lambda: first_registration not in [(record.offset, record.key) for record in stored(tmp_path)],
            *(30, "the compaction", 0.2),
        )
        check_groups(admin, but=("left", "static", "tools"))
    cluster.stop()

    records = stored(tmp_path)
    ours, theirs = newest(records), newest(written_by_kafka)
    (shared,) = (key for key in theirs if key.startswith(b"\x00\x0f"))  # partitions of topics that are not there
    assert (b"clicks" in (theirs.pop(shared) or b""), b"clicks" in (ours.pop(shared) or b"")) == (True, False)
    assert ours == theirs, "records that we don't know survive"
    # The transaction that is still open ends the compaction; before it nothing is there twice.
    begins = next(r.offset for r in written_by_kafka if r.value and b"still open" in r.value)
    before = [record.key for record in records if record.offset < begins and not record.is_control]
    assert len(before) == len(set(before)) < begins - 10
    assert [r for r in records if begins <= r.offset < 70] == [r for r in written_by_kafka if r.offset >= begins]
    cluster = over_kafkas_log()
    with KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
        check_groups(admin, but=("left", "static", "tools"))
        assert admin.list_group_offsets("left")[clicks[0]] == OffsetAndMetadata(8, "ours", -1)
        assert admin.list_group_offsets("busy")[clicks[0]].offset == 149
        assert "tools" not in {group.group_id for group in admin.list_groups()}
    cluster.stop()

    # Kafka's own tool reads all of it, also what it alone knows.
    segments = sorted(partition_folder(tmp_path).glob("*.log"))
    files = ",".join(str(path) for path in segments)
    dumped = kafka_tools.run("DumpLogSegments", "--deep-iteration", "--offsets-decoder", "--files", files).stdout
    assert "isvalid: false" not in dumped
    offsets = [int(found) for found in re.findall(r"^\| offset: (\d+) ", dumped, re.MULTILINE)]
    assert offsets == [record.offset for record in stored(tmp_path)]
    for text in ('"regularExpression":"cl.*"', '"groupId":"shared"', '"metadata":"ours"', '"groupInstanceId":"i-2"'):
        assert text in dumped.replace("\\", "")


@pytest.mark.kafka
def test_the_dump_of_kafkas_partition_has_the_names_of_kafkas_tool(
    tmp_path: Path, kafka_tools: KafkaTools, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "__consumer_offsets-0" / f"{0:020}.log"
    path.parent.mkdir()
    path.write_bytes(gzip.decompress(LOG.read_bytes()))
    assert _run(["offsets", "dump", "--data-dir", str(tmp_path), "--json"]) == 0
    ours = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    dumped = kafka_tools.run("DumpLogSegments", "--deep-iteration", "--offsets-decoder", "--files", str(path)).stdout
    theirs = [json.loads(key) for key in re.findall(r" key: (\{.*?\}\}) payload: ", dumped)]
    keys = [{"type": str(one["key"]["type"]), "data": one["key"]["data"]} for one in ours if "marker" not in one]
    assert keys == theirs
    assert [one["marker"] for one in ours if "marker" in one] == ["COMMIT", "ABORT"]

    assert _run(["offsets", "dump", "--data-dir", str(tmp_path), "--group", "pattern"]) == 0
    lines = capfd.readouterr().out.splitlines()
    expression = (
        "pattern ConsumerGroupRegularExpression (type 16) cl.* -> matches clicks of version 85 of the cluster's topics"
    )
    assert f"0@58 {expression}" in lines
    assert len(lines) == 7
