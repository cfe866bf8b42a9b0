"""Builders of records and of results of ``poll``, for tests. Functions without state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from pyconsumer.consumer.records import ConsumerRecords
from pyconsumer.generic import Header, K, V
from pyconsumer.protocol.records import ConsumerRecord
from pyconsumer.structs import TopicPartition

if TYPE_CHECKING:
    import pyarrow

__all__ = ["make_arrow_batch", "make_record", "make_records", "poll_result"]


#: The default timestamp of offset 0, 2023-11-14 22:13:20 UTC; it is one millisecond later for each offset.
FIRST_TIMESTAMP_MS = 1_700_000_000_000


def make_record(
    topic: str,
    value: V | None = None,
    key: K | None = None,
    *,
    partition: int = 0,
    offset: int = 0,
    timestamp_ms: int | None = None,
    headers: Mapping[str, bytes | None] | Iterable[Header] = (),
    leader_epoch: int = -1,
) -> ConsumerRecord[K, V]:
    """Return a record in the form in which a consumer returns it, after deserialization.

    Args:
        topic, value, key: see ``producer.send``.
        partition, offset: the place of the record.
        timestamp_ms: ms since the epoch. The default is a fixed time plus one ms for each offset.
        headers: a mapping. If a name occurs twice: pairs of name and value.
        leader_epoch: epoch of the leader that wrote the record.
    """
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    at = FIRST_TIMESTAMP_MS + offset if timestamp_ms is None else timestamp_ms
    return ConsumerRecord(topic, partition, offset, at, 0, key, value, tuple(pairs), leader_epoch)


def make_records(
    topic: str,
    values: Iterable[V | None],
    keys: Iterable[K | None] | None = None,
    *,
    partition: int = 0,
    first_offset: int = 0,
    timestamp_ms: int | None = None,
    headers: Mapping[str, bytes | None] | Iterable[Header] = (),
) -> list[ConsumerRecord[K, V]]:
    """Return records of one partition with consecutive offsets.

    Args:
        values: the value of each record.
        keys: the key of each record. None for records without keys.
        first_offset: offset of the first record.
        timestamp_ms: timestamp of the first record. Each next record is a millisecond later. The default is that of
            :func:`make_record`.
        headers: headers of each record.

    Raises:
        ValueError: the number of keys differs from the number of values.
    """
    rows = list(values)
    row_keys: list[K | None] = [None] * len(rows) if keys is None else list(keys)
    if len(row_keys) != len(rows):
        raise ValueError(f"there are {len(rows)} values and {len(row_keys)} keys")
    pairs = tuple(headers.items() if isinstance(headers, Mapping) else headers)
    return [
        make_record(
            topic,
            value,
            key,
            partition=partition,
            offset=first_offset + index,
            timestamp_ms=None if timestamp_ms is None else timestamp_ms + index,
            headers=pairs,
        )
        for index, (value, key) in enumerate(zip(rows, row_keys, strict=True))
    ]


def poll_result(records: Iterable[ConsumerRecord[K, V]]) -> ConsumerRecords[K, V]:
    """Return records in the form in which ``poll`` returns them, for tests of a function that takes its result."""
    found: dict[TopicPartition, list[ConsumerRecord[K, V]]] = {}
    for record in records:
        found.setdefault(record.topic_partition, []).append(record)
    for each in found.values():
        each.sort(key=lambda record: record.offset)
    return ConsumerRecords(found)


def make_arrow_batch(
    records: Iterable[ConsumerRecord[bytes, bytes]],
    columns: Iterable[str] | None = None,
    *,
    dictionary_topic: bool = False,
) -> pyarrow.RecordBatch:
    """Return records in the form in which ``poll_arrow`` returns them, with the same schema.

    Args:
        records: the records. Their keys and values are bytes or None.
        columns, dictionary_topic: see :meth:`pyconsumer.KafkaConsumer.poll_arrow`.

    Raises:
        ImportError: pyarrow is not installed.
        TypeError: a key or value is not bytes.
    """
    import pyarrow

    from pyconsumer.consumer.arrow import arrow_columns

    rows = [record for found in poll_result(records).values() for record in found]
    for record in rows:
        for data in (record.key, record.value):
            if data is not None and not isinstance(data, bytes):
                raise TypeError(f"keys and values must be bytes, as they were sent, not {data!r}")
    schema = arrow_columns(columns, dictionary_topic).schema
    arrays = []
    for field in schema:
        cells = [_cell(record, field.name) for record in rows]
        kind = pyarrow.string() if field.name == "topic" else field.type
        arrays.append(pyarrow.array(cells, type=kind).cast(field.type))
    return pyarrow.RecordBatch.from_arrays(arrays, schema=schema)


def _cell(record: ConsumerRecord[bytes, bytes], name: str) -> object:
    if name == "headers":
        return [{"key": key, "value": value} for key, value in record.headers]
    if name == "timestamp":
        return None if record.timestamp < 0 else record.timestamp
    return getattr(record, name)
