"""Finds tests without an assertion, by reading the syntax trees of the tests. Imports none of them.

A function asserts if its body has an `assert`, a `raise AssertionError`, one of pytest's `raises`, `warns`,
`deprecated_call` and `fail`, a mock's `assert_...`, or calls a function of the tests that asserts. A plain name is
looked up in its module and its imports. A method by its name in the same class, or, on another object, anywhere in the
tests: there every method of that name has to assert.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import NamedTuple

from tests.support import syntax_trees
from tests.support.kept_readings import KeptReadings
from tests.support.syntax_trees import TESTS, modules, parse, walk

__all__ = ["silent_tests"]

_PYTEST = frozenset({"raises", "warns", "deprecated_call", "fail", "RaisesGroup"})

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Key = tuple[str, str]  # path of the module, qualified name of the function


class _Called(NamedTuple):
    """The name in a call: of a function by itself, or of an attribute of a plain name or of another object."""

    name: str
    owner: str = ""  # a plain name: `self`, a module
    is_method: bool = False


class _Read(NamedTuple):
    """A function: if it has an assertion of its own, and the names that it calls."""

    asserts: bool
    calls: set[_Called]


class _Module(NamedTuple):
    functions: dict[str, _Read]  # qualified name -> function
    imported: dict[str, tuple[str, str]]  # local name -> path of module, name there


def silent_tests(folder: Path = TESTS) -> list[str]:
    """Return the tests of test modules that have no assertion, as ``path::name``."""
    paths = list(modules(folder, ()))
    names = [str(path.relative_to(folder.parent)) for path in paths]
    found = dict(zip(names, _modules.of(paths) if folder == TESTS else map(_read, paths), strict=True))
    asserting = _asserting(found)
    return [
        f"{path}::{name.replace('.', '::')}"
        for path, module in found.items()
        if Path(path).name.startswith("test_")
        for name in module.functions
        if name.rpartition(".")[2].startswith("test_") and (path, name) not in asserting
    ]


def _read(path: Path) -> _Module:
    tree = parse(path)
    module = _Module({}, {})
    imports: list[ast.AST] = [*tree.body]

    def collect(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, _Function):
                nodes = walk(node)
                called = (_called(each.func) for each in nodes if isinstance(each, ast.Call))
                module.functions[prefix + node.name] = _Read(
                    any(map(_is_assertion, nodes)), {each for each in called if each is not None}
                )
                imports.extend(nodes)
            elif isinstance(node, ast.ClassDef):
                collect(node.body, f"{prefix}{node.name}.")

    collect(tree.body, "")
    for node in imports:
        if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] == "tests":
            for alias in node.names:
                there = node.module.replace(".", "/")
                module.imported[alias.asname or alias.name] = (there, alias.name)
    return module


_modules = KeptReadings("asserting", _read, [sys.modules[__name__], syntax_trees], place=TESTS)


def _called(function: ast.expr) -> _Called | None:
    if isinstance(function, ast.Name):
        return _Called(function.id)
    if not isinstance(function, ast.Attribute):
        return None
    owner = function.value
    return _Called(function.attr, owner.id if isinstance(owner, ast.Name) else "", is_method=True)


def _asserting(found: dict[str, _Module]) -> set[_Key]:
    """The functions of all modules that assert, directly or through another of them."""
    functions = {
        (path, name): function for path, module in found.items() for name, function in module.functions.items()
    }
    asserting = {key for key, function in functions.items() if function.asserts}
    while True:
        methods = _methods_that_assert(found, asserting)
        more = {
            key
            for key, function in functions.items()
            if key not in asserting
            and any(_calls_asserting(called, *key, found, asserting, methods) for called in function.calls)
        }
        if not more:
            return asserting
        asserting |= more


def _methods_that_assert(found: dict[str, _Module], asserting: set[_Key]) -> set[str]:
    """Names of methods that assert in each class of the tests that has one of that name."""
    with_it, without = set(), set()
    for path, module in found.items():
        for name in module.functions:
            if "." in name:
                (with_it if (path, name) in asserting else without).add(name.rpartition(".")[2])
    return with_it - without


def _calls_asserting(
    called: _Called,
    path: str,
    caller: str,
    found: dict[str, _Module],
    asserting: set[_Key],
    methods: set[str],
) -> bool:
    imported = found[path].imported
    if not called.is_method:
        if (path, called.name) in asserting:
            return True
        if called.name in imported:
            there, name = imported[called.name]
            return any((module, name) in asserting for module in (f"{there}.py", f"{there}/__init__.py"))
        return False
    if called.owner == "self":
        own = f"{caller.rpartition('.')[0]}.{called.name}"
        if own in found[path].functions:
            return (path, own) in asserting
    if called.owner in imported:  # a module: `script.check(...)`
        package, name = imported[called.owner]
        if f"{package}/{name}.py" in found:
            return (f"{package}/{name}.py", called.name) in asserting
    return called.name in methods


def _is_assertion(node: ast.AST) -> bool:
    if isinstance(node, ast.Assert):
        return True
    if isinstance(node, ast.Raise):
        raised = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
        return isinstance(raised, ast.Name) and raised.id == "AssertionError"
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    owner = node.func.value
    of_pytest = isinstance(owner, ast.Name) and owner.id == "pytest"
    return (of_pytest and node.func.attr in _PYTEST) or node.func.attr.startswith("assert_")
