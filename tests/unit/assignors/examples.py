"""The assignors of the package without balancing, and those of the program ``examples/custom_assignors.py``."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

from pyconsumer.assignors import BroadcastAssignor, RackAwareAssignor, RandomAssignor

__all__ = ["BroadcastAssignor", "OwnPositions", "RackAwareAssignor", "RandomAssignor", "StandbyAssignor"]

_PATH = Path(__file__).parents[3] / "examples" / "custom_assignors.py"


def _load() -> Any:
    spec = importlib.util.spec_from_file_location("custom_assignors", _PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


_module = _load()
OwnPositions = _module.OwnPositions
StandbyAssignor = _module.StandbyAssignor
