"""The program whose instructions :mod:`.instructions` counts. It runs by its path, with the package of a checkout.

It uses only names that the packages of all checkouts have, and nothing of the tests.
"""

from __future__ import annotations

import ctypes
import json
import sys
import time
import uuid
from collections.abc import Callable
from typing import Any

_SLOWER = 50  # than without valgrind
_WARM_UP = 20  # calls, in which the interpreter adapts its code


def _send(arguments: dict[str, Any], settings: dict[str, Any], marks: Any) -> None:
    from pyconsumer import KafkaProducer

    with KafkaProducer(**settings) as producer:
        for _ in range(1000):
            producer.send("written", b"v" * 100)
        producer.flush()
        marks.begin()
        for _ in range(arguments["calls"]):
            producer.send("written", b"v" * 100)
        producer.flush()
        marks.end()


def _poll(arguments: dict[str, Any], settings: dict[str, Any], marks: Any) -> None:
    from pyconsumer import KafkaConsumer, TopicPartition

    kind, _, most = arguments["call"].partition(" ")
    group: dict[str, Any] = {"group_id": str(uuid.uuid4()), "auto_commit_interval_ms": 200} if kind == "group" else {}
    with KafkaConsumer(auto_offset_reset="earliest", **settings, **group) as consumer:
        if group:
            consumer.subscribe(["read"])
            while not consumer.assignment():
                consumer.poll(timeout_ms=100, max_records=1)
            consumer.seek_to_beginning()
        else:
            consumer.assign(
                [TopicPartition("read", number) for number in range(4)] if most else [TopicPartition("empty", 0)]
            )

        def polls(count: int) -> None:
            while count:
                found = consumer.poll(timeout_ms=10_000 if most else 0, max_records=int(most or 500)).count()
                count -= 1 if found or not most else 0

        polls(_WARM_UP)
        marks.begin()
        polls(arguments["calls"])
        marks.end()


def main(arguments: dict[str, Any]) -> None:
    sys.path.insert(0, arguments["folder"])
    import pyconsumer
    from pyconsumer.clock import SystemClock

    if not str(pyconsumer.__file__).startswith(arguments["folder"]):
        raise AssertionError(f"the package is {pyconsumer.__file__}")

    class SlowClock(SystemClock):
        now: Callable[[], float] = staticmethod(lambda: time.monotonic() / _SLOWER)

    settings = {"bootstrap_servers": arguments["servers"], "clock": SlowClock()}
    work = _send if arguments["call"] == "send" else _poll
    work(arguments, settings, ctypes.CDLL(arguments["marks"]))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
