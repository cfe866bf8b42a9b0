"""The fields of the record of ``compat/aiokafka``, and what the compiled class does with them.

They are apart from :mod:`.open_record`, which programs alone load that use such records.
"""

from __future__ import annotations

import copyreg
from typing import Any, Final

__all__ = ["FIELDS", "open_fields", "open_repr", "reduced_open", "same_open"]

#: The names of the fields, in order.
FIELDS: Final = (
    "topic",
    "partition",
    "offset",
    "timestamp",
    "timestamp_type",
    "key",
    "value",
    "checksum",
    "serialized_key_size",
    "serialized_value_size",
    "headers",
)


# Functions of the compiled class. They read fields as any program does, since a field may have been deleted.


def open_fields(record: Any) -> tuple[Any, ...]:
    """Return the values of all fields, in order.

    Raises:
        AttributeError: the program has deleted one of them.
    """
    return tuple([getattr(record, name) for name in FIELDS])


def open_repr(record: Any) -> str:
    """Return a record as text, with all of its fields, as a dataclass does."""
    fields = ", ".join([f"{name}={getattr(record, name)!r}" for name in FIELDS])
    return f"{type(record).__qualname__}({fields})"


def same_open(one: Any, other: Any) -> Any:
    """Compare two records as a dataclass does. Return ``NotImplemented`` for objects of different classes."""
    if type(one) is not type(other):
        return NotImplemented
    return open_fields(one) == open_fields(other)


def reduced_open(record: Any) -> tuple[Any, ...]:
    """Return the result of ``__reduce__``, for ``copy`` and ``pickle``. It is that of an ordinary object."""
    return copyreg.__newobj__, (type(record),), vars(record)  # type: ignore[attr-defined]
