"""The end of the interpreter: producers that were not closed send what they can, and what they cannot is logged.

Daemon threads still run while ``atexit`` functions do, so the senders' threads do the work; this waits for them.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
import weakref
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyconsumer.producer.sender import Sender

__all__ = ["finish_at_exit"]

from pyconsumer.background_log import Log

_log = Log("pyconsumer.producer")

#: Seconds that the interpreter waits for all producers together; less if a record may not take as long.
LONGEST_WAIT_S: Final = 5.0
_LAST_TURN_S: Final = 0.5

_running: weakref.WeakKeyDictionary[Sender, tuple[threading.Thread, int]] = weakref.WeakKeyDictionary()


def finish_at_exit(sender: Sender, thread: threading.Thread) -> None:
    """Wait for a sender at the end of the interpreter, unless its thread has ended before."""
    _running[sender] = thread, os.getpid()


@atexit.register
def _finish() -> None:
    pid = os.getpid()
    left = [
        (sender, thread) for sender, (thread, owner) in list(_running.items()) if owner == pid and thread.is_alive()
    ]
    began = time.monotonic()
    for sender, _ in left:
        sender.finish()
    for sender, thread in left:
        wait = min(LONGEST_WAIT_S, sender.delivery_timeout)
        try:
            thread.join(max(0.0, began + wait - time.monotonic()))
        finally:  # also when Ctrl-C ends the wait
            _report(sender, time.monotonic() - began)
            sender.give_up()
    for _, thread in left:
        thread.join(_LAST_TURN_S)


def _report(sender: Sender, waited: float) -> None:
    counts = sender.unacknowledged()
    if counts:
        _log.warning(
            "producer %s: the program ends, and after %.1f s these records are not acknowledged: %s. They are lost"
            " unless the broker has them already; call flush() or close() before the end",
            sender.label,
            waited,
            ", ".join(f"{count} of topic {topic}" for topic, count in sorted(counts.items())),
        )
