"""Producers of this process, kept from task to task: Spark uses its Python workers again.

A task borrows one and gives it back with nothing left to send; after a failure it is closed instead.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from pyconsumer.producer import KafkaProducer
from pyconsumer.spark.sink_settings import producer_settings

__all__ = ["borrow_producer", "close_idle_producers"]

_MOST_IDLE: Final = 2
#: A producer's defaults suit single records; a task sends many at once.
_BULK: Final = {"batch.size": "262144", "linger.ms": "20", "client.id": "pyconsumer-spark"}

_Key = tuple[tuple[str, str], ...]
_idle: list[tuple[int, _Key, KafkaProducer]] = []


@contextmanager
def borrow_producer(options: Mapping[str, str]) -> Iterator[KafkaProducer]:
    """A producer that may have served before, and is kept for the next borrower.

    Args:
        options: ``kafka.*`` options, without the prefix.
    """
    key = tuple(sorted(options.items()))
    producer = _take(key) or KafkaProducer(producer_settings({**_BULK, **options}, warn=True))
    good = False
    try:
        yield producer
        good = True
    finally:
        if good:
            _idle.append((os.getpid(), key, producer))
            while len(_idle) > _MOST_IDLE:
                _idle.pop(0)[2].close()
        else:
            producer.close(timeout_ms=0)


def close_idle_producers() -> None:
    """Close what nobody borrows."""
    while _idle:
        _idle.pop()[2].close()


def _take(key: _Key) -> KafkaProducer | None:
    for entry in list(_idle):
        pid, kept, producer = entry
        if pid != os.getpid():  # of the process that this one was forked from
            _idle.remove(entry)
        elif kept == key:
            _idle.remove(entry)
            return producer
    return None
