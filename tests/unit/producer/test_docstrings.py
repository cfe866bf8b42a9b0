"""The examples in the docstrings of the producers: each public call has one, and they run on a mock."""

from __future__ import annotations

import ast
import asyncio
import inspect
import textwrap
from typing import Any

import pytest

from pyconsumer import KafkaProducer, TopicPartition
from pyconsumer.aio import AsyncKafkaProducer
from pyconsumer.testing import AsyncMockProducer, MockProducer

_TRANSACTIONAL = {
    "init_transactions",
    "is_initialized",
    "begin_transaction",
    "send_offsets_to_transaction",
    "commit_transaction",
    "abort_transaction",
    "transaction",
}


def _calls(client: type) -> list[str]:
    return sorted(name for name, _ in inspect.getmembers(client) if not name.startswith("_"))


def _code(client: type, name: str) -> str:
    """Return the example of a call, with an assertion for each line that ends with its result as a comment."""
    text = inspect.getdoc(inspect.getattr_static(client, name)) or ""
    _, marked, example = text.partition("Example::\n\n")
    assert marked, f"{client.__name__}.{name} has no example"
    lines = []
    for line in textwrap.dedent(example).splitlines():
        code, commented, result = line.partition("  # ")
        lines.append(f"assert {code} == {result}" if commented else line)
    return "\n".join(lines)


def _run(code: str, producer: object) -> Any:
    names = {"producer": producer, "TopicPartition": TopicPartition}
    return eval(compile(code, "example", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)


@pytest.mark.parametrize("name", _calls(KafkaProducer))
def test_each_public_call_has_an_example_that_runs(name: str) -> None:
    code = _code(KafkaProducer, name)
    if name == "from_file":  # it needs a file and a cluster
        return
    if name == "send_arrow":
        pytest.importorskip("pyarrow")
    producer: MockProducer = MockProducer(transactional_id="orders-0" if name in _TRANSACTIONAL else None)
    if name in _TRANSACTIONAL - {"init_transactions"}:
        producer.init_transactions()
    _run(code, producer)


@pytest.mark.parametrize("name", _calls(AsyncKafkaProducer))
def test_each_public_call_on_a_loop_has_an_example_that_runs(name: str) -> None:
    code = _code(AsyncKafkaProducer, name)
    if name == "from_file":  # it needs a file and a cluster
        return
    if name == "send_arrow":
        pytest.importorskip("pyarrow")

    async def run() -> None:
        producer: AsyncMockProducer = AsyncMockProducer(transactional_id="orders-0" if name in _TRANSACTIONAL else None)
        if name in _TRANSACTIONAL - {"init_transactions"}:
            await producer.init_transactions()
        running = _run(code, producer)
        if running is not None:
            await running

    asyncio.run(run())
