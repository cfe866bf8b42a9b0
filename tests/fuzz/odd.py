"""``python -m tests.fuzz.odd``: uses the compiled types as no one should, and fails if that ends the process.

Each type is made by ``__new__`` alone, by a subclass with an empty ``__init__``, properly, and by ``copy``,
``deepcopy`` and ``pickle`` of all these. Each attribute of each object is read, and each method and function is called
with arguments of any type. They may raise any error: only damage counts, which a process does not survive.

``--trace`` prints each call before it is made, so the last line names the call that ended the process.
"""

from __future__ import annotations

import array
import copy
import enum
import gc
import logging
import pickle
import random
import sys
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any

import click

from pyconsumer.protocol.records import BatchBuilder
from pyconsumer.protocol.records.record import RecordOrigin
from pyconsumer.structs import TopicPartition

#: Functions that change all of the process: its count of forks, and the threads that decompress ahead.
_SKIPPED = {"_count_fork", "stop_workers"}
_TP = TopicPartition("t", 0)


class _Text(enum.StrEnum):
    TOPIC = "t"


class _Bytes(bytes):
    pass


class _List(list[Any]):
    pass


class _Dict(dict[Any, Any]):
    pass


class _Tuple(tuple[Any, ...]):
    __slots__ = ()


class _Number:
    """A number that changes lists and objects while its value is computed."""

    def __init__(self, values: list[Any], source: random.Random) -> None:
        self.values = values
        self.source = source

    def __index__(self) -> int:
        for value in self.source.sample(self.values, 3):
            if isinstance(value, list):
                del value[1:]
            elif hasattr(value, "try_append"):
                try:
                    value.try_append(5, b"k" * 2000, b"v")
                except Exception:
                    pass
        return self.source.choice((0, 1, -1, 2**31, 2**63))


class _NoWait(threading.Event):
    """An event without a waiter."""

    def wait(self, timeout: float | None = None) -> bool:
        return self.is_set()


def types_of(module: types.ModuleType) -> list[type]:
    """Return the types that a compiled module defines."""
    return [found for found in vars(module).values() if isinstance(found, type) and found.__module__ == module.__name__]


def functions_of(module: types.ModuleType) -> dict[str, Callable[..., Any]]:
    """Return the functions that a compiled module defines, by name."""
    return {
        name: found
        for name, found in vars(module).items()
        if callable(found) and not isinstance(found, type) and getattr(found, "__module__", "") == module.__name__
    }


def _batch(codec: str) -> bytes:
    builder = BatchBuilder(codec)
    for number in range(20):
        builder.try_append(1000 + number, b"k%d" % number, b"v" * 50, [("h", b"1")])
    return builder.build(0)


class _Game:
    """Objects of all types, values of other kinds, and random calls with them."""

    def __init__(self, modules: list[types.ModuleType], seed: int, trace: bool) -> None:
        self.source = random.Random(seed)
        self.trace = trace
        self.types = [kind for module in modules for kind in types_of(module)]
        self.functions = {
            name: found for module in modules for name, found in functions_of(module).items() if name not in _SKIPPED
        }
        self.names = {name for module in modules for name in vars(module)}
        self.values: list[Any] = []
        self.values += self._plain_values()
        for kind in self.types:
            self.values += self._made(kind)
        self.values += self._proper(modules)

    def _plain_values(self) -> list[Any]:
        numbers = [0, 1, -1, 2, 5, 127, 1 << 20, 2**31 - 1, -(2**31), 2**31, 2**63 - 1, 2**63, -(2**63), 2**64, True]
        texts = ["", "t", "key", "zstd", "\ud800", _Text.TOPIC, "ä" * 100]
        data = [b"", b"abc", b"v" * 3000, _Bytes(b"sub"), bytearray(b"x" * 70), memoryview(b"abcdef")[::2]]
        data += [memoryview(b"view"), array.array("d", [1.5]), _batch("none"), _batch("zstd"), _batch("lz4")]
        lists = [[], [None], [1, 2], [(1, 2)], _List([(0, 5)]), [b"a", b"b"], ["a"], [object()], [[0, 0]], [[]], [0, 0]]
        pairs = [(), (1,), (1, 2), _Tuple((1, b"2")), (bytes.decode, True), _TP, RecordOrigin("t", 0, 1, 2)]
        other = [{}, _Dict(a=1), {"key": b"k"}, set(), object(), int, ValueError("x"), bytes.decode, len]
        other += [lambda *args, **named: None, lambda *args: 1 / 0, 1.5, float("nan"), float("inf"), None, None, None]
        return [*numbers, *texts, *data, *lists, *pairs, *other, _Number(self.values, self.source)]

    def _made(self, kind: type) -> Iterator[Any]:
        """Objects that lack ``__init__``, and their copies."""
        made = []
        forms = [kind]
        try:
            forms.append(type("Sub", (kind,), {"__init__": lambda self, *args, **named: None}))
            forms.append(type("Slim", (kind,), {"__init__": lambda self: None, "__slots__": ()}))
        except TypeError:
            pass  # a final type
        for form in forms:
            for arguments in ((), (1, 1000), (b"x",)):
                try:
                    made.append(form.__new__(form, *arguments))
                    made.append(form(*arguments))
                except Exception:
                    pass
        for one in made:
            yield one
            yield from self._copies(one)

    @staticmethod
    def _copies(one: Any) -> Iterator[Any]:
        for way in (
            copy.copy,
            copy.deepcopy,
            lambda x: pickle.loads(pickle.dumps(x)),
            lambda x: pickle.loads(pickle.dumps(x, 1)),
            lambda x: copyreg_made(type(x)),
        ):
            try:
                yield way(one)
            except Exception:
                pass

    def _proper(self, modules: list[types.ModuleType]) -> Iterator[Any]:
        """Objects in their intended use."""
        found: dict[str, Any] = {}
        for module in modules:
            found |= vars(module)
        if "Cursor" in found:
            for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
                yield found["Cursor"](_TP, _batch(codec), fetch_offset=0)
                cursor = found["Cursor"](_TP, _batch(codec), fetch_offset=3, aborted=[(1, 2)])
                yield cursor
                yield cursor.take(5)
            yield found["ConsumerRecord"]("t", 0, 1, key=b"k", value="v", headers=[("a", b"1")])
            yield found["ConsumerRecord"]("t", 0, 1, key={}, value=[])
            yield found["ColumnsBuilder"](with_headers=True)
        if "ProducerBatch" in found:
            memory = found["BufferMemory"](10_000)
            result = found["BatchResult"](_TP)
            yield [(0, result)]
            yield [(1, found["BatchResult"](_TP)), (5, found["BatchResult"](None))]
            yield found["FutureRecordMetadata"](result, 3, 1000, 1, 1)
            options = {"batch_size": 100, "largest": 500, "ignore_keys": False, "chooses": False, "reads_clock": True}
            for codec in ("none", "gzip"):
                batch = found["ProducerBatch"](_TP, found["BatchBuilder"](codec), 1.0, memory)
                appender = found["Appender"](memory, self._shorten, **options)
                appender.remember("t", 2, batch, 0, [0, 0])
                yield from (batch, batch.builder, batch.result, appender)

    def _shorten(self) -> None:
        for value in self.values:
            if isinstance(value, list):
                del value[2:]

    def _call(self, name: str, function: Callable[..., Any]) -> None:
        chosen = self.source.choices(self.values, k=self.source.choice((0, 0, 1, 1, 2, 2, 3, 4, 5, 6, 7, 9)))
        named = {}
        if self.source.random() < 0.1:
            words = ("key", "value", "headers", "timeout", "fetch_offset", "aborted", "relative_offset", "size_limit")
            named = {self.source.choice(words): self.source.choice(self.values)}
        if self.trace:
            print(name, [type(value).__name__ for value in chosen], named, file=sys.stderr, flush=True)
        try:
            made = function(*chosen, **named)
        except Exception:
            return
        if isinstance(made, types.CoroutineType):
            made.close()
        if type(made) in self.types or type(made).__base__ in self.types:
            self.values[self.source.randrange(len(self.values))] = made

    def _visit(self, one: Any) -> None:
        """Read all attributes of an object, and call its methods once."""
        for name in dir(one):
            if name in ("__class__", "__init_subclass__", "__subclasshook__", "__sizeof__", "__dir__", "__getstate__"):
                continue
            if self.trace:
                print(type(one).__name__, name, file=sys.stderr, flush=True)
            try:
                found = getattr(one, name)
            except Exception:
                continue
            if callable(found) and name != "__setattr__":
                self._call(f"{type(one).__name__}.{name}", found)
        for look in (repr, len, hash, memoryview, list, lambda x: x == x):
            try:
                look(one)
            except Exception:
                pass

    def play(self, rounds: int) -> int:
        """Use everything ``rounds`` times. Return the number of objects and functions that were used."""
        ours = tuple(self.types)
        used = 0
        for number in range(rounds):
            for one in [value for value in self.values if isinstance(value, ours)]:
                self._visit(one)
                used += 1
            for name, function in self.functions.items():
                for _ in range(30):
                    self._call(name, function)
                used += 1
            for kind in self.types:
                self._call(kind.__name__, kind)
                self._call(f"{kind.__name__}.__new__", kind.__new__)
            if number % 5 == 4:
                gc.collect()
        return used


def copyreg_made(kind: type) -> Any:
    """Return the object that a pickle of another class makes: an object of a type, with attributes set from outside."""
    made = kind.__new__(kind)
    for name in ("offset", "origin", "key", "builder", "result", "x"):
        try:
            setattr(made, name, 5)
        except AttributeError:
            pass
    return made


def play(modules: list[types.ModuleType], seed: int, rounds: int, trace: bool = False) -> str:
    """Use the types and functions of modules, and return a line with the counts."""
    event, threading.Event = threading.Event, _NoWait  # type: ignore[misc]
    logging.disable()
    try:
        used = _Game(modules, seed, trace).play(rounds)
    finally:
        threading.Event = event  # type: ignore[misc]
        logging.disable(logging.NOTSET)
    names = sum(len(types_of(module)) + len(functions_of(module)) for module in modules)
    return f"{names} compiled names, {used} objects and functions used oddly, seed {seed}: no damage"


@click.command(help="Use compiled types oddly.")
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(1))
@click.option("--seeds", default=1, show_default=True, help="Number of games, each with another seed.")
@click.option("--first", default=1, show_default=True, help="The first seed.")
@click.option("--trace", is_flag=True, help="Print each call before it is made.")
@click.option("--limit-memory", is_flag=True, help="To 3 GB; a sanitizer cannot run with a limit.")
def main(rounds: int, seeds: int, first: int, trace: bool, limit_memory: bool) -> None:
    from tests.fuzz.__main__ import compiled_modules

    if limit_memory:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (3 << 30, resource.getrlimit(resource.RLIMIT_AS)[1]))
    for seed in range(first, first + seeds):
        click.echo(play(compiled_modules(), seed, rounds, trace))


if __name__ == "__main__":
    main()
