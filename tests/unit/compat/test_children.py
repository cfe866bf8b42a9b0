"""Each Python that a program starts has our clients, by ``install``, by the variable and by the command."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from pyconsumer.compat.__main__ import reads_the_variable
from tests.support.process import run

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not reads_the_variable(), reason="pyconsumer is not installed"),
    pytest.mark.skipif(sys.platform == "win32", reason="starts by fork and exec"),
]

_PROGRAM = str(Path(__file__).with_name("children.py"))
_OURS = "pyconsumer.compat.aiokafka.consumer.consumer"
_WAYS = {
    "install": ([_PROGRAM, "install"], ""),
    "variable": ([_PROGRAM], "aiokafka"),
    "command": (["-m", "pyconsumer.compat", "aiokafka", _PROGRAM], ""),
}


@pytest.mark.parametrize("way", _WAYS)
def test_every_child_has_our_clients(way: str, tmp_path: Path) -> None:
    arguments, variable = _WAYS[way]
    done = run([sys.executable, *arguments], env={"PYCONSUMER_COMPAT": variable}, cwd=tmp_path, timeout_s=120).check()
    children, after_exec = done.lines
    assert json.loads(children) == {
        "spawn": _OURS,
        "forkserver": _OURS,
        "fork": _OURS,
        "subprocess": _OURS,
        "isolated": _OURS,
        "shell": _OURS,
        "pytest": "passed",
    }
    assert after_exec == _OURS
