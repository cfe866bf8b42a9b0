"""The log of a broker that runs as a program: times, levels, and repeated lines merged into one."""

from __future__ import annotations

import io
import logging
import subprocess
import sys
from collections.abc import Iterator

import pytest

from pyconsumer.broker.console_log import CountingHandler
from pyconsumer.clock import ManualClock


class Log:
    """A logger with a handler on a clock that the test advances."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.stream = io.StringIO()
        self.handler = CountingHandler(self.stream, self.clock.now, timed=False)
        self.logger = logging.Logger("broker")
        self.logger.addHandler(self.handler)

    def lines(self) -> list[str]:
        return self.stream.getvalue().splitlines()


@pytest.fixture
def log() -> Iterator[Log]:
    made = Log()
    yield made
    made.handler.close()


def test_a_line_that_is_repeated_is_counted(log: Log) -> None:
    for _ in range(15):
        log.logger.error("cannot append to %s", "t-0")
        log.clock.advance(0.5)
    assert log.lines() == ["cannot append to t-0"]
    log.clock.advance(3.0)
    log.handler.report()
    assert log.lines() == ["cannot append to t-0", "cannot append to t-0 (repeated 14 times in 10 s)"]


def test_another_line_is_written_at_once(log: Log) -> None:
    for name in ("t-0", "t-1", "t-0"):
        log.logger.error("cannot append to %s", name)
    log.logger.warning("cannot append to t-0")
    assert log.lines() == ["cannot append to t-0", "cannot append to t-1", "cannot append to t-0"]


def test_a_line_is_repeated_after_ten_seconds(log: Log) -> None:
    for _ in range(3):
        log.logger.error("full")
        log.clock.advance(10.0)
    assert log.lines() == ["full"] * 3


def test_counted_events_are_written_at_the_end(log: Log) -> None:
    for _ in range(2):
        log.logger.error("full")
    log.clock.advance(4.0)
    log.handler.close()
    assert log.lines() == ["full", "full (repeated once in 4 s)"]


def test_many_different_lines_take_bounded_memory(log: Log) -> None:
    for number in range(1000):
        log.logger.error("line %d", number)
    assert len(log.lines()) == 1000
    assert len(log.handler._lines) == 100


@pytest.mark.slow
@pytest.mark.parametrize("command", [["-m", "pyconsumer", "broker"], ["-m", "pyconsumer.broker"]])
def test_lines_of_the_program_have_a_time_and_a_level(command: list[str]) -> None:
    program = (
        "import logging, runpy, sys\n"
        "import pyconsumer.broker.process as process, pyconsumer.broker\n"
        "def run(**_):\n"
        "    logging.getLogger('pyconsumer.broker.log').error('a line')\n"
        "    logging.getLogger('pyconsumer.broker.log').info('no line')\n"
        "    logging.getLogger('pyconsumer.broker.progress').info('progress')\n"
        "    return 0\n"
        "process.run_broker = pyconsumer.broker.run_broker = run\n"
        f"sys.argv = {command[1:]!r}\n"
        f"runpy.run_module({command[1]!r}, run_name='__main__', alter_sys=False)\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    first, second = ran.stderr.splitlines()
    assert first[:4].isdigit()
    assert first.endswith(" ERROR pyconsumer.broker.log: a line")
    assert second.endswith(" INFO pyconsumer.broker.progress: progress")
