"""The base of the formats of typed columns, whose schemas are in options or in a registry.

Rules

1. A schema in the options comes first. With a registry, each record is read by the schema that it names. Without one,
   records are values alone.
2. Otherwise the registry has the schema: by its id, by its version, or the latest of the topics.
3. To write, a schema in the options is registered, once its column was checked.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from pyconsumer.errors import ConfigurationError, SchemaUnavailableError, SerializationError
from pyconsumer.schemas.registry.values import Schema
from pyconsumer.schemas.wire import with_prefix
from pyconsumer.spark.layout_columns import LayoutColumns
from pyconsumer.spark.registry import kept_client
from pyconsumer.spark.subject_schemas import Direction, chosen_schema, registered_schema, settled_write
from pyconsumer.spark.typed_values import Paths, Settled

if TYPE_CHECKING:
    from pyconsumer.spark.value_options import SideOptions

__all__ = ["RegistryFormat", "encoder_of", "kept_columns", "prefix_of"]


class RegistryFormat:
    """The base of all formats. See :class:`.typed_values.Format`."""

    #: The name in the options, and that of registries.
    NAME: ClassVar[str]
    KIND: ClassVar[str]

    # -- what a format defines -----------------------------------------------------------------------------------------

    def text_of_option(self, given: SideOptions) -> str:
        """Return the schema of the options as a text for :class:`Settled`.

        Raises:
            SerializationError: it is no schema.
        """
        raise NotImplementedError

    def text_of_registry(self, client: Any, schema: Schema, given: SideOptions) -> str:
        """Return a schema of the registry as such a text, with those that it refers to.

        Raises:
            SerializationError: it is no schema.
        """
        raise NotImplementedError

    def to_register(self, given: SideOptions) -> Schema:
        """Return the schema of the options for the registry."""
        assert given.schema is not None
        return Schema(given.schema, self.KIND)

    def check(self, settled: Settled, kind: Any, side: str) -> None:
        """Check that a column can be written.

        Raises:
            ConfigurationError: it does not fit the schema.
        """
        raise NotImplementedError

    def make_columns(self, side: str, settled: Settled, paths: Paths, registry: Mapping[str, str]) -> LayoutColumns:
        """Return a column that is read."""
        raise NotImplementedError

    # -- the calls of a format -----------------------------------------------------------------------------------------

    def settle(self, side: str, given: SideOptions, registry: Mapping[str, str], topics: Iterable[str]) -> Settled:
        """Find the schema of a column."""
        return self._settled(side, given, registry, topics, "read")

    def _settled(
        self,
        side: str,
        given: SideOptions,
        registry: Mapping[str, str],
        topics: Iterable[str],
        direction: Direction,
    ) -> Settled:
        if given.schema is not None:
            return Settled(self.NAME, self._own_text(side, given), None, not registry)
        client = kept_client(registry)
        schema_id, schema = chosen_schema(client, side, given, topics, direction, self.KIND)
        try:
            text = self.text_of_registry(client, schema, given)
        except SchemaUnavailableError:
            raise
        except SerializationError as error:
            raise ConfigurationError(f"the schema {schema_id} of the {side}s cannot be used: {error}") from None
        return Settled(self.NAME, text, schema_id)

    def _own_text(self, side: str, given: SideOptions) -> str:
        try:
            return self.text_of_option(given)
        except SerializationError as error:
            raise ConfigurationError(f"option {side}.schema: {error}") from None

    def settle_write(
        self, side: str, given: SideOptions, registry: Mapping[str, str], topic: str | None, kind: Any
    ) -> Settled:
        """Find the schema by which a column is written, and register it if it is new."""
        if given.schema is not None and registry:
            found = Settled(self.NAME, self._own_text(side, given))
            self.check(found, kind, side)  # before it is registered
            return replace(
                found, schema_id=registered_schema(kept_client(registry), side, self.to_register(given), topic)
            )
        found = settled_write(side, given, topic, functools.partial(self._settled, side, given, registry))
        self.check(found, kind, side)
        return found

    def columns(self, side: str, settled: Settled, paths: Paths, registry: Mapping[str, str]) -> LayoutColumns:
        """Return a column. It is kept for the life of the process."""
        parts = None if paths is None else tuple([tuple(path) for path in paths])
        form: Any = type(self)
        return kept_columns(form, side, settled, parts, tuple(sorted(registry.items())))


@functools.lru_cache(maxsize=64)
def kept_columns(
    form: type[RegistryFormat], side: str, settled: Settled, parts: Any, registry: tuple[tuple[str, str], ...]
) -> LayoutColumns:
    """Return a column of a format. It is kept for the life of the process."""
    return form().make_columns(side, settled, parts, dict(registry))


def prefix_of(settled: Settled, indexes: Sequence[int] | None = None) -> bytes:
    """Return the bytes that name the schema before each written value. They are empty if it stands alone.

    Args:
        settled: the schema.
        indexes: of a Protobuf message, the path of its type.
    """
    return b"" if settled.schema_id is None else with_prefix(settled.schema_id, b"", indexes)


def encoder_of(
    convert: Callable[[Any], Any] | None, encode: Callable[[Any], bytes]
) -> Callable[[Any], list[bytes | None]]:
    """Return a function that encodes an Arrow array. A null stays null.

    Args:
        convert: makes a value of the format of one of Spark. None if they are the same.
        encode: makes bytes of it.
    """

    def encoded(column: Any) -> list[bytes | None]:
        values = column.to_pylist()
        if convert is not None:
            values = [None if value is None else convert(value) for value in values]
        return [None if value is None else encode(value) for value in values]

    return encoded
