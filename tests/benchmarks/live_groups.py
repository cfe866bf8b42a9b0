"""Parts of benchmarks of groups that change: records that come all the time, and a wait until a group is settled."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pyconsumer import KafkaProducer

__all__ = ["steady_records", "until_settled"]


@contextmanager
def steady_records(servers: str, topic: str, partitions: int, every_s: float, **settings: Any) -> Iterator[None]:
    """Write a record to each partition at an interval, in a thread.

    Args:
        settings: the producer's.
    """
    done = threading.Event()

    def write() -> None:
        with KafkaProducer(bootstrap_servers=servers, acks=1, **settings) as producer:
            at = time.perf_counter()
            while not done.is_set():
                for number in range(partitions):
                    producer.send(topic, b"tick", partition=number)
                at = max(at + every_s, time.perf_counter())
                done.wait(at - time.perf_counter())

    thread = threading.Thread(target=write, name="ticks")
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def until_settled(
    is_settled: Callable[[], bool], describe: Callable[[], object], *, settled_for_s: float, within_s: float
) -> float:
    """Wait until a group is settled and stays so and return when it became so, by ``time.perf_counter``.

    Args:
        describe: returns the members' state, for the error.

    Raises:
        TimeoutError: it was not settled in time.
    """
    end, since = time.perf_counter() + within_s, None
    while True:
        now = time.perf_counter()
        if not is_settled():
            since = None
        elif since is None:
            since = now
        elif now - since > settled_for_s:
            return since
        if now > end:
            raise TimeoutError(f"not settled: {describe()}")
        time.sleep(0.01)
