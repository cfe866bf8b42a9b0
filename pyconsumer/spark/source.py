"""``format("pyconsumer")``: the class that Spark creates. It has no state but the options."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyspark
from pyspark.sql.datasource import DataSource

from pyconsumer.errors import ConfigurationError
from pyconsumer.spark.options import SourceOptions
from pyconsumer.spark.readers import STREAMS, BatchReader, StreamReader, named_topics
from pyconsumer.spark.schema import spark_schema
from pyconsumer.spark.sink import BatchWriter, SinkOptions, StreamWriter, sink_columns

if TYPE_CHECKING:
    from pyconsumer.spark.typed_values import Settled

__all__ = ["FORMAT", "KafkaDataSource"]

FORMAT: Final = "pyconsumer"


class KafkaDataSource(DataSource):  # type: ignore[misc]
    """Topics of Apache Kafka as a DataFrame, with the options and columns of Spark's own Kafka connector.

    Spark creates an object with the options of ``load()`` or ``save()``. They are in a case-insensitive mapping.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return FORMAT

    def schema(self) -> Any:
        """Return the columns as DDL, or with typed ones as a ``StructType``.

        All options are checked here, so that ``load()`` reports wrong options. The schemas of typed columns are settled
        here.
        """
        options = SourceOptions.parse(self.options)
        if not options.parts:
            return spark_schema(options.columns)
        from pyconsumer.spark.typed_rows import settle, typed_schema

        return typed_schema(options, settle(options, named_topics(options)))

    def reader(self, schema: Any) -> BatchReader:
        """Return the reader of a batch query.

        Raises:
            ConfigurationError: the options cannot be used for a batch read, or the user has given another schema.
        """
        options, settled = self._checked(schema)
        options.batch_bounds()
        return BatchReader(options, settled)

    def streamReader(self, schema: Any) -> StreamReader:  # noqa: N802
        """Return the reader of a streaming query.

        Raises:
            ConfigurationError: the options cannot be used for a stream, the user has given another schema, or PySpark
                is too old.
        """
        if not STREAMS:
            raise ConfigurationError(f"streams need PySpark 4.2 or newer. This is {pyspark.__version__}")
        options, settled = self._checked(schema)
        return StreamReader(options, settled=settled)

    def writer(self, schema: Any, overwrite: bool) -> BatchWriter:
        """Return the writer of a batch.

        Raises:
            ConfigurationError: the options or the columns cannot be used, or the mode is ``overwrite``.
        """
        if overwrite:
            raise ConfigurationError("a topic cannot be overwritten, records can only be appended. Use mode('append')")
        options = SinkOptions.parse(self.options)
        return BatchWriter(options, sink_columns(schema, options.topic, timestamps=options.timestamps))

    def streamWriter(self, schema: Any, overwrite: bool) -> StreamWriter:  # noqa: N802
        """Return the writer of a streaming query.

        Args:
            overwrite: has no effect. In ``complete`` mode each batch appends the whole result, as in Spark's own Kafka
                sink.

        Raises:
            ConfigurationError: the options or the columns cannot be used.
        """
        options = SinkOptions.parse(self.options)
        if options.app_id is not None:
            raise ConfigurationError(
                "option txnAppId is for batch writes (df.write): the batches of a stream have their numbers from Spark"
            )
        return StreamWriter(options, sink_columns(schema, options.topic, timestamps=options.timestamps))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the source, with the path of the zip if pyconsumer was imported from one.

        The process that plans a stream does not get the files of the session (seen in Spark 4.3). But it runs on the
        same machine as this process, which has them.
        """
        origin = Path(__file__).parents[2]
        return _unpickle, (str(origin) if origin.is_file() else "", self.__dict__)

    def _checked(self, schema: Any) -> tuple[SourceOptions, dict[str, Settled]]:
        """Return the options and the schemas of typed columns, after checking that they lead to those of ``schema``."""
        options = SourceOptions.parse(self.options)
        names = tuple(field.name for field in schema.fields)
        if names != options.columns:
            raise ConfigurationError(
                f"schema() cannot change the columns of this source (to {', '.join(names)}); use the option columns to"
                " choose some of them"
            )
        if not options.parts:
            return options, {}
        from pyconsumer.spark.typed_rows import settled_in

        return options, settled_in(options, schema)


def _unpickle(archive: str, state: dict[str, Any]) -> Any:
    """Return a source in the process that it was sent to."""
    import os
    import sys

    if archive and archive not in sys.path and os.path.isfile(archive):
        sys.path.insert(1, archive)
    from pyconsumer.spark.source import KafkaDataSource

    source = KafkaDataSource.__new__(KafkaDataSource)
    source.__dict__.update(state)
    return source


_unpickle.__module__ = "__main__"  # makes Spark pickle the function itself instead of its name, which needs the zip
