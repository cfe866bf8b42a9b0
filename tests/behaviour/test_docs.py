"""The code in the documentation runs as it is printed, and prints the output below it."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from pyconsumer.broker.ports import hold_port
from tests.support.certificates import Certificates
from tests.support.cluster import Cluster
from tests.support.process import run

ROOT = Path(__file__).parents[2]
_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_MARK = "-- next block"
#: Spark takes half a minute to start; its code is tested with the examples.
_NOT_HERE = "pyconsumer.spark"


def _blocks(page: str) -> list[tuple[str, str]]:
    return [(found[1], found[2]) for found in _FENCE.finditer((ROOT / page).read_text(encoding="utf-8"))]


def _run_python(page: str, folder: Path, servers: str, files: Mapping[str, Path] | None = None) -> None:
    """Run the code of a page. ``files`` are those that it names."""
    script: list[str] = []
    wanted: list[str | None] = []
    for language, text in _blocks(page):
        if language == "python" and _NOT_HERE not in text:
            # A loop without end runs three times, and the address is that of the test's broker.
            script.append(text.replace("while True:\n        records", "for _ in range(3):\n        records"))
            wanted.append(None)
        elif language == "text" and wanted:  # before the first program it is what a command prints
            wanted[-1] = text
    whole = f"print({_MARK!r}, flush=True)\n".join(script).replace("localhost:9092", servers)
    for name, path in (files or {}).items():
        whole = whole.replace(f'"{name}"', repr(str(path)))
    program = folder / "page.py"
    program.write_text(whole, "utf-8")
    finished = run([sys.executable, "-W", "error", str(program)], timeout_s=90, cwd=ROOT).check()
    printed = re.split(rf"^{_MARK}\n", finished.stdout, flags=re.MULTILINE)
    assert len(printed) == len(wanted)
    for text, expected in zip(printed, wanted, strict=True):
        if expected is not None:
            assert text == expected


@pytest.mark.slow
def test_the_code_of_the_guide_runs(tmp_path: Path) -> None:
    _run_python("docs/guide.md", tmp_path, "not-used:1")


@pytest.mark.slow
def test_the_code_of_the_page_about_asyncio_runs(tmp_path: Path) -> None:
    _run_python("docs/asyncio.md", tmp_path, "not-used:1")


@pytest.mark.slow
def test_the_code_of_the_page_about_work_runs(tmp_path: Path, new_cluster: Callable[..., Cluster]) -> None:
    _run_python("docs/work.md", tmp_path, new_cluster("embedded").bootstrap_servers)


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", ["docs/observability.md", "docs/operations.md", "docs/porting.md", "docs/schemas.md", "docs/security.md"]
)
def test_the_code_of_a_page_runs(page: str, tmp_path: Path, certificates: Certificates) -> None:
    files = {"server.pem": certificates.server_pem, "clients-ca.pem": certificates.ca_pem}
    _run_python(page, tmp_path, "not-used:1", files)


@pytest.mark.slow
def test_both_programs_of_the_page_for_confluent_kafka_run(tmp_path: Path, new_cluster: Callable[..., Cluster]) -> None:
    embedded = new_cluster("embedded")  # of its own: the offsets are those of the page
    script = (ROOT / "docs" / "porting-confluent.md").read_text("utf-8")
    assert script.count("```python") == 2
    embedded.create_topic("orders", 1)
    first, second = (text for language, text in _blocks("docs/porting-confluent.md") if language == "python")
    wanted = [text for language, text in _blocks("docs/porting-confluent.md") if language == "text"]
    for program, expected in zip((first, second), wanted, strict=True):
        page = tmp_path / "page.py"
        page.write_text(program.replace("localhost:9092", embedded.bootstrap_servers), "utf-8")
        assert run([sys.executable, str(page)], timeout_s=90, cwd=ROOT).check().stdout == expected


_INI = """\
[pytest]
asyncio_mode = strict
asyncio_default_fixture_loop_scope = function
filterwarnings = error
"""


@pytest.mark.slow
def test_the_tests_of_the_page_about_tests_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page is one module of tests, which a pytest of its own runs as a user's would."""
    text = "\n\n".join(block for language, block in _blocks("docs/testing.md") if language == "python")
    (tmp_path / "test_page.py").write_text(text, "utf-8")
    (tmp_path / "pytest.ini").write_text(_INI, "utf-8")
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    plugins = ["-p", "pyconsumer.testing.plugin", "-p", "pytest_asyncio.plugin"]
    command = [sys.executable, "-m", "pytest", "-q", "-rA", *plugins, str(tmp_path)]
    environment = {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    finished = run(command, timeout_s=120, cwd=tmp_path, env=environment).check()
    passed = re.findall(r"^PASSED .*::(\w+)", finished.stdout, re.MULTILINE)
    assert sorted(passed) == sorted(re.findall(r"^(?:async )?def (test_\w+)", text, re.MULTILINE))
    assert len(passed) > 12


@pytest.mark.slow
def test_the_code_of_the_readme_runs(tmp_path: Path, new_cluster: Callable[..., Cluster]) -> None:
    embedded = new_cluster("embedded")  # of its own: the offsets are those of the page
    embedded.create_topic("flights", 1)  # as many partitions as a broker gives it that is started by the command
    _run_python("README.md", tmp_path, embedded.bootstrap_servers)


@pytest.mark.slow
def test_the_commands_of_the_operations_page_work(tmp_path: Path, new_cluster: Callable[..., Cluster]) -> None:
    embedded = new_cluster("embedded")  # of its own: topics have the names of the page
    lines = [
        line.removeprefix("$ ")
        for language, text in _blocks("docs/operations.md")
        if language == "console"
        for line in text.splitlines()
        if line.startswith("$ ") and not re.match(r"\$ pyconsumer (broker|demo)", line)
    ]
    assert len(lines) > 5
    script = tmp_path / "commands.sh"
    script.write_text('set -eux\npyconsumer() { "$PYTHON" -m pyconsumer "$@"; }\n' + "\n".join(lines) + "\n", "utf-8")
    environment = {
        "PYTHON": sys.executable,
        "PYCONSUMER_BOOTSTRAP_SERVERS": embedded.bootstrap_servers,
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
    }
    run(["sh", str(script)], timeout_s=90, cwd=tmp_path, env=environment).check()


@pytest.mark.slow
def test_the_commands_of_the_page_about_security_work(tmp_path: Path) -> None:
    lines = [text for language, text in _blocks("docs/security.md") if language == "sh"]
    assert len(lines) > 5
    with hold_port("127.0.0.1", 0) as held:
        port = held.getsockname()[1]
    script = tmp_path / "commands.sh"
    # An exec, so that the number of the background job is the broker's own.
    start = 'set -eux\npyconsumer() { "$PYTHON" -m pyconsumer "$@"; }\n'
    text = "".join(lines).replace("9092", str(port)).replace("pyconsumer broker", 'exec "$PYTHON" -m pyconsumer broker')
    script.write_text(start + text, "utf-8")
    folder = tmp_path / "empty"
    folder.mkdir()
    environment = {
        "PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
    }
    try:
        done = run(["sh", str(script)], timeout_s=60, cwd=folder, env=environment).check()
    finally:
        if (folder / "broker.pid").exists():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int((folder / "broker.pid").read_text()), signal.SIGKILL)
    assert "a first order\n" in done.stdout
    assert "an idempotent producer needs WRITE on at least one topic" in done.stderr
    assert "created bob (SCRAM-SHA-512)\n" in done.stdout
    assert "User:bob\tALLOW\tWRITE\ttopic\torders\tliteral\t*\n" in done.stdout
