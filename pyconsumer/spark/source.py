"""``format("pyconsumer")``: what Spark finds under that name."""

from __future__ import annotations

from typing import Any, Final

from pyspark.sql.datasource import DataSource

from pyconsumer.errors import ConfigurationError
from pyconsumer.spark.batch_reader import BatchReader
from pyconsumer.spark.options import SourceOptions
from pyconsumer.spark.schema import spark_schema

__all__ = ["FORMAT", "KafkaDataSource"]

FORMAT: Final = "pyconsumer"


class KafkaDataSource(DataSource):  # type: ignore[misc]
    """Topics of Apache Kafka as a DataFrame, with the options and columns of Spark's own Kafka connector.

    Spark makes it with the options of ``load()``, in a case-insensitive mapping.
    """

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return FORMAT

    def schema(self) -> str:
        """The columns as DDL. All options are checked here, so that ``load()`` tells what is wrong."""
        return spark_schema(SourceOptions.parse(self.options).columns)

    def reader(self, schema: Any) -> BatchReader:
        """The reader of a batch query.

        Raises:
            ConfigurationError: the options cannot be used for a batch, or a schema of the user's was given.
        """
        options = SourceOptions.parse(self.options)
        names = tuple(field.name for field in schema.fields)
        if names != options.columns:
            raise ConfigurationError(
                f"the columns are fixed, schema() cannot make them {', '.join(names)}; choose by the option columns"
            )
        options.batch_bounds()
        return BatchReader(options)
