"""Clients of other languages, Kafka Streams and Kafka Connect: on both brokers they see the same.

Not part of a bare ``tox``, as they are fetched and compiled first: ``tox -e clients``. A test without Go or npm fails.
"""

from __future__ import annotations

import base64
import json
import os
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tests.support.clients as programs
from pyconsumer.broker import EmbeddedCluster
from pyconsumer.broker.ports import hold_port
from tests.support.certificates import Certificates
from tests.support.cluster import Cluster
from tests.support.confluent_tests import run_confluents_tests
from tests.support.go import franz_program, franz_tests, go_program
from tests.support.java import VERSION, cache_folder, fetch_jars, properties
from tests.support.npm import npm_folder
from tests.support.process import GuardedProcess, run

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(1200)]  # what they need is fetched first

_FOLDER = Path(programs.__file__).parent


def _result_of(command: list[str], *, cwd: Path | None = None) -> dict[str, Any]:
    done = run(command, cwd=cwd, timeout_s=240).check()
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _built(name: str) -> str:
    program = go_program(_FOLDER / "go", name)
    assert program is not None, "there is no Go"
    return str(program)


def _first_address(cluster: Cluster) -> str:
    return cluster.bootstrap_servers.split(",")[0]


@pytest.fixture(scope="module")
def kafkajs() -> Path:
    """The folder with the program and its client, which npm has put there."""
    return npm_folder(_FOLDER / "kafkajs", "kafkajs")


@pytest.mark.parametrize("version", ["2.1.0", "3.6.0", "4.0.0", "4.3.1"])
def test_sarama(cluster: Cluster, topic_name: str, version: str) -> None:
    seen = _result_of([_built("sarama"), _first_address(cluster), version, topic_name])

    assert seen == {
        "retention as set": True,
        "read": 501,
        "aborted": 0,
        "committed": 1,
        "twice": 0,
        "group": "Stable",
        "listed": "consumer",
        "offsets": True,
        "offset of a transaction": 1,
    }


def test_kafka_go(cluster: Cluster, topic_name: str) -> None:
    seen = _result_of([_built("segmentio"), _first_address(cluster), topic_name])

    assert seen == {"read": 300, "committed": 300}


def test_kafkajs(cluster: Cluster, topic_name: str, kafkajs: Path) -> None:
    seen = _result_of(["node", "program.js", _first_address(cluster), topic_name], cwd=kafkajs)

    assert seen == {
        "created": True,
        "listed": True,
        "brokers": 1,
        "retention": "3600000",
        "ends": 1001,
        "members": 2,
        "committed": 1001,
        "offsetOfTransaction": "7",
        "aborted": False,
        "committedIsRead": True,
        "first": "5",
        "deleted": True,
    }


_SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
_REFUSED = ("PLAIN", "wrong"), ("SCRAM-SHA-512", "wrong")


@pytest.fixture(scope="module")
def guarded(certificates: Certificates) -> Iterator[EmbeddedCluster]:
    """Our broker, with users, tokens without a signature, and listeners with and without TLS."""
    with EmbeddedCluster(
        data_dir=":memory:",
        listeners=("SASL_PLAINTEXT", "SASL_SSL"),
        users={"alice": "alice-secret"},
        oauth={"unsecured": True},
        acls=["alice: ALL topic *", "alice: ALL group *"],
        ssl_certfile=certificates.server_pem,
    ) as made:
        yield made


def _token(user: str) -> str:
    now_s = int(time.time())
    parts = ({"alg": "none"}, {"sub": user, "iat": now_s, "exp": now_s + 3600})
    return "".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") + "." for part in parts)


def _logins(guarded: EmbeddedCluster, certificates: Certificates, pairs: list[tuple[str, str]]) -> list[dict[str, str]]:
    """Return each login on the plain listener, then on the one with TLS."""
    return [
        {"address": guarded.address(listener), "mechanism": mechanism, "user": "alice", "password": password}
        | ({"authority": str(certificates.ca_pem)} if listener == "SASL_SSL" else {})
        for listener in ("SASL_PLAINTEXT", "SASL_SSL")
        for mechanism, password in pairs
    ]


def _check_logins(command: list[str], topic: str, logins: list[dict[str, str]], cwd: Path | None = None) -> None:
    done = run([*command, json.dumps({"topic": topic, "logins": logins})], cwd=cwd, timeout_s=240).check()
    seen = json.loads(done.stdout)
    for login, outcome in zip(logins, seen, strict=True):
        if login["password"] == "wrong":
            assert outcome.startswith("error: "), (login, outcome)
            assert "authentication" in outcome.lower(), outcome
        else:
            assert outcome == login["mechanism"], (login, outcome)


def test_kafkajs_logs_in(guarded: EmbeddedCluster, certificates: Certificates, topic_name: str, kafkajs: Path) -> None:
    pairs = [("PLAIN", "alice-secret"), *((one, "alice-secret") for one in _SCRAM), *_REFUSED]
    _check_logins(["node", "login.js"], topic_name, _logins(guarded, certificates, pairs), kafkajs)


def test_franz_go_logs_in(guarded: EmbeddedCluster, certificates: Certificates, topic_name: str) -> None:
    program = franz_program("login")
    assert program is not None, "there is no Go"
    pairs = [("PLAIN", "alice-secret"), *((one, "alice-secret") for one in _SCRAM), *_REFUSED]
    logins = _logins(guarded, certificates, [*pairs, ("OAUTHBEARER", _token("alice"))])
    _check_logins([str(program)], topic_name, logins)


@pytest.mark.parametrize("bits", [256, 512])
def test_franz_gos_own_tests_of_logins(bits: int) -> None:
    program = franz_tests()
    assert program is not None, "there is no Go"
    users = {"alice": "alice-secret"}
    with EmbeddedCluster(data_dir=":memory:", listeners=("SASL_PLAINTEXT",), users=users) as cluster:
        env = {"KGO_TEST_SCRAM": f"alice:alice-secret:{bits}", "KGO_TEST_SCRAM_SEEDS": cluster.bootstrap_servers}
        done = run([str(program), "-test.v", "-test.run", "^TestSCRAM"], env=env, timeout_s=100).check()
    ended = [line.split()[1:3] for line in done.stdout.splitlines() if line.startswith("---")]
    assert sorted(ended) == [["PASS:", "TestSCRAMAuth"], ["PASS:", "TestSCRAMAuthBadCredentials"]]


#: confluent-kafka-python's files with logins.
_CONFLUENT_FILES = (
    "admin/test_describe_operations.py",
    "admin/test_user_scram_credentials.py",
    "share_consumer_oauth/test_oauth_integration.py",
    "share_consumer_sasl/test_share_consumer_sasl.py",
)


def test_confluents_own_tests_of_logins(tmp_path: Path) -> None:
    """Three of them are skipped by confluent itself."""
    done = run_confluents_tests(tmp_path, *_CONFLUENT_FILES, timeout_s=600).check()
    assert "6 passed, 3 skipped" in done.stdout.splitlines()[-1], done.stdout


@pytest.fixture(scope="module")
def java() -> list[str]:
    """A Java command with Kafka Streams and Kafka Connect on its class path."""
    artifacts = [f"org.apache.kafka:{name}:{VERSION}" for name in ("kafka-streams", "connect-runtime", "connect-file")]
    jars = fetch_jars(cache_folder() / f"streams-{VERSION}" / "libs", [*artifacts, "org.slf4j:slf4j-nop:1.7.36"])
    return ["java", "-cp", os.pathsep.join(map(str, sorted(jars.glob("*.jar"))))]


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_kafka_streams(cluster: Cluster, topic_name: str, java: list[str], guarantee: str) -> None:
    """It groups by another key through a topic of its own, with a state store, its changelog and a standby."""
    program = _FOLDER / "java" / "CountWords.java"
    done = run([*java, str(program), _first_address(cluster), topic_name, guarantee], timeout_s=300).check()

    assert done.stdout.strip() == "equal"


def test_kafka_connect(cluster: Cluster, topic_name: str, java: list[str], tmp_path: Path) -> None:
    """A distributed worker, exactly once, copies a file through a topic into another file."""
    lines = [f"line {number}\n" for number in range(2000)]
    source, sink, settings = tmp_path / "source.txt", tmp_path / "sink.txt", tmp_path / "worker.properties"
    source.write_text("".join(lines))
    with hold_port("127.0.0.1", 0) as sock:
        rest = f"http://127.0.0.1:{sock.getsockname()[1]}"
    storage = {f"{kind}.storage.topic": f"{topic_name}-{kind}" for kind in ("offset", "config", "status")}
    converters = dict.fromkeys(("key.converter", "value.converter"), "org.apache.kafka.connect.storage.StringConverter")
    settings.write_text(
        properties(
            {
                "bootstrap.servers": _first_address(cluster),
                "group.id": topic_name,
                "exactly.once.source.support": "enabled",
                "listeners": rest,
                "plugin.discovery": "service_load",
                **storage,
                **{name.replace(".topic", ".replication.factor"): 1 for name in storage},
                **converters,
            }
        )
    )

    def ask(path: str, sent: dict[str, Any] | None = None) -> Any:
        body = None if sent is None else json.dumps(sent).encode()
        request = urllib.request.Request(f"{rest}{path}", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as response:
            return json.load(response)

    log = tmp_path / "worker.log"
    with GuardedProcess([*java, "org.apache.kafka.connect.cli.ConnectDistributed", str(settings)], output=log):
        end = time.monotonic() + 120
        while True:
            try:
                assert ask("/connectors") == []
                break
            except OSError:
                assert time.monotonic() < end, log.read_text()
                time.sleep(0.5)
        copies = {
            "source": {"connector.class": "FileStreamSource", "file": str(source), "topic": topic_name},
            "sink": {
                "connector.class": "FileStreamSink",
                "file": str(sink),
                "topics": topic_name,
                "consumer.override.auto.offset.reset": "earliest",
            },
        }
        for name, config in copies.items():
            ask("/connectors", {"name": name, "config": config})
        end = time.monotonic() + 60
        while not sink.exists() or sink.stat().st_size < source.stat().st_size:
            assert time.monotonic() < end, [ask(f"/connectors/{name}/status") for name in copies]
            time.sleep(0.2)
        assert sink.read_text() == source.read_text()
        for name in copies:
            assert ask(f"/connectors/{name}/status")["tasks"][0]["state"] == "RUNNING"
        position = ask("/connectors/source/offsets")["offsets"][0]["offset"]["position"]
        assert position == source.stat().st_size
