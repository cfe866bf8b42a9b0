"""Settings from properties files, as Kafka's tools read them, and from the environment."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import pyconsumer
import pyconsumer.aio
from pyconsumer.admin.config import ADMIN_SETTINGS
from pyconsumer.cli import _run, topics
from pyconsumer.consumer.config import CONSUMER_SETTINGS
from pyconsumer.errors import ConfigurationError
from pyconsumer.producer.config import PRODUCER_SETTINGS
from pyconsumer.settings.config import CLIENT_SETTINGS, Address
from pyconsumer.settings.properties import (
    OTHERS,
    Entry,
    configured_file,
    environment_entries,
    file_entries,
    from_file,
    read_properties,
    resolve,
)

CLIENTS = [
    pyconsumer.KafkaConsumer,
    pyconsumer.KafkaProducer,
    pyconsumer.KafkaAdminClient,
    pyconsumer.aio.AsyncKafkaConsumer,
    pyconsumer.aio.AsyncKafkaProducer,
    pyconsumer.aio.AsyncKafkaAdminClient,
]


@pytest.fixture(autouse=True)
def _empty_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYCONSUMER_CONFIG", "PYCONSUMER_BOOTSTRAP_SERVERS"):
        monkeypatch.delenv(name, raising=False)


def file(folder: Path, text: str) -> str:
    path = folder / "client.properties"
    path.write_text(text)
    return str(path)


def texts(entries: dict[str, Entry]) -> dict[str, str]:
    return {name: entry.text for name, entry in entries.items()}


# ---------------------------------------------------------------- files


def test_the_notation_of_properties_files(tmp_path: Path) -> None:
    text = "# a\n! b\n\na=1\nb: 2\n  c  3\nd = x\\\n   y\ne\\=f=\\u0041\\t\\\\\nempty=\n"
    values = {key: value for key, (value, _) in read_properties(file(tmp_path, text)).items()}
    assert values == {"a": "1", "b": "2", "c": "3", "d": "xy", "e=f": "A\t\\", "empty": ""}


def test_a_login_of_kafkas_tools(tmp_path: Path) -> None:
    text = (
        "security.protocol=SASL_PLAINTEXT\n"
        "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule \\\n"
        '  required username="u" password="p=q";\n'
    )
    given = from_file(CONSUMER_SETTINGS, file(tmp_path, text), {"bootstrap_servers": "h:1"})
    config = CONSUMER_SETTINGS.build(given)
    assert (config.sasl_mechanism, config.sasl_plain_username, config.sasl_plain_password) == ("PLAIN", "u", "p=q")


def test_errors_name_file_and_line_and_no_value(tmp_path: Path) -> None:
    path = file(tmp_path, "a=1\n\nsasl.jaas.config=s3cr3t\n")
    with pytest.raises(ConfigurationError, match=r"line 3: .*sasl\.jaas\.config.*login modules") as caught:
        resolve(CONSUMER_SETTINGS, {"sasl.jaas.config": file_entries(path)["sasl.jaas.config"]})
    assert str(caught.value).startswith(path)
    assert "s3cr3t" not in str(caught.value)
    entries = {"ssl.password": Entry("", f"{path}, line 7")}
    with pytest.raises(ConfigurationError, match=r"line 7: .*must not be empty"):
        resolve(CONSUMER_SETTINGS, entries)
    assert "s3cr3t" not in repr(Entry("s3cr3t", "here"))


@pytest.mark.parametrize("path", ["/no/such/file", "/", "a\0b"])
def test_a_file_that_cannot_be_read(path: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read"):
        file_entries(path)


def test_a_login_of_kafkas_tools_is_read_without_spark(tmp_path: Path) -> None:
    path = file(tmp_path, "sasl.jaas.config=PlainLoginModule required username=u password=p;\n")
    program = (
        "import sys; sys.modules.update(dict.fromkeys(('pyspark', 'pyarrow', 'pyconsumer.spark')));"
        "from pyconsumer.settings.properties import from_file;"
        "from pyconsumer.consumer.config import CONSUMER_SETTINGS;"
        "print(from_file(CONSUMER_SETTINGS, sys.argv[1], {})['sasl_jaas_config'].options['password'])"
    )
    done = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("p\n", "")


def test_settings_of_single_clients_are_those_of_the_tables() -> None:
    common = {setting.name for setting in CLIENT_SETTINGS}
    tables = (CONSUMER_SETTINGS, PRODUCER_SETTINGS, ADMIN_SETTINGS)
    own = [setting for table in tables for setting in table if setting.name not in common]
    assert {name.replace("_", ".") for setting in own for name in setting.names} == OTHERS


# ---------------------------------------------------------------- one file for all clients


def test_a_client_takes_its_own_settings_from_a_file_of_all(tmp_path: Path) -> None:
    text = "bootstrap.servers=h:1,i\ngroup.id=g\nacks=all\nlinger.ms=7\nretries=3\nmax.poll.records=9\n"
    entries = file_entries(file(tmp_path, text))
    servers = (Address("h", 1), Address("i", 9092))
    assert resolve(CONSUMER_SETTINGS, entries) == {"bootstrap_servers": servers, "group_id": "g", "max_poll_records": 9}
    producer = PRODUCER_SETTINGS.build(resolve(PRODUCER_SETTINGS, entries))
    assert (producer.linger_ms, producer.retries, producer.acks) == (7, 3, -1)
    assert resolve(ADMIN_SETTINGS, entries) == {"bootstrap_servers": servers, "retries": 3}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("fetch.max.byte=1", "no client has a setting 'fetch.max.byte': did you mean 'fetch.max.bytes'"),
        ("metadata.broker.list=h:1", "it is called bootstrap.servers"),
        ("max.poll.records=many", "setting max.poll.records: it must be a whole number, not 'many'"),
        ("group_id=h", "line 2 gives group_id another value"),
        ("value.deserializer=org.apache.kafka.common.serialization.StringDeserializer", "must be a function"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, line: str, reason: str) -> None:
    path = file(tmp_path, f"bootstrap.servers=h:1\ngroup.id=g\n{line}\n")
    with pytest.raises(ConfigurationError) as caught:
        from_file(CONSUMER_SETTINGS, path, {})
    assert str(caught.value).startswith(f"{path}, line 3: ")
    assert reason in str(caught.value)


# ---------------------------------------------------------------- environment and precedence


def test_the_program_counts_before_the_environment_and_that_before_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = file(tmp_path, "bootstrap.servers=file:1\nclient.id=file\ngroup.id=file\nsasl.password=file\n")
    monkeypatch.setenv("PYCONSUMER_GROUP_ID", "environment")
    monkeypatch.setenv("PYCONSUMER_CLIENT_ID", "environment")
    monkeypatch.setenv("PYCONSUMER_SASL_PLAIN_PASSWORD", "environment")  # another name of sasl.password
    monkeypatch.setenv("PYCONSUMER_PORT", "tcp://10.0.0.1:9092")  # as Kubernetes sets for a service of this name
    found = from_file(CONSUMER_SETTINGS, path, {"client.id": "program", "max_poll_records": 3})
    assert found == {
        "bootstrap_servers": (Address("file", 1),),
        "group_id": "environment",
        "sasl_plain_password": "environment",
        "client.id": "program",
        "max_poll_records": 3,
    }
    monkeypatch.setenv("PYCONSUMER_CONFIG", path)
    assert from_file(CONSUMER_SETTINGS, None, {})["bootstrap_servers"] == (Address("file", 1),)
    monkeypatch.setenv("PYCONSUMER_CONFIG", "/no/such/file")
    with pytest.raises(ConfigurationError, match=r"^PYCONSUMER_CONFIG: the file /no/such/file"):
        configured_file(None)
    assert from_file(CONSUMER_SETTINGS, path, {})["client_id"] == "environment", "a path that is given counts"


def test_variables_that_are_wrong(caplog: pytest.LogCaptureFixture) -> None:
    entries = environment_entries({"PYCONSUMER_MAX_POLL_RECORDS": "x", "PYCONSUMER_GROUPID": "g", "GROUP_ID": "h"})
    assert set(entries) == {"max.poll.records"}
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("pyconsumer.config", logging.WARNING)
    assert "PYCONSUMER_GROUPID names no setting and is ignored: did you mean PYCONSUMER_GROUP_ID?" in caplog.text
    with pytest.raises(ConfigurationError, match=r"^PYCONSUMER_MAX_POLL_RECORDS: consumer setting"):
        resolve(CONSUMER_SETTINGS, entries)
    jaas = {"PYCONSUMER_SASL_JAAS_CONFIG": 'a.PlainLoginModule required username="u" password="p";'}
    assert resolve(CONSUMER_SETTINGS, environment_entries(jaas))["sasl_jaas_config"].options["password"] == "p"


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.__name__)
def test_every_client_has_it(client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = file(tmp_path, "bootstrap.servers=h:1\ngroup.id=g\nlinger.ms=1\nrequest.timeout.ms=4000\n")
    monkeypatch.setenv("PYCONSUMER_REQUEST_TIMEOUT_MS", "5000")

    async def asynchronous() -> Any:
        async with client.from_file(path, client_id="mine") as made:
            return made.config

    if client.__module__.startswith("pyconsumer.aio"):
        config = asyncio.run(asynchronous())
    else:
        with client.from_file(path, client_id="mine") as made:
            config = made.config
    assert (config.bootstrap_servers, config.client_id) == ((Address("h", 1),), "mine")
    assert config.request_timeout_ms == 5000


def test_a_constructor_does_not_read_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYCONSUMER_GROUP_ID", "g")
    with pyconsumer.KafkaConsumer(bootstrap_servers="h:1") as consumer:
        assert consumer.config.group_id is None


def test_topics_are_subscribed(tmp_path: Path) -> None:
    path = file(tmp_path, "bootstrap.servers=h:1\n")
    with pyconsumer.KafkaConsumer.from_file(path, "a", "b") as consumer:
        assert consumer.subscription() == {"a", "b"}


# ---------------------------------------------------------------- commands


def test_commands_take_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    made: list[dict[str, Any]] = []

    def admin(options: dict[str, Any]) -> None:
        made.append(options)
        raise ConfigurationError("enough")

    monkeypatch.setattr(topics, "KafkaAdminClient", admin)
    path = file(tmp_path, "sasl_plain_password=p\nclient.id=x\ngroup.id=g\nbootstrap.servers=in-file:1\n")
    wanted = {"sasl_plain_password": "p", "client_id": "y"}
    for option in ("--config", "--command-config"):
        assert _run(["topics", "list", "--config", "client.id=y", option, path]) == 2
        assert made.pop() == {"bootstrap_servers": "in-file:1"} | wanted
    monkeypatch.setenv("PYCONSUMER_CLIENT_ID", "e")
    assert _run(["topics", "list", "--config", path, "-b", "argued:1"]) == 2
    assert made.pop() == {"bootstrap_servers": "argued:1"} | wanted | {"client_id": "e"}
    monkeypatch.setenv("PYCONSUMER_BOOTSTRAP_SERVERS", "environment:1")
    assert _run(["topics", "list", "--config", path]) == 2
    assert made.pop()["bootstrap_servers"] == "environment:1"
    monkeypatch.setenv("PYCONSUMER_CONFIG", path)
    monkeypatch.delenv("PYCONSUMER_BOOTSTRAP_SERVERS")
    assert _run(["topics", "list"]) == 2
    assert made.pop()["bootstrap_servers"] == "in-file:1"
    assert "Warning" not in capsys.readouterr().err
    _run(["topics", "list", "--config", "sasl.password=s3cr3t"])
    shown = capsys.readouterr().err
    assert "(--config FILE) or into the environment variable PYCONSUMER_SASL_PASSWORD" in shown
    assert "s3cr3t" not in shown
    made.clear()
    assert _run(["topics", "list", "--config", "group.id=g"]) == 2
    assert "unknown admin client setting 'group.id'" in capsys.readouterr().err, "on the command line it is a mistake"
    assert _run(["topics", "list", "--config", "no-such-file"]) == 2
    assert "'no-such-file' is not an existing file and not of the form KEY=VALUE" in capsys.readouterr().err
    assert made == []


def test_a_broker_takes_a_file_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyconsumer.broker

    calls: list[dict[str, Any]] = []
    monkeypatch.setattr(pyconsumer.broker, "run_broker", lambda **given: calls.append(given) or 0, raising=False)
    path = file(tmp_path, "num.partitions=4\nlog.retention.ms=1000\n")
    for option in ("--config", "--config-file"):
        assert _run(["broker", "--config", "num.partitions=5", option, path]) == 0
        assert calls.pop()["config"] == {"num.partitions": "5", "log.retention.ms": "1000"}
