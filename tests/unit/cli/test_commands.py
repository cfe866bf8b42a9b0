"""Commands without a cluster: their calls, their output, and their errors for missing parts."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import pyconsumer.__main__ as entry_point
import pyconsumer.broker
from pyconsumer.cli import _run
from pyconsumer.cli.options import console, print_table, table
from pyconsumer.protocol.version_text import version_text


@pytest.mark.parametrize("width", [30, 200])
def test_tables_show_whole_and_unchanged_names(capsys: pytest.CaptureFixture[str], width: int) -> None:
    name = "svc:package:v1-[bold]-" + "x" * 300
    groups = table("group", "state")
    groups.add_row(name, "Stable")
    out = console(markup=False)
    out.width = width
    out.print(groups)
    lines = capsys.readouterr().out.splitlines()
    assert "".join(line.split("│")[1].strip() for line in lines if line.startswith("│")) == name
    assert max(map(len, lines)) <= width


def test_tables_without_a_terminal_are_plain_lines_with_tabs(capsys: pytest.CaptureFixture[str]) -> None:
    listing = table("group", "lag", right=("lag",))
    listing.add_row("svc\t" + "x" * 300, 1_234_567)
    listing.add_row("b", None)
    print_table(console(markup=False), listing)
    assert capsys.readouterr().out == "group\tlag\nsvc\\t" + "x" * 300 + "\t1234567\nb\t-\n"
    print_table(Console(force_terminal=True, color_system=None, width=80), listing)
    shown = capsys.readouterr().out
    assert "│ 1,234,567 │" in shown
    assert "│         - │" in shown


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_commands(
    shell: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _run(["completion", shell]) == 0
    assert f"_PYCONSUMER_COMPLETE={shell}_complete" in capsys.readouterr().out
    monkeypatch.setenv("_PYCONSUMER_COMPLETE", f"{shell}_complete")
    for words, wanted in (("pyconsumer top", "topics"), ("pyconsumer topics al", "alter"), ("pyconsumer nosuch ", "")):
        last = words.rpartition(" ")[2]
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", last if shell == "fish" else str(words.count(" ")))
        with pytest.raises(SystemExit) as ended:
            _run([])
        assert ended.value.code == 0
        assert wanted in capsys.readouterr().out


def test_a_broker_gets_its_advertised_host(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[dict[str, Any]] = []
    monkeypatch.setattr(pyconsumer.broker, "run_broker", lambda **given: calls.append(given) or 0, raising=False)
    assert _run(["broker", "--host", "0.0.0.0", "--advertised-host", "kafka.example.com"]) == 0
    assert _run(["broker"]) == 0
    assert [(call["host"], call["advertised_host"]) for call in calls] == [
        ("0.0.0.0", "kafka.example.com"),
        ("127.0.0.1", None),
    ]


def test_ports_beyond_the_last_one_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(["broker", "--port", "65535", "--brokers", "2"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("Error: there is no port 65536")
    assert err.count("\n") == 1


@pytest.mark.parametrize("arguments", [("archive", "t", "--to", "a"), ("replay", "a", "--to", "t")])
def test_without_spark_the_error_names_the_package_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] in ("pyspark", "py4j")]:
        monkeypatch.delitem(sys.modules, name)
    for name in [name for name in sys.modules if name.startswith("pyconsumer.spark")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr(sys.modules["pyconsumer"], "spark", raising=False)
    for name in ("py4j", "pyspark"):
        monkeypatch.setitem(sys.modules, name, None)
    assert _run(arguments) == 1
    assert "pip install 'pyconsumer[spark]'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("host", "warned"),
    [("0.0.0.0", True), ("::", True), ("192.0.2.7", True), ("name", True)]
    + [(host, False) for host in ("127.0.0.1", "::1", "localhost", "127.1.2.3")],
)
def test_a_broker_that_other_hosts_can_reach_warns(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], host: str, warned: bool
) -> None:
    monkeypatch.setattr(pyconsumer.broker, "run_broker", lambda **given: 0, raising=False)
    assert _run(["broker", "--host", host]) == 0
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == warned
    assert all(f"listens on {host} without authentication" in line for line in errors)


def test_a_broker_with_a_certificate_alone_is_not_said_to_be_without_encryption(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pyconsumer.broker, "run_broker", lambda **given: 0, raising=False)
    assert _run(["broker", "--host", "0.0.0.0", "--tls-cert", "cert.pem"]) == 0
    assert "listens on 0.0.0.0 without authentication: anybody" in capsys.readouterr().err


def test_a_broker_with_an_empty_file_of_users_does_not_start(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(pyconsumer.broker, "run_broker", lambda **given: 0, raising=False)
    path = tmp_path / "users.properties"
    path.write_text("# alice=secret\n")
    assert _run(["broker", "--users", str(path)]) == 2
    assert "users.properties: the file has no users" in capsys.readouterr().err


@pytest.mark.parametrize("registry", [True, False])
def test_users_do_not_guard_the_schema_registry(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, registry: bool
) -> None:
    monkeypatch.setattr(pyconsumer.broker, "run_broker", lambda **given: 0, raising=False)
    path = tmp_path / "users.properties"
    path.write_text("alice=secret\n")
    assert _run(["broker", "--users", str(path), *(["--schema-registry", "0"] if registry else [])]) == 0
    assert ("--users does not hold for the Schema Registry" in capsys.readouterr().err) is registry


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"alice: READ topic a\n@more.acls\n", "a file cannot name another one: @more.acls"),
        (b"J\xf6rg: READ topic a\n", "the file is not UTF-8"),
    ],
)
def test_a_file_of_rules_that_is_wrong_adds_no_rule(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, content: bytes, text: str
) -> None:
    path = tmp_path / "rules.acls"
    path.write_bytes(content)
    assert _run(["acls", "add", f"@{path}", "--bootstrap-servers", "127.0.0.1:1"]) == 2
    assert f"rules.acls: {text}" in capsys.readouterr().err


def test_a_password_that_is_not_utf_8_is_a_mistake(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "password"
    path.write_bytes(b"gr\xfcn\n")
    arguments = ["users", "set", "alice", "--password-file", str(path), "--bootstrap-servers", "127.0.0.1:1"]
    assert _run(arguments) == 2
    assert "the file is not UTF-8" in capsys.readouterr().err


def test_a_key_without_a_certificate_is_a_mistake(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pyconsumer.broker, "run_broker", lambda **given: 0, raising=False)
    assert _run(["broker", "--tls-key", "key.pem"]) == 2
    assert "--tls-key needs --tls-cert" in capsys.readouterr().err


@pytest.fixture
def no_click(monkeypatch: pytest.MonkeyPatch) -> None:
    """An installation without the extra ``cli``."""
    for name in ("click", "rich"):
        monkeypatch.setitem(sys.modules, name, None)


@pytest.mark.usefixtures("no_click")
@pytest.mark.parametrize("arguments", [["topics", "list"], ["--help"], []])
def test_without_its_packages_the_command_names_in_one_line_the_packages_to_install(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["pyconsumer", *arguments])
    with pytest.raises(SystemExit) as ended:
        entry_point.main()
    # Python prints a text to standard error, and exits with status 1.
    assert ended.value.code == "Error: this command needs click and rich: pip install 'pyconsumer[cli]'"


@pytest.mark.usefixtures("no_click")
def test_the_version_needs_no_package(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["pyconsumer", "--version"])
    entry_point.main()
    first, *codecs = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"pyconsumer \d+\..*, record decoder: .*", first)
    assert [line.split()[0] for line in codecs] == ["gzip", "snappy", "lz4", "zstd", "snappy,", "CRC-32C"]


def test_the_version_is_the_same_with_all_packages(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["pyconsumer", "--version"])
    with pytest.raises(SystemExit) as ended:
        entry_point.main()
    assert ended.value.code == 0
    assert capsys.readouterr().out.strip() == version_text(pyconsumer.__version__)


def test_only_the_command_needs_click_and_rich() -> None:
    settings = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text("utf-8"))["project"]
    base = {re.split(r"[<>=;]", each)[0].strip() for each in settings["dependencies"]}
    assert not base & {"click", "rich"}
    assert {re.split(r"[<>=;]", each)[0] for each in settings["optional-dependencies"]["cli"]} == {"click", "rich"}
    assert settings["scripts"]["pyconsumer"] == "pyconsumer.__main__:main"
