"""Topics for Spark to read, filled by librdkafka, which shares no code with ours."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from confluent_kafka import Producer

__all__ = ["TIME", "Row", "produce", "reader", "transact"]


#: A recent time in ms: brokers delete records that are older than a topic's retention time.
TIME: Final = int(time.time()) * 1000 - 600_000


class Row(NamedTuple):
    """A record to send. It comes back with an offset that counts from 0 within its partition."""

    value: bytes | None
    key: bytes | None = None
    partition: int = 0
    timestamp: int = TIME
    headers: tuple[tuple[str, bytes | None], ...] = ()


def _send(producer: Producer, topic: str, rows: Iterable[Row]) -> None:
    failures: list[str] = []

    def report(error: Any, message: Any) -> None:
        if error is not None:
            failures.append(str(error))

    for row in rows:
        producer.produce(
            topic,
            value=row.value,
            key=row.key,
            partition=row.partition,
            timestamp=row.timestamp,
            headers=list(row.headers) or None,
            on_delivery=report,
        )
        producer.poll(0)
    assert producer.flush(60) == 0
    assert failures == []


def produce(servers: str, topic: str, rows: Iterable[Row], *, compression: str = "none") -> None:
    """Send rows and wait until all are acknowledged."""
    _send(
        Producer({"bootstrap.servers": servers, "compression.type": compression, "log.connection.close": False}),
        topic,
        rows,
    )


def transact(servers: str, topic: str, transactional_id: str, *parts: tuple[list[Row], bool]) -> None:
    """One transaction after the other: rows, and whether they are committed or aborted."""
    producer = Producer({"bootstrap.servers": servers, "transactional.id": transactional_id})
    producer.init_transactions(60)
    for rows, commit in parts:
        producer.begin_transaction()
        _send(producer, topic, rows)
        end: Callable[[float], None] = producer.commit_transaction if commit else producer.abort_transaction
        end(60)


def reader(
    spark: Any, servers: str, options: Mapping[str, object], *, format: str = "pyconsumer", stream: bool = False
) -> Any:
    """A DataFrameReader with options, or with ``stream`` a DataStreamReader."""
    found = (spark.readStream if stream else spark.read).format(format).option("kafka.bootstrap.servers", servers)
    for name, value in options.items():
        found = found.option(name.replace("__", "."), str(value).lower() if isinstance(value, bool) else str(value))
    return found
