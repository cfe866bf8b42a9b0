"""Work of operators on groups and their offsets: describe, reset, the errors of groups that have members."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from pyconsumer import KafkaAdminClient, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from pyconsumer.cli import _run
from pyconsumer.errors import (
    GroupIdNotFoundError,
    GroupSubscribedToTopicError,
    NonEmptyGroupError,
    UnknownMemberIdError,
)
from tests.behaviour.consumer_support import member
from tests.support.cluster import Cluster
from tests.support.java import KafkaTools
from tests.support.process import wait_until

MakeTopic = Callable[..., str]
#: 2026-01-31T18:00:00Z, the timestamp of the first record; each later one is a minute younger.
FIRST_MS = 1769882400000


class Command:
    """Runs ``pyconsumer`` in this process against a cluster."""

    def __init__(self, cluster: Cluster, capfd: pytest.CaptureFixture[str]) -> None:
        self.servers = cluster.bootstrap_servers
        self.capfd = capfd

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        status = _run([*arguments, "-b", self.servers])
        out, err = self.capfd.readouterr()
        assert "Traceback" not in err
        return status, out, err

    def json(self, *arguments: str) -> list[Any]:
        status, out, err = self(*arguments, "--json")
        assert (status, err) == (0, "")
        return [json.loads(line) for line in out.splitlines()]

    def refused(self, *arguments: str) -> str:
        status, out, err = self(*arguments)
        assert (status, out) == (1, "")
        assert err.startswith("Error: ")
        assert err.count("\n") == 1
        return err


@pytest.fixture
def command(cluster: Cluster, capfd: pytest.CaptureFixture[str]) -> Command:
    return Command(cluster, capfd)


@pytest.fixture
def topic10(cluster: Cluster, make_topic: MakeTopic, admin: KafkaAdminClient) -> str:
    """Two partitions: 0 holds offsets 2 to 9, 1 holds 0 to 4."""
    topic = make_topic(2)
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, batch_size=0) as producer:
        for partition, count in ((0, 10), (1, 5)):
            for n in range(count):
                producer.send(topic, b"%d" % n, partition=partition, timestamp_ms=FIRST_MS + n * 60_000)
    admin.delete_records({TopicPartition(topic, 0): 2})
    return topic


def committed(admin: KafkaAdminClient, group_id: str) -> dict[int, int]:
    return {tp.partition: found.offset for tp, found in admin.list_group_offsets(group_id).items()}


# ---------------------------------------------------------------- errors of the admin client


def test_calls_that_members_stand_in_the_way_of_name_them(
    cluster: Cluster, admin: KafkaAdminClient, topic: str, group_id: str
) -> None:
    tp = TopicPartition(topic, 0)
    with member(cluster, group_id, topic) as consumer:
        consumer.commit({tp: OffsetAndMetadata(0)})
        told = rf"group '{group_id}' is Stable with 1 member: the-member \(/?127\.0\.0\.1\); stop"
        with pytest.raises(UnknownMemberIdError, match=told):
            admin.alter_group_offsets(group_id, {tp: OffsetAndMetadata(0)})
        with pytest.raises(NonEmptyGroupError, match=told):
            admin.delete_groups([group_id])
        with pytest.raises(GroupSubscribedToTopicError, match=told):
            admin.delete_group_offsets(group_id, [tp])


# ---------------------------------------------------------------- groups of the newer protocol (KIP-848)


@contextmanager
def newer_members(cluster: Cluster, group_id: str, *topics: str, **settings: str) -> Iterator[None]:
    """A member for each of the topics (``^...``: a pattern), until the context ends. Their names are ``m0``, ``m1``."""
    confluent = pytest.importorskip("confluent_kafka")
    common = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": group_id, "group.protocol": "consumer"}
    with ExitStack() as stack:
        consumers = []
        for number, topic in enumerate(topics):
            consumer = confluent.Consumer(common | {"client.id": f"m{number}"} | settings)
            stack.callback(consumer.close)
            consumer.subscribe([topic])
            consumers.append(consumer)
            settings = {}

        def assigned() -> bool:
            for consumer in consumers:
                consumer.poll(0.1)
            return all(consumer.assignment() for consumer in consumers)

        wait_until(assigned, 60, "the members")
        yield


@pytest.mark.kafka
@pytest.mark.slow
def test_a_group_of_the_newer_protocol_is_described(
    apache: Cluster, capfd: pytest.CaptureFixture[str], topic_name: str, group_id: str
) -> None:
    apache.create_topic(topic_name, 4)
    command = Command(apache, capfd)
    with (
        newer_members(apache, group_id, topic_name, f"^{topic_name}$", **{"group.instance.id": "first"}),
        KafkaAdminClient(bootstrap_servers=apache.bootstrap_servers) as admin,
    ):

        def settled() -> Any:
            found = admin.describe_groups([group_id])[group_id]
            done = all(one.epoch == found.epoch and one.assignment == one.target for one in found.members)
            return found if done and found.state == "Stable" else None

        wait_until(settled, 60, "the group")
        group = admin.describe_groups([group_id])[group_id]
        assert (group.group_type, group.protocol_type, group.protocol) == ("consumer", "consumer", "uniform")
        assert group.assignment_epoch == group.epoch
        named, matching = sorted(group.members, key=lambda one: one.client_id)
        assert (named.client_id, named.group_instance_id, named.topics) == ("m0", "first", (topic_name,))
        assert named.topic_pattern is None
        assert matching.client_id == "m1"
        assert f"^{topic_name}$" in (matching.topic_pattern or ""), "librdkafka puts brackets round it"
        assert sorted(named.assignment + matching.assignment) == [TopicPartition(topic_name, n) for n in range(4)]
        assert named.host.endswith("127.0.0.1")

        (found,) = command.json("groups", "describe", group_id)
        assert (found["type"], found["epoch"], found["protocol"]) == ("consumer", group.epoch, "uniform")
        assert sorted(map(len, (one["partitions"] for one in found["members"]))) == [2, 2]
        assert all(one["target"] == one["partitions"] and one["epoch"] == group.epoch for one in found["members"])
        status, out, _ = command("groups", "describe", group_id)
        assert status == 0
        head = (
            f"group {group_id}: Stable, 2 members, type consumer, epoch {group.epoch}, assignor uniform, coordinator "
        )
        assert out.startswith(head)
        assert "first" in out
        (listed,) = [one for one in command.json("groups", "list") if one["group"] == group_id]
        assert (listed["type"], listed["state"]) == ("consumer", "Stable")
        with pytest.raises(NonEmptyGroupError, match=r"is Stable with 2 members: .*first .*; stop them before"):
            admin.delete_groups([group_id])

    (found,) = command.json("groups", "describe", group_id)
    (left,) = found["members"]
    assert (found["type"], left["client_id"], left["epoch"]) == ("consumer", "m0", -2), "static, so it may come back"


def test_a_group_that_does_not_exist_is_of_no_type(
    cluster: Cluster, admin: KafkaAdminClient, command: Command, group_id: str
) -> None:
    with pytest.raises(GroupIdNotFoundError, match=group_id):
        admin.describe_groups([group_id])
    assert group_id in command.refused("groups", "describe", group_id)


# ---------------------------------------------------------------- describe


def test_describe_shows_members_and_lag(
    cluster: Cluster, admin: KafkaAdminClient, command: Command, topic10: str, group_id: str
) -> None:
    with member(cluster, group_id, topic10, group_instance_id="first") as consumer:
        consumer.commit({TopicPartition(topic10, 0): OffsetAndMetadata(7)})
        (found,) = command.json("groups", "describe", group_id)
        node = admin.describe_groups([group_id])[group_id].coordinator
        assert (found["state"], found["protocol_type"], found["protocol"]) == ("Stable", "consumer", "range")
        assert found["coordinator_address"] == f"{node.host}:{node.port}"
        (one,) = found["members"]
        assert (one["client_id"], one["group_instance_id"], one["topics"]) == ("the-member", "first", [topic10])
        assert one["host"].endswith("127.0.0.1")
        assert one["partitions"] == [[topic10, 0], [topic10, 1]]
        rows = [[row[name] for name in ("partition", "committed", "end", "lag")] for row in found["partitions"]]
        assert rows == [[0, 7, 10, 3], [1, None, 5, None]]
        assert {row["member_id"] for row in found["partitions"]} == {one["member_id"]}
        status, out, _ = command("groups", "describe", group_id)
        assert status == 0
        head = f"group {group_id}: Stable, 1 member, type classic, assignor range, coordinator {node.node_id} ("
        assert out.startswith(head)
        for text in ("the-member", "127.0.0.1", "first", one["member_id"], f"{topic10}:0,1"):
            assert text in out
        assert "lag of 1 of 2 partitions: 3\n" in out


def test_describe_prints_names_as_they_are(cluster: Cluster, command: Command, topic: str, group_id: str) -> None:
    with member(cluster, group_id, topic, client_id="[red]the[/] reader"):
        assert "[red]the[/] reader" in command("groups", "describe", group_id)[1]


def test_describe_lists_a_deleted_topic(
    cluster: Cluster, admin: KafkaAdminClient, command: Command, make_topic: MakeTopic, topic: str, group_id: str
) -> None:
    gone = make_topic()
    admin.alter_group_offsets(
        group_id, {TopicPartition(gone, 0): OffsetAndMetadata(0), TopicPartition(topic, 0): OffsetAndMetadata(0)}
    )
    with KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers) as consumer:
        consumer.topics()
    cluster.delete_topic(gone)

    status, out, _ = command("groups", "describe", group_id)

    assert (status, topic in out) == (0, True)


# ---------------------------------------------------------------- reset-offsets


@pytest.mark.parametrize(
    ("option", "new", "noted"),
    [
        (["--to-earliest"], {0: 2, 1: 0}, []),
        (["--to-latest"], {0: 10, 1: 5}, []),
        (["--to-offset", "4"], {0: 4, 1: 4}, []),
        (["--to-offset", "1"], {0: 2, 1: 1}, ["1 is before the start of the log, which is 2"]),
        (["--to-offset", "1000000"], {0: 10, 1: 5}, ["1,000,000 is beyond the end of the log, which is 10"]),
        (["--shift-by", "1"], {0: 6, 1: 4}, []),
        (["--shift-by", "-4"], {0: 2, 1: 0}, ["-1 is before the start", "1 is before the start"]),
        (["--to-datetime", "2026-01-31T18:03:00"], {0: 3, 1: 3}, []),
        (["--to-datetime", "2026-01-31T19:02:30+01:00"], {0: 3, 1: 3}, []),
        (["--to-datetime", "2026-01-31T18:08:00.000Z"], {0: 8, 1: 5}, ["no record is that recent: end of the log"]),
    ],
    ids=lambda value: "".join(value) if isinstance(value, list) and value and value[0].startswith("-") else "",
)
def test_offsets_are_reset_after_a_dry_run(
    admin: KafkaAdminClient,
    command: Command,
    topic10: str,
    group_id: str,
    option: list[str],
    new: dict[int, int],
    noted: list[str],
) -> None:
    old = {0: 5, 1: 3}
    admin.alter_group_offsets(
        group_id, {TopicPartition(topic10, number): OffsetAndMetadata(offset) for number, offset in old.items()}
    )
    status, out, err = command("groups", "reset-offsets", group_id, "--topic", topic10, *option)
    assert (status, err) == (0, "")
    assert "dry run: no offset was changed. Add --execute to reset the offsets\n" in out
    for note in noted:
        assert note in out
    assert committed(admin, group_id) == old
    dry = command.json("groups", "reset-offsets", group_id, "--all-topics", *option)
    assert [(row["partition"], row["old"], row["new"]) for row in dry] == [(n, old[n], new[n]) for n in (0, 1)]
    assert {row["executed"] for row in dry} == {False}
    assert committed(admin, group_id) == old
    done = command.json("groups", "reset-offsets", group_id, "--all-topics", "--execute", *option)
    assert done == [row | {"executed": True} for row in dry]
    assert committed(admin, group_id) == new


def test_some_partitions_of_a_group_that_does_not_exist_are_set(
    admin: KafkaAdminClient, command: Command, topic10: str, group_id: str
) -> None:
    status, out, _ = command(
        *("groups", "reset-offsets", group_id, "--topic", f"{topic10}:1", "--to-latest", "--execute")
    )

    assert (status, f"the offsets of group {group_id} were reset\n" in out) == (0, True)
    assert committed(admin, group_id) == {1: 5}


def test_a_reset_of_a_group_at_work_is_refused(
    cluster: Cluster, admin: KafkaAdminClient, command: Command, topic10: str, group_id: str
) -> None:
    reset = ("groups", "reset-offsets", group_id, "--topic", topic10, "--to-latest", "--execute")
    with member(cluster, group_id, topic10) as consumer:
        consumer.commit({TopicPartition(topic10, 0): OffsetAndMetadata(4)})
        for arguments in (reset, reset[:-1]):
            told = command.refused(*arguments)
            assert f"group '{group_id}' is Stable with 1 member: the-member (" in told
            assert "has no members: stop them" in told
        assert committed(admin, group_id) == {0: 4}
    assert command(*reset)[0] == 0
    assert committed(admin, group_id) == {0: 10, 1: 5}


@pytest.mark.kafka
def test_a_reset_of_a_group_of_the_new_protocol_at_work_is_refused(
    apache: Cluster, capfd: pytest.CaptureFixture[str], topic_name: str, group_id: str
) -> None:
    apache.create_topic(topic_name)
    with newer_members(apache, group_id, topic_name):
        told = Command(apache, capfd).refused("groups", "reset-offsets", group_id, "--topic", topic_name, "--to-latest")
        assert f"group '{group_id}' is Stable with 1 member: m0 (" in told
        assert "Offsets can be reset only if it has no members" in told


def test_impossible_resets_change_no_offset(
    admin: KafkaAdminClient, command: Command, topic10: str, group_id: str
) -> None:
    reset = ("groups", "reset-offsets", group_id, "--execute")
    assert "has no committed offsets. Name topics" in command.refused(*reset, "--all-topics", "--to-latest")
    admin.alter_group_offsets(group_id, {TopicPartition(topic10, 0): OffsetAndMetadata(4)})
    told = command.refused(*reset, "--topic", topic10, "--shift-by", "1")
    assert f"has no committed offset to shift for {topic10}-1" in told
    assert f"topic '{topic10}' has no partition 7, only 0 to 1" in command.refused(
        *reset, "--topic", f"{topic10}:0,7", "--to-latest"
    )
    assert "no-such-topic" in command.refused(*reset, "--topic", "no-such-topic", "--to-latest")
    assert committed(admin, group_id) == {0: 4}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--to-latest"], "--all-topics"),
        (["--topic", "t", "--all-topics", "--to-latest"], "either --topic or --all-topics"),
        (["--all-topics"], "exactly one of"),
        (["--all-topics", "--to-latest", "--shift-by", "0"], "exactly one of"),
        (["--topic", "t:", "--to-latest"], "'t:'"),
        (["--topic", "t:a", "--to-latest"], "'t:a'"),
        (["--topic", "t:-1", "--to-latest"], "'t:-1'"),
        (["--topic", ":1", "--to-latest"], "no topic"),
        (["--topic", "t:1", "--topic", "t:2", "--to-latest"], "twice"),
        (["--all-topics", "--to-offset", "-1"], "--to-offset"),
        (["--all-topics", "--shift-by", "far"], "'far'"),
        (["--all-topics", "--to-datetime", "yesterday"], "'yesterday' is not an ISO 8601 time"),
        (["--all-topics", "--to-datetime", "1950-01-01"], "before 1970"),
    ],
    ids=lambda value: "".join(value) if isinstance(value, list) else "",
)
def test_wrong_usage_of_reset_has_status_2(arguments: list[str], told: str, capfd: pytest.CaptureFixture[str]) -> None:
    status = _run(["groups", "reset-offsets", "g", "-b", "localhost:1", *arguments])
    out, err = capfd.readouterr()

    assert (status, out) == (2, "")
    assert told in err.splitlines()[-1]


@pytest.mark.kafka
@pytest.mark.slow
def test_a_reset_prints_the_same_as_kafkas_tool(
    apache: Cluster,
    capfd: pytest.CaptureFixture[str],
    topic_name: str,
    group_id: str,
    kafka_tools: KafkaTools,
) -> None:
    apache.create_topic(topic_name, 2)
    with KafkaProducer(bootstrap_servers=apache.bootstrap_servers, batch_size=0) as producer:
        for n in range(6):
            producer.send(topic_name, b"x", partition=0, timestamp_ms=FIRST_MS + n * 60_000)
    with KafkaAdminClient(bootstrap_servers=apache.bootstrap_servers) as admin:
        admin.alter_group_offsets(
            group_id, {TopicPartition(topic_name, number): OffsetAndMetadata(0) for number in (0, 1)}
        )
    command = Command(apache, capfd)
    for ours, theirs in (
        (["--to-datetime", "2026-01-31T18:03:00"], ["--to-datetime", "2026-01-31T18:03:00.000"]),
        (["--shift-by", "100"], ["--shift-by", "100"]),
    ):
        at = ("--bootstrap-server", apache.bootstrap_servers, "--group", group_id, "--topic", topic_name)
        printed = kafka_tools.run("ConsumerGroupCommand", *at, "--reset-offsets", "--dry-run", *theirs).stdout
        found = [line.split() for line in printed.splitlines()]
        expected = sorted((int(row[2]), int(row[3])) for row in found if row[:2] == [group_id, topic_name])
        rows = command.json("groups", "reset-offsets", group_id, "--topic", topic_name, *ours)
        assert [(row["partition"], row["new"]) for row in rows] == expected
        assert len(rows) == 2


# ---------------------------------------------------------------- groups of the consumer protocol (KIP-848)


def test_settings_of_a_group_are_changed_and_shown(command: Command, cluster: Cluster, group_id: str) -> None:
    if cluster.kind == "apache_old":
        pytest.skip("it has no settings of groups by default")
    name = "consumer.session.timeout.ms"

    def shown(*arguments: str) -> dict[str, tuple[str, str]]:
        rows = command.json("groups", "alter", group_id, *arguments)
        return {row["name"]: (row["value"], row["source"]) for row in rows}

    assert shown()[name] == ("20000", "the broker")
    shown("--set", f"{name}=30000")
    wait_until(lambda: shown()[name] == ("30000", "the group"), 30, "the setting is there")
    assert "30000" in command("groups", "alter", group_id)[1]
    shown("--unset", name)
    wait_until(lambda: shown()[name] == ("20000", "the broker"), 30, "the broker's setting holds again")
    assert "must be less than or equal to" in command.refused("groups", "alter", group_id, "--set", f"{name}=99999999")
    status, _, err = command("groups", "alter", group_id, "--set", name)
    assert (status, "is not NAME=VALUE" in err) == (2, True)


def test_groups_of_one_protocol_are_listed(command: Command, cluster: Cluster, topic10: str, group_id: str) -> None:
    with member(cluster, group_id, topic10):
        assert group_id not in {row["group"] for row in command.json("groups", "list", "--with-settings")}
        command.json("groups", "alter", group_id, "--set", "consumer.heartbeat.interval.ms=150")
        wait_until(
            lambda: group_id in {row["group"] for row in command.json("groups", "list", "--with-settings")},
            30,
            "the group's setting",
        )
        classic = {row["group"] for row in command.json("groups", "list", "--type", "classic")}
        newer = {row["group"] for row in command.json("groups", "list", "--type", "consumer")}
        assert group_id in classic - newer
