"""The record of ``pyconsumer.compat.aiokafka``: a dataclass, to which a program may add attributes.

``OpenRecord`` is the class of the pure decoder. The compiled one (``native/forms.pxi``) takes its fields, its name and
the functions below from here. Both go by the name under which programs import them, so a pickle of one loads as the
other.
"""

from __future__ import annotations

import copyreg
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic

from pyconsumer.generic import Header, K, V

__all__ = ["CLASS_DICT", "FIELDS", "OpenRecord", "open_fields", "open_repr", "reduced_open", "same_open"]


@dataclass
class OpenRecord(Generic[K, V]):
    """A consumed record: aiokafka's ``ConsumerRecord``.

    Args (all readable and settable as attributes):
        topic, partition: the partition of the record.
        offset: the offset in the partition.
        timestamp: in ms since the epoch.
        timestamp_type: 0 set by the producer (CreateTime), 1 set by the broker (LogAppendTime).
        key, value: as deserialized, None if the record has none.
        checksum: always None in records that were read. Only whole batches have one.
        serialized_key_size, serialized_value_size: size in bytes as sent, -1 for None.
        headers: pairs of name and value, in order.

    A program may set other attributes, too. Records are equal if all fields are, and cannot be hashed.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    key: K | None
    value: V | None
    checksum: int | None
    serialized_key_size: int
    serialized_value_size: int
    headers: Sequence[Header]


OpenRecord.__module__ = "pyconsumer.compat.aiokafka.structs"
OpenRecord.__name__ = OpenRecord.__qualname__ = "ConsumerRecord"

#: The names of the fields, in order.
FIELDS: Final[tuple[str, ...]] = OpenRecord.__match_args__

#: What makes a class a dataclass for :mod:`dataclasses`, :mod:`typing` and ``match``.
CLASS_DICT: Final[dict[str, Any]] = {
    name: getattr(OpenRecord, name)
    for name in ("__annotations__", "__dataclass_fields__", "__dataclass_params__", "__match_args__", "__replace__")
    if hasattr(OpenRecord, name)
}


# Functions of the compiled class. They read fields as any program does, since a field may have been deleted.


def open_fields(record: Any) -> tuple[Any, ...]:
    """Return the values of all fields, in order.

    Raises:
        AttributeError: one was deleted.
    """
    return tuple([getattr(record, name) for name in FIELDS])


def open_repr(record: Any) -> str:
    """Return a record as text, with all of its fields, as a dataclass does."""
    fields = ", ".join([f"{name}={getattr(record, name)!r}" for name in FIELDS])
    return f"{type(record).__qualname__}({fields})"


def same_open(one: Any, other: Any) -> Any:
    """Return whether two records of one class are equal, ``NotImplemented`` for other classes, as a dataclass does."""
    if type(one) is not type(other):
        return NotImplemented
    return open_fields(one) == open_fields(other)


def reduced_open(record: Any) -> tuple[Any, ...]:
    """Return the result of ``__reduce__``, for ``copy`` and ``pickle``: that of any plain object."""
    return copyreg.__newobj__, (type(record),), vars(record)  # type: ignore[attr-defined]
