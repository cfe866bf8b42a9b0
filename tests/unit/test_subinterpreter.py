"""An isolated subinterpreter (PEP 734), which allows no daemon threads and not our compiled modules."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MESSAGE = "pyconsumer cannot be used in an isolated subinterpreter (PEP 734)"


def test_an_isolated_subinterpreter_gets_one_clear_error() -> None:
    """The check of the package is used, since Python 3.11 has no such interpreters."""
    program = "import _thread; _thread.daemon_threads_allowed = lambda: False; from pyconsumer import KafkaConsumer"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(f"ImportError: {MESSAGE}")


@pytest.mark.skipif(sys.version_info < (3, 13), reason="needs the module _interpreters of Python 3.13")
def test_a_real_subinterpreter_gets_the_message_too() -> None:
    program = (
        "import _interpreters; number = _interpreters.create('isolated');"
        "print(_interpreters.exec(number, 'import pyconsumer').msg)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith(MESSAGE)
