"""Help texts of commands under ``python -OO``, which removes the docstrings that they are: read from the sources."""

from __future__ import annotations

import ast
import inspect
import sys

import click

__all__ = ["restore_help"]


def restore_help(command: click.Command) -> None:
    """Give a command and its subcommands the help texts that ``-OO`` has removed."""
    commands = [command]
    texts: dict[str, dict[str, str]] = {}
    while commands:
        each = commands.pop()
        if isinstance(each, click.Group):
            commands += each.commands.values()
        callback = inspect.unwrap(each.callback) if each.callback is not None else None
        if each.help is None and callback is not None:
            module = callback.__module__
            if module not in texts:
                texts[module] = _docstrings(module)
            vars(each).update(help=texts[module].get(callback.__name__))


def _docstrings(module: str) -> dict[str, str]:
    """Return the docstrings of a module's functions by name. Nothing where its source is missing."""
    try:
        source = inspect.getsource(sys.modules[module])
    except OSError:
        return {}
    functions = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
    return {node.name: text for node in functions if (text := ast.get_docstring(node))}
