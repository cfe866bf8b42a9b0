"""The library's warnings on standard error, and the effect of a command's first signal."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys

import pytest

from pyconsumer.child_python import child_environment
from pyconsumer.cli.notices import library_warnings
from pyconsumer.errors import KafkaConnectionError

NETWORK = logging.getLogger("pyconsumer.network")
REFUSED = KafkaConnectionError("TCP connection to h:1 failed: Connection refused", stage="TCP", address="h:1")


def test_each_warning_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    with library_warnings() as notices:
        assert notices.unreachable is None
        for seconds in (10.0, 20.0):
            NETWORK.warning("node %s: %s", 0, REFUSED)
            NETWORK.warning("starting over with bootstrap_servers: %s (%s)", "no known broker can be reached", REFUSED)
            NETWORK.warning("no broker at h:9 has responded for %.1f s", seconds)
        NETWORK.info("not a warning")
    NETWORK.warning("after the command")
    assert notices.unreachable is REFUSED
    assert capsys.readouterr().err.splitlines() == [
        f"Warning: node 0: {REFUSED}",
        "Warning: no broker at h:9 has responded for 10.0 s",
    ]


def test_other_causes_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    other = KafkaConnectionError("TCP connection to i:1 failed: Connection refused", stage="TCP", address="i:1")
    with library_warnings():
        NETWORK.warning("node %s: %s", 0, REFUSED)
        NETWORK.warning("node %s: %s", 1, other)
        NETWORK.warning("starting over: %s (%s)", "all failed", f"{REFUSED}; {other}")
        NETWORK.warning("starting over: %s (%s)", "all failed", f"{REFUSED}; a third one")
    assert len(capsys.readouterr().err.splitlines()) == 3


def test_a_logger_may_be_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    with library_warnings("pyconsumer.records"):
        NETWORK.warning("of the network")
        logging.getLogger("pyconsumer.records").warning("of records")
    assert capsys.readouterr().err == "Warning: of records\n"


PROGRAM = """
import sys, threading, time
from pyconsumer.cli.ending import FirstSignal, Terminated
try:
    with FirstSignal("interrupted; see the folder"):
        try:
            print("ready", flush=True)
            threading.Event().wait(60)
        finally:
            print("cleaning", flush=True)
            sys.stdin.readline()  # further signals come in the meantime
            print("cleaned", flush=True)
except (Terminated, KeyboardInterrupt) as error:
    print(type(error).__name__, flush=True)
"""


@pytest.mark.parametrize(("first", "name"), [(signal.SIGINT, "KeyboardInterrupt"), (signal.SIGTERM, "Terminated")])
def test_later_signals_do_not_interrupt_the_shutdown_of_the_first(first: signal.Signals, name: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=child_environment(),
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(first)
        assert process.stdout.readline() == "cleaning\n"
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)
        output, errors = process.communicate("\n", timeout=60)
    assert output.splitlines() == ["cleaned", name]
    assert errors == "\ninterrupted; see the folder\n"
