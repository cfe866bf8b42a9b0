"""``kafka.version``: the version of kafka-python whose API :mod:`pyconsumer.compat.kafka` has."""

from __future__ import annotations

from typing import Final

from pyconsumer.compat.layers import LAYERS

__all__ = ["__version__"]

__version__: Final = LAYERS["kafka"].version
