"""The selector, and ``Waker``, which interrupts its wait.

The standard library's selectors serve, except where gevent or eventlet has replaced ``select`` or ``socket``. There the
wait must let other greenlets run, so ``selectors2`` chooses among those of the replaced ``select``. It is slower: a
select takes 10.0 microseconds instead of 4.3, and every record that comes alone waits for one.
"""

from __future__ import annotations

import collections
import collections.abc
import contextlib
import selectors
import socket
import sys
import threading
from collections.abc import Iterable
from typing import Any, Final, Protocol

__all__ = ["EVENT_READ", "EVENT_WRITE", "Selector", "Waker", "is_monkey_patched", "new_selector"]

EVENT_READ = 1
EVENT_WRITE = 2


class Selector(Protocol):
    """The part of a selector's interface that the client uses.

    ``select`` gives ``(key, events)`` pairs. ``key.data`` is the registered object.
    """

    def register(self, fileobj: Any, events: int, data: Any = None) -> Any: ...

    def modify(self, fileobj: Any, events: int, data: Any = None) -> Any: ...

    def unregister(self, fileobj: Any) -> Any: ...

    def select(self, timeout: float | None = None) -> Iterable[tuple[Any, int]]: ...

    def close(self) -> None: ...


def new_selector() -> Selector:
    """Return the best selector of this system.

    It is chosen at the call, because a runtime may be monkey-patched at any time before.
    """
    selector: Selector = (_selectors2() if is_monkey_patched() else selectors).DefaultSelector()
    return selector


def is_monkey_patched() -> bool:
    """Return whether gevent or eventlet has replaced ``select`` or ``socket``. The check does not import them."""
    for module, question in _PATCHERS:
        is_patched = getattr(sys.modules.get(module), question, None)
        if is_patched is not None and any(map(is_patched, ("select", "socket"))):
            return True
    return False


#: The modules that patch, and the function of each that says whether it has patched a module.
_PATCHERS: Final = (("gevent.monkey", "is_module_patched"), ("eventlet.patcher", "is_monkey_patched"))


def _selectors2() -> Any:
    # One thread at a time: a second one could get the half-made module of an import that fails.
    with _IMPORTING:
        if "selectors2" in sys.modules:
            return sys.modules["selectors2"]
        # selectors2 2.0.2 needs collections.Mapping, which Python 3.10 moved: it has it while it is imported.
        missing = not hasattr(collections, "Mapping")
        if missing:
            vars(collections)["Mapping"] = collections.abc.Mapping
        try:
            import selectors2
        except ModuleNotFoundError:  # a Spark worker that was sent our package alone
            return selectors
        finally:
            if missing:
                del vars(collections)["Mapping"]
    return selectors2


_IMPORTING = threading.Lock()


class Waker:
    """Makes a selector's wait return, from any thread and from a signal handler.

    The socket pair contains at most one byte, and the flag says whether it does. :meth:`clear` removes the byte before
    it clears the flag. If a wake comes between these two steps, it writes no byte. The wait that has just returned then
    counts for it.
    """

    __slots__ = ("_reader", "_set", "_writer")

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        self._set = False

    def fileno(self) -> int:
        return self._reader.fileno()

    def wake(self) -> None:
        """End the current wait, or the next one if there is none. After :meth:`close` this has no effect."""
        if not self._set:
            self._set = True
            with contextlib.suppress(OSError):  # full: a byte is there; closed: nobody waits
                self._writer.send(b"\0")

    def clear(self) -> None:
        """Prepare for the next wake. The waiting thread calls this when its wait has returned."""
        with contextlib.suppress(OSError):
            self._reader.recv(64)
        self._set = False

    def close(self) -> None:
        self._reader.close()
        self._writer.close()
