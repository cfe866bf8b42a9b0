"""``ConsumerRecord``: the record that a consumer returns.

They are read-only for their users. A decoder creates them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from pyconsumer.generic import Header, K_co, V_co, generic_alias
from pyconsumer.protocol.records.native_module import compiled
from pyconsumer.structs import TopicPartition, make_tuple

__all__ = [
    "ConsumerRecord",
    "DeserializedRecord",
    "RecordOrigin",
    "SimpleRecord",
    "check_form",
    "make_form",
    "make_record",
    "rebuild_record",
    "rebuild_subclass",
    "record_fields",
    "record_repr",
    "reduced_record",
    "same_record",
    "size_of_headers",
]

NewK = TypeVar("NewK")
NewV = TypeVar("NewV")


class RecordOrigin(NamedTuple):
    """The values that all records of a batch have in common."""

    topic: str
    partition: int
    leader_epoch: int
    timestamp_type: int


#: Of a record that no decoder and no ``__init__`` has filled in.
_NO_ORIGIN = RecordOrigin("", -1, -1, -1)

_REPR_FIELDS = (
    "topic",
    "partition",
    "offset",
    "timestamp",
    "timestamp_type",
    "key",
    "value",
    "headers",
    "leader_epoch",
    "serialized_key_size",
    "serialized_value_size",
)


def _size(data: Any) -> int:
    return len(data) if isinstance(data, bytes) else -1


def size_of_headers(headers: Iterable[Header]) -> int:
    """Return the size of all names and values in bytes. Return -1 if there are no headers (as in kafka-python)."""
    sizes = [len(name.encode()) + len(value or b"") for name, value in headers]
    return sum(sizes) if sizes else -1


# Functions of both classes of records, this one and the compiled one.


def record_fields(record: Any) -> tuple[Any, ...]:
    """Return a record's fields, in the order of its constructor."""
    topic, partition, leader_epoch, timestamp_type = record.origin
    return (
        topic,
        partition,
        record.offset,
        record.timestamp,
        timestamp_type,
        record.key,
        record.value,
        record.header_tuple,
        leader_epoch,
    )


def same_record(one: Any, other: Any) -> bool:
    """Return whether two records are equal."""
    return bool(
        record_fields(one) == record_fields(other)
        and one.serialized_key_size == other.serialized_key_size
        and one.serialized_value_size == other.serialized_value_size
    )


def record_repr(record: Any) -> str:
    """Return a record as text, with all of its fields."""
    return f"ConsumerRecord({', '.join(f'{name}={getattr(record, name)!r}' for name in _REPR_FIELDS)})"


def _class_in_use() -> Any:
    return compiled("ConsumerRecord") or ConsumerRecord


def rebuild_record(fields: tuple[Any, ...], sizes: tuple[int, int]) -> Any:
    """Return an unpickled record.

    Its class is that of the decoder in use, even if another process used the other decoder.
    """
    return _class_in_use()(*fields)._sized(*sizes)


def rebuild_subclass(cls: type[ConsumerRecord], fields: tuple[Any, ...], sizes: tuple[int, int]) -> Any:
    """Return an unpickled record of a user's subclass. Its additional attributes are set afterwards."""
    record: Any = cls.__new__(cls)
    _class_in_use().__init__(record, *fields)
    if isinstance(record, DeserializedRecord):
        record._sizes = sizes
    elif not isinstance(record, ConsumerRecord):
        record._sized(*sizes)
    return record


def reduced_record(record: Any, is_plain: bool) -> tuple[Any, ...]:
    """Return the result of a record's ``__reduce__``, for ``copy`` and ``pickle``.

    Args:
        is_plain: True if the class is not a user's subclass. The record then has no additional attributes.
    """
    sizes = (record.serialized_key_size, record.serialized_value_size)
    if is_plain:
        return rebuild_record, (record_fields(record), sizes)
    state = object.__getstate__(record)
    if isinstance(state, tuple):
        by_name, by_slot = state
        state = (by_name, {name: value for name, value in by_slot.items() if name not in _SLOTS})
    return rebuild_subclass, (type(record), record_fields(record), sizes), state


class ConsumerRecord(Generic[K_co, V_co]):
    """A consumed record, generic in the types of its key and value.

    Args (all readable as attributes):
        topic, partition: the partition of the record.
        offset: the offset in the partition.
        timestamp: the timestamp in ms since the epoch. -1 in message format v0.
        timestamp_type: 0 if the producer has set it (CreateTime), 1 if the broker has set it (LogAppendTime), -1 for
            none.
        key, value: the deserialized key and value. Without a deserializer they are bytes. None if the record has none.
        headers: pairs of name and value, in order. Each access returns a new list.
        header_tuple: the same pairs as a tuple. In the pure decoder this makes no copy.
        leader_epoch: epoch of the leader that wrote the batch (KIP-320). -1 if unknown.
        serialized_key_size, serialized_value_size: the sizes in bytes as sent. -1 for None.
        checksum: always None, because only whole batches have a checksum. It exists for kafka-python and aiokafka.
        serialized_header_size: the size of all names and values of headers in bytes. -1 if there are no headers.

    Two records are equal if all attributes are equal. Records can be pickled. They do not keep the memory alive from
    which they were read. Treat them as read-only. This is the class of the decoder in Python. The class of the compiled
    decoder behaves the same and is immutable. The garbage collector does not track its records while key and value are
    bytes, text, numbers or None.
    """

    __slots__ = ("header_tuple", "key", "offset", "origin", "timestamp", "value")

    # The decoder creates records by object.__new__ and without __init__ (see _pure.py): change all together.
    origin: RecordOrigin
    offset: int
    timestamp: int
    key: K_co | None
    value: V_co | None
    header_tuple: tuple[Header, ...]

    def __new__(cls, *args: Any, **kwargs: Any) -> ConsumerRecord[K_co, V_co]:
        # Even a subclass that forgets to call __init__ makes a record whose attributes can be read.
        record: ConsumerRecord[K_co, V_co] = object.__new__(cls)
        record.origin = _NO_ORIGIN
        record.offset = record.timestamp = -1
        record.key = record.value = None
        record.header_tuple = ()
        return record

    def __init__(
        self,
        topic: str,
        partition: int,
        offset: int,
        timestamp: int = -1,
        timestamp_type: int = 0,
        key: K_co | None = None,
        value: V_co | None = None,
        headers: Iterable[Header] = (),
        leader_epoch: int = -1,
    ) -> None:
        self.origin = RecordOrigin(topic, partition, leader_epoch, timestamp_type)
        self.offset = offset
        self.timestamp = timestamp
        self.key = key
        self.value = value
        self.header_tuple = tuple(headers)

    @property
    def topic(self) -> str:
        return self.origin.topic

    @property
    def partition(self) -> int:
        return self.origin.partition

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.origin.topic, self.origin.partition)

    @property
    def leader_epoch(self) -> int:
        return self.origin.leader_epoch

    @property
    def timestamp_type(self) -> int:
        return self.origin.timestamp_type

    @property
    def headers(self) -> list[Header]:
        return list(self.header_tuple)

    @property
    def serialized_key_size(self) -> int:
        return _size(self.key)

    @property
    def serialized_value_size(self) -> int:
        return _size(self.value)

    @property
    def serialized_header_size(self) -> int:
        return size_of_headers(self.header_tuple)

    @property
    def checksum(self) -> None:
        return None

    def deserialized(self, key: NewK | None, value: NewV | None) -> DeserializedRecord[NewK, NewV]:
        """Return a copy with a deserialized key and value. It keeps the serialized sizes of this record."""
        record: DeserializedRecord[NewK, NewV] = object.__new__(DeserializedRecord)
        record.origin = self.origin
        record.offset = self.offset
        record.timestamp = self.timestamp
        record.key = key
        record.value = value
        record.header_tuple = self.header_tuple
        record._sizes = (self.serialized_key_size, self.serialized_value_size)
        return record

    def _sized(self, key_size: int, value_size: int) -> ConsumerRecord[K_co, V_co]:
        """Return this record, or a copy with these serialized sizes of key and value."""
        if (self.serialized_key_size, self.serialized_value_size) == (key_size, value_size):
            return self
        record = self.deserialized(self.key, self.value)
        record._sizes = (key_size, value_size)
        return record

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ConsumerRecord):
            return NotImplemented
        return same_record(self, other)

    def __hash__(self) -> int:
        return hash((self.origin.topic, self.origin.partition, self.offset))

    def __repr__(self) -> str:
        return record_repr(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return reduced_record(self, type(self) is ConsumerRecord or type(self) is DeserializedRecord)

    if not TYPE_CHECKING:
        __class_getitem__ = generic_alias


class DeserializedRecord(ConsumerRecord[K_co, V_co]):
    """A :class:`ConsumerRecord` whose key or value is deserialized."""

    __slots__ = ("_sizes",)

    _sizes: tuple[int, int]

    def __new__(cls, *args: Any, **kwargs: Any) -> DeserializedRecord[K_co, V_co]:
        record: Any = super().__new__(cls)
        record._sizes = (-1, -1)
        return record  # type: ignore[no-any-return]

    @property
    def serialized_key_size(self) -> int:
        return self._sizes[0]

    @property
    def serialized_value_size(self) -> int:
        return self._sizes[1]


_SLOTS = frozenset((*ConsumerRecord.__slots__, *DeserializedRecord.__slots__))


def make_record(
    origin: RecordOrigin, offset: int, timestamp: int, key: bytes | None, value: bytes | None
) -> ConsumerRecord:
    """Return a record without headers."""
    record: ConsumerRecord = object.__new__(ConsumerRecord)
    record.origin = origin
    record.offset = offset
    record.timestamp = timestamp
    record.key = key
    record.value = value
    record.header_tuple = ()
    return record


def check_form(form: Any) -> None:
    """Check the form (class) of the records that a consumer returns.

    It may be None for ``ConsumerRecord``, ``OpenRecord``, or a subclass of ``tuple`` with kafka-python's 13 fields.

    Raises:
        TypeError: it is none of these.
    """
    if form is None or (isinstance(form, type) and issubclass(form, tuple)):
        return
    from pyconsumer.protocol.records.open_record import OpenRecord

    if form is not OpenRecord:
        raise TypeError(f"records cannot be made in the form of {form!r}")


def make_form(form: Any, record: ConsumerRecord, key: Any, value: Any) -> Any:
    """Return a record as an object of the class ``form``, with this key and value.

    :func:`check_form` must have accepted the form.
    """
    topic, partition, leader_epoch, timestamp_type = record.origin
    sizes = record.serialized_key_size, record.serialized_value_size
    if not issubclass(form, tuple):
        headers = record.header_tuple
        return form(
            topic, partition, record.offset, record.timestamp, timestamp_type, key, value, None, *sizes, headers
        )
    headers_size = record.serialized_header_size
    fields = topic, partition, leader_epoch, record.offset, record.timestamp, timestamp_type, key, value
    return make_tuple(form, (*fields, record.headers, None, *sizes, headers_size))


class SimpleRecord(NamedTuple):
    """A record of a log, as brokers read their internal topics. It may be a control record."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()
    is_control: bool = False
    is_transactional: bool = False
    producer_id: int = -1
    producer_epoch: int = -1
    leader_epoch: int = -1
