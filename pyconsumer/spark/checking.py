"""``check``: the decoders that the executors of a session use, found out by a small job."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["ExecutorCheck", "check"]

_TASKS_PER_SLOT: Final = 2
_TASKS_OVER_CONNECT: Final = 16


class ExecutorCheck(NamedTuple):
    """The decoders that the Python workers of an executor use.

    Attributes:
        host: the machine.
        parent: the process id of the workers' parent, by which executors of a machine differ.
        python: the version of Python.
        package: where pyconsumer comes from: a folder, or the zip that was sent.
        records, avro: ``native`` for compiled decoders, ``pure`` for those in Python.
        reason: why not both are compiled. Empty if they are.
        has_registry_client: whether the library for a Schema Registry is there.
    """

    host: str
    parent: int
    python: str
    package: str
    records: str
    avro: str
    reason: str
    has_registry_client: bool


def check(spark: Any) -> list[ExecutorCheck]:
    """Run a small job, and return what each executor uses.

    An executor that gets none of the tasks is missing in the result, so call it again on a large cluster.

    Args:
        spark: a ``SparkSession`` that knows the format, also one of Spark Connect.

    Returns:
        One entry for each executor that ran a task, sorted.

    Raises:
        Exception: Spark's, if the job fails, such as for an executor without pyarrow.

    Example::

        for found in check(spark):
            print(found.host, found.records, found.reason)
    """
    is_classic = hasattr(spark, "_jvm")
    tasks = _TASKS_PER_SLOT * spark.sparkContext.defaultParallelism if is_classic else _TASKS_OVER_CONNECT
    schema = "host string, parent int, python string, package string, records string, avro string, reason string,"
    schema += " has_registry_client boolean"
    rows = spark.range(0, tasks, 1, tasks).mapInArrow(_look, schema).collect()
    return sorted({ExecutorCheck(*row) for row in rows})


def _look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the facts of the worker that runs this task."""
    import os
    import platform
    from importlib.util import find_spec

    import pyarrow

    import pyconsumer
    from pyconsumer.protocol.avro import coder
    from pyconsumer.protocol.records.native_module import native_module
    from pyconsumer.protocol.shipped import use_shipped_libraries

    for _ in batches:
        pass
    native, reason = native_module()
    is_compiled = coder.Decoder.__module__ != "pyconsumer.protocol.avro._pure"
    if not is_compiled and not reason:
        reason = "the compiled decoder of Avro cannot be loaded"
    use_shipped_libraries()
    found = ExecutorCheck(
        platform.node(),
        os.getppid(),
        platform.python_version(),
        os.path.dirname(os.path.abspath(pyconsumer.__file__)),
        "pure" if native is None else "native",
        "native" if is_compiled else "pure",
        reason,
        find_spec("urllib3") is not None,
    )
    yield pyarrow.RecordBatch.from_pylist([found._asdict()], _schema(pyarrow))


def _schema(pa: Any) -> pa.Schema:
    kinds = {"parent": pa.int32(), "has_registry_client": pa.bool_()}
    return pa.schema([(name, kinds.get(name, pa.string())) for name in ExecutorCheck._fields])
