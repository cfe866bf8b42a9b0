"""The record of ``compat/aiokafka``: a dataclass to which programs may add attributes.

``OpenRecord`` is the class of the pure decoder. The compiled one (``native/forms.pxi``) becomes a dataclass when this
module is imported. Both go by the name under which programs import them, so a pickle of one loads as the other.
Records of other forms never need this module, which takes longer to import than all others of this folder.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Generic

from pyconsumer.generic import Header, K, V
from pyconsumer.protocol.records.native_module import compiled

__all__ = ["OpenRecord"]


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

#: What makes a class a dataclass for :mod:`dataclasses`, :mod:`typing` and ``match``.
_CLASS_DICT: Final = {
    name: getattr(OpenRecord, name)
    for name in ("__annotations__", "__dataclass_fields__", "__dataclass_params__", "__match_args__", "__replace__")
    if hasattr(OpenRecord, name)
}

_take_class_dict = compiled("take_class_dict")
if _take_class_dict is not None:
    _take_class_dict(_CLASS_DICT)
