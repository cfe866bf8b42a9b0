"""``close``: whether it commits, and which offsets. The rules are here alone. The guide has them for users.

They are about automatic commits (``enable_auto_commit=True``). A commit says that records are processed, and only the
application knows that. So each rule is about a sign that it gives. A wrong guess may repeat records. It must not lose
any: at least once. Rule 7 is about all consumers.

Rules

1. Asking for more says that everything returned before is processed. So commits at intervals, and those before a
   rebalance takes partitions away, cover the records of earlier calls. They run inside ``poll`` and iteration. As in
   Java, ``assign`` commits, too, if the interval is over: it may drop partitions. A program that catches an error and
   asks for more has skipped the record. To read it again it must ``seek``.
2. Closing in good order says the same. ``close`` and the normal end of a ``with`` block commit all positions, as Java
   does. Iteration has moved them past the record that it yielded last, and no further.
3. An exception says the opposite. If one leaves the ``with`` block, or is being handled where ``close`` is called
   (``finally: consumer.close()``), closing does not commit. Ctrl-C, ``SystemExit``, a cancelled task and a closed
   generator count, too: they come in the middle of the work. kafka-python 3 does so at the end of ``with``. Java and
   aiokafka commit, and lose the records.
4. An exception that was being handled when the consumer was made is not its own: a program may run in an ``except``.
5. ``WakeupError`` out of ``poll`` or iteration is a good order: that is how Java's consumers and ``stop_on_signals``
   end, and rule 1 covers the records. Out of another call it comes in the middle of the records. Then closing does
   not commit unless more was asked for since, even if the error was caught.
6. On an event loop, a task that closes does not know if another one has processed the last records. If the task that
   was given them still runs and does not wait for more, or was cancelled, the commit ends before them. With threads
   this cannot be known: a pool's threads live on when their work is done. Close when those that process have ended.
7. By rules 3, 5 and 6 the positions go back before the last records, also without automatic commits. So a rebalance
   listener that commits while the consumer closes does not commit them either.
8. Offsets given to ``store_offsets`` are of finished records, as the application has said. They are always
   committed.
9. No offset is committed by ``unsubscribe`` (as in Java), or for a consumer that was dropped without ``close``, by the
   garbage collector or at the end of the process. Such a consumer only leaves the group.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable

from pyconsumer.errors import WakeupError

__all__ = ["CommitOnClose"]

_log = logging.getLogger("pyconsumer.consumer")


class CommitOnClose:
    """Decides whether closing the consumer commits the positions. The module's rules apply.

    Args:
        takes_positions: True if commits are automatic and cover the positions.
        polls: returns how often the application has asked for records.
        at_hand: returns whether the last call for records returned any.
        take_back: moves the positions back to the first of those records. It returns False if that is impossible.
    """

    __slots__ = ("_at_hand", "_handled", "_left_by", "_polls", "_take_back", "_takes_positions", "_woken_at")

    def __init__(
        self,
        *,
        takes_positions: bool,
        polls: Callable[[], int],
        at_hand: Callable[[], bool],
        take_back: Callable[[], bool],
    ) -> None:
        self._takes_positions = takes_positions
        self._polls = polls
        self._at_hand = at_hand
        self._take_back = take_back
        self._handled = sys.exception()
        self._left_by: tuple[BaseException | None] | None = None
        self._woken_at = -1

    def note_wakeup(self) -> None:
        """Note that a call raised ``WakeupError`` and therefore returned no records (rule 5)."""
        self._woken_at = self._polls()

    def leave(self, error: BaseException | None) -> None:
        """Note how a ``with`` block ended: by this exception, or normally with None.

        From now on this decides, instead of the exception that is being handled.
        """
        self._left_by = (error,)

    def decide(self, *, busy: bool = False) -> bool:
        """Return whether closing commits the positions.

        Call this directly in the application's ``close``, because of rule 3.

        Args:
            busy: True if another task has not finished the last records (rule 6).
        """
        handled, self._handled = self._handled, None
        error = sys.exception() if self._left_by is None else self._left_by[0]
        orderly = error is None or error is handled or (isinstance(error, WakeupError) and not self._at_hand())
        if orderly and self._woken_at != self._polls():
            return not busy or self._take_back() or not self._takes_positions
        self._take_back()
        if not self._takes_positions:
            return True
        cause = type(error or WakeupError()).__name__
        _log.info("closing without committing the positions, because %s ended the work", cause)
        return False
