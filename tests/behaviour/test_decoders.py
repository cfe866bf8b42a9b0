"""The consumer on the other decoder: what was read by one of the twins in this run is read by the other, too."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pyconsumer.protocol.records import IMPLEMENTATION
from tests.unit.records.helpers import decoder_named

ROOT = Path(__file__).parents[2]
_OTHER = "pure" if IMPLEMENTATION == "native" else "native"
_NAME = "from pyconsumer.protocol.records import IMPLEMENTATION; print(IMPLEMENTATION)"


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("tests", ["test_poll_arrow.py", "test_consumer_assign_fetching.py"])
def test_the_consumer_works_on_the_other_decoder(tests: str) -> None:
    """On the embedded broker alone; ``PYCONSUMER_PURE=1`` lets the whole suite run on the twin in Python."""
    if decoder_named(_OTHER) is None:
        pytest.skip("the compiled decoder was not built")
    environment = {**os.environ, "PYCONSUMER_PURE": "1" if _OTHER == "pure" else ""}

    def python(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, *arguments]
        return subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=290, check=False
        )

    assert python("-c", _NAME).stdout.strip() == _OTHER
    options = ["-q", "-x", "-p", "no:cacheprovider", "-m", "not kafka", "--timeout", "120"]
    run = python("-m", "pytest", *options, f"tests/behaviour/{tests}")
    assert run.returncode == 0, run.stdout[-10_000:] + run.stderr
    assert " passed" in run.stdout
