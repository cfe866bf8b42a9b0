"""Which event loop tests of the clients for asyncio run on: asyncio's, or the one named by ``PYCONSUMER_EVENT_LOOP``.

``PYCONSUMER_EVENT_LOOP=uvloop python -m pytest tests/behaviour -k "asyncio or aio"`` runs them on uvloop's: the tests
marked ``faces`` whose face is asyncio, and those marked ``asyncio``.
"""

from __future__ import annotations

import asyncio
import importlib
import os
from typing import Final

__all__ = ["EVENT_LOOP", "new_event_loop"]

#: ``asyncio``, or the name of a module with ``new_event_loop``.
EVENT_LOOP: Final = os.environ.get("PYCONSUMER_EVENT_LOOP") or "asyncio"


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Return a new loop of the kind that this run of the tests has."""
    loop: asyncio.AbstractEventLoop = importlib.import_module(EVENT_LOOP).new_event_loop()
    return loop
