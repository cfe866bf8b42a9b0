"""The interface, the blocking and the asyncio class of a client, and its mocks, have the same public names."""

from __future__ import annotations

import ast
import inspect
import pydoc
import re
import textwrap
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from pyconsumer import (
    Consumer,
    KafkaAdminClient,
    KafkaConsumer,
    KafkaProducer,
    KafkaShareConsumer,
    Producer,
    ShareConsumer,
)
from pyconsumer.aio import (
    AsyncConsumer,
    AsyncKafkaAdminClient,
    AsyncKafkaConsumer,
    AsyncKafkaProducer,
    AsyncKafkaShareConsumer,
    AsyncProducer,
    AsyncShareConsumer,
)
from pyconsumer.consumer.interface import ImmediateCalls
from pyconsumer.testing import (
    AsyncMockConsumer,
    AsyncMockProducer,
    AsyncMockShareConsumer,
    MockConsumer,
    MockProducer,
    MockShareConsumer,
)
from tests.support.make_async_interfaces import COMMAND, PATH, module
from tests.support.syntax_trees import parse

ROOT = Path(__file__).parents[2]

_CONSUMERS = (Consumer, KafkaConsumer, AsyncConsumer, AsyncKafkaConsumer, MockConsumer, AsyncMockConsumer)
_PRODUCERS = (Producer, KafkaProducer, AsyncProducer, AsyncKafkaProducer, MockProducer, AsyncMockProducer)
_SHARE_CONSUMERS = (
    ShareConsumer,
    KafkaShareConsumer,
    AsyncShareConsumer,
    AsyncKafkaShareConsumer,
    MockShareConsumer,
    AsyncMockShareConsumer,
)
_ADMIN_CLIENTS = (KafkaAdminClient, AsyncKafkaAdminClient)

_CREATES: Final = "creates a client from files; an interface and a mock have no settings"
_CLUSTER: Final = "the test takes the part of the cluster"
_STEPS: Final = "the mock for asyncio runs the same call"
_STATE: Final = "state of the mock that a test reads"

#: Public names that only some classes have: class, names, reason.
_OWN: list[tuple[type, str, str]] = [
    (KafkaConsumer, "from_file", _CREATES),
    (AsyncKafkaConsumer, "from_file", _CREATES),
    (KafkaProducer, "from_file", _CREATES),
    (KafkaShareConsumer, "from_file", _CREATES),
    (AsyncKafkaShareConsumer, "from_file", _CREATES),
    (MockShareConsumer, "add_record add_records expire_locks fail_next", _CLUSTER),
    (MockShareConsumer, "poll_steps poll_arrow_steps commit_steps close_steps", _STEPS),
    (AsyncMockShareConsumer, "closed", _STATE),
    (AsyncKafkaProducer, "from_file", _CREATES),
    (MockConsumer, "add_record add_records update_beginning_offsets update_end_offsets update_partitions", _CLUSTER),
    (MockConsumer, "rebalance lose fail_next set_poll_error schedule_poll_task", _CLUSTER),
    (MockConsumer, "poll_steps rebalance_steps lose_steps unsubscribe_steps close_steps leave", _STEPS),
    (AsyncMockConsumer, "rebalance lose", _CLUSTER),
    (AsyncMockConsumer, "closed", _STATE),
    (MockProducer, "complete_next error_next fail_next fence clear", _CLUSTER),
    (MockProducer, "history uncommitted offsets_history sent_offsets pending in_transaction", _STATE),
    (AsyncMockProducer, "closed", _STATE),
    *((each, "send_and_wait", "awaits two things in one call") for each in _PRODUCERS if "Async" in each.__name__),
]


def public_names(client: type) -> set[str]:
    return {name for name in dir(client) if not name.startswith("_")}


@pytest.mark.parametrize(
    "clients",
    [_CONSUMERS, _PRODUCERS, _SHARE_CONSUMERS, _ADMIN_CLIENTS],
    ids=["consumer", "producer", "share consumer", "admin"],
)
def test_all_classes_of_a_client_have_the_same_public_names(clients: tuple[type, ...]) -> None:
    every = set().union(*map(public_names, clients))
    shared = every - {name for client, names, _ in _OWN if client in clients for name in names.split()}
    for client in clients:
        own = {name for other, names, _ in _OWN if other is client for name in names.split()}
        assert public_names(client) == shared | own, client.__name__


def test_the_interfaces_for_asyncio_are_made_of_those_of_the_blocking_clients() -> None:
    assert PATH.read_text(encoding="utf-8") == module(), f"{PATH.relative_to(ROOT)} is out of date: run {COMMAND}"


# -- one place for each thing ----------------------------------------------------------------------------------------

_CALLS = sorted(public_names(Consumer))
#: Calls of an asyncio class with a body of its own, and the reason.
_ON_A_LOOP = {
    "poll": "gives way to other tasks, and is refused while another task polls",
    "poll_arrow": "as poll",
    "unsubscribe": "is refused while another task polls",
    "commit": "waits for commits of other tasks",
    "commit_async": "returns a future of the loop",
    "close": "waits for calls of other tasks, and continues if it is cancelled",
}


def _written(*modules: str) -> Counter[str]:
    """Count the functions in classes, overloads apart."""
    found: Counter[str] = Counter()
    for place in modules:
        for owner in parse(ROOT / "pyconsumer" / place).body:
            for node in owner.body if isinstance(owner, ast.ClassDef) else ():
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    found[node.name] += not any(ast.unparse(each) == "overload" for each in node.decorator_list)
    return found


def test_a_call_of_a_consumer_is_written_in_two_places() -> None:
    """Its signature and docstring in the interface, its body in one class for threads and asyncio."""
    clients = _written("consumer/interface.py", "consumer/calls.py", "consumer/consumer.py", "aio/consumer.py")
    assert {name for name in _CALLS if clients[name] != 2} == _ON_A_LOOP.keys()
    assert {name for name in _CALLS if clients[name] > 3} == set()
    mocks = _written("testing/mock_consumer.py", "testing/async_mocks.py")
    on_a_loop = {"poll", "unsubscribe", "commit_async", "close", "subscribe", "assign"}
    assert {name for name in _CALLS if mocks[name] != 1} == on_a_loop


@pytest.mark.parametrize("client", [KafkaConsumer, MockConsumer, AsyncKafkaConsumer, AsyncMockConsumer])
def test_no_call_is_left_to_the_interface(client: type) -> None:
    for name in _CALLS:
        declared = {getattr(each, name, None) for each in (Consumer, AsyncConsumer, ImmediateCalls)}
        assert getattr(client, name) not in declared, name


def _plain(text: str | None) -> str:
    return re.sub(r"\b(await|async) ", "", text or "")


@pytest.mark.parametrize("name", [*_CALLS, "__next__"])
def test_every_call_has_one_docstring(name: str) -> None:
    text = inspect.getdoc(getattr(Consumer, name))
    assert text is not None
    asynchronous = "__anext__" if name == "__next__" else name
    assert inspect.getdoc(getattr(KafkaConsumer, name)) == text
    assert _plain(inspect.getdoc(getattr(AsyncConsumer, asynchronous))) == _plain(text)
    for client in (AsyncKafkaConsumer, AsyncMockConsumer):
        assert inspect.getdoc(getattr(client, asynchronous))
    assert inspect.getdoc(getattr(AsyncKafkaConsumer, asynchronous)) == inspect.getdoc(
        getattr(AsyncConsumer, asynchronous)
    )
    assert text.partition("\n")[0] in pydoc.plain(pydoc.render_doc(getattr(KafkaConsumer, name)))


@pytest.mark.parametrize("interface", [Consumer, AsyncConsumer])
def test_every_docstring_has_an_example(interface: type) -> None:
    for name in _CALLS:
        _, _, example = (inspect.getdoc(getattr(interface, name)) or "").partition("Example::\n\n")
        compile(textwrap.dedent(example), name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        waits = inspect.iscoroutinefunction(getattr(interface, name))
        assert ("await " in example) is waits, name
        assert f"consumer.{name}" in example


# -- the other clients -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(public_names(Producer)))
def test_every_call_of_a_producer_has_one_docstring(name: str) -> None:
    text = inspect.getdoc(inspect.getattr_static(Producer, name))
    assert text is not None
    assert inspect.getdoc(inspect.getattr_static(KafkaProducer, name)) == text
    written = inspect.getdoc(inspect.getattr_static(AsyncProducer, name))
    assert inspect.getdoc(inspect.getattr_static(AsyncKafkaProducer, name)) == written
    assert (written or "").partition("Example::")[0] == text.partition("Example::")[0]


@pytest.mark.parametrize("client", [*_CONSUMERS[:4], *_PRODUCERS[:4], *_ADMIN_CLIENTS])
def test_every_public_call_of_a_client_has_an_example(client: type) -> None:
    for name in sorted(public_names(client)):
        _, _, example = (inspect.getdoc(inspect.getattr_static(client, name)) or "").partition("Example::\n\n")
        compile(textwrap.dedent(example), f"{client.__name__}.{name}", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        assert name in example, name
