"""Log lines and warnings of the package's own threads. One daemon thread passes them to :mod:`logging`.

A log handler is code of the application, and it has locks. An application may hold such a lock while it waits for one
of our threads. ``logging.config.dictConfig`` closes the old handlers under the lock of the whole module, and a handler
that owns a producer waits for its sender thread then. A handler may also block: a pipe without a reader is full after
64 KiB. So a thread of ours that logs could wait for a thread that waits for it, or a member could lose its partitions
because its standard error has no reader.

Rules

1. A thread that others wait for runs within :func:`background`: the producer's sender, the heartbeat thread, the loop
   of a broker. Its lines go into a queue, and the log thread passes them on. It takes no lock of :mod:`logging`, of
   :mod:`warnings` or of a handler. ``logging.getLogger`` takes one, so the log thread calls it. So does
   ``Logger.isEnabledFor``: levels are read without it here, and the log thread asks again.
2. Lines that are written under a lock of ours go into the queue in every thread (``Log(..., always=True)``). Otherwise
   a handler that blocks would keep that lock.
3. In other threads a line is logged at once, as by any library.
4. No thread waits for the log thread, except at the end of the interpreter, for :data:`EXIT_WAIT_S`.
5. The queue has a limit. Further lines are dropped, and a line says how many.
6. Adding to the queue is safe in a finalizer, in the middle of anything: it appends to a deque and releases a lock.
7. The log thread starts with the first line. A forked child has none and an empty queue: the parent logs those lines.
8. A line keeps the time, thread and place of its origin. Arguments that may change are formatted at once.
"""

from __future__ import annotations

import _thread
import atexit
import contextlib
import logging
import os
import sys
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from types import FrameType, TracebackType
from typing import Final, NamedTuple, Protocol

from pyconsumer import log_fields

__all__ = ["EXIT_WAIT_S", "LineQueue", "Log", "background", "flush", "stay_in_background", "warn"]

#: Seconds that the end of the interpreter waits for lines that are still queued.
EXIT_WAIT_S: Final = 1.0
#: Lines that may wait. More are dropped.
LIMIT: Final = 1_000

_ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None]
#: Types of arguments that do not change, so that they may be formatted later.
_CONSTANT: Final = (str, int, float, BaseException, type(None))


class _Thread(threading.local):
    """Facts about the current thread."""

    depth = 0  # of blocks with background()

    def enter(self, step: int) -> None:
        self.depth += step


_current = _Thread()


@contextlib.contextmanager
def background() -> Iterator[None]:
    """Put the log lines and warnings of this thread into the queue while the block runs."""
    _current.enter(1)
    try:
        yield
    finally:
        _current.enter(-1)


def stay_in_background() -> None:
    """Put the log lines and warnings of this thread into the queue until the thread ends.

    For threads that other code starts.
    """
    _current.enter(1)


class _Item(Protocol):
    def deliver(self) -> None:
        """Pass it on, in the log thread."""
        ...


class _Place(NamedTuple):
    """The place of a statement, as a log line names it."""

    path: str
    line: int
    function: str

    @classmethod
    def of(cls, frame: FrameType | None) -> _Place:
        return cls("(unknown file)", 0, "(unknown function)") if frame is None else _place(frame)


def _place(frame: FrameType) -> _Place:
    return _Place(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)


class _Line(NamedTuple):
    log: Log
    level: int
    text: str
    args: tuple[object, ...]
    exc_info: _ExcInfo | None
    place: _Place
    created: float
    thread: int
    thread_name: str
    client: tuple[str | None, str | None]

    def deliver(self) -> None:
        logger = self.log.logger
        if not logger.isEnabledFor(self.level):
            return
        path, line, function = self.place
        record = logger.makeRecord(
            logger.name, self.level, path, line, self.text, self.args, self.exc_info, func=function
        )
        vars(record).update(
            created=self.created,
            msecs=int(self.created % 1 * 1000) + 0.0,
            relativeCreated=record.relativeCreated - (record.created - self.created) * 1000,
            thread=self.thread,
            threadName=self.thread_name,
            client_id=self.client[0],
            group_id=self.client[1],
        )
        logger.handle(record)


class _Warning(NamedTuple):
    text: str
    category: type[Warning]
    place: _Place

    def deliver(self) -> None:
        warnings.warn_explicit(self.text, self.category, self.place.path, self.place.line)


class _Mark:
    """A place in the queue that a thread waits for."""

    def __init__(self) -> None:
        self._reached = _thread.allocate_lock()
        self._reached.acquire()

    def deliver(self) -> None:
        self._reached.release()

    def wait(self, timeout_s: float) -> bool:
        return self._reached.acquire(timeout=timeout_s)


class LineQueue:
    """A queue of log lines, and the thread that passes them to :mod:`logging`.

    Args:
        limit: the largest number of waiting lines.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._log = Log("pyconsumer")
        self.reset()

    def reset(self) -> None:
        """Start with an empty queue and without a thread, as in a forked child."""
        self._items: deque[_Item] = deque()
        self._work = _thread.allocate_lock()  # free while there is something to do
        self._work.acquire()
        self._guard = threading.RLock()  # for the two attributes below; a finalizer may come here again
        self._dropped = 0
        self._thread: int | None = None

    def add(self, item: _Item) -> None:
        """Queue an item. If too many are waiting, drop it. This never waits."""
        if len(self._items) >= self._limit:
            with self._guard:
                self._dropped += 1
            return
        self._put(item)

    def flush(self, timeout_s: float) -> bool:
        """Wait until all queued lines have been logged. Return False if that takes longer than ``timeout_s``."""
        if self._thread == _thread.get_ident():
            return False
        if self._thread is None:
            self._deliver_all()
            return True
        mark = _Mark()
        self._put(mark)
        return mark.wait(timeout_s)

    def _put(self, item: _Item) -> None:
        self._items.append(item)
        if self._thread is None:
            self._start()
        with contextlib.suppress(RuntimeError):  # it is free already
            self._work.release()

    def _start(self) -> None:
        with self._guard:
            if self._thread is None:
                # Not threading.Thread: its start() takes locks, and waits for the thread.
                with contextlib.suppress(RuntimeError):  # the interpreter ends, and flush() delivers
                    self._thread = _thread.start_new_thread(self._run, ())

    def _run(self) -> None:
        setattr(threading.current_thread(), "name", "pyconsumer-log")  # noqa: B010 (see _start: it has no other name)
        with background():  # a handler may use a client of ours, whose lines must not come back here at once
            while True:
                self._work.acquire()
                self._deliver_all()

    def _deliver_all(self) -> None:
        while self._items:
            try:
                item = self._items.popleft()
            except IndexError:  # another thread was quicker
                return
            try:
                item.deliver()
                if self._dropped and not self._items:
                    self._report_dropped()
            except BaseException:  # of a filter, or of a handler that raises
                kind, error, trace = sys.exc_info()
                assert kind is not None
                threading.excepthook(threading.ExceptHookArgs((kind, error, trace, threading.current_thread())))

    def _report_dropped(self) -> None:
        with self._guard:
            count, self._dropped = self._dropped, 0
        self._log.logger.warning(
            "%d lines of the log were dropped here, because the log's handlers took more than %d too slowly",
            count,
            self._limit,
        )


def _forked() -> None:
    _queue.reset()


def flush(timeout_s: float = EXIT_WAIT_S) -> bool:
    """Wait until all lines that are in the queue now have been logged.

    Do not call it while you hold a lock that a log handler takes.

    Returns:
        False if that takes longer than ``timeout_s`` seconds.
    """
    return _queue.flush(timeout_s)


atexit.register(flush)  # before logging.shutdown, which was registered earlier, and after the producers' last lines


class Log:
    """A logger for modules that run in the package's own threads. The module has the rules.

    Args:
        name: name of the logger.
        always: True puts the lines of every thread into the queue, because some of them are written under a lock.
        label: a text that begins each line, in brackets.
    """

    def __init__(self, name: str, *, always: bool = False, label: str = "") -> None:
        self._name = name
        self._found: logging.Logger | None = None
        self._always = always
        self._label = log_fields.escaped(label)

    @property
    def logger(self) -> logging.Logger:
        """The logger. The package's own threads must not use it, since the first use takes a lock of :mod:`logging`."""
        found = self._found
        if found is None:
            found = self._found = logging.getLogger(self._name)
        return found

    def debug(self, text: str, *args: object) -> None:
        """Log a line at level DEBUG."""
        if self.may_want(logging.DEBUG):
            self._write(logging.DEBUG, text, args)

    def info(self, text: str, *args: object) -> None:
        """Log a line at level INFO."""
        if self.may_want(logging.INFO):
            self._write(logging.INFO, text, args)

    def warning(self, text: str, *args: object) -> None:
        """Log a line at level WARNING."""
        if self.may_want(logging.WARNING):
            self._write(logging.WARNING, text, args)

    def error(self, text: str, *args: object, exc_info: BaseException | None = None) -> None:
        """Log a line at level ERROR, with the traceback of ``exc_info``."""
        if self.may_want(logging.ERROR):
            self._write(logging.ERROR, text, args, exc_info)

    def exception(self, text: str, *args: object) -> None:
        """Log a line at level ERROR, with the exception that is being handled."""
        if self.may_want(logging.ERROR):
            self._write(logging.ERROR, text, args, sys.exc_info()[1])

    def log(self, level: int, text: str, *args: object) -> None:
        """Log a line at a level."""
        if self.may_want(level):
            self._write(level, text, args)

    def may_want(self, level: int) -> bool:
        """Return the result of ``Logger.isEnabledFor``, without its cache, lock, and the methods of a subclass."""
        logger = self._found
        if logger is None:
            if self._always or _current.depth > 0:
                return True  # the log thread looks
            logger = self.logger
        if logger.disabled or logger.manager.disable >= level:
            return False
        return level >= logging.Logger.getEffectiveLevel(logger)

    def _write(self, level: int, text: str, args: tuple[object, ...], error: BaseException | None = None) -> None:
        if self._label:
            text, args = f"[%s] {text}", (self._label, *args)
        if not self._always and _current.depth == 0:
            self.logger.log(level, text, *args, exc_info=error, stacklevel=3)
            return
        if not all(isinstance(arg, _CONSTANT) for arg in args):
            with contextlib.suppress(Exception):  # then logging reports it, in the log thread
                text, args = text % args, ()
        caller = sys._getframe(1).f_back  # this frame has no name here: it would keep itself, and all below it
        exc_info = None if error is None else (type(error), error, error.__traceback__)
        thread = threading.current_thread()
        _queue.add(
            _Line(
                self,
                level,
                text,
                args,
                exc_info,
                _Place.of(caller),
                time.time(),
                _thread.get_ident(),
                thread.name,
                _client_of(caller),
            )
        )


def _client_of(frame: FrameType | None) -> tuple[str | None, str | None]:
    try:
        return log_fields.client_of(frame)
    except Exception:  # a line without its client is better than none
        return None, None


log_fields.install()
_queue: Final = LineQueue()
os.register_at_fork(after_in_child=_forked)


def warn(
    text: str,
    category: type[Warning],
    *,
    stacklevel: int = 1,
    source: object = None,
    _current: _Thread = _current,  # for finalizers: at the end of the interpreter modules have lost their names
    _warn: Callable[..., None] = warnings.warn,
    _frame: Callable[[], FrameType | None] = sys._getframe,
) -> None:
    """Issue a warning like :func:`warnings.warn`. In the package's own threads, put it into the queue.

    The application can replace ``warnings.warn`` by its own code.

    Args:
        stacklevel: 1 means the place of the caller.
        source: the object that was not closed. In the package's own threads it is not kept, because it is being
            finalized.
    """
    if _current.depth == 0:
        _warn(text, category, stacklevel=stacklevel + 1, source=source)
        return
    frame = _frame()
    for _ in range(stacklevel):
        frame = frame and frame.f_back
    _queue.add(_Warning(text, category, _Place.of(frame)))
