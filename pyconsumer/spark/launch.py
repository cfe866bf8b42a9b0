"""A Spark session that works after ``pip install``, with the source registered."""

from __future__ import annotations

import logging
import os
import sys
from typing import Any

from pyconsumer.errors import ConfigurationError
from pyconsumer.spark.java import NEEDED_JAVA, java_home
from pyconsumer.spark.shipping import register

__all__ = ["session"]

_log = logging.getLogger("pyconsumer.spark")


def session(master: str = "local[*]", **conf: Any) -> Any:
    """A ``SparkSession`` that knows ``format("pyconsumer")``.

    Java is found as :func:`java_home` tells. Where Spark runs on this machine, its Python workers use the Python of
    this process, unless ``PYSPARK_PYTHON`` or ``spark.pyspark.python`` names another. As with Spark's own
    ``getOrCreate``, a session that is running already is used, with the settings that can still be changed.

    Args:
        master: as Spark's: ``local[4]``, ``spark://host:7077``, ``yarn``, or ``sc://host`` for Spark Connect.
        conf: Spark's settings; those with dots in their names by ``**{"spark.sql.shuffle.partitions": 2}``.

    Raises:
        ConfigurationError: there is no Java 17 or newer.
    """
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    if master.startswith("sc://"):
        builder = builder.remote(master)
    else:
        _prepare(master, conf)
        builder = builder.master(master)
    for name, value in conf.items():
        builder = builder.config(name, str(value).lower() if isinstance(value, bool) else str(value))
    spark = builder.getOrCreate()
    register(spark)
    return spark


def _prepare(master: str, conf: dict[str, Any]) -> None:
    """Set the environment that Spark's launcher looks at."""
    from pyspark import SparkContext

    if SparkContext._gateway is None:  # no Java is running yet
        home = java_home()
        if home is None:
            raise ConfigurationError(
                f"Spark needs Java {NEEDED_JAVA} or newer, and none was found: install one, or"
                " pip install 'pyconsumer[jvm]'"
            )
        os.environ["JAVA_HOME"] = home
        _log.debug("Spark uses the Java in %s", home)
    if master.startswith("local") and "spark.pyspark.python" not in conf:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
