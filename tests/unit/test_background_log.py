"""Tests of the queue between the package's threads and the handlers of logging."""

from __future__ import annotations

import gc
import logging
import os
import subprocess
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pyconsumer import background_log
from pyconsumer.background_log import LineQueue, Log, background, flush, stay_in_background

ROOT = Path(__file__).parents[2]
NAME = "pyconsumer.test_background_log"


class Kept(logging.Handler):
    """Keeps records. A record of the text "block" is not done before ``go``."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []
        self.threads: list[str] = []
        self.began, self.go = threading.Event(), threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.threads.append(threading.current_thread().name)
        self.records.append(record)
        if record.msg == "block":
            self.began.set()
            self.go.wait(30)

    @property
    def texts(self) -> list[str]:
        return [record.getMessage() for record in self.records]


@pytest.fixture
def kept() -> Iterator[Kept]:
    handler = Kept()
    logger = logging.getLogger(NAME)
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield handler
    handler.go.set()
    assert flush(30)
    logger.removeHandler(handler)
    logger.setLevel(logging.NOTSET)


def in_thread(call: Callable[[], object], name: str = "worker") -> int:
    """Run a function in a background thread to its end. Return the thread's identity."""
    thread = threading.Thread(target=background()(call), name=name)
    thread.start()
    thread.join(30)
    assert not thread.is_alive()
    assert thread.ident is not None
    return thread.ident


def test_other_threads_log_at_once(kept: Kept) -> None:
    Log(NAME).info("%d of %s", 1, "two")
    assert kept.texts == ["1 of two"]
    assert kept.threads == [threading.current_thread().name]
    assert (kept.records[0].funcName, kept.records[0].filename) == (
        "test_other_threads_log_at_once",
        "test_background_log.py",
    )


def test_a_line_of_our_threads_keeps_its_origin(kept: Kept) -> None:
    before = time.time()
    changing = ["as it was"]

    def work() -> None:
        Log(NAME).warning("%s, %d", "text", 7)
        Log(NAME, label="group=g").warning("%s", changing)
        changing[0] = "changed"
        try:
            raise ValueError("wrong")
        except ValueError:
            Log(NAME).exception("failed")

    ident = in_thread(work, "sender 7")
    assert flush(30)
    assert kept.texts == ["text, 7", "[group=g] ['as it was']", "failed"]
    assert set(kept.threads) == {"pyconsumer-log"}
    line = kept.records[0]
    assert (line.msg, line.args) == ("%s, %d", ("text", 7))  # error trackers group lines by these
    assert (line.threadName, line.thread, line.funcName, line.levelname) == ("sender 7", ident, "work", "WARNING")
    assert before <= line.created <= time.time()
    assert line.msecs == int(line.created % 1 * 1000)
    assert kept.records[2].exc_info is not None
    assert kept.records[2].exc_info[0] is ValueError


def test_lines_below_the_level_are_not_formatted_or_handled(kept: Kept) -> None:
    class Unprintable:
        def __str__(self) -> str:
            raise AssertionError("formatted")

    log = Log(NAME)
    assert log.logger.level == logging.INFO
    in_thread(lambda: log.debug("%s", Unprintable()))
    logging.disable(logging.INFO)
    try:
        in_thread(lambda: log.info("disabled"))
    finally:
        logging.disable(logging.NOTSET)
    assert flush(30)
    assert kept.texts == []


def test_a_line_that_cannot_be_formatted_harms_no_thread_of_ours(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", False)  # logging would print it to standard error
    in_thread(lambda: Log(NAME).info("%d", [1]))
    in_thread(lambda: Log(NAME).info("next"))
    assert flush(30)
    assert [record.msg for record in kept.records] == ["%d", "next"]


def test_always_is_for_lines_under_a_lock(kept: Kept) -> None:
    Log(NAME, always=True).info("one")
    assert flush(30)
    assert kept.threads == ["pyconsumer-log"]


def test_our_threads_take_no_lock_of_logging(kept: Kept) -> None:
    """The factory of a handler runs under the lock of logging, which ``isEnabledFor`` takes if its cache is empty."""
    import logging.config

    ended = []

    def factory() -> logging.Handler:
        with kept.lock:  # type: ignore[union-attr]
            in_thread(lambda: Log(NAME).info("while both locks are held"))
            ended.append(True)
        return logging.NullHandler()

    logging.getLogger(NAME).setLevel(logging.INFO)  # this empties the caches
    logging.config.dictConfig(
        {
            "version": 1,
            "incremental": False,
            "disable_existing_loggers": False,
            "handlers": {"h": {"()": factory}},
            "loggers": {f"{NAME}.other": {"handlers": ["h"]}},
        }
    )
    assert ended == [True]
    logging.getLogger(NAME).addHandler(kept)  # which dictConfig may have taken away
    assert flush(30)


def test_more_lines_than_the_queue_takes_are_counted(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = LineQueue(limit=3)
    queue._log = Log(NAME)
    monkeypatch.setattr(background_log, "_queue", queue)
    log = Log(NAME, always=True)
    log.info("block")
    assert kept.began.wait(30)
    for number in range(10):
        log.info("%d", number)
    assert not queue.flush(0.01)
    kept.go.set()
    assert queue.flush(30)
    log.info("after")
    assert queue.flush(30)
    assert kept.texts[:4] == ["block", "0", "1", "2"]
    assert kept.texts[-1] == "after"
    (dropped,) = [text for text in kept.texts if "dropped" in text]
    assert dropped.startswith("7 lines of the log were dropped here")


def test_a_handler_that_raises_does_not_stop_the_log_thread(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    reported = []
    monkeypatch.setattr(threading, "excepthook", lambda args: reported.append(args.exc_value))

    def refuse(record: logging.LogRecord) -> bool:
        if record.msg == "first":
            raise SystemExit(3)
        return True

    kept.addFilter(refuse)
    log = Log(NAME, always=True)
    log.info("first")
    log.info("second")
    assert flush(30)
    assert kept.texts == ["second"]
    assert isinstance(reported[0], SystemExit)


def test_a_handler_that_logs_through_us_is_not_called_within_itself(kept: Kept) -> None:
    log = Log(NAME)

    class Echo(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.msg == "first":
                log.info("second")

    echo = Echo()
    logging.getLogger(NAME).addHandler(echo)
    try:
        in_thread(lambda: log.info("first"))
        assert flush(30)
        assert flush(30)
    finally:
        logging.getLogger(NAME).removeHandler(echo)
    assert kept.texts == ["first", "second"]


def test_warnings_of_our_threads_are_issued_by_the_log_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[tuple[str, str]] = []

    def show(message: object, *_: object, **__: object) -> None:
        found.append((str(message), threading.current_thread().name))

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        monkeypatch.setattr(warnings, "showwarning", show)
        in_thread(lambda: background_log.warn("unclosed", ResourceWarning, source=object()))
        assert flush(30)
        background_log.warn("at once", ResourceWarning)
    assert found == [("unclosed", "pyconsumer-log"), ("at once", threading.current_thread().name)]


def test_threads_that_others_make_can_be_marked(kept: Kept) -> None:
    def run() -> None:
        stay_in_background()
        Log(NAME).info("marked")

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    Log(NAME).info("not marked")
    assert flush(30)
    assert sorted(zip(kept.texts, kept.threads, strict=True)) == [
        ("marked", "pyconsumer-log"),
        ("not marked", threading.current_thread().name),
    ]


def test_a_forked_child_logs_its_own_lines_only(kept: Kept) -> None:
    log = Log(NAME, always=True)
    log.info("block")
    assert kept.began.wait(30)
    log.info("of the parent")
    child = os.fork()
    if child == 0:
        status = 1
        try:
            logging.getLogger(NAME).removeHandler(kept)  # its lock may be held by a thread that is not here
            own = Kept()
            logging.getLogger(NAME).addHandler(own)
            log.info("of the child")
            status = 0 if flush(30) and own.texts == ["of the child"] else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    kept.go.set()
    assert flush(30)
    assert kept.texts == ["block", "of the parent"]


AT_EXIT = """
import logging, sys, threading
from pyconsumer.background_log import Log, background

class Slow(logging.StreamHandler):
    def emit(self, record):
        if "{block}":
            threading.Event().wait()
        super().emit(record)

logging.getLogger().addHandler(Slow(sys.stdout))
threading.Thread(target=background()(lambda: Log("pyconsumer").warning("the last line"))).start()
"""


def test_the_end_of_the_interpreter_waits_for_the_last_lines() -> None:
    done = subprocess.run(
        [sys.executable, "-c", AT_EXIT.format(block="")], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "the last line\n", "")


AT_EXIT_BLOCKED = """
import os, threading, time
from pyconsumer import background_log
from pyconsumer.background_log import Log, background
import logging

class Blocking(logging.Handler):
    def createLock(self):
        self.lock = None  # logging.shutdown would wait for it
    def handle(self, record):  # from 3.13 on, the inherited one needs a lock
        threading.Event().wait()

logging.getLogger().addHandler(Blocking())
Log("pyconsumer", always=True).warning("the last line")
began = time.monotonic()
background_log.flush()
assert 0.9 <= time.monotonic() - began
"""


@pytest.mark.slow
def test_the_end_of_the_interpreter_does_not_wait_for_a_handler_that_blocks() -> None:
    done = subprocess.run([sys.executable, "-c", AT_EXIT_BLOCKED], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_line_keeps_no_object_of_its_callers() -> None:
    class Held:
        pass

    def call() -> weakref.ref[Held]:
        held = Held()
        Log("pyconsumer.test", always=True).warning("a line")
        return weakref.ref(held)

    gc.disable()  # a cycle of frames would be found by it alone
    try:
        assert call()() is None
    finally:
        gc.enable()
