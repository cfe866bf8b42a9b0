"""The record of ``compat/aiokafka``: a dataclass to which programs may add attributes.

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
    """A consumed record in the form of aiokafka's ``ConsumerRecord``.

    Args (all readable and settable as attributes):
        topic, partition: the partition of the record.
        offset: the offset in the partition.
        timestamp: the timestamp in ms since the epoch.
        timestamp_type: 0 if the producer has set it (CreateTime), 1 if the broker has set it (LogAppendTime).
        key, value: the deserialized key and value, or None if the record has none.
        checksum: None in records that were read, because only whole batches have a checksum.
        serialized_key_size, serialized_value_size: the sizes in bytes as sent. -1 for None.
        headers: pairs of name and value, in order.

    A program may set other attributes, too. Two records are equal if all fields are equal. They cannot be hashed.
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
