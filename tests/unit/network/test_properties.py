"""Settings from a properties file, as Kafka's tools read them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyconsumer.cli.properties import client_properties, read_properties

from pyconsumer.cli import _run, topics
from pyconsumer.errors import ConfigurationError


def file(folder: Path, text: str) -> str:
    path = folder / "client.properties"
    path.write_text(text)
    return str(path)


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
    assert client_properties(file(tmp_path, text)) == {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "u",
        "sasl.password": "p=q",
    }


def test_errors_name_file_and_line_and_no_value(tmp_path: Path) -> None:
    path = file(tmp_path, "a=1\n\nsasl.jaas.config=s3cr3t\n")
    with pytest.raises(ConfigurationError, match=r"line 3: sasl\.jaas\.config") as caught:
        client_properties(path)
    assert str(caught.value).startswith(path)
    assert "s3cr3t" not in str(caught.value)


def test_a_login_of_kafkas_tools_is_read_without_spark(tmp_path: Path) -> None:
    path = file(tmp_path, "sasl.jaas.config=PlainLoginModule required username=u password=p;\n")
    program = (
        "import sys; sys.modules.update(dict.fromkeys(('pyspark', 'pyarrow', 'pyconsumer.spark')));"
        "from pyconsumer.cli.properties import client_properties;"
        "print(client_properties(sys.argv[1])['sasl.password'])"
    )
    done = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("p\n", "")


def test_commands_take_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    made: list[dict[str, Any]] = []

    def admin(options: dict[str, Any]) -> None:
        made.append(options)
        raise ConfigurationError("enough")

    monkeypatch.setattr(topics, "KafkaAdminClient", admin)
    path = file(tmp_path, "sasl_plain_password=p\nclient.id=x\n")
    assert _run(["topics", "list", "--config", "client.id=y", "--command-config", path]) == 2
    assert made == [{"bootstrap_servers": "localhost:9092", "sasl.plain.password": "p", "client.id": "y"}]
    assert "Warning" not in capsys.readouterr().err
    _run(["topics", "list", "--config", "sasl.password=s3cr3t"])
    shown = capsys.readouterr().err
    assert "--command-config" in shown
    assert "s3cr3t" not in shown


def test_a_broker_takes_a_file_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyconsumer.broker

    calls: list[dict[str, Any]] = []
    monkeypatch.setattr(pyconsumer.broker, "run_broker", lambda **given: calls.append(given) or 0, raising=False)
    path = file(tmp_path, "num.partitions=4\nlog.retention.ms=1000\n")
    assert _run(["broker", "--config", "num.partitions=5", "--config-file", path]) == 0
    assert calls[0]["config"] == {"num.partitions": "5", "log.retention.ms": "1000"}
