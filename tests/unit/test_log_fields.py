"""The loggers: the table of the docs against the tree, and the client's names on each record."""

from __future__ import annotations

import gc
import json
import logging
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pyconsumer
from pyconsumer import background_log
from pyconsumer.log_fields import LOGGERS, client_of, escaped

PACKAGE = Path(pyconsumer.__file__).parent
DOCS = PACKAGE.parent / "docs" / "observability.md"
_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
_MADE = re.compile(r'(?:logging\.getLogger|\bLog)\(\s*(__name__|"(pyconsumer\.[^"]*)")')
_CALLED = re.compile(r"\b(?:_log|log)\.(debug|info|warning|error|exception)\b")
_COMPUTED = re.compile(r"\b(?:_log|log)\.log\(")  # with a level that the module names elsewhere
_LEVEL = re.compile(r"\blogging\.(DEBUG|INFO|WARNING|ERROR)\b")
#: Logs by the logs of others.
_BORROWED = {"consumer/coordinator": "pyconsumer.consumer.coordinator"}
_GROUPED = ("pyconsumer.broker.",)


def in_the_tree() -> dict[str, set[str]]:
    """Return the levels of each logger. Those of the broker's modules are one."""
    found: dict[str, set[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        made = _MADE.search(text)
        place = path.relative_to(PACKAGE)
        if made:
            name = made[2] or ".".join(("pyconsumer", *place.with_suffix("").parts))
        else:
            name = _BORROWED.get(place.parent.as_posix(), "")
        levels = {"ERROR" if level == "exception" else level.upper() for level in _CALLED.findall(text)}
        levels |= set(_LEVEL.findall(text)) if _COMPUTED.search(text) else set()
        if name and levels:
            name = next((f"{group}*" for group in _GROUPED if name.startswith(group)), name)
            found.setdefault(name, set()).update(levels)
    return found


def in_the_docs() -> dict[str, set[str]]:
    rows = re.findall(r"^\| `(pyconsumer\.[\w.*]+)` \| ([A-Z, ]+) \|", DOCS.read_text(encoding="utf-8"), re.M)
    return {name: set(levels.split(", ")) for name, levels in rows}


def test_the_table_of_loggers_is_that_of_the_tree() -> None:
    assert in_the_docs() == in_the_tree()
    assert set.union(*in_the_docs().values()) == set(_LEVELS)


def test_the_loggers_of_clients_have_the_fields() -> None:
    of_clients = {
        name
        for name in in_the_tree()
        if name not in ("pyconsumer.authorizer", "pyconsumer.broker.*", "pyconsumer.spark")
    }
    assert of_clients == set(LOGGERS)


class _Settings:
    client_id = "billing-1"
    group_id = "billing"


def _part_of_a_client(module: str) -> object:
    """Return an object of a class of another module, with a method that looks for its client."""
    source = "import sys\nclass Part:\n    def look(self, client_of):\n        return client_of(sys._getframe())\n"
    space: dict[str, object] = {"__name__": module}
    exec(source, space)
    part = space["Part"]()  # type: ignore[operator]
    part.config = _Settings()
    return part


def test_a_client_is_found_on_the_stack_and_no_object_of_the_application() -> None:
    assert _part_of_a_client("pyconsumer.some.part").look(client_of) == ("billing-1", "billing")  # type: ignore[attr-defined]
    assert _part_of_a_client("application").look(client_of) == (None, None)  # type: ignore[attr-defined]


def test_a_function_that_has_logged_keeps_no_object_that_it_drops() -> None:
    source = """
def work(make, client_of):
    import sys, weakref
    local = make()
    seen = weakref.ref(local)
    client_of(sys._getframe())
    del local
    return seen()
"""
    space: dict[str, Any] = {"__name__": "pyconsumer.some.part"}
    exec(source, space)
    gc.disable()  # so that a cycle is not collected in the meantime
    try:
        assert space["work"](_Settings, client_of) is None
    finally:
        gc.enable()


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Iterator[list[str]]:
    """Lines that a JSON formatter makes."""
    found: list[str] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(json.dumps({"client": record.client_id, "group": record.group_id, "text": record.msg}))  # type: ignore[attr-defined]

    handler = Handler()
    logger = logging.getLogger("pyconsumer.consumer")
    logger.addHandler(handler)
    caplog.set_level(logging.INFO, "pyconsumer.consumer")
    yield found
    logger.removeHandler(handler)


def test_lines_without_a_client_have_the_fields_too(lines: list[str]) -> None:
    logging.getLogger("pyconsumer.consumer").info("at once")
    log = background_log.Log("pyconsumer.consumer")

    def write() -> None:
        with background_log.background():
            log.info("later")

    thread = threading.Thread(target=write)
    thread.start()
    thread.join()
    assert background_log.flush()
    assert [json.loads(line) for line in lines] == [
        {"client": None, "group": None, "text": text} for text in ("at once", "later")
    ]


class _Client:
    """A client of the package, as the log sees it."""

    def __init__(self, client_id: str, group_id: str | None) -> None:
        self.config = _Settings()
        self.config.client_id = client_id
        self.config.group_id = group_id  # type: ignore[assignment]

    def log(self, *line: object) -> None:
        logging.getLogger("pyconsumer.consumer").info(*line)


_Client.__module__ = "pyconsumer.some.part"
_LOGS_AS_A_PART = "def log(self, *line):\n    import logging\n    logging.getLogger('pyconsumer.consumer').info(*line)"


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> type[_Client]:
    space: dict[str, Any] = {"__name__": "pyconsumer.some.part"}
    exec(_LOGS_AS_A_PART, space)
    monkeypatch.setattr(_Client, "log", space["log"])
    return _Client


def test_the_text_begins_with_the_names_of_the_client(client: type[_Client], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "pyconsumer.consumer")
    client("billing-1", "billing").log("read %d records", 5)
    client("50%s", None).log("no %s here: 100%")
    client("50%s", None).log("%s records", 3)
    client("c", "g").log("[group_instance_id=i, client_id=c, group_id=g] a member's line")
    assert caplog.messages == [
        "[client_id=billing-1, group_id=billing] read 5 records",
        "[client_id=50%s] no %s here: 100%",
        "[client_id=50%s] 3 records",
        "[group_instance_id=i, client_id=c, group_id=g] a member's line",
    ]
    logging.getLogger("pyconsumer.consumer").handle(caplog.records[0])  # as a listener of a queue does
    assert caplog.messages[-1] == caplog.messages[0]


@pytest.mark.parametrize("name", ['a"b', "back\\slash", "two\nlines", "a\rreturn", "\x1b[31mred", "a\u2028b", "%s"])
def test_a_name_stays_on_its_line_and_the_fields_have_it_as_it_is(name: str, caplog: pytest.LogCaptureFixture) -> None:
    log = logging.getLogger("pyconsumer.network")
    with caplog.at_level(logging.WARNING, log.name):
        log.warning("lost %s", "node 1", extra={"client_id": name, "group_id": name})
    (record,) = caplog.records
    (line,) = record.getMessage().splitlines()
    assert line.isprintable()
    assert line.endswith("] lost node 1")
    assert (vars(record)["client_id"], vars(record)["group_id"]) == (name, name)
    shown = line.removeprefix("[client_id=").removesuffix("] lost node 1").split(", group_id=")
    assert shown == [name if name.isprintable() else escaped(name)] * 2
