"""Writes ``pyconsumer/aio/interface.py``: the interfaces for asyncio, from those of the blocking clients.

``python -m tests.support.make_async_interfaces`` writes the module. A test compares it with the text that would be
written. Signatures and docstrings are copied: a call that may wait becomes a coroutine, and ``await`` is added in the
examples. The tables below have the differences between the two.

The methods raise an error instead of being empty. So type checkers let a class inherit a call whose body
:mod:`pyconsumer.aio.awaited` makes at run time.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from typing import NamedTuple

__all__ = ["COMMAND", "PATH", "module"]

COMMAND = "python -m tests.support.make_async_interfaces"
ROOT = Path(__file__).parents[2]
PATH = ROOT / "pyconsumer/aio/interface.py"
_WIDTH = 120
#: Modules that are imported for types alone.
_FOR_TYPES = {"pyconsumer.metrics.health"}


class _Interface(NamedTuple):
    source: str
    classes: tuple[str, ...]
    name: str
    parameters: str
    variable: str  #: name of a client in the examples
    doc: str


_INTERFACES = (
    _Interface(
        "pyconsumer/consumer/interface.py",
        ("Consumer", "ImmediateCalls"),
        "AsyncConsumer",
        "K, V",
        "consumer",
        "The calls of a consumer of keys ``K`` and values ``V`` on an event loop. See :class:`pyconsumer.Consumer`.",
    ),
    _Interface(
        "pyconsumer/consumer/share/interface.py",
        ("ShareConsumer", "ShareImmediateCalls"),
        "AsyncShareConsumer",
        "K, V",
        "consumer",
        "The calls of a share consumer on an event loop. See :class:`pyconsumer.ShareConsumer`.",
    ),
    _Interface(
        "pyconsumer/producer/interface.py",
        ("Producer",),
        "AsyncProducer",
        "KeyIn, ValueIn",
        "producer",
        "The calls of a producer on an event loop. See :class:`pyconsumer.Producer`.",
    ),
)

#: Calls that never wait, besides those of ``ImmediateCalls``.
_IMMEDIATE = {"commit_async", "begin_transaction", "metrics", "metric_table", "health", "transaction", "is_initialized"}
#: Results that are of another type.
_RESULTS = {
    "commit_async": ("RequestFuture[None]", "Awaitable[None]"),
    "transaction": ("AbstractContextManager[Self]", "AbstractAsyncContextManager[Self]"),
    "__iter__": (r"Iterator[ConsumerRecord[K, V]]", "Self"),
}
#: Parts of examples that read otherwise in a coroutine.
_IN_EXAMPLES = {"future.get(timeout=10)": "(await future)"}
_NAMES = {"__iter__": "__aiter__", "__next__": "__anext__", "__enter__": "__aenter__", "__exit__": "__aexit__"}
#: Calls that are there for asyncio alone: name of the call before, text.
_ADDED = {
    "send": '''
    async def send_and_wait(
        self,
        topic: str,
        value: ValueIn | None = None,
        key: KeyIn | None = None,
        headers: Sequence[Header] | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> RecordMetadata:
        """Send a record and wait for the broker's response. Arguments are those of :meth:`send`.

        Returns:
            The record's partition, offset and timestamp.

        Raises:
            KafkaError, ValueError: as :meth:`send`, and the errors of its future.

        Example::

            metadata = await producer.send_and_wait("orders", b"two coffees", key=b"table 4")
            metadata.topic  # 'orders'
        """
        raise not_written("send_and_wait")
'''
}

_HEAD = '''"""The interfaces of clients on an event loop, such as ``AsyncConsumer`` and ``AsyncProducer``.

A program that is written for them runs with :class:`pyconsumer.aio.AsyncKafkaConsumer` and
:class:`pyconsumer.aio.AsyncKafkaProducer`, and is tested with :class:`pyconsumer.testing.AsyncMockConsumer` and
:class:`pyconsumer.testing.AsyncMockProducer`, which need no cluster.

Made of the interfaces of the blocking clients by ``{command}``.
Change these, not this module.
"""

from __future__ import annotations

{imports}
__all__ = ["AsyncConsumer", "AsyncProducer", "AsyncShareConsumer"]
'''
_CLASS = '''

@runtime_checkable
class {name}(Protocol[{parameters}]):
    """{doc}"""
'''
_END = """
    if not TYPE_CHECKING:
        __class_getitem__ = generic_alias
"""

#: Names that only the interfaces for asyncio use, and where they come from. Others: see the imports of the sources.
_HOMES = {
    "Awaitable": "collections.abc",
    "AbstractAsyncContextManager": "contextlib",
    "not_written": "pyconsumer.aio.awaited",
    "RecordMetadata": "pyconsumer.structs",
}


def module() -> str:
    """Return the text of the module."""
    body = "".join(_class(interface) for interface in _INTERFACES)
    return _HEAD.format(command=COMMAND, imports=_imports(body)) + body


def _class(interface: _Interface) -> str:
    text = (ROOT / interface.source).read_text("utf-8")
    tree = ast.parse(text)
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    methods = [
        (owner, node)
        for owner in interface.classes
        for node in classes[owner].body
        if isinstance(node, ast.FunctionDef)
    ]
    waiting = {
        node.name
        for owner, node in methods
        if not owner.endswith("ImmediateCalls") and node.name not in {*_IMMEDIATE, "__iter__"}
    }
    ordinary = [pair for pair in methods if not pair[1].name.startswith("__")]
    special = [pair for pair in methods if pair[1].name.startswith("__")]
    found = _CLASS.format(name=interface.name, parameters=interface.parameters, doc=interface.doc)
    for _, node in [*ordinary, *special]:
        found += "\n" + _method(text, node, waits=node.name in waiting, waiting=waiting, variable=interface.variable)
        if node.name in _ADDED:
            found += _ADDED[node.name]
    return found + _END


def _method(text: str, node: ast.FunctionDef, *, waits: bool, waiting: set[str], variable: str) -> str:
    lines = text.splitlines()
    first = min([node.lineno, *(each.lineno for each in node.decorator_list)]) - 1
    head = lines[first : node.body[0].lineno - 1] or [lines[first]]
    empty = ast.get_docstring(node) is None  # an overload, or a special method
    if empty:
        head = lines[first : node.end_lineno]
    signature = "\n".join(head)
    if node.name in _RESULTS and not signature.endswith("-> None:"):  # a share consumer's commit_async
        old, new = _RESULTS[node.name]
        assert old in signature, f"{node.name} no longer returns {old}"
        signature = signature.replace(old, new)
    if waits:
        signature = signature.replace("    def ", "    async def ", 1)
    name = _NAMES.get(node.name, node.name)
    signature = signature.replace(f"def {node.name}(", f"def {name}(", 1)
    signature = _folded(signature)
    if empty:
        return signature + "\n"
    docstring = lines[node.body[0].lineno - 1 : node.body[0].end_lineno]
    documented = "\n".join(_example(line, waiting, variable) for line in docstring)
    return f'{signature}\n{documented}\n        raise not_written("{name}")\n'


def _folded(signature: str) -> str:
    """Return a signature in one line if that is short enough, else in three, as the formatter would."""
    found = re.fullmatch(r"(    (?:async )?def \w+\()\n?\s*(.*?)\n?\s*(\) -> .*)", signature)
    if found is None:
        return signature  # one argument a line, or a decorator
    line = found[1] + found[2] + found[3]
    return line if len(line) <= _WIDTH else f"{found[1]}\n        {found[2]}\n    {found[3]}"


def _example(line: str, waiting: set[str], variable: str) -> str:
    """Add ``await`` to a line of an example."""
    if not line.startswith(" " * 12) or re.match(r" {12}\w[\w, ]*: ", line):
        return line
    for old, new in _IN_EXAMPLES.items():
        line = line.replace(old, new)
    line = re.sub(rf"(?<!await )\b{variable}\.({'|'.join(sorted(waiting))})\(", rf"await {variable}.\1(", line)
    return re.sub(rf"^( *)(for \w+ in|with) (?={variable}(?:\.transaction\(\))?:)", r"\1async \2 ", line)


def _homes() -> dict[str, str]:
    """Return the module of each name that the interfaces may use."""
    found = dict(_HOMES)
    for interface in _INTERFACES:
        for node in ast.parse((ROOT / interface.source).read_text("utf-8")).body:
            parts = node.body if isinstance(node, ast.If) else [node]  # ``if TYPE_CHECKING``
            for part in parts:
                if isinstance(part, ast.ImportFrom) and part.module != "__future__":
                    found.update({alias.name: str(part.module) for alias in part.names})
            if isinstance(node, ast.Assign | ast.AnnAssign | ast.ClassDef):
                found[_defined(node)] = interface.source.removesuffix(".py").replace("/", ".")
    return found


def _defined(node: ast.Assign | ast.AnnAssign | ast.ClassDef) -> str:
    if isinstance(node, ast.ClassDef):
        return node.name
    return ast.unparse(node.target if isinstance(node, ast.AnnAssign) else node.targets[0])


def _imports(body: str) -> str:
    words = set(re.findall(r"\w+", re.sub(r'""".*?"""', "", body, flags=re.DOTALL)))
    homes: dict[str, list[str]] = {}
    for name, home in _homes().items():
        if name in words and not name.startswith("_") and name != "annotations":
            homes.setdefault(home, []).append(name)
    blocks: dict[bool, list[str]] = {False: ["import re"] if "re" in words else [], True: []}
    later = ["import pyarrow", ""] if "pyarrow" in words else []
    for home, names in sorted(homes.items()):
        used = sorted(names, key=lambda name: (not name.isupper() or len(name) == 1, name[0].islower(), name))
        line = f"from {home} import {', '.join(used)}"
        if len(line) > _WIDTH:
            line = f"from {home} import (\n" + "".join(f"    {name},\n" for name in used) + ")"
        (later if home in _FOR_TYPES else blocks[home.startswith("pyconsumer")]).append(line)
    types = (
        "\n".join(["\nif TYPE_CHECKING:", *(f"    {line}" if line else "" for line in later)]) + "\n" if later else ""
    )
    return "\n".join(blocks[False]) + "\n\n" + "\n".join(blocks[True]) + "\n" + types


if __name__ == "__main__":
    PATH.write_text(module(), encoding="utf-8")
    print(PATH.relative_to(ROOT), file=sys.stderr)
