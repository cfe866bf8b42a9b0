"""Values and interfaces of typed columns, which each format implements (:mod:`pyconsumer.spark.value_formats`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pyconsumer.protocol.records import Columns
    from pyconsumer.spark.value_options import SideOptions

__all__ = ["BadRow", "Format", "Paths", "Settled", "SideColumns", "TypedPart"]

Paths = Sequence[Sequence[str]] | None


@dataclass(frozen=True)
class Settled:
    """The schema of a typed column, which does not change any more.

    Attributes:
        format: its format.
        text: the schema, with those that it refers to.
        schema_id: its id in the registry. None if it has none.
        is_bare: True if the bytes of a record do not name their schema.
    """

    format: str
    text: str
    schema_id: int | None = None
    is_bare: bool = False


@dataclass(frozen=True)
class BadRow:
    """A row that could not be decoded.

    Attributes:
        row: its number among the given rows.
        stage: ``framing`` (the bytes name no schema), ``schema`` (it cannot be used) or ``bytes``.
        reason: the whole message.
        schema_id: the schema that the row names, if any.
    """

    row: int
    stage: str
    reason: str
    schema_id: int | None


class TypedPart(Protocol):
    """The values of some rows, while they are decoded."""

    def append(self, start: int, count: int, *, stop: bool) -> tuple[int, list[BadRow]]:
        """Decode rows.

        Args:
            start: the first row.
            count: the most rows.
            stop: end before the first bad row.

        Returns:
            The number of rows that were decoded, and the bad ones. These are null. With ``stop``, the bad row that
            ended it.
        """
        ...

    def finish(self, count: int) -> Any:
        """Return the Arrow array of the first ``count`` rows since :meth:`append`. It may be called after each."""
        ...


class SideColumns(Protocol):
    """A typed column."""

    @property
    def spark_type(self) -> Any:
        """Spark's type of the column."""
        ...

    @property
    def arrow_type(self) -> Any:
        """The Arrow type that Spark wants for it."""
        ...

    def part(self, columns: Columns, count: int, timeout_s: float) -> TypedPart:
        """Fetch the schemas that some rows need, and return the rows, to be decoded.

        Args:
            columns: the raw columns.
            count: the number of rows.
            timeout_s: the longest time to wait for a registry (seconds).

        Raises:
            SchemaUnavailableError: the registry does not answer.
        """
        ...


class Format(Protocol):
    """A format."""

    def settle(self, side: str, given: SideOptions, registry: Mapping[str, str], topics: Iterable[str]) -> Settled:
        """Find the schema of a column, in the registry if it must be.

        Args:
            side: ``"key"`` or ``"value"``.
            given: the options of the column.
            registry: the options of the registry.
            topics: the topics that are read.

        Raises:
            ConfigurationError: the topics have several schemas or none, or the schema cannot be used.
            SchemaUnavailableError: the registry does not answer.
        """
        ...

    def columns(self, side: str, settled: Settled, paths: Paths, registry: Mapping[str, str]) -> SideColumns:
        """Return a column. It is kept for the life of the process.

        Raises:
            ConfigurationError: the schema has no column, or no such part.
        """
        ...
