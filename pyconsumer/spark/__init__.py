"""Kafka topics in Apache Spark, without a jar: ``spark.readStream.format("pyconsumer")`` and so on.

::

    from pyconsumer.spark import session

    spark = session()
    flights = (
        spark.read.format("pyconsumer")
        .option("kafka.bootstrap.servers", "localhost:9092")
        .option("subscribe", "flights")
        .load()
    )

Options, columns, offsets and checkpoints are those of Spark's own Kafka connector. :func:`lag` returns the lag of a
streaming query, :func:`lag_metrics` the same by the connector's names. :func:`split_batches` sends records that cannot
be decoded to a topic for dead letters. For a session that you have made yourself call
:func:`register`. Where pyconsumer is installed beside Spark, the format is known without a call.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from pyconsumer.lazy_names import lazy_names

if TYPE_CHECKING:
    from pyconsumer.spark.dead_letters import split_batches as split_batches
    from pyconsumer.spark.launch import java_home as java_home
    from pyconsumer.spark.launch import register as register
    from pyconsumer.spark.launch import session as session
    from pyconsumer.spark.progress import lag as lag
    from pyconsumer.spark.progress import lag_metrics as lag_metrics
    from pyconsumer.spark.progress import lag_times as lag_times

__all__ = ["java_home", "lag", "lag_metrics", "lag_times", "register", "session", "split_batches"]

for _needed in ("pyspark", "pyarrow"):
    if find_spec(_needed) is None:
        raise ImportError(
            f"pyconsumer.spark needs {_needed}, which is not installed: pip install 'pyconsumer[spark]'", name=_needed
        )

_HOMES = {
    "java_home": "pyconsumer.spark.launch",
    "lag": "pyconsumer.spark.progress",
    "lag_metrics": "pyconsumer.spark.progress",
    "lag_times": "pyconsumer.spark.progress",
    "register": "pyconsumer.spark.launch",
    "session": "pyconsumer.spark.launch",
    "split_batches": "pyconsumer.spark.dead_letters",
}

__getattr__, __dir__ = lazy_names(globals(), _HOMES)
