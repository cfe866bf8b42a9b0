"""The command ``pyconsumer``: its output, its exit status, and its messages for mistakes."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyconsumer import (
    KafkaAdminClient,
    KafkaConsumer,
    KafkaProducer,
    OffsetAndMetadata,
    RecordProgress,
    TopicPartition,
)
from pyconsumer.broker import EmbeddedCluster
from pyconsumer.cli import _run
from tests.support.cluster import Cluster
from tests.support.log_reader import read_partition
from tests.support.process import Finished, GuardedProcess, run, wait_until
from tests.support.terminal import Terminal

MakeTopic = Callable[..., str]
COMMAND = (sys.executable, "-m", "pyconsumer")


def pyconsumer(*arguments: str, stdin: str = "", timeout_s: float = 60.0) -> Finished:
    """Run the command in a process of its own."""
    done = run([*COMMAND, *arguments], input=stdin, timeout_s=timeout_s)
    assert "Traceback" not in done.stderr, done.stderr
    return done


@pytest.fixture
def here(capfd: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Run the command in this process, which is quicker: ``(status, standard output, standard error)``."""

    def command(*arguments: str) -> tuple[int, str, str]:
        status = _run(arguments)
        out, err = capfd.readouterr()
        return status, out, err

    return command


Here = Callable[..., tuple[int, str, str]]


# ---------------------------------------------------------------- topics


@pytest.mark.smoke
def test_topics_from_creation_to_deletion(cluster: Cluster, topic_name: str, here: Here) -> None:
    servers = ("-b", cluster.bootstrap_servers)
    assert here("topics", "create", topic_name, "-p", "3", "-t", "retention.ms=5000", *servers) == (
        0,
        f"created {topic_name}\n",
        "",
    )
    wait_until(lambda: topic_name in here("topics", "list", *servers)[1].splitlines(), 60, "the topic")
    status, out, err = here("topics", "list", "--json", *servers)
    (listed,) = [line for line in map(json.loads, out.splitlines()) if line["topic"] == topic_name]
    assert (status, err, listed["partitions"]) == (0, "", 3)
    status, out, _ = here("topics", "describe", topic_name, "--json", *servers)
    described = json.loads(out)
    assert (status, described["config"], len(described["partitions"])) == (0, {"retention.ms": "5000"}, 3)
    assert described["id"] == listed["id"]
    status, out, _ = here("topics", "describe", topic_name, *servers)
    assert (status, f"{topic_name}  (id {listed['id']}; retention.ms=5000)" in out) == (0, True)
    assert here("topics", "delete", topic_name, *servers) == (0, f"deleted {topic_name}\n", "")


def test_mistakes_with_topics(cluster: Cluster, topic: str, here: Here) -> None:
    servers = ("-b", cluster.bootstrap_servers)
    status, out, err = here("topics", "create", topic, *servers)
    assert (status, out) == (1, "")
    assert err.startswith(f"Error: {topic}: TOPIC_ALREADY_EXISTS")
    assert here("topics", "create", topic, "--if-not-exists", *servers) == (0, f"{topic} already exists\n", "")
    for arguments in (("describe", "no-such-topic"), ("delete", "no-such-topic")):
        status, out, err = here("topics", *arguments, *servers)
        assert (status, out, err.count("\n")) == (1, "", 1)
        assert "no-such-topic" in err
        assert "UNKNOWN_TOPIC_OR_PARTITION" in err
    status, _, err = here("topics", "create", "t", "-t", "no.such.setting=1", *servers)
    assert (status, "no.such.setting" in err) == (1, True)
    assert here("topics", "list", *servers)[1].splitlines().count(topic) == 1


# ---------------------------------------------------------------- produce, consume


@pytest.mark.smoke
def test_produced_records_are_consumed(cluster: Cluster, topic: str) -> None:
    servers = ("-b", cluster.bootstrap_servers)
    text = "".join(f"k{n}:value {n} é\n" for n in range(100))
    sent = pyconsumer("produce", topic, "-k", ":", "-H", "source=test", "-c", "zstd", *servers, stdin=text)
    assert (sent.returncode, sent.stdout, sent.stderr) == (0, "", f"100 records sent to {topic}\n")
    record = read_partition(cluster, topic)[7]
    assert (record.key, record.value, record.headers) == (b"k7", "value 7 é".encode(), [("source", b"test")])
    read = pyconsumer("consume", topic, "--from-beginning", "-n", "100", "--keys", *servers).check()
    assert read.stdout == text.replace(":", "\t")
    first = json.loads(pyconsumer("consume", topic, "-p", "0", "-o", "5", "-n", "1", "--json", *servers).check().stdout)
    assert (first["offset"], first["key"], first["value"], first["headers"]) == (
        5,
        "k5",
        "value 5 é",
        [["source", "test"]],
    )


@pytest.mark.slow
def test_a_file_is_produced_and_reading_ends_without_new_records(
    cluster: Cluster, topic: str, tmp_path: Path, here: Here
) -> None:
    servers = ("-b", cluster.bootstrap_servers)
    source = tmp_path / "lines"
    source.write_bytes(b"one\r\ntwo\nthree without an end")
    assert here("produce", topic, "-f", str(source), "--quiet", *servers) == (0, "", "")
    assert here("consume", topic, "--from-beginning", "--idle-ms", "4000", *servers) == (
        0,
        "one\ntwo\nthree without an end\n",
        "",
    )
    source.write_bytes(b"a:b\nc")
    status, _, err = here("produce", topic, "-f", str(source), "-k", ":", *servers)
    assert (status, err) == (1, "Error: line 2: it has no key separator ':'; the record before it was sent\n")


def test_a_group_continues_where_it_ended(cluster: Cluster, topic: str, group_id: str, here: Here) -> None:
    servers = ("-b", cluster.bootstrap_servers)
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for n in range(6):
            producer.send(topic, b"%d" % n)
    command = ("consume", topic, "-g", group_id, "--from-beginning", "-n", "3", *servers)
    assert here(*command) == (0, "0\n1\n2\n", "")
    assert here(*command) == (0, "3\n4\n5\n", "")


def test_mistakes_of_reading_and_writing(cluster: Cluster, topic: str, here: Here) -> None:
    servers = ("-b", cluster.bootstrap_servers)
    for group in ((), ("-g", "g")):
        assert here("consume", "no-such-topic", "--timeout-ms", "30000", *group, *servers) == (
            1,
            "",
            "Error: topic 'no-such-topic' does not exist\n",
        )
    assert here("consume", topic, "-p", "7", *servers) == (
        1,
        "",
        f"Error: topic {topic!r} has no partition 7, only 0 to 0\n",
    )
    status, _, err = here("produce", "not a name", "-f", __file__, *servers)
    assert (status, "'not a name' is no topic name" in err, err.count("\n")) == (1, True, 1)
    assert "no-such-topic" not in here("topics", "list", *servers)[1].splitlines()


def test_a_reader_that_goes_away_ends_the_command_quietly(cluster: Cluster, topic: str) -> None:
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for n in range(50_000):
            producer.send(topic, b"%d" % n)
    command = [*COMMAND, "consume", topic, "--from-beginning", "-b", cluster.bootstrap_servers]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"0\n"
        process.stdout.close()
        assert process.wait(60) == 1
        assert process.stderr.read() == b""


def test_ctrl_c_ends_a_reader(cluster: Cluster, topic: str) -> None:
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        producer.send(topic, b"x")
    command = [*COMMAND, "consume", topic, "--from-beginning", "-b", cluster.bootstrap_servers]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"x\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert process.stderr.read().strip() == b""


@pytest.mark.parametrize("binary", ["base64", "hex"])
def test_records_consumed_as_json_can_be_produced_again(
    cluster: Cluster, make_topic: Callable[..., str], tmp_path: Path, here: Here, binary: str
) -> None:
    servers = ("-b", cluster.bootstrap_servers)
    source, copy = make_topic(3), make_topic(3)
    every_byte = bytes(range(256))
    now = int(time.time() * 1000)
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for number in range(12):
            key = (None, b"", b"k%d" % number, every_byte)[number % 4]
            value = (b"text \xc3\xa9\n\t\x00\xe2\x80\xa8", None, every_byte, b"", b'{"base64": "a"}')[number % 5]
            headers = [("h", b"1"), ("h", None), ("\u00fc", every_byte), ("", b"")] if number % 2 else None
            producer.send(source, value, key, headers, number % 3, now - number)
    status, out, err = here("consume", source, "--from-beginning", "-n", "12", "--json", "--binary", binary, *servers)
    assert (status, err, out.count("\n")) == (0, "", 12)
    lines = tmp_path / "lines"
    lines.write_text(out, encoding="utf-8")
    status, _, err = here("produce", copy, "--json", "--keep-partitions", "-f", str(lines), *servers)
    assert (status, err) == (0, f"12 records sent to {copy}\n")
    for partition in range(3):
        first, second = (read_partition(cluster, topic, partition) for topic in (source, copy))
        assert [(r.key, r.value, r.headers, r.timestamp) for r in first] == [
            (r.key, r.value, r.headers, r.timestamp) for r in second
        ]
    lines.write_bytes(b'{"value": "a"}\n{"value": 5}\n')
    status, _, err = here("produce", copy, "--json", "-f", str(lines), *servers)
    assert status == 1
    assert err.startswith("Error: line 2: the value must be a string, null,")


def test_where_reading_begins_and_its_output(cluster: Cluster, make_topic: Callable[..., str], here: Here) -> None:
    servers = ("-b", cluster.bootstrap_servers)
    topic = make_topic(1, config={"retention.ms": -1})
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for n in range(10):
            producer.send(topic, b"v%d" % n, b"k%d" % (n % 2), [("n", b"%d" % n)], timestamp_ms=1_700_000_000_000 + n)
    read = ("consume", topic, *servers, "-f", "%o ")
    assert here(*read, "-o", "-3", "-n", "3") == (0, "7 8 9 ", "")
    assert here(*read, "-o", "-100", "-n", "10")[1] == "0 1 2 3 4 5 6 7 8 9 "
    assert here(*read, "-p", "0", "-o", "11") == (
        1,
        "",
        f"Error: offset 11 is beyond the end of {topic}-0, offset 10\n",
    )
    assert here(*read, "--from-timestamp", "1700000000007", "-n", "3")[1] == "7 8 9 "
    assert here(*read, "--from-timestamp", "2023-11-14T22:13:20.005+00:00", "-n", "5")[1] == "5 6 7 8 9 "
    late = here(*read, "--from-timestamp", "2100-01-01", "--idle-ms", "300")
    assert late == (0, "", "no record is that recent. Waiting for new ones\n")
    assert here(*read, "--from-beginning", "--key", "k1", "-n", "5")[1] == "1 3 5 7 9 "
    shown = here("consume", topic, *servers, "--from-beginning", "--headers", "--keys", "-n", "2")
    assert shown == (0, "n=0\tk0\tv0\nn=1\tk1\tv1\n", "")
    with KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.delete_records({TopicPartition(topic, 0): 4})
    status, out, err = here(*read, "-p", "0", "-o", "2", "-n", "1")
    assert (status, out) == (0, "4 ")
    assert err == f"offset 2 of {topic}-0 has been deleted. Starting at the oldest, 4\n"


@pytest.mark.embedded_only("the terminal is the command's own affair")
def test_a_writer_shows_a_bar_to_those_who_look_at_it(cluster: Cluster, topic: str, tmp_path: Path) -> None:
    source = tmp_path / "lines"
    source.write_bytes(b"x\n" * 3000)
    command = [*COMMAND, "produce", topic, "-f", str(source), "-b", cluster.bootstrap_servers]
    with Terminal(command) as terminal:
        assert terminal.wait() == 0
    shown = terminal.shown.decode()
    assert "━━" in shown, "the bar"
    assert re.search(r"3,000 records .*\d:\d\d:\d\d", shown), "the number of records and the time, beside it"
    assert shown.endswith(f"\x1b[2K3,000 records sent to {topic}\r\n"), "the bar is erased at the end"
    with Terminal([*command, "--quiet"]) as terminal:
        assert terminal.wait() == 0
    assert terminal.shown == b""


@pytest.mark.concurrent
def test_sigterm_ends_a_writer_after_its_input_was_sent(cluster: Cluster, topic: str) -> None:
    command = [*COMMAND, "produce", topic, "-b", cluster.bootstrap_servers]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stderr=pipe) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(b"one\ntwo\n")
        process.stdin.flush()
        wait_until(lambda: len(read_partition(cluster, topic)) == 2, 60, "both lines, though the input goes on")
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 128 + signal.SIGTERM
        assert process.stderr.read() == b"2 records sent to " + topic.encode() + b"\n"


@pytest.mark.concurrent
@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_watch_shows_lag_until_a_signal_comes(
    cluster: Cluster, topic: str, group_id: str, number: signal.Signals, status: int
) -> None:
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        producer.send_many(topic, [b"x"] * 5)
    with KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.alter_group_offsets(group_id, {TopicPartition(topic, 0): OffsetAndMetadata(2)})
        command = (*COMMAND, "groups", "watch", group_id, "-i", "0.1", "-b", cluster.bootstrap_servers)
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            assert process.stdout.readline() == b"time\tgroup\ttopic\tpartition\tcommitted\tend\tlag\tclient\n"
            line = process.stdout.readline().decode().rstrip("\n").split("\t")
            assert line[1:] == [group_id, topic, "0", "2", "5", "3", "-"]
            admin.alter_group_offsets(group_id, {TopicPartition(topic, 0): OffsetAndMetadata(4)})
            while process.stdout.readline().decode().split("\t")[6] != "1":
                pass
            process.send_signal(number)
            process.stdout.read()
            assert process.wait(60) == status
            assert process.stderr.read().strip() == b""


def test_topics_are_altered(cluster: Cluster, topic: str, here: Here) -> None:
    servers = ("-b", cluster.bootstrap_servers)
    altered = (0, f"altered {topic}\n", "")
    assert here("topics", "alter", topic, "-p", "3", "-t", "retention.ms=5000", *servers) == altered

    def described() -> tuple[object, int]:
        found = json.loads(here("topics", "describe", topic, "--json", *servers)[1])
        return found["config"], len(found["partitions"])

    wait_until(lambda: described() == ({"retention.ms": "5000"}, 3), 60, "the change")
    assert here("topics", "alter", topic, "--unset", "retention.ms", *servers) == altered
    wait_until(lambda: described() == ({}, 3), 60, "the change")
    status, out, err = here("topics", "alter", topic, "no-such-topic", "-p", "2", *servers)
    assert (status, out, err.count("\n")) == (1, "", 2)
    assert f"Error: {topic}: INVALID_PARTITIONS" in err
    assert "Error: no-such-topic: UNKNOWN_TOPIC_OR_PARTITION" in err


# ---------------------------------------------------------------- groups


@pytest.mark.smoke
def test_groups_are_listed_described_and_deleted(cluster: Cluster, topic: str, group_id: str, here: Here) -> None:
    servers = ("-b", cluster.bootstrap_servers)
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for n in range(5):
            producer.send(topic, b"%d" % n)
    with KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.alter_group_offsets(group_id, {TopicPartition(topic, 0): OffsetAndMetadata(2)})
    status, out, _ = here("groups", "list", "--json", *servers)
    (listed,) = [line for line in map(json.loads, out.splitlines()) if line["group"] == group_id]
    assert (status, listed["state"]) == (0, "Empty")
    assert group_id in here("groups", "list", "--state", "Empty", *servers)[1]
    assert group_id not in here("groups", "list", "--state", "Stable", *servers)[1]
    assert here("groups", "list", "--state", "Dead", *servers) == (0, "", "no groups\n")
    status, out, _ = here("groups", "describe", group_id, "--json", *servers)
    described = json.loads(out)
    assert (status, described["group"], described["state"], described["members"]) == (0, group_id, "Empty", [])
    assert described["partitions"] == [
        {"topic": topic, "partition": 0, "committed": 2, "end": 5, "lag": 3, "finished": [], "member_id": None}
    ]
    status, out, _ = here("groups", "describe", group_id, *servers)
    assert (status, f"group {group_id}: Empty, 0 members" in out, topic in out) == (0, True, True)
    assert here("groups", "delete", group_id, *servers) == (0, f"deleted {group_id}\n", "")
    status, out, err = here("groups", "delete", group_id, *servers)
    assert (status, out, err.startswith(f"Error: {group_id}: GROUP_ID_NOT_FOUND")) == (1, "", True)
    status, out, err = here("groups", "describe", "no-such-group", *servers)
    assert (status, out, "GROUP_ID_NOT_FOUND" in err, "no-such-group" in err) == (1, "", True, True)


def test_a_group_at_work_shows_its_members(cluster: Cluster, topic: str, group_id: str, here: Here) -> None:
    servers = ("-b", cluster.bootstrap_servers)
    reader = GuardedProcess([*COMMAND, "consume", topic, "-g", group_id, "--config", "client.id=the-reader", *servers])
    try:

        def members() -> list[dict[str, object]]:
            status, out, _ = here("groups", "describe", group_id, "--json", *servers)
            return list(json.loads(out)["members"]) if status == 0 else []

        wait_until(lambda: bool(members()) and bool(members()[0]["partitions"]), 60, "the member")
        (member,) = members()
        assert (member["client_id"], member["partitions"]) == ("the-reader", [[topic, 0]])
    finally:
        reader.stop()


# ---------------------------------------------------------------- wrong usage


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["topcs", "list"], "no command 'topcs'. Did you mean 'topics'?"),
        (["topics", "lst"], "'list'"),
        (["topics", "list", "--jsn"], "--json"),
        (["topics", "create"], "Missing argument"),
        (["topics", "create", "t", "-p", "0"], "--partitions"),
        (["topics", "create", "t", "-p", "many"], "'many'"),
        (["topics", "create", "t", "-t", "x"], "KEY=VALUE"),
        (["topics", "list", "--config", "request.timeout=5"], "request"),
        (["topics", "list", "--config", "request.timeout.ms=soon"], "whole number"),
        (["topics", "list", "-b", "host:port"], "'host:port'"),
        (["consume", "t", "-o", "5"], "--partition"),
        (["consume", "t", "-o", "-5", "--from-timestamp", "5"], "cannot be combined"),
        (["consume", "t", "-g", "g", "--from-timestamp", "5"], "reset-offsets"),
        (["consume", "t", "--from-timestamp", "yesterday"], "'yesterday'"),
        (["consume", "t", "--from-timestamp", "9" * 30], "too large for a time"),
        (["consume", "t", "-f", "%q"], "%q is not a token"),
        (["consume", "t", "-f", "\\q"], "is not an escape"),
        (["consume", "t", "-f", "%v", "--json"], "cannot be combined"),
        (["consume", "t", "--binary", "octal"], "'octal'"),
        (["produce", "t", "--json", "-k", ":"], "cannot be combined"),
        (["produce", "t", "--keep-partitions"], "--json"),
        (["topics", "alter", "t"], "no change requested"),
        (["topics", "alter", "t", "-t", "a=1", "--unset", "a"], "is given by --topic-config and by --unset"),
        (["groups", "watch"], "Missing argument"),
        (["groups", "watch", "g", "-i", "0"], "--interval"),
        (["groups", "watch", "g", "-i", "nan"], "--interval"),
        (["groups", "watch", "g", "-i", "1e300"], "--interval"),
        (["topics", "create", "t", "-p", "99999999999"], "--partitions"),
        (["topics", "list", "--config", "client.id=\udcff"], "UTF-8"),
        (["completion", "csh"], "'csh'"),
        (["topics", "list", "--config", "/no/such/file"], "cannot be read"),
        (["topics", "list", "--config", "/"], "cannot be read"),
        (["topics", "list", "--config", "no-such-file"], "not an existing file and not"),
        (["consume", "t", "u", "-p", "5"], "exactly one topic"),
        (["produce", "t", "-H", "x"], "NAME=VALUE"),
        (["produce", "t", "-f", "/no/such/file"], "/no/such/file"),
        (["produce", "t", "-c", "rar"], "'rar'"),
        (["broker", "--port", "70000"], "--port"),
        (["broker", "--port", "0", "--config", "num.partition=1"], "num.partitions"),
        (["broker", "--port", "0", "--config", "num.partitions=x"], "'x'"),
        (["demo", "--no-such"], "--no-such"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else "",
)
def test_wrong_usage_has_status_2_and_names_the_fault(arguments: list[str], told: str, here: Here) -> None:
    status, out, err = here(*arguments)

    assert (status, out) == (2, "")
    assert told in err.splitlines()[-1]


@pytest.mark.parametrize("arguments", [["topics", "list"], ["groups", "list"], ["groups", "describe", "g"]])
def test_a_cluster_that_is_not_there_is_one_line(arguments: list[str], dead_address: str) -> None:
    started = time.monotonic()
    done = pyconsumer(*arguments, "-b", dead_address, "--timeout-ms", "2000")

    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert done.stderr.startswith("Error: ")
    assert dead_address in done.stderr
    assert "Connection refused" in done.stderr
    assert time.monotonic() - started < 40


@pytest.mark.parametrize("arguments", [["consume", "t"], ["produce", "t"]])
def test_a_reader_and_a_writer_say_so_too(arguments: list[str], dead_address: str) -> None:
    done = pyconsumer(*arguments, "-b", dead_address, "--timeout-ms", "2000", stdin="x\n")

    assert (done.returncode, done.stdout) == (1, "")
    warning, error = done.stderr.splitlines()  # the warning comes while it tries again, the error at the end
    assert warning.startswith("Warning: ")
    assert dead_address in warning
    assert error.startswith("Error: ")


def test_help_names_every_command_and_option(here: Here) -> None:
    status, out, _ = here("--help")
    assert status == 0
    for name in ("archive", "broker", "consume", "demo", "groups", "offsets", "produce", "replay", "topics"):
        assert name in out
        status, told, _ = here(name, "--help")
        assert (status, told.startswith(f"Usage: pyconsumer {name}")) == (0, True)
    assert here("--version")[1].startswith("pyconsumer ")


# ---------------------------------------------------------------- settings from a file


@pytest.mark.concurrent
def test_a_properties_file_of_kafkas_tools_logs_in(tmp_path: Path, here: Here) -> None:
    users = {"reader": 'p=q "w" \\'}
    login = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="reader" password={};'
    right, wrong = tmp_path / "right.properties", tmp_path / "wrong.properties"
    for path, password in ((right, r'"p=q \\"w\\" \\\\"'), (wrong, '"s3cr3t"')):
        path.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.jaas.config={login.format(password)}\n")
    with EmbeddedCluster(data_dir=":memory:", listeners=("SASL_PLAINTEXT",), sasl_users=users) as cluster:
        cluster.create_topic("secured")
        servers = ("-b", cluster.bootstrap_servers, "--command-config", str(right))
        with KafkaProducer(
            bootstrap_servers=cluster.bootstrap_servers,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="PLAIN",
            sasl_plain_username="reader",
            sasl_plain_password=users["reader"],
        ) as producer:
            producer.send("secured", b"a").get(60)
        status, out, err = here("topics", "list", *servers)
        assert (status, "secured" in out.splitlines(), err) == (0, True, "")
        read = pyconsumer("consume", "secured", "--from-beginning", "-n", "1", *servers).check()
        assert (read.stdout, read.stderr) == ("a\n", "")
        status, out, err = here("topics", "list", *servers[:3], str(wrong))
        assert (status, out, err.count("\n")) == (1, "", 1)
        assert "Invalid username or password" in err
        assert "s3cr3t" not in err


# ---------------------------------------------------------------- broker


@pytest.mark.slow
def test_the_broker_command_runs_a_schema_registry_and_prints_its_address(tmp_path: Path) -> None:
    command = [*COMMAND, "broker", "--port", "0", "--schema-registry", "0", "--data-dir", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("schema registry at http://127.0.0.1:")
            assert process.stdout.readline().startswith("listening on ")
            url = line.removeprefix("schema registry at ").strip()
            assert urllib.request.urlopen(f"{url}/subjects", timeout=30).read() == b"[]"
        finally:
            process.terminate()


def test_the_broker_says_one_line_and_stops_on_sigterm(tmp_path: Path) -> None:
    command = [*COMMAND, "broker", "--port", "0", "--brokers", "1", "--data-dir", str(tmp_path / "data")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        line = process.stdout.readline()
        assert line.startswith("listening on ")
        addresses = line.removeprefix("listening on ").strip()
        with KafkaAdminClient(bootstrap_servers=addresses) as admin:
            assert len(admin.describe_cluster().brokers) == 1
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert (process.stdout.read(), process.stderr.read()) == ("", "")


def test_a_broker_continues_with_its_data_after_ctrl_c(tmp_path: Path) -> None:
    command = [*COMMAND, "broker", "--port", "0", "--data-dir", str(tmp_path)]
    for turn in range(2):
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            address = process.stdout.readline().removeprefix("listening on ").strip()
            with KafkaProducer(bootstrap_servers=address) as producer:
                assert producer.send("kept", b"x", partition=0).get(60).offset == turn
            process.send_signal(signal.SIGINT)
            assert process.wait(60) in (0, 130)
            assert process.stderr.read() == ""


def test_a_port_in_use_is_named(here: Here) -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        port = sock.getsockname()[1]
        status, out, err = here("broker", "--port", str(port))
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert f"127.0.0.1:{port}" in err


@pytest.mark.concurrent
@pytest.mark.parametrize("content", ["", "{garbled"])
def test_a_broker_refuses_a_damaged_cluster_file_in_one_line(tmp_path: Path, content: str) -> None:
    (tmp_path / "cluster.json").write_text(content)
    command = [sys.executable, "-m", "pyconsumer", "broker", "--port", "0", "--data-dir", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert str(tmp_path / "cluster.json") in line


def test_a_group_of_workers_shows_the_records_that_are_finished_above_its_offset(
    cluster: Cluster, topic: str, group_id: str, here: Here
) -> None:
    servers = ("-b", cluster.bootstrap_servers)
    place = TopicPartition(topic, 0)
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for n in range(10):
            producer.send(topic, b"%d" % n, partition=0)
    progress = RecordProgress(gaps=True)
    with KafkaConsumer(
        bootstrap_servers=cluster.bootstrap_servers,
        group_id=group_id,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        consumer.assign([place])
        found: list[Any] = []
        while len(found) < 10:
            polled = consumer.poll(timeout_ms=1000)
            progress.add(polled)
            found += polled.records()
        for record in found:
            if record.offset in (0, 2, 3, 7):
                progress.finish(record)
        consumer.commit(progress.take())
    status, out, _ = here("groups", "describe", group_id, "--json", *servers)
    (partition,) = json.loads(out)["partitions"]
    assert (status, partition["committed"], partition["finished"]) == (0, 1, [[2, 4], [7, 8]])
    status, out, _ = here("groups", "describe", group_id, *servers)
    assert "2-3 7" in out
