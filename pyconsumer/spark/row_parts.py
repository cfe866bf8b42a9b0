"""Parts that the writers of all formats make of Spark's rows. Functions without state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from pyconsumer.errors import ConfigurationError

__all__ = ["SMALL", "WHOLE", "Convert", "converted", "fields_of", "list_of", "map_of"]

Convert = Callable[[Any], Any]
"""Makes a value of a format of one of a column."""

#: Spark's whole numbers of at most 32 bits, and all of them.
SMALL: Final = ("tinyint", "smallint", "int")
WHOLE: Final = (*SMALL, "bigint")


def fields_of(column: Any, where: str) -> dict[str, Any]:
    """Return the types of a struct's fields by name.

    Args:
        column: Spark's type of the struct.
        where: its name, for messages.

    Raises:
        ConfigurationError: two fields have the same name.
    """
    given = {field.name: field.dataType for field in column.fields}
    if len(given) < len(column.fields):
        raise ConfigurationError(f"{where}: two fields of the struct have the same name")
    return given


def converted(convert: Convert | None, value: Any) -> Any:
    """Return the value for a format. A null stays null. No function means that the values are the same."""
    return value if convert is None or value is None else convert(value)


def list_of(item: Convert | None) -> Convert | None:
    """Return the function for a list of such items. None if they are the same."""
    return None if item is None else lambda values: [converted(item, value) for value in values]


def map_of(item: Convert | None) -> Convert:
    """Return the function for a map with such values, which Arrow gives as pairs."""
    return dict if item is None else lambda pairs: {key: converted(item, value) for key, value in pairs}
