"""Writes ``pyconsumer/schemas/registry/async_client.py``: the registry's client for asyncio, from the blocking one.

``python -m tests.support.make_async_registry`` writes the module. A test compares it with the text that it would
write. Signatures and docstrings are copied. Each call becomes a coroutine.
"""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["COMMAND", "PATH", "module"]

COMMAND = "python -m tests.support.make_async_registry"
ROOT = Path(__file__).parents[2]
_SOURCE = ROOT / "pyconsumer/schemas/registry/client.py"
PATH = ROOT / "pyconsumer/schemas/registry/async_client.py"
_WIDTH = 120
_MARK = re.compile(r"    # --- schemas \(.*\)\n")

_HEAD = '''"""The registry's client for asyncio, made by ``{command}``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Concatenate, ParamSpec, Self, TypeVar

from pyconsumer.errors import ConfigurationError
from pyconsumer.schemas.registry.driver import GRACE_S, RegistryDriver
from pyconsumer.schemas.registry.exchange import Steps
from pyconsumer.schemas.registry.values import (
    ConfigCompatibilityLevel,
    RegisteredSchema,
    Schema,
    SchemaVersion,
    ServerConfig,
)

__all__ = ["AsyncSchemaRegistryClient"]

P = ParamSpec("P")
T = TypeVar("T")


class AsyncSchemaRegistryClient(RegistryDriver):
    """A client of a Schema Registry, for event loops. It never blocks the loop, and several loops may share it.

    Its calls are those of :class:`~pyconsumer.schemas.SchemaRegistryClient`, as coroutines, with the same arguments and
    errors. The requests are made in a few threads. A call that is cancelled leaves its request to the others that wait
    for the same schema.

    Args:
        conf: the registry's URL, several URLs of one registry, or confluent-kafka's dictionary. ``docs/schemas.md`` has
            the keys.
        clock: the source of time, for tests.

    Raises:
        ConfigurationError: a setting is unknown or not legal.
    """

    async def _wait(
        self,
        timeout_ms: float | None,
        call: Callable[Concatenate[float, P], Steps[T]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        deadline = self._deadline(timeout_ms)
        result = self._begin(deadline, call, *args, **kwargs)
        if result.done():
            return result.result()
        waited = asyncio.wrap_future(result)
        done, _ = await asyncio.wait([waited], timeout=max(deadline - self._clock.now(), 0) + GRACE_S)
        if not done:
            waited.cancel()
            raise self._late()
        return waited.result()

    async def close(self) -> None:
        """End the client's threads and close its connections. Calls that wait end with an error."""
        self._end()

    async def aclose(self) -> None:
        """Close the client, by the name of confluent-kafka."""
        await self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    # --- schemas
'''


def module() -> str:
    """Return the text of the module."""
    calls = _MARK.split(_SOURCE.read_text(encoding="utf-8"))[1]
    calls = re.sub(r"^    def (?=[a-z])", "    async def ", calls, flags=re.MULTILINE)
    calls = calls.replace("return self._wait(", "return await self._wait(").replace(
        "return not self._wait(", "return not await self._wait("
    )
    return _HEAD.format(command=COMMAND) + "".join(map(_wrapped, calls.splitlines(keepends=True)))


def _wrapped(line: str) -> str:
    """Return a line as the formatter breaks it, where ``await`` made it too long."""
    if len(line.rstrip("\n")) <= _WIDTH:
        return line
    indent = " " * (len(line) - len(line.lstrip()))
    before, bracket, rest = line.rstrip("\n").partition("(")
    arguments, _, after = rest.rpartition(")")
    return f"{before}{bracket}\n{indent}    {arguments}\n{indent}){after}\n"


if __name__ == "__main__":
    PATH.write_text(module(), encoding="utf-8")
