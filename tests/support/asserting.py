"""Finds tests without an assertion, by reading the syntax trees of the tests. Imports none of them.

A function asserts if its body has an `assert`, a `raise AssertionError`, one of pytest's `raises`, `warns`,
`deprecated_call` and `fail`, a mock's `assert_...`, or calls a function of the tests that asserts. A plain name is
looked up in its module and its imports. A method by its name in the same class, or, on another object, anywhere in the
tests: there every method of that name has to assert.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.syntax_trees import TESTS, modules, tree_of, walk

__all__ = ["silent_tests"]

_PYTEST = frozenset({"raises", "warns", "deprecated_call", "fail", "RaisesGroup"})

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Key = tuple[str, str]  # path of the module, qualified name of the function


@dataclass(slots=True)
class _Module:
    path: str
    tree: ast.Module
    functions: dict[str, _Function] = field(default_factory=dict)  # qualified name -> function
    nodes: dict[str, list[ast.AST]] = field(default_factory=dict)  # qualified name -> the function's nodes
    imported: dict[str, tuple[str, str]] = field(default_factory=dict)  # local name -> path of module, name there


def silent_tests(folder: Path = TESTS) -> list[str]:
    """Return the tests of test modules that have no assertion, as ``path::name``."""
    found: dict[str, _Module] = {}
    for path in modules(folder, ()):
        name = str(path.relative_to(folder.parent))
        found[name] = _read(name, tree_of(path))
    asserting = _asserting(found)
    return [
        f"{path}::{name.replace('.', '::')}"
        for path, module in found.items()
        if Path(path).name.startswith("test_")
        for name in module.functions
        if name.rpartition(".")[2].startswith("test_") and (path, name) not in asserting
    ]


def _read(path: str, tree: ast.Module) -> _Module:
    module = _Module(path, tree)

    def collect(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, _Function):
                module.functions[prefix + node.name] = node
                module.nodes[prefix + node.name] = walk(node)
            elif isinstance(node, ast.ClassDef):
                collect(node.body, f"{prefix}{node.name}.")

    collect(tree.body, "")
    for node in [*tree.body, *(inner for nodes in module.nodes.values() for inner in nodes)]:
        if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] == "tests":
            for alias in node.names:
                there = node.module.replace(".", "/")
                module.imported[alias.asname or alias.name] = (there, alias.name)
    return module


def _asserting(found: dict[str, _Module]) -> set[_Key]:
    """The functions of all modules that assert, directly or through another of them."""
    asserting = {
        (path, name)
        for path, module in found.items()
        for name, function in module.functions.items()
        if any(map(_is_assertion, module.nodes[name]))
    }
    calls = {
        (path, name): [node.func for node in module.nodes[name] if isinstance(node, ast.Call)]
        for path, module in found.items()
        for name, function in module.functions.items()
    }
    while True:
        methods = _methods_that_assert(found, asserting)
        more = {
            key
            for key, called in calls.items()
            if key not in asserting
            and any(_calls_asserting(function, found[key[0]], key[1], found, asserting, methods) for function in called)
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
    function: ast.expr,
    module: _Module,
    caller: str,
    found: dict[str, _Module],
    asserting: set[_Key],
    methods: set[str],
) -> bool:
    if isinstance(function, ast.Name):
        if (module.path, function.id) in asserting:
            return True
        if function.id in module.imported:
            there, name = module.imported[function.id]
            return any((path, name) in asserting for path in (f"{there}.py", f"{there}/__init__.py"))
        return False
    if not isinstance(function, ast.Attribute):
        return False
    owner = function.value
    if isinstance(owner, ast.Name) and owner.id == "self":
        own = f"{caller.rpartition('.')[0]}.{function.attr}"
        if own in module.functions:
            return (module.path, own) in asserting
    if isinstance(owner, ast.Name) and owner.id in module.imported:  # a module: `script.check(...)`
        package, name = module.imported[owner.id]
        if f"{package}/{name}.py" in found:
            return (f"{package}/{name}.py", function.attr) in asserting
    return function.attr in methods


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
