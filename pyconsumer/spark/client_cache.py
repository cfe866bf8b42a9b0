"""Idle clients of a Spark worker process, kept for the next task.

A task borrows a client and returns it. A client that failed, or that has a request in flight, is closed instead. So are
a producer and an admin client after a failure. Few are kept, so that many workers do not hold many connections to each
broker. The end of the process closes them.

State: the idle clients, by options and process. A borrowed client is in no cache. It belongs to its borrower.
"""

from __future__ import annotations

import atexit
import os
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeVar

from pyconsumer.consumer.network_client import ConsumerNetworkClient
from pyconsumer.errors import KafkaError
from pyconsumer.network.metadata import Metadata
from pyconsumer.spark.client_config import ReaderConfig, admin_settings, build_config

if TYPE_CHECKING:
    from pyconsumer.admin import KafkaAdminClient
    from pyconsumer.producer import KafkaProducer


__all__ = ["SparkClient", "borrow", "borrow_admin", "borrow_producer", "close_idle", "connect"]

_MOST_IDLE: Final = 4


class SparkClient:
    """A client of one cluster, together with its settings and its metadata.

    Args:
        options: ``kafka.*`` options, without this prefix.
        warn: True logs a warning for options that have no effect.

    Raises:
        ConfigurationError: an option is unknown, invalid or not supported.
    """

    def __init__(self, options: Mapping[str, str], *, warn: bool = False) -> None:
        self.options = options
        self.config: ReaderConfig = build_config(options, warn=warn)
        config = self.config
        self.metadata = Metadata.from_config(config, allow_auto_topic_creation=False)
        self.client = ConsumerNetworkClient(config, self.metadata)

    def admin(self) -> KafkaAdminClient:
        """Return an admin client for the same cluster with the same login. The caller must close it."""
        from pyconsumer.admin import KafkaAdminClient  # not needed by tasks

        return KafkaAdminClient(admin_settings(self.options))

    def close(self) -> None:
        """Close the connections."""
        self.client.close()


_Key = tuple[tuple[str, str], ...]
_Client = TypeVar("_Client", "SparkClient", "KafkaProducer", "KafkaAdminClient")

_idle: deque[tuple[int, _Key, SparkClient]] = deque()


def _take_idle(idle: deque[tuple[int, _Key, _Client]], key: _Key) -> _Client | None:
    """Return an idle client with these options, or None. Forget those of a process that this one was forked from."""
    for entry in list(idle):
        pid, kept, client = entry
        if pid != os.getpid():
            idle.remove(entry)
        elif kept == key:
            idle.remove(entry)
            return client
    return None


def _keep_idle(idle: deque[tuple[int, _Key, _Client]], key: _Key, client: _Client, most: int) -> None:
    """Keep a client for the next borrower, and close the oldest if there are more than ``most``."""
    idle.append((os.getpid(), key, client))
    while len(idle) > most:
        idle.popleft()[2].close()


def _take(key: _Key) -> SparkClient | None:
    while (spark_client := _take_idle(_idle, key)) is not None:
        try:
            spark_client.client.poll_no_wakeup()  # notices connections that brokers have closed
        except KafkaError:
            spark_client.close()
        else:
            return spark_client
    return None


@contextmanager
def connect(options: Mapping[str, str]) -> Iterator[SparkClient]:
    """Create a client for a short job, and close it at the end.

    Args:
        options: ``kafka.*`` options, without this prefix.
    """
    spark_client = SparkClient(options, warn=True)
    try:
        yield spark_client
    finally:
        spark_client.close()


@contextmanager
def borrow(options: Mapping[str, str]) -> Iterator[SparkClient]:
    """Borrow a client. If an idle client exists, it is used. Afterwards the client is kept for the next borrower.

    Args:
        options: ``kafka.*`` options, without this prefix.
    """
    key = tuple(sorted(options.items()))
    spark_client = _take(key) or SparkClient(options)
    good = False
    try:
        yield spark_client
        good = True
    except GeneratorExit:  # Spark has closed the reader before its end, for instance after a LIMIT
        good = True
        raise
    finally:
        if good and not spark_client.client.has_pending_requests():
            _keep_idle(_idle, key, spark_client, _MOST_IDLE)
        else:
            spark_client.close()


_MOST_IDLE_PRODUCERS: Final = 2

_idle_producers: deque[tuple[int, _Key, KafkaProducer]] = deque()


@contextmanager
def borrow_producer(options: Mapping[str, str]) -> Iterator[KafkaProducer]:
    """Borrow a producer. If an idle producer exists, it is used. Afterwards the producer is kept for the next borrower.

    Args:
        options: ``kafka.*`` options, without this prefix.
    """
    key = tuple(sorted(options.items()))
    from pyconsumer.producer import KafkaProducer  # a process that only reads needs neither of them
    from pyconsumer.spark.sink_config import producer_settings

    producer = _take_idle(_idle_producers, key) or KafkaProducer(producer_settings(options, warn=True))
    good = False
    try:
        yield producer
        good = True
    finally:
        if good:
            _keep_idle(_idle_producers, key, producer, _MOST_IDLE_PRODUCERS)
        else:
            producer.close(timeout_ms=0)


_idle_admins: deque[tuple[int, _Key, KafkaAdminClient]] = deque()


@contextmanager
def borrow_admin(options: Mapping[str, str]) -> Iterator[KafkaAdminClient]:
    """Borrow an admin client. If an idle one exists, it is used. Afterwards the client is kept for the next borrower.

    Args:
        options: ``kafka.*`` options, without this prefix.
    """
    key = tuple(sorted(options.items()))
    from pyconsumer.admin import KafkaAdminClient

    admin = _take_idle(_idle_admins, key) or KafkaAdminClient(admin_settings(options))
    good = False
    try:
        yield admin
        good = True
    finally:
        if good:
            _keep_idle(_idle_admins, key, admin, _MOST_IDLE_PRODUCERS)
        else:
            admin.close()


@atexit.register
def close_idle() -> None:
    """Close the idle clients of this process. It calls this at its end: a driver cannot close them itself."""
    _close_all(_idle)
    _close_all(_idle_producers)
    _close_all(_idle_admins)


def _close_all(idle: deque[tuple[int, _Key, _Client]]) -> None:
    while idle:
        pid, _, client = idle.popleft()
        if pid == os.getpid():
            client.close()
