"""Pages that a reader types in: programs to save under a name, commands to run, and their output.

A block of Python after ``Save this as `name.py`:`` is a file. In a block ``console`` lines that begin with ``$`` are
commands. The lines up to the next one are their output, in any order, as records of different partitions come in
any. A command without such lines only has to succeed.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.support.process import Finished, run

__all__ = ["Command", "File", "Typist", "read_page"]

_BLOCK = re.compile(
    r"(?:ave\s+this\s+as\s+`([\w.]+)`(?:(?!\n\n).)*\n\n)?^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL
)
#: The environment is there, and the broker is the test's.
_NOT_HERE = re.compile(r"git clone|mkdir|python3 -m venv|\. |pip install|pyconsumer (?:broker|demo)")


@dataclass(frozen=True)
class File:
    """A program to save."""

    name: str
    text: str


@dataclass(frozen=True)
class Command:
    """A line to type, and the lines that it prints, empty if the page does not say."""

    line: str
    printed: tuple[str, ...]


def read_page(text: str) -> Iterator[File | Command]:
    """Yield the reader's actions, from top to bottom."""
    for found in _BLOCK.finditer(text):
        name, language, body = found.groups()
        if language == "python":
            if not name:
                raise AssertionError(f"this block has no name to be saved under:\n{body}")
            yield File(name, body)
        elif language == "console":
            for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
                line, *printed = part.splitlines()
                yield Command(line, tuple(printed))


class Typist:
    """Follows a page's instructions, in a folder and on a broker.

    Args:
        folder: where files are saved and commands run.
        servers: takes the place of ``localhost:9092``.
        quicker: texts of programs to exchange, for waits that a reader needs and a test does not.
        registry: the address that commands use for a Schema Registry.
    """

    def __init__(
        self, folder: Path, servers: str, quicker: Mapping[str, str] | None = None, registry: str | None = None
    ) -> None:
        self._folder = folder
        self._exchange = {"localhost:9092": servers, **(quicker or {})}
        self.done: list[str] = []
        commands = folder / "commands"
        commands.mkdir()
        for name, module in (("python", ""), ("pyconsumer", "-m pyconsumer"), ("pytest", "-m pytest")):
            script = commands / name
            script.write_text(f'#!/bin/sh\nexec "{sys.executable}" {module} "$@"\n', "utf-8")
            script.chmod(0o755)
        self._environment = {
            "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}",
            "PYCONSUMER_BOOTSTRAP_SERVERS": servers,
            # Programs that run at the same time print whole lines, as in a terminal. Unbuffered, each writes a line in
            # parts, between which another's may come.
            "PYTHONUNBUFFERED": "",
        }
        if registry is not None:
            self._environment["PYCONSUMER_SCHEMA_REGISTRY"] = registry

    def do(self, text: str) -> None:
        """Do all that a page, or a part of one, says."""
        for step in read_page(text):
            if isinstance(step, File):
                program = step.text
                for old, new in self._exchange.items():
                    program = program.replace(old, new)
                (self._folder / step.name).write_text(program, "utf-8")
            elif not _NOT_HERE.match(step.line):
                finished = self.type(step.line)
                printed = (finished.stdout + finished.stderr).splitlines()
                assert not step.printed or sorted(printed) == sorted(step.printed), f"{step.line}: {printed}"

    def type(self, line: str) -> Finished:
        """Run one command. It has to succeed."""
        self.done.append(line)
        return run(["sh", "-c", line], timeout_s=110, cwd=self._folder, env=self._environment).check()
