"""The end of the interpreter: producers that were not closed still send their records.

Daemon threads still run while ``atexit`` functions do, so the senders' threads do the work, and this waits for them.

``atexit`` functions that were registered before this module run later: ``logging.shutdown`` closes handlers, which may
send a last line. So a producer whose records are all acknowledged stays open. From then on ``send`` returns when its
record is acknowledged, since no call waits for it afterwards. That holds for daemon threads, too. A producer with an
open transaction aborts it and ends, and so does one that could not send everything in time.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
import weakref
from typing import TYPE_CHECKING, Final

from pyconsumer.background_log import Log

if TYPE_CHECKING:
    from pyconsumer.producer.implementation import Appender
    from pyconsumer.producer.sender import Sender

__all__ = ["finish_at_exit"]

_log = Log("pyconsumer.producer")

_LAST_TURN_S: Final = 0.5

_running: weakref.WeakKeyDictionary[Sender, tuple[threading.Thread, Appender, int]] = weakref.WeakKeyDictionary()


def finish_at_exit(sender: Sender, thread: threading.Thread, appender: Appender) -> None:
    """Wait at the end of the interpreter until a sender is finished. If its thread has ended, return at once."""
    _running[sender] = thread, appender, os.getpid()


@atexit.register
def _finish() -> None:
    pid = os.getpid()
    left = [
        (sender, thread, appender)
        for sender, (thread, appender, owner) in list(_running.items())
        if owner == pid and thread.is_alive()
    ]
    began = time.monotonic()
    ending = set()
    for sender, _, appender in left:
        appender.close()  # each further record takes the way on which `send` can wait
        if sender.holds_transaction:
            ending.add(sender)
            sender.finish()
        else:
            sender.begin_exit()
    for sender, thread, _ in left:
        wait = max(0.0, began + sender.exit_timeout - time.monotonic())
        try:
            if sender in ending:
                thread.join(wait)
            else:
                sender.wait_until_sent(wait)
        finally:  # also when Ctrl-C ends the wait
            if _report(sender, time.monotonic() - began):
                ending.add(sender)
            if sender in ending:
                sender.give_up()
    for sender, thread, _ in left:
        if sender in ending:
            thread.join(_LAST_TURN_S)


def _report(sender: Sender, waited: float) -> bool:
    """Log the records that are not acknowledged, and return whether there are any."""
    counts = sender.unacknowledged()
    if counts:
        _log.warning(
            "producer %s: the program ends, and after %.1f s these records are not acknowledged: %s. They are lost"
            " unless the broker has them already. Call flush() or close() before the end",
            sender.label,
            waited,
            ", ".join(f"{count} of topic {topic}" for topic, count in sorted(counts.items())),
        )
    return bool(counts)
