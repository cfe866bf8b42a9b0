"""The part of the pytest plugin for rights: users, ``@pytest.mark.kafka_acls``, and ``--kafka-acls=record|check``.

============================  ===================================================================================
``kafka_cluster_users``       fixture of scope session: passwords by name. Define it in ``conftest.py``
``@pytest.mark.kafka_acls``   the rules for one test. All other rights are denied to its users
``--kafka-acls=record``       write the rules that each test needs into a file beside its module
``--kafka-acls=check``        run each test with these rules alone, and name the ones that are missing
============================  ===================================================================================

Rules
1. Rights are those of users who have logged in. The clients of the other fixtures may do anything.
2. A test without a mark may do anything, unless ``--kafka-acls`` is given. A test with a mark has a list of its own, so
   that ``--kafka-acls`` does not concern it.
3. Only tests that pass are recorded. The parameters of a test share one list. A test in a class has the name of the
   class before its own, such as ``TestShop::test_orders``.
4. With pytest-xdist the workers send their records to the first process, which writes the files.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from pyconsumer.testing.acl_lists import fill_in, list_of, pattern_in, rules_of, write_list

if TYPE_CHECKING:
    from pyconsumer.acls import AclBinding
    from pyconsumer.broker import EmbeddedCluster
    from pyconsumer.broker.access.recorder import Question

__all__ = [
    "EVERYTHING",
    "cluster_options",
    "configure",
    "kafka_cluster_users",
    "pytest_addoption",
    "pytest_runtest_makereport",
    "pytest_sessionfinish",
    "pytest_terminal_summary",
    "pytest_testnodedown",
    "rights_of",
]

#: The rules for tests that have none.
EVERYTHING: Final = (
    "*: ALL topic *",
    "*: ALL group *",
    "*: ALL cluster",
    "*: ALL transactional_id *",
    "*: ALL delegation_token *",
)
_OUTPUT: Final = "pyconsumer_kafka_acls"

#: By file, then by test: lines with rules.
_Recorded = dict[str, dict[str, list[str]]]
_recorded: Final = pytest.StashKey[_Recorded]()
_record: Final = pytest.StashKey[tuple[Any, Any, str]]()
_passed: Final = pytest.StashKey[bool]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.getgroup("pyconsumer").addoption(
        "--kafka-acls",
        choices=("record", "check"),
        help="record: write the rights that each test of kafka_cluster needs into a file beside its module. check: run"
        " each test with these rights alone.",
    )


def configure(config: pytest.Config) -> None:
    """Register the mark. :mod:`.plugin` has the hooks of this module, and calls this one."""
    config.addinivalue_line(
        "markers",
        "kafka_acls(*rules): the rights of the users in this test, such as 'alice: READ topic orders'. {kafka_topic}"
        " and {kafka_group} stand for the names that the fixtures have made",
    )
    config.stash[_recorded] = {}


@pytest.fixture(scope="session")
def kafka_cluster_users() -> Mapping[str, str]:
    """Passwords of the users of ``kafka_cluster``, by name. By default it has none, and no logins and rights."""
    return {}


def cluster_options(users: Mapping[str, str]) -> dict[str, Any]:
    """Return the options of a cluster with users. Clients that do not log in may do anything."""
    if not users:
        return {}
    return {"users": users, "acls": EVERYTHING, "listeners": ("PLAINTEXT", "SASL_PLAINTEXT")}


@contextmanager
def rights_of(request: pytest.FixtureRequest, run: str, *, has_users: bool) -> Iterator[None]:
    """Give the users of a test its rights while a block runs.

    Args:
        run: the random part of the names in this run.
    """
    item: Any = request.node
    marks = list(item.iter_markers("kafka_acls"))
    mode = request.config.getoption("--kafka-acls", None)
    if marks and not has_users:
        raise pytest.UsageError("kafka_acls needs users: define the fixture kafka_cluster_users in conftest.py")
    if not has_users or not (marks or mode):
        yield
        return
    cluster: EmbeddedCluster = request.getfixturevalue("kafka_cluster")
    if marks:
        cluster.set_acls(*_marked(request, marks))
        yield
        return
    path = list_of(Path(item.path))
    if mode == "check":
        cluster.set_acls(*rules_of(path, _name_of(item)))
    record = cluster.begin_record(allow_all=mode == "record")
    item.stash[_record] = (cluster, record, run)
    try:
        yield
    finally:
        cluster.end_record()
        del item.stash[_record]
    if mode == "record" and item.stash.get(_passed, False):
        record.check()
        lines = request.config.stash[_recorded].setdefault(str(path), {}).setdefault(_name_of(item), [])
        lines += [str(acl) for acl in _rules(record.questions, run)]


def _name_of(item: Any) -> str:
    """Return the name of a test in a list: that of its classes and of the function, without parameters."""
    classes = [node.name for node in item.listchain() if isinstance(node, pytest.Class)]
    return "::".join([*classes, item.originalname])


def _marked(request: pytest.FixtureRequest, marks: list[pytest.Mark]) -> list[str]:
    lines = [str(rule) for mark in marks for rule in mark.args]
    if any(mark.kwargs for mark in marks):
        raise pytest.UsageError("kafka_acls takes rules, such as kafka_acls('alice: READ topic orders')")
    names = {
        name: request.getfixturevalue(name)
        for name in ("kafka_topic", "kafka_group")
        if any(f"{{{name}}}" in line for line in lines)
    }
    return [fill_in(line, names) for line in lines]


def _rules(questions: Sequence[Question], run: str) -> list[AclBinding]:
    """Return the rules that grant all that was asked for, with the names of this run as prefixes."""
    from pyconsumer.acls import ResourceType
    from pyconsumer.broker.access.recorder import needed_acls

    # Groups and transactions of other tests are in lists, too.
    own = [
        question
        for question in questions
        if not question.hides or question.resource_type is ResourceType.TOPIC or f"-{run}-" in (question.name or "")
    ]
    return needed_acls(own, lambda name: pattern_in(run, name))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, None]:
    """Note whether a test has passed. Add the rules that were missing to the report of a failure."""
    outcome = yield
    report: pytest.TestReport = outcome.get_result()
    if report.when == "call":
        item.stash[_passed] = report.passed
    if report.failed and _record in item.stash and item.config.getoption("--kafka-acls") == "check":
        cluster, record, run = item.stash[_record]
        cluster.update_record()
        missing = _rules([question for question in record.questions if not question.allowed], run)
        if missing:
            name = list_of(Path(item.path)).name
            report.sections.append((f"Kafka ACLs that are not in {name}", "\n".join(map(_explained, missing))))


def _explained(acl: AclBinding) -> str:
    return f"{acl}{' (or READ, WRITE, DELETE or ALTER)' if acl.operation.name == 'DESCRIBE' else ''}"


def _merge(into: _Recorded, found: Mapping[str, Mapping[str, list[str]]]) -> None:
    for path, tests in found.items():
        for test, lines in tests.items():
            into.setdefault(path, {}).setdefault(test, []).extend(lines)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Take the records of a worker of pytest-xdist."""
    _merge(node.config.stash[_recorded], getattr(node, "workeroutput", {}).get(_OUTPUT, {}))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the lists, or send the rules to the first process."""
    recorded = session.config.stash.get(_recorded, {})
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output[_OUTPUT] = recorded
        return
    from pyconsumer.acls import parse_acl

    for path, tests in recorded.items():
        rules = {test: [acl for line in lines for acl in parse_acl(line)] for test, lines in tests.items()}
        write_list(Path(path), rules)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Name the files that were written."""
    for path, tests in sorted(config.stash.get(_recorded, {}).items()):
        terminalreporter.write_line(f"Kafka ACLs of {len(tests)} tests: {path}")
