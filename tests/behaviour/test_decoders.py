"""The consumer on the other decoder: what was read by one of the twins in this run is read by the other, too."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pyconsumer.protocol.records import IMPLEMENTATION
from tests.support.process import Finished, run
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
    environment = {"PYCONSUMER_PURE": "1" if _OTHER == "pure" else ""}

    def python(*arguments: str) -> Finished:
        return run([sys.executable, *arguments], cwd=ROOT, env=environment, timeout_s=290)

    assert python("-c", _NAME).stdout.strip() == _OTHER
    options = ["-q", "-x", "-p", "no:cacheprovider", "-m", "not kafka", "--timeout", "120"]
    tested = python("-m", "pytest", *options, f"tests/behaviour/{tests}").check()
    assert " passed" in tested.stdout
