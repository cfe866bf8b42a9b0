"""The ten questions of docs/observability.md: each fault is made, and the metric, the log and the command name it."""

from __future__ import annotations

import contextlib
import json
import logging
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from pyconsumer import KafkaAdminClient, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition, background_log
from pyconsumer.cli import _run
from pyconsumer.errors import WakeupError
from pyconsumer.protocol.api_keys import ApiKey
from tests.behaviour.consumer_support import consuming, fill, member, read
from tests.support.cluster import Cluster
from tests.support.process import GuardedProcess, wait_until
from tests.support.proxy import KafkaProxy

pytestmark = pytest.mark.concurrent

PAGE = (Path(__file__).parents[2] / "docs" / "observability.md").read_text(encoding="utf-8")
_COORDINATOR, _FETCHES = "consumer-coordinator-metrics", "consumer-fetch-manager-metrics"


class Night:
    """The three places where an operator looks."""

    def __init__(self, cluster: Cluster, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> None:
        self.servers = cluster.bootstrap_servers
        self._caplog, self._capfd = caplog, capfd

    def has_logged(self, level: str, text: str, more: str = "") -> bool:
        """Return whether there is a line with a text of the page, where ``...`` and numbers stand for any other."""
        assert background_log.flush()
        pattern = re.sub(r"\d+", r"\\d+", ".+".join(map(re.escape, text.split("..."))))
        return any(
            record.levelname == level
            and re.search(pattern, message := record.getMessage())
            and re.search(more, message)
            for record in self._caplog.records
        )

    def log(self, level: str, text: str, more: str = "") -> None:
        """Wait for such a line, in which ``more`` matches, too."""
        wait_until(lambda: self.has_logged(level, text, more), 60, f"a line of the log with {level} {text!r}")

    def command(self, *arguments: str, status: int = 0, servers: str | None = None) -> str:
        """Run a command and return its output, that of an error included."""
        self._capfd.readouterr()
        assert _run([*arguments, "-b", servers or self.servers]) == status
        return "".join(self._capfd.readouterr())

    def group(self, group_id: str, *options: str) -> dict[str, Any]:
        """Return the output of ``groups describe``."""
        found: dict[str, Any] = json.loads(self.command("groups", "describe", group_id, "--json", *options))
        return found


@pytest.fixture
def night(cluster: Cluster, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> Night:
    caplog.set_level(logging.INFO, "pyconsumer")
    return Night(cluster, caplog, capfd)


@contextmanager
def calling(call: Callable[[], object]) -> Iterator[threading.Thread]:
    """Run a call in a thread. The block must make it return."""
    thread = threading.Thread(target=call)
    thread.start()
    try:
        yield thread
    finally:
        thread.join(60)
        assert not thread.is_alive()


def test_the_page_has_ten_questions_with_metric_log_and_command() -> None:
    table = PAGE.split("## Ten questions at night")[1].split("\n## ")[0]
    rows = [line.split(" | ") for line in table.splitlines() if re.match(r"\| \d+\. ", line)]
    assert [row[0].split(".")[0] for row in rows] == [f"| {number}" for number in range(1, 11)]
    assert all(len(row) == 4 for row in rows)
    played: dict[str, str] = {}
    source = Path(__file__).read_text(encoding="utf-8")
    for number, code in re.findall(r"^def test_(\d+)_(.*?)(?=^def |^@|\Z)", source, re.M | re.S):
        played[number] = played.get(number, "") + code
    for row in rows:
        number = row[0].removeprefix("| ").split(".")[0]
        code = played[number].replace("night.group(", 'night.command("groups", "describe", ')
        names = [name.split("(")[0] for name in re.findall(r"`(.+?)`", row[1])]
        assert [name for name in names if f'"{name}"' not in code and not re.search(rf"\.{name}\b", code)] == [], number
        lines = set(re.findall(r'night\.(?:log|has_logged)\(\s*"(\w+)", "(.+?)"', code))
        assert lines == set(re.findall(r"(INFO|WARNING|ERROR) `(.+?)`", row[2])), number
        assert len(re.findall(r"INFO|WARNING|ERROR", row[2])) == row[2].count("`") / 2, number
        calls = code.split("night.command(")[1:]
        for command in re.findall(r"`(.+?)`", row[3]):
            words = [re.escape(f'"{word}"') for word in command.split() if not word.isupper()]
            assert any(re.match(r".*?".join(["", *words]), call, re.S) for call in calls), command


def test_1_is_it_stuck_and_on_what(night: Night, proxy: KafkaProxy, topic: str, group_id: str) -> None:
    settings: Any = {"max_poll_interval_ms": 1000, "session_timeout_ms": 6000, "heartbeat_interval_ms": 100}
    settings |= {"bootstrap_servers": proxy.bootstrap_servers, "group_id": group_id, "group_protocol": "classic"}
    with KafkaConsumer(topic, **settings) as consumer:
        while not consumer.assignment():
            consumer.poll(100)
        night.log("WARNING", "leaving the group: poll() was not called for")  # the application is stuck in its own code
        wait_until(lambda: not consumer.health().is_alive(), 60, "the age of the last poll")
        assert consumer.metrics()["consumer-metrics"]["last-poll-seconds-ago"] >= 1
        wait_until(lambda: night.group(group_id)["state"] == "Empty", 60, "the end of the membership")
        assert night.group(group_id)["members"] == []
        assert consumer.health().waits_for is None

        def waits(*reasons: str) -> None:
            wait_until(
                lambda: (
                    (now := consumer.health()).is_inside_call
                    and now.waits_for in reasons
                    and now.waits_s > 0
                    and now.is_alive()
                ),
                60,
                f"one of {reasons}",
            )

        def poll() -> None:
            with contextlib.suppress(WakeupError):
                consumer.poll(300_000)

        joins, fetches = proxy.hold(ApiKey.JOIN_GROUP), proxy.hold(ApiKey.FETCH)
        with calling(poll):  # and now in a call
            try:
                joins.wait()
                waits("the rebalance of the group")
                joins.release()
                fetches.wait()
                waits("records or a response")
                proxy.refuse()
                waits("the group's coordinator", "any broker")  # what was lost first
                assert consumer.health().missing in ("the group's coordinator", "any broker")
            finally:
                proxy.accept()
                consumer.wakeup()
        fetches.remove()


@pytest.mark.cluster
@pytest.mark.slow
def test_2_is_a_broker_gone(nodes: Cluster, topic_name: str, night: Night) -> None:
    nodes.create_topic(topic_name, 1)
    with KafkaProducer(bootstrap_servers=nodes.bootstrap_servers) as producer:
        producer.send(topic_name, b"x").get(60)
    with nodes.raw() as client:
        leader = client.leaders(topic_name)[0]
    with consuming(nodes, TopicPartition(topic_name, 0), fetch_max_wait_ms=100) as consumer:
        read(consumer, 1)
        nodes.kill(leader)  # as by kill -9
        wait_until(lambda: consumer.poll(100).count() == 0 and consumer.health().missing, 60, "the missing leader")
        assert (consumer.health().missing or "").startswith(f"the leader of {topic_name}-0")
        assert leader not in consumer.health().connected_nodes
        assert consumer.metrics()["consumer-metrics"]["connection-close-total"] >= 1
        night.log("INFO", "node 1: connection to ... lost", f"node {leader}: ")
        servers = nodes.bootstrap_servers
        wait_until(
            lambda: _without_leader(night.command("topics", "describe", topic_name, "--json", servers=servers)),
            60,
            "a partition without a leader",
        )


@pytest.mark.cluster
@pytest.mark.slow
def test_2_a_broker_that_cannot_be_reached_is_named(night: Night, nodes: Cluster, topic_name: str) -> None:
    """The other brokers still name it as the leader."""
    tp = TopicPartition(nodes.create_topic(topic_name, 1), 0)
    soon: Any = {"fetch_max_wait_ms": 100, "reconnect_backoff_ms": 50}
    with nodes.raw() as client:
        leader = client.leaders(topic_name)[0]
    address = dict(zip(nodes.node_ids, nodes.bootstrap_servers.split(","), strict=True))[leader]
    with KafkaProxy(nodes.bootstrap_servers) as proxy, consuming(proxy.bootstrap_servers, tp, **soon) as consumer:
        wait_until(
            lambda: consumer.poll(50).count() == 0 and consumer.health().since_fetch_s is not None, 60, "fetches"
        )
        assert consumer.health().missing is None
        before = consumer.metrics()["consumer-metrics"]["connection-close-total"]
        proxy.refuse(address)
        wait_until(lambda: consumer.poll(50).count() == 0 and consumer.health().missing, 60, "the missing leader")
        assert consumer.health().missing == f"the leader of {tp}, node {leader}"
        night.log("WARNING", "TCP connection to ... failed", f"node {leader}: ")
        assert consumer.metrics()["consumer-metrics"]["connection-close-total"] > before
        proxy.accept()
        wait_until(lambda: consumer.poll(50).count() == 0 and consumer.health().missing is None, 60, "its return")


def _without_leader(described: str) -> bool:
    (partition,) = json.loads(described)["partitions"]
    return partition["leader"] in (None, -1)


@pytest.mark.cluster
@pytest.mark.slow
def test_a_frozen_broker_shows_as_a_lost_one_in_both_clients(nodes: Cluster, topic_name: str, night: Night) -> None:
    """Questions 2, 3 and 5 by SIGSTOP: connections stay open without an answer. Embedded brokers stop together."""
    tp = TopicPartition(nodes.create_topic(topic_name, 1), 0)
    soon: Any = {"request_timeout_ms": 2_000, "socket_connection_setup_timeout_ms": 1_000}
    servers = nodes.bootstrap_servers
    with nodes.raw() as client:
        leader = client.leaders(topic_name)[0]
    frozen = None if nodes.kind == "embedded" else leader
    with (
        KafkaProducer(bootstrap_servers=servers, **soon) as producer,
        consuming(nodes, tp, fetch_max_wait_ms=100, **soon) as consumer,
    ):
        producer.send(topic_name, b"before").get(60)
        read(consumer, 1)
        try:
            nodes.freeze(frozen)
            sent = producer.send(topic_name, b"during")
            wait_until(lambda: producer.health().in_flight and producer.health().waits_for == str(tp), 60, "it is sent")
            wait_until(lambda: consumer.poll(100).count() == 0 and consumer.health().missing, 60, "the missing leader")
            assert re.match(f"the leader of {tp}|any broker", consumer.health().missing or "")
            assert leader not in consumer.health().connected_nodes
            night.log("INFO", "no response to FETCH", f"node {leader}: ")
            night.log("INFO", "attempt 1 failed and is repeated")
            wait_until(lambda: producer.health().missing, 60, "the missing leader")
            if frozen is None:
                night.command("topics", "list", "--timeout-ms", "1000", servers=servers, status=1)
            else:
                living = [one for at, one in zip(nodes.node_ids, servers.split(","), strict=True) if at != leader]
                describe = ("topics", "describe", topic_name, "--json")
                wait_until(lambda: _without_leader(night.command(*describe, servers=",".join(living))), 60, "its end")
        finally:
            nodes.thaw(frozen)
        sent.get(60)
        assert [record.value for record in read(consumer, 1)] == [b"during"]
        assert consumer.health().missing is None


def test_3_does_it_reach_any_broker(night: Night, proxy: KafkaProxy, topic: str) -> None:
    proxy.refuse()
    with KafkaConsumer(topic, bootstrap_servers=proxy.bootstrap_servers) as consumer:
        wait_until(
            lambda: consumer.poll(100).count() == 0 and night.has_logged("WARNING", "no broker at ... has responded"),
            60,
            "the line",
        )
        assert consumer.health().connected_nodes == ()
        assert consumer.health().missing == "any broker"
        assert consumer.metrics()["consumer-metrics"]["connection-count"] == 0
        out = night.command("topics", "list", "--timeout-ms", "1000", servers=proxy.bootstrap_servers, status=1)
        assert "Connection refused" in out
        proxy.accept()


def test_4_has_it_joined_its_group(night: Night, proxy: KafkaProxy, topic: str, group_id: str) -> None:
    held = proxy.hold(ApiKey.SYNC_GROUP)
    settings: Any = {"group_id": group_id, "group_protocol": "classic"}
    with KafkaConsumer(topic, bootstrap_servers=proxy.bootstrap_servers, **settings) as consumer:
        wait_until(lambda: consumer.poll(100).count() == 0 and held.hits, 60, "the wait")
        health = consumer.health()
        assert (health.membership, health.has_assignment, health.is_ready()) != ("STABLE", True, True)
        coordinator = consumer.metrics()[_COORDINATOR]
        assert (coordinator["assigned-partitions"], coordinator["last-rebalance-seconds-ago"]) == (0, -1)
        assert health.membership == "COMPLETING_REBALANCE"
        assert not night.has_logged("INFO", "rebalance finished after")
        assert len(night.group(group_id)["members"]) == 1
        held.release()
        wait_until(lambda: consumer.poll(100).count() == 0 and consumer.assignment(), 60, "the assignment")
        night.log("INFO", "rebalance finished after")
        assert consumer.health().membership == "STABLE"
        coordinator = consumer.metrics()[_COORDINATOR]
        assert (coordinator["assigned-partitions"], coordinator["last-rebalance-seconds-ago"] >= 0) == (1, True)
        assert night.group(group_id)["state"] == "Stable"
    assert night.group(group_id)["state"] == "Empty"


def test_5_why_does_send_not_return(night: Night, cluster: Cluster, proxy: KafkaProxy, topic: str) -> None:
    held = proxy.hold(ApiKey.PRODUCE)
    settings: Any = {"buffer_memory": 40_000, "max_block_ms": 60_000, "batch_size": 10_000}
    with KafkaProducer(bootstrap_servers=proxy.bootstrap_servers, **settings) as producer:
        with calling(lambda: [producer.send(topic, b"x" * 9_000) for _ in range(10)]):
            try:
                held.wait()
                wait_until(lambda: producer.health().waiting_calls, 60, "a call that waits for memory")
                health = producer.health()
                assert (health.is_alive(), health.in_flight > 0) == (True, True)
                assert (health.waits_for, health.missing) == (f"{topic}-0", None), "the leader is there, and silent"
                metrics = producer.metrics()["producer-metrics"]
                assert metrics["requests-in-flight"] > 0
                assert metrics["buffer-available-bytes"] < 10_000
            finally:
                proxy.cut_all()
                held.remove()
        producer.flush()
        night.log("INFO", "attempt 1 failed and is repeated")
    (partition,) = json.loads(night.command("topics", "describe", topic, "--json"))["partitions"]
    with cluster.raw() as client:
        assert partition["leader"] == client.leaders(topic)[0]
    assert partition["replicas"] == [partition["leader"]]


def test_6_how_far_behind_is_it(night: Night, cluster: Cluster, topic: str, group_id: str) -> None:
    fill(cluster, topic, 10)
    settings: Any = {"group_id": group_id, "enable_auto_commit": False, "max_poll_records": 1}
    with KafkaConsumer(
        topic, bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest", **settings
    ) as consumer:
        read(consumer, 4)
        consumer.commit()
        metrics = consumer.metrics()[_FETCHES]
        assert metrics["records-lag-max"] >= 6
        assert metrics["records-lag-time-max"] > 0
        assert consumer.health().lag == 6
        assert (consumer.health().lag_s or 0) > 0
        (row,) = night.group(group_id, "--lag-time")["partitions"]
        assert (row["lag"], row["lag_time_s"] > 0) == (6, True)
    with member(cluster, group_id, topic) as again:  # the line comes with a poll
        wait_until(
            lambda: again.poll(50).count() >= 0 and night.has_logged("INFO", "starting at the committed offset", " 4"),
            60,
            "the line",
        )


def test_7_why_does_the_group_rebalance(night: Night, cluster: Cluster, topic: str, group_id: str) -> None:
    with member(cluster, group_id, topic, group_protocol="classic", heartbeat_interval_ms=100) as first:
        before = first.metrics()[_COORDINATOR]["rebalance-total"]
        second = KafkaConsumer(
            topic, bootstrap_servers=cluster.bootstrap_servers, group_id=group_id, client_id="the-new-one"
        )
        with second:
            wait_until(
                lambda: (first.poll(50), second.poll(50)) and first.metrics()[_COORDINATOR]["rebalance-total"] > before,
                60,
                "another rebalance",
            )
            assert first.metrics()[_COORDINATOR]["rebalance-latency-max"] > 0
            night.log("INFO", "rebalance finished after", r"joined: .*the-new-one.* Reason: \S")
            members = {one["client_id"]: one["host"] for one in night.group(group_id)["members"]}
            assert members.keys() == {"the-member", "the-new-one"}
            assert {host.removeprefix("/") for host in members.values()} == {"127.0.0.1"}


def test_8_do_its_commits_arrive(night: Night, cluster: Cluster, proxy: KafkaProxy, topic: str, group_id: str) -> None:
    fill(cluster, topic, 3)
    tp = TopicPartition(topic, 0)
    settings: Any = {"group_id": group_id, "auto_offset_reset": "earliest"}
    with KafkaConsumer(
        topic, bootstrap_servers=cluster.bootstrap_servers, enable_auto_commit=False, **settings
    ) as consumer:
        read(consumer, 3)
        consumer.commit({tp: OffsetAndMetadata(1)})
        committed_at = time.monotonic() - (consumer.health().since_commit_s or 0.0)
        for _ in range(2):
            before = consumer.metrics()[_COORDINATOR]["commit-failed-total"]
            consumer.commit_async({tp: OffsetAndMetadata(3, "x" * 10_000)})  # more than brokers take
            wait_until(
                lambda before=before: (
                    consumer.poll(50).count() == 0 and consumer.metrics()[_COORDINATOR]["commit-failed-total"] > before
                ),
                60,
                "the failure",
            )
            shown = json.loads(night.command("groups", "watch", group_id, "--count", "1", "--json"))
            assert [(row["committed"], row["lag"]) for row in shown["partitions"]] == [(1, 2)], "it stands still"
        night.log("ERROR", "an asynchronous commit failed")
        assert (consumer.health().since_commit_s or 0.0) >= time.monotonic() - committed_at - 0.5
    with KafkaConsumer(
        topic, bootstrap_servers=proxy.bootstrap_servers, auto_commit_interval_ms=100, **settings
    ) as consumer:
        rule = proxy.fail(ApiKey.OFFSET_COMMIT, 29, count=None)  # TOPIC_AUTHORIZATION_FAILED
        wait_until(
            lambda: consumer.poll(50).count() >= 0 and night.has_logged("WARNING", "automatic commit failed", group_id),
            60,
            "the line",
        )
        assert consumer.metrics()[_COORDINATOR]["commit-failed-total"] >= 1
        assert consumer.health().since_commit_s is None
        rule.remove()


def test_9_is_a_record_the_cause(night: Night, cluster: Cluster, topic: str) -> None:
    fill(cluster, topic, 3)

    def refuse(value: bytes) -> bytes:
        if value == b"1":
            raise ValueError("a value of the test")
        return value

    settings: Any = {"value_deserializer": refuse, "auto_offset_reset": "earliest"}
    servers = cluster.bootstrap_servers
    with KafkaConsumer(topic, bootstrap_servers=servers, on_record_error="skip", **settings) as consumer:
        assert [record.value for record in read(consumer, 2)] == [b"0", b"2"]
        assert consumer.metrics()[_FETCHES]["records-skipped-total"] == 1
        night.log("WARNING", "skipped a record", rf"{topic}.* at offset 1\b")
    with KafkaConsumer(topic, bootstrap_servers=servers, **settings) as consumer:
        read(consumer, 1)
        with pytest.raises(Exception, match="offset 1"):
            read(consumer, 1)
        assert "offset 1" in (consumer.health().last_error or "")
    out = night.command("consume", topic, "--from-beginning", "-n", "2", "--format", "%o %v\\n")
    assert out.splitlines() == ["0 0", "1 1"]


def test_10_does_a_transaction_hold_readers_back(night: Night, cluster: Cluster, topic: str, group_id: str) -> None:
    servers = cluster.bootstrap_servers
    with KafkaProducer(bootstrap_servers=servers, transactional_id=group_id) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"open").get(60)
        night.log("INFO", "transactional id ...: producer id", re.escape(group_id))
        with KafkaConsumer(
            topic, bootstrap_servers=servers, isolation_level="read_committed", auto_offset_reset="earliest"
        ) as consumer:
            wait_until(
                lambda: (
                    consumer.poll(50).count() == 0
                    and consumer.metrics().get(f"{_FETCHES}.{topic}-0", {}).get("records-lag") == 0
                ),
                60,
                "the end that is visible",
            )
            assert consumer.end_offsets([TopicPartition(topic, 0)]) == {TopicPartition(topic, 0): 0}
        out = night.command("transactions", "list", "--state", "Ongoing", "--pattern", re.escape(group_id), "--json")
        assert json.loads(out)["transactional_id"] == group_id
        out = night.command("transactions", "describe", group_id)
        since = re.search(r"open since (\S+ \S+) UTC", out)
        assert since, out
        assert abs(datetime.now(UTC) - datetime.fromisoformat(f"{since[1]}+00:00")) < timedelta(minutes=10)
        assert f"  {topic}-0\n" in out
        out = night.command("transactions", "find-hanging", "--topic", topic, "--max-timeout", "0")
        assert out == "no hanging transactions in 1 partitions\n", "the coordinator knows it"
        with KafkaAdminClient(bootstrap_servers=servers) as admin:
            admin.alter_group_offsets(group_id, {TopicPartition(topic, 0): OffsetAndMetadata(0)})
        assert [row["lag"] for row in night.group(group_id)["partitions"]] == [1]
        producer.abort_transaction()


_WRITER = """
import logging, sys, time
from pyconsumer import KafkaProducer
logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s", stream=sys.stdout)
servers, topic, name = sys.argv[1:]
producer = KafkaProducer(bootstrap_servers=servers, transactional_id=name, transaction_timeout_ms=600_000)
producer.init_transactions()
producer.begin_transaction()
producer.send(topic, b"open").get(60)
print("open", flush=True)
time.sleep(600)
"""


def test_10_a_producer_that_was_killed_in_a_transaction_holds_readers_back(
    night: Night, cluster: Cluster, topic: str, group_id: str
) -> None:
    """``kill -9`` of its process: no abort is sent. The transaction lasts until its timeout, or until it is fenced."""
    servers, tp = cluster.bootstrap_servers, TopicPartition(topic, 0)
    writer = GuardedProcess([sys.executable, "-c", _WRITER, servers, topic, group_id])
    try:
        wait_until(lambda: "open\n" in writer.stdout, 60, "the record in the transaction")
    finally:
        writer.kill()
    assert f"transactional id {group_id}: producer id" in writer.stdout
    with KafkaProducer(bootstrap_servers=servers) as other:
        other.send(topic, b"behind it").get(60)

    with KafkaConsumer(
        topic, bootstrap_servers=servers, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:

        def lag() -> object:
            assert consumer.poll(50).count() == 0
            return consumer.metrics().get(f"{_FETCHES}.{topic}-0", {}).get("records-lag")

        wait_until(lambda: lag() == 0, 60, "the end that is visible")
        assert consumer.end_offsets([tp]) == {tp: 0}
        listed = night.command("transactions", "list", "--state", "Ongoing", "--pattern", re.escape(group_id), "--json")
        assert json.loads(listed)["transactional_id"] == group_id
        described = night.command("transactions", "describe", group_id)
        assert re.search(rf"{group_id} is Ongoing(.|\n)*timeout 600000 ms\n  open since (.|\n)*  {tp}\n", described)
        with KafkaAdminClient(bootstrap_servers=servers) as admin:
            admin.alter_group_offsets(group_id, {tp: OffsetAndMetadata(0)})
        assert [row["lag"] for row in night.group(group_id)["partitions"]] == [2]

        night.command("transactions", "fence", group_id)
        found = read(consumer, 1)
        assert [record.value for record in found] == [b"behind it"]
    assert group_id not in night.command("transactions", "list", "--state", "Ongoing")
