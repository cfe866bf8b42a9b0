"""Clients of this process, kept from task to task: Spark uses its Python workers again.

A task borrows one and gives it back. One that failed, or that still waits for an answer, is closed instead. Few are
kept, so that many workers don't hold many connections to each broker.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from pyconsumer.consumer.network_client import ConsumerNetworkClient
from pyconsumer.errors import KafkaError
from pyconsumer.network.client import NetworkClient
from pyconsumer.network.metadata import Metadata
from pyconsumer.spark.client_settings import ReaderConfig, admin_settings, build_config

if TYPE_CHECKING:
    from pyconsumer.admin import KafkaAdminClient

__all__ = ["Connection", "borrow", "close_idle", "connect"]

_MOST_IDLE: Final = 4


class Connection:
    """A client for one cluster, with its settings and its metadata.

    Args:
        options: ``kafka.*`` options, without the prefix.
        warn: whether to log which of them have no effect.
    """

    def __init__(self, options: Mapping[str, str], *, warn: bool = False) -> None:
        self.options = options
        self.config: ReaderConfig = build_config(options, warn=warn)
        config = self.config
        self.metadata = Metadata.from_config(config, allow_auto_topic_creation=False)
        self.client = ConsumerNetworkClient(NetworkClient(config, metadata=self.metadata))

    def admin(self) -> KafkaAdminClient:
        """An admin client for the same cluster, with the same login; the caller closes it."""
        from pyconsumer.admin import KafkaAdminClient  # not needed by tasks

        return KafkaAdminClient(admin_settings(self.options))

    def close(self) -> None:
        self.client.close()


_Key = tuple[tuple[str, str], ...]
_idle: deque[tuple[int, _Key, Connection]] = deque()


@contextmanager
def connect(options: Mapping[str, str]) -> Iterator[Connection]:
    """A connection for a short job, closed at the end.

    Args:
        options: ``kafka.*`` options, without the prefix.
    """
    connection = Connection(options, warn=True)
    try:
        yield connection
    finally:
        connection.close()


@contextmanager
def borrow(options: Mapping[str, str]) -> Iterator[Connection]:
    """A connection that may have served before, and is kept for the next borrower."""
    key = tuple(sorted(options.items()))
    connection = _take(key) or Connection(options)
    good = False
    try:
        yield connection
        good = True
    except GeneratorExit:  # the reader was given up half-way, as by a LIMIT
        good = True
        raise
    finally:
        if good and not connection.client.has_pending_requests():
            _keep(key, connection)
        else:
            connection.close()


def close_idle() -> None:
    """Close what nobody borrows."""
    while _idle:
        _idle.popleft()[2].close()


def _take(key: _Key) -> Connection | None:
    for entry in list(_idle):
        pid, kept, connection = entry
        if pid != os.getpid():  # the connections of the process that this one was forked from
            _idle.remove(entry)
        elif kept == key:
            _idle.remove(entry)
            try:
                connection.client.poll_no_wakeup()  # notices connections that brokers have closed meanwhile
            except KafkaError:
                connection.close()
            else:
                return connection
    return None


def _keep(key: _Key, connection: Connection) -> None:
    _idle.append((os.getpid(), key, connection))
    while len(_idle) > _MOST_IDLE:
        _idle.popleft()[2].close()
