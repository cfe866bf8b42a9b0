"""Installed as the package ``pyspark_pyconsumer``, by which Spark finds ``format("pyconsumer")`` without a call.

Spark imports every top-level package ``pyspark_*`` and looks for ``DefaultSource``. An import that fails hides the data
sources of all other packages. So imports wait until ``DefaultSource`` is accessed, and a failure then hides this
source only.
"""

from __future__ import annotations

from typing import Any

__all__ = ["DefaultSource"]


def __getattr__(name: str) -> Any:
    if name == "DefaultSource":
        try:
            from pyconsumer.spark.source import KafkaDataSource
        except Exception as error:  # Spark skips a package without DefaultSource
            raise AttributeError(f"pyconsumer's data source cannot be used: {error}") from error
        return KafkaDataSource
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
