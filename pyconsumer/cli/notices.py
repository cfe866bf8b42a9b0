"""Warnings of the library on standard error, for commands that keep waiting where another one would fail.

A command that ends soon reports a failure by its error alone. One that waits for records would be silent for ever, for
example if a broker advertises an address that cannot be reached from here.
"""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Iterator
from typing import Final

import click

from pyconsumer.errors import KafkaConnectionError
from pyconsumer.log_fields import label_of

__all__ = ["Notices", "library_warnings"]

_DURATION: Final = re.compile(r"\d+(?:\.\d+)? m?s\b")
#: So many different lines are remembered; more are printed each time that they come.
_MOST: Final = 1000


class Notices(logging.Handler):
    """Prints each warning once. A warning that repeats the causes of earlier ones is left out.

    Args:
        prints: False prints nothing, and only keeps ``unreachable`` up to date.

    Attributes:
        unreachable: the last reported error of a connection, or None.
    """

    def __init__(self, *, prints: bool = True) -> None:
        super().__init__(logging.WARNING)
        self._prints = prints
        self.unreachable: KafkaConnectionError | None = None
        self._seen: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        arguments = record.args if isinstance(record.args, tuple) else ()
        for argument in arguments:
            if isinstance(argument, KafkaConnectionError):
                self.unreachable = argument
        shown = record.getMessage()  # a command has one client, which needs no name
        shown = shown.removeprefix(label_of(getattr(record, "client_id", None), getattr(record, "group_id", None)))
        text = _plain(shown)
        # The causes are the last argument, wherever there are some.
        last = _plain(str(arguments[-1])) if arguments and not isinstance(arguments[-1], (int, float)) else ""
        causes = set(last.split("; ")) if " " in last else set()
        known = text in self._seen or (bool(causes) and causes <= self._seen)
        if len(self._seen) < _MOST:
            self._seen |= causes | {text}
        if self._prints and not known:
            click.echo(f"Warning: {shown}", err=True)


def _plain(text: str) -> str:
    """Return a text without durations, by which lines differ that say the same."""
    return _DURATION.sub("", text)


@contextlib.contextmanager
def library_warnings(logger: str = "pyconsumer") -> Iterator[Notices]:
    """Print the library's warnings in this block.

    With ``--verbose`` nothing is printed, because they are logged already.

    Args:
        logger: the logger whose warnings are printed.
    """
    context = click.get_current_context(silent=True)
    verbose = context is not None and context.find_root().params.get("verbose", 0)
    notices = Notices(prints=not verbose)
    logging.getLogger(logger).addHandler(notices)
    try:
        yield notices
    finally:
        logging.getLogger(logger).removeHandler(notices)
