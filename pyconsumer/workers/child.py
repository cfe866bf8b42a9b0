"""A worker process: it calls the function for the records that come through a pipe.

Rules

1. It sends an empty list when it can begin. Until then no time of a record counts. It ends when the pipe ends, also
   when the program died that owns it.
2. Ctrl-C in a terminal, and often SIGTERM, go to all processes of the program. They are ignored here: the owner
   decides.
3. The owner may take back records that did not begin, by a mark. A record begins, and is taken back, under a lock. The
   child ends its list at such a record. It reports the end of each list, so that marks never belong to another one.
4. Results go back at once after an exception, and if the function takes long. Else several are reported
   together (:data:`_REPORT_S`). Marks in shared memory show the finished ones, should this process be killed.
5. An exception or a result that cannot be pickled, here or by the owner, becomes a ``RuntimeError`` with its text.
6. Records that the function returns go back pickled. A record with results is not marked as done: should this process
   be killed before they have gone back, the function is called again.
"""

from __future__ import annotations

import importlib
import pickle
import signal
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any, Final

from pyconsumer.telemetry import Client, hooks
from pyconsumer.workers.dead_letters import safe_text
from pyconsumer.workers.results import records_of

__all__ = ["DONE", "RETURNED", "RUNNING", "TAKEN_BACK", "Failure", "Result", "error_of", "serve"]

RUNNING: Final = 1  #: mark of the record whose function was called
DONE: Final = 2  #: mark of a record whose function has returned
RETURNED: Final = 3  #: mark of a record whose function has returned results
TAKEN_BACK: Final = 4  #: mark of a record that the owner has taken back

_REPORT_S: Final = 0.005

Failure = tuple[bytes, str]
"""An exception, pickled, and its class and text. The bytes are empty if it cannot be pickled."""

Result = bytes | Failure | None
"""The pickled records that the function has returned, its exception, or None."""


def serve(
    pipe: Connection,
    handle: Callable[[Any], Any],
    marks: Any,
    lock: Any,
    has_results: bool = False,
    client: Client | None = None,
    modules: Sequence[str] = (),
) -> None:
    """Process records until the pipe ends.

    Args:
        pipe: brings lists of pickled records, and takes lists of results, with True if the list ends. A result is None
            for a record that is done, the pickled records that the function has returned, or its exception.
        handle: the function.
        marks: bytes in shared memory, one for each record of a list.
        lock: guards the beginning of a record.
        has_results: True if the function's value is of interest.
        client: the consumer that has polled the records, for the hooks of this process.
        modules: that records need, imported before the first time of a record counts.
    """
    hooks.client_opened()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    for name in modules:
        importlib.import_module(name)
    pipe.send(([], True))
    while True:
        try:
            records = pipe.recv()
        except (EOFError, OSError):
            if hooks.active is not None:
                hooks.active.flush()
            return  # each record is pickled by itself, so a bad one is an error of its own
        results: list[Result] = []
        reported = time.monotonic()
        for place, record in enumerate(records):
            with lock:
                if marks[place] == TAKEN_BACK:
                    break
                marks[place] = RUNNING
            result = _call(handle, record, has_results, client)
            results.append(result)
            now = time.monotonic()
            failed = isinstance(result, tuple)
            if not failed:
                marks[place] = DONE if result is None else RETURNED
            if failed or now - reported > _REPORT_S:
                pipe.send((results, False))
                results = []
                reported = now
        pipe.send((results, True))


def error_of(failure: Failure) -> BaseException:
    """Return the exception of a function, in the owner's process."""
    pickled, text = failure
    try:
        found = pickle.loads(pickled)
    except Exception:  # perhaps its class is known to the worker process alone
        return RuntimeError(text)
    return found if isinstance(found, BaseException) else RuntimeError(text)


def _call(handle: Callable[[Any], Any], record: bytes, has_results: bool, client: Client | None) -> Result:
    try:
        work = pickle.loads(record)
        active = hooks.active
        if active is None or client is None:
            value = handle(work)
        else:
            with active.processing(client, work):
                value = handle(work)
        found = records_of(value) if has_results else None
        return pickle.dumps(found) if found else None
    except BaseException as error:
        text = f"{type(error).__module__}.{type(error).__qualname__}: {safe_text(error)}"
        try:
            pickled = pickle.dumps(error)
        except Exception:
            pickled = b""
        return pickled, text
