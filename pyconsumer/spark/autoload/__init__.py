"""Installed as the package ``pyspark_pyconsumer``, by which Spark finds ``format("pyconsumer")`` without a call.

Spark imports every top-level package ``pyspark_*`` and looks for ``DefaultSource``. One that fails hides the data
sources of all others, so nothing is imported here until it is asked for, and what is missing hides this one only.
"""

from __future__ import annotations

from typing import Any

__all__ = ["DefaultSource"]


def __getattr__(name: str) -> Any:
    if name == "DefaultSource":
        try:
            from pyconsumer.spark.source import KafkaDataSource
        except Exception as error:  # whatever it is, the others must not suffer
            raise AttributeError(f"pyconsumer's data source cannot be used: {error}") from error
        return KafkaDataSource
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
