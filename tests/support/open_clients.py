"""``OpenClients``: notes where each client of this process is made, to name those that were left open.

Warnings are errors in tests, and a client that is dropped without ``close()`` warns. One that stays referenced to the
end of the interpreter warns when no test can fail any more. So the end of a run looks here.
"""

from __future__ import annotations

import functools
import os
import sys
import weakref
from typing import Any

from pyconsumer.metrics.source import MetricSource, open_sources

__all__ = ["OpenClients"]

_PLACES = 4
_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class OpenClients:
    """Notes the clients that are made while it is open: blocking, asyncio, and those of the layers."""

    def __init__(self) -> None:
        self._places: weakref.WeakKeyDictionary[MetricSource, str] = weakref.WeakKeyDictionary()
        self._original = MetricSource.__init__

    def open(self) -> None:
        """Begin to note. Each client has one source of metrics."""
        original = self._original

        @functools.wraps(original)
        def made(source: MetricSource, *arguments: Any, **options: Any) -> None:
            original(source, *arguments, **options)
            self._places[source] = _place()

        MetricSource.__init__ = made  # type: ignore[method-assign,assignment]

    def close(self) -> None:
        """Note no more."""
        MetricSource.__init__ = self._original  # type: ignore[method-assign]

    def left(self) -> list[str]:
        """Return a line for each client that was noted and is open: its kind, its id, its test and its place."""
        return sorted(
            f"{source.domain} {source.label}: {self._places[source]}"
            for source in open_sources()
            if source in self._places
        )


def _place() -> str:
    """Return the current test, and the lines of tests that are running."""
    found: list[str] = []
    frame = sys._getframe(2)
    while frame is not None and len(found) < _PLACES:
        path = frame.f_code.co_filename
        if path.startswith(_HERE):
            found.append(f"{os.path.relpath(path, _HERE)}:{frame.f_lineno}")
        frame = frame.f_back  # type: ignore[assignment]
    return f"{os.environ.get('PYTEST_CURRENT_TEST', 'no test')}, {' < '.join(found)}"
