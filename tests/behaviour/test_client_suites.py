"""Clients' own tests of themselves, on three embedded brokers. Their authors wrote them for Apache Kafka.

Not part of a bare ``tox``, as they are fetched and compiled first, and take half an hour: ``tox -e suites``.

* franz-go (Go): groups of both protocols, transactions, share groups, and much more, with 20,000 records each
* librdkafka (C): all of its tests that need a broker, in its quick mode, with each protocol of groups
* confluent-kafka-python: its integration tests, with its fixtures, on our broker and our registry
* confluent-kafka-python's examples of schemas, in which only the imports change to ``pyconsumer.schemas``

A test that fails, even if only sometimes, must be in a table here, with the reason.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from pyconsumer.broker import EmbeddedCluster
from tests.support.confluent_tests import (
    check_out_examples,
    read_by_example,
    run_confluents_tests,
    write_by_example,
)
from tests.support.go import franz_tests
from tests.support.java import VERSION, cache_folder, tools
from tests.support.process import run
from tests.support.repositories import check_out

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(3600)]

_LONG_S: Final = 3000.0
_LIBRDKAFKA: Final = "https://github.com/confluentinc/librdkafka", "4c3b017c3de8d9c10de12b9eec0ea688e8d5787d"  # 2.15
#: Parts of librdkafka's numbers and names that are left out.
_NOT_RUN: Final = {
    "0038": "measures rates",
    "mock": "they have a cluster of librdkafka's own",
}
#: Tests of franz-go that are for other brokers: those of logins, and an old one. ``tox -e clients`` has the logins.
_FRANZ_SKIPS: Final = {
    "TestIssueProduceBrokerTooOldFailsRecords",
    "TestOAuthAuth",
    "TestSCRAMAuth",
    "TestSCRAMAuthBadCredentials",
}
#: Tests of librdkafka that fail on a busy machine.
_IN_A_HURRY: Final = {
    "0086_purge_remote": "a purge may take 100 ms",
    "0103_transactions": "a call may take 1 ms",
}
_INVALID: Final = "test_api_client.py::test_api_get_register_schema_invalid[kafka_cluster_cp_7_0_1-500-500]"
#: Integration tests of confluent-kafka-python that fail, with the reason.
_CONFLUENT_FAILS: Final = {
    "admin/test_incremental_alter_configs.py::test_incremental_alter_configs": "needs the setting min.insync.replicas "
    "that eligible leader replicas (KIP-966) leave",
    f"schema_registry/_async/{_INVALID}": "wants the code of a registry of 2021, 500 instead of 422",
    f"schema_registry/_sync/{_INVALID}": "wants the code of a registry of 2021, 500 instead of 422",
    "share_consumer/test_share_consumer.py::test_partition_max_record_locks_caps_in_flight": "sometimes: 200 records "
    "that come in one batch are acquired at once, as by Apache Kafka 4.3.1",
}
#: Kafka's commands that librdkafka's tests call by the names of its scripts.
_COMMANDS: Final = {
    "kafka-acls.sh": "AclCommand",
    "kafka-configs.sh": "ConfigCommand",
    "kafka-topics.sh": "TopicCommand",
}


@pytest.fixture(scope="module")
def addresses() -> Iterator[str]:
    config = {
        "allow.everyone.if.no.acl.found": True,
        "default.replication.factor": 3,
        "group.initial.rebalance.delay.ms": 100,
        "num.partitions": 4,
    }
    with EmbeddedCluster(3, acls=[], config=config) as cluster:
        yield cluster.bootstrap_servers


def test_franz_go(addresses: str) -> None:
    program = franz_tests()
    assert program is not None, "there is no Go"
    env = {"KGO_SEEDS": addresses, "KGO_TEST_RECORDS": "20000", "KGO_LOG_LEVEL": "none"}
    reads_its_sources = "^TestOptValuesCoversEveryOption$"
    command = [str(program), "-test.v", "-test.parallel", "3", "-test.skip", reads_its_sources]
    done = run(command, env=env, timeout_s=_LONG_S)
    outcomes = re.findall(r"^ *--- ([A-Z]+): (\S+)", done.stdout, re.MULTILINE)
    assert {name for outcome, name in outcomes if outcome not in ("PASS", "SKIP")} == set(), done.stdout[-20_000:]
    assert {name for outcome, name in outcomes if outcome == "SKIP"} <= _FRANZ_SKIPS
    done.check()
    assert len(outcomes) >= 330


@pytest.fixture(scope="module")
def librdkafka() -> Path:
    """The folder of its tests, compiled once and kept."""
    repository, commit = _LIBRDKAFKA
    built = cache_folder() / f"librdkafka-{commit[:12]}"
    if not built.exists():
        assert shutil.which("make"), "there is no make"
        fresh = built.with_suffix(f".{os.getpid()}")
        fresh.mkdir(parents=True)
        try:
            check_out(repository, commit, ".", fresh)
            run(["./configure"], cwd=fresh, timeout_s=300).check()
            run(["make", "-j2", "libs"], cwd=fresh, timeout_s=_LONG_S).check()
            run(["make", "-j2", "-C", "tests", "test-runner"], cwd=fresh, timeout_s=_LONG_S).check()
            fresh.rename(built)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    return built / "tests"


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_librdkafka(addresses: str, librdkafka: Path, protocol: str, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    for name, program in _COMMANDS.items():
        script = tmp_path / "bin" / name
        script.write_text(f'#!/bin/sh\nexec {shlex.join(tools().command(program))} "$@"\n')
        script.chmod(0o700)
    conf = tmp_path / "test.conf"
    conf.write_text(f"bootstrap.servers={addresses}\ntest.timeout.multiplier=3\ntest.topic.random=true\n")
    env = {
        "BROKERS": addresses,
        "KAFKA_PATH": str(tmp_path),
        "LD_LIBRARY_PATH": f"{librdkafka.parent / 'src'}:{librdkafka.parent / 'src-cpp'}",
        "RDKAFKA_TEST_CONF": str(conf),
        "TESTS_SKIP": ",".join(_NOT_RUN),
        "TEST_CONSUMER_GROUP_PROTOCOL": protocol,
        "TEST_KAFKA_VERSION": VERSION,
        "TEST_LEVEL": "1",
    }
    done = run([str(librdkafka / "test-runner"), "-L", "-K", "-Q", "-p2"], cwd=librdkafka, env=env, timeout_s=_LONG_S)
    text = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout)
    outcomes = dict(re.findall(r"^\| (\d{4}\w+) +\| +(PASSED|FAILED|SKIPPED) \|", text, re.MULTILINE))
    failed = {name for name, outcome in outcomes.items() if outcome == "FAILED"}
    assert failed <= _IN_A_HURRY.keys(), text[-20_000:]
    assert sum(outcome == "PASSED" for outcome in outcomes.values()) >= 80


def test_confluent_kafka_python(tmp_path: Path) -> None:
    done = run_confluents_tests(tmp_path, timeout_s=_LONG_S)
    failed = set(re.findall(r"^(?:FAILED|ERROR) tests/integration/(\S+)", done.stdout, re.MULTILINE))
    assert failed - _CONFLUENT_FAILS.keys() == set(), done.stdout[-20_000:]
    assert int(re.findall(r"(\d+) passed", done.stdout)[-1]) >= 289


@pytest.mark.parametrize("form", ["avro", "json", "protobuf"])
def test_confluents_examples_with_our_schemas(form: str, tmp_path: Path) -> None:
    folder = check_out_examples(tmp_path)
    answers = ["Ada", "1 Main Street", "7", "blue"]
    if form == "protobuf":
        del answers[1]  # it asks for no address
    with EmbeddedCluster(data_dir=":memory:", schema_registry=True) as cluster:
        assert cluster.schema_registry_url is not None
        where = "-b", cluster.bootstrap_servers, "-s", cluster.schema_registry_url, "-t", "users"
        written = write_by_example(folder, f"{form}_producer.py", *where, answers=[*answers, *answers])
        assert written.count("successfully produced to users [0]") == 2, written
        seen = read_by_example(folder, f"{form}_consumer.py", *where, "-g", form, until="blue")
    assert re.search(r"name: Ada\s+favorite_number: 7\s+favorite_color: blue", seen), seen
