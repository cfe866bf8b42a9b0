"""Finds the item ids that tests name, by reading the test modules' syntax trees; imports none of them.

An id counts as named where it is an argument of `pytest.mark.spec(...)`, or stands alone in a string literal
(`"client:FE-22"`) anywhere in a test module: that is how a table of cases carries ids in its parameters.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeGuard

from tests.spec.items import FULL_ID

MOST_IDS = 5
TESTS = Path(__file__).parent.parent
LEFT_OUT = ("spec", "unit/test_spec_tool.py")  # the tool and its own tests talk about ids without showing anything

_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(slots=True)
class Naming:
    """Ids that the tests name. `marked` and `literal` map a full id to the places (`path:line`) that name it."""

    marked: dict[str, list[str]] = field(default_factory=dict)
    literal: dict[str, list[str]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def named(self) -> set[str]:
        return set(self.marked) | set(self.literal)

    def places(self, full_id: str) -> list[str]:
        return self.marked.get(full_id, []) + self.literal.get(full_id, [])


def scan(folder: Path = TESTS, *, left_out: Iterable[str] = LEFT_OUT) -> Naming:
    """Reads every module below `folder` (paths in `left_out` are relative to it)."""
    naming = Naming()
    for path in modules(folder, left_out):
        _scan_tree(tree_of(path), str(path.relative_to(folder.parent)), naming)
    return naming


def modules(folder: Path, left_out: Iterable[str]) -> Iterator[Path]:
    """The modules below `folder` in the order of their paths, without those in or below `left_out`."""
    skipped = [folder / path for path in left_out]
    for path in sorted(folder.rglob("*.py")):
        if not any(path == other or other in path.parents for other in skipped):
            yield path


def scan_module(source: str, path: str, naming: Naming) -> None:
    """Adds what one module names. A mark's argument that is not a full id in a literal is a problem."""
    _scan_tree(ast.parse(source, path), path, naming)


def tree_of(path: Path) -> ast.Module:
    """Return the syntax tree of a module, which is parsed once however many checks read it."""
    state = path.stat()
    return _parsed(path, state.st_mtime_ns, state.st_size)


def forget_trees() -> None:
    """Drop the parsed modules, a million objects."""
    _parsed.cache_clear()


def walk(node: ast.AST) -> list[ast.AST]:
    """Return a node and all below it in the order of ``ast.walk``, in half its time and without ``ctx``."""
    nodes = [node]
    for each in nodes:
        for name in each._fields:
            value = getattr(each, name, None)
            if isinstance(value, list):
                nodes.extend(one for one in value if isinstance(one, ast.AST))
            elif isinstance(value, ast.AST) and name != "ctx":
                nodes.append(value)
    return nodes


@functools.lru_cache(1024)
def _parsed(path: Path, modified: int, size: int) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def _scan_tree(tree: ast.Module, path: str, naming: Naming) -> None:
    in_marks: set[ast.AST] = set()
    nodes = [node for node in walk(tree) if isinstance(node, ast.Call | ast.Constant)]
    for node in nodes:
        if not _is_spec_mark(node):
            continue
        for argument in node.args:
            place = f"{path}:{argument.lineno}"
            text = argument.value if isinstance(argument, ast.Constant) else None
            if isinstance(text, str) and FULL_ID.fullmatch(text):
                naming.marked.setdefault(text, []).append(place)
                in_marks.add(argument)
            elif text is not None:
                naming.problems.append(f"{place}: {text!r} is no id; write it with its list, as in 'broker:JG-05'")
            # anything but a literal (a table's variable, say) is followed through the table's own literals
    for node in nodes:
        text = node.value if isinstance(node, ast.Constant) and node not in in_marks else None
        if isinstance(node, ast.Constant) and isinstance(text, str) and FULL_ID.fullmatch(text):
            naming.literal.setdefault(text, []).append(f"{path}:{node.lineno}")
    naming.problems.extend(_crowded_tests(tree, path))


def _is_spec_mark(node: ast.AST) -> TypeGuard[ast.Call]:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr != "spec":
        return False
    owner = node.func.value
    return "mark" in (getattr(owner, "attr", ""), getattr(owner, "id", ""))


def _ids_in(nodes: Iterable[ast.AST]) -> set[str]:
    return {
        argument.value
        for node in nodes
        for call in walk(node)
        if _is_spec_mark(call)
        for argument in call.args
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    }


def _crowded_tests(tree: ast.Module, path: str) -> Iterator[str]:
    """Tests that claim to show more than MOST_IDS items at once, their class's and module's marks counted."""
    for_module = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and any(getattr(name, "id", "") == "pytestmark" for name in node.targets)
    ]
    yield from _crowded_in(tree.body, _ids_in(for_module), path)


def _crowded_in(body: list[ast.stmt], inherited: set[str], path: str) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from _crowded_in(node.body, inherited | _ids_in(node.decorator_list), path)
        elif isinstance(node, _Function) and node.name.startswith("test"):
            tables = [decorator for decorator in node.decorator_list if _is_parametrize(decorator)]
            if not tables:
                ids = inherited | _ids_in(node.decorator_list)
                if len(ids) > MOST_IDS:
                    yield f"{path}:{node.lineno}: {node.name} names {len(ids)} items, more than {MOST_IDS}"
            for case in (call for table in tables for call in walk(table) if _is_param(call)):
                if len(ids := _ids_in([case])) > MOST_IDS:
                    yield f"{path}:{case.lineno}: one case of {node.name} names {len(ids)} items; at most {MOST_IDS}"


def _is_parametrize(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "parametrize"


def _is_param(node: ast.AST) -> TypeGuard[ast.Call]:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "param"
