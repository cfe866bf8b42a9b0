"""The demo's output: for each step a bar or a line with its result, and the command that does the same."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from pyconsumer.cli.options import console
from pyconsumer.settings.config import CLIENT_SETTINGS

__all__ = ["Screen"]


class Screen:
    """The terminal to which the demo writes.

    Args:
        servers: addresses of the brokers. None for the embedded cluster, whose address is the default in commands.
        settings: additional client settings, by Kafka's names. Commands show them. Secrets are shown as ``***``.
    """

    def __init__(self, servers: str | None, settings: Mapping[str, str]) -> None:
        self.console: Console = console()
        #: The address of the cluster in commands.
        self.servers = servers or "localhost:9092"
        self._where: list[str] = [] if servers is None else ["-b", servers]
        secret = {name for setting in CLIENT_SETTINGS if setting.secret for name in setting.names}
        for name, value in settings.items():
            self._where += ["--config", f"{name}={'***' if name in secret else value}"]

    def say(self, text: str, *, important: str = "") -> None:
        """Print a line. ``important`` is a text in bold after ``text``."""
        self.console.print(escape(text) + (f"[bold]{escape(important)}[/]" if important else ""), soft_wrap=True)

    def command(self, *words: str, cluster: bool = True) -> None:
        """Print a command that the user could type.

        Args:
            words: the words of the command, without the name ``pyconsumer``.
            cluster: True adds the address of the cluster.
        """
        line = shlex.join([_program(), *words, *(self._where if cluster else [])])
        self.console.print(f"  [dim]$ {escape(line)}[/]", soft_wrap=True)

    def python(self, line: str) -> None:
        """Print a line of Python that the user could type."""
        self.console.print(f"  [dim]>>> {escape(line)}[/]", soft_wrap=True)

    def bar(self) -> Progress:
        """Return a progress bar with numbers."""
        return Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=40),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self.console,
        )


def _program() -> str:
    """Return our command as it can be typed: tox runs it in an environment that is not on the user's PATH."""
    if "TOX_ENV_DIR" not in os.environ:
        return "pyconsumer"
    return os.path.relpath(Path(sys.executable).with_name("pyconsumer"))
