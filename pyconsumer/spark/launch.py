"""A Spark session that works after ``pip install``, with the source registered."""

from __future__ import annotations

import atexit
import functools
import logging
import os
import shutil
import sys
import tempfile
from typing import Any, Final

from pyconsumer.errors import ConfigurationError
from pyconsumer.spark.java import NEEDED_JAVA, java_home
from pyconsumer.spark.shipping import register

__all__ = ["session"]

_log = logging.getLogger("pyconsumer.spark")

_UNIX_SOCKETS: Final = "spark.python.unix.domain.socket.enabled"
_UNIX_FOLDER: Final = "spark.python.unix.domain.socket.dir"
_FIRST_WITH_UNIX_SOCKETS: Final = (4, 1)
#: Bytes of a folder's name. Spark adds 43 for the socket's, and systems take 103 or 107 for both.
_LONGEST_FOLDER: Final = 60
#: What fails over Unix sockets in Spark 4.3 (SPARK-57948).
_PIPELINED: Final = "spark.python.udf.pipelined.enabled"


def session(master: str = "local[*]", **conf: Any) -> Any:
    """A ``SparkSession`` that knows ``format("pyconsumer")``.

    Java is found as :func:`java_home` tells. Where Spark runs on this machine, its Python workers use the Python of
    this process, unless ``PYSPARK_PYTHON`` or ``spark.pyspark.python`` names another, and they talk to Spark through
    Unix sockets, which take a tenth less processor time for a read than connections do (Spark 4.1, SPARK-51688), unless
    ``spark.python.unix.domain.socket.enabled`` says otherwise. As with Spark's own ``getOrCreate``, a session that is
    running already is used, with the settings that can still be changed.

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
        conf = _prepare(master, conf)
        builder = builder.master(master)
    for name, value in conf.items():
        builder = builder.config(name, str(value).lower() if isinstance(value, bool) else str(value))
    spark = builder.getOrCreate()
    register(spark)
    return spark


def _prepare(master: str, conf: dict[str, Any]) -> dict[str, Any]:
    """Set the environment that Spark's launcher looks at; the settings, with those that are ours."""
    from pyspark import SparkContext

    if master.startswith("local") and SparkContext._active_spark_context is None:
        conf = _unix_sockets(conf) | conf
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
    return conf


def _unix_sockets(conf: dict[str, Any]) -> dict[str, Any]:
    """The settings for them, where Spark and the system know them and the user wants nothing else."""
    import pyspark

    if _UNIX_SOCKETS in conf or _PIPELINED in conf:
        return {}
    version = tuple(int(number) for number in pyspark.__version__.split(".")[:2])
    if os.name != "posix" or version < _FIRST_WITH_UNIX_SOCKETS:
        return {}
    folder = _socket_folder()
    return {_UNIX_SOCKETS: True, _UNIX_FOLDER: folder} if len(os.fsencode(folder)) <= _LONGEST_FOLDER else {}


@functools.cache
def _socket_folder() -> str:
    """A folder of ours for this process's life, for Spark leaves some of its sockets where they are."""
    folder = tempfile.mkdtemp(prefix="pyconsumer-sockets-")
    atexit.register(_remove, folder, os.getpid())
    return folder


def _remove(folder: str, owner: int) -> None:
    if os.getpid() == owner:  # not when a process forked from ours ends
        shutil.rmtree(folder, ignore_errors=True)
