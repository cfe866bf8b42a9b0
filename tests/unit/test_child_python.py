"""The path on which a child process finds its modules."""

from __future__ import annotations

import os
import sys

import pytest

from pyconsumer.child_python import _HERE, child_environment


@pytest.mark.parametrize(
    ("path", "given"),
    [
        (["/stdlib", _HERE, "/more"], ["/stdlib", _HERE, "/more"]),
        (["", "/stdlib"], [_HERE, "/stdlib"]),
    ],
)
def test_the_order_of_the_path_stays(monkeypatch: pytest.MonkeyPatch, path: list[str], given: list[str]) -> None:
    monkeypatch.setattr(sys, "path", path)
    assert child_environment()["PYTHONPATH"].split(os.pathsep) == given
