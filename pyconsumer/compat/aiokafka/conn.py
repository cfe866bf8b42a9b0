"""``aiokafka.conn``: names for annotations and ``isinstance``."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["AIOKafkaConnection", "CloseReason"]


class CloseReason(IntEnum):
    """The reasons why a connection may end."""

    CONNECTION_BROKEN = 0
    CONNECTION_TIMEOUT = 1
    OUT_OF_SYNC = 2
    IDLE_DROP = 3
    SHUTDOWN = 4
    AUTH_FAILURE = 5


class AIOKafkaConnection:
    """A connection of aiokafka's network client. It cannot be created here.

    Raises:
        TypeError: always.
    """

    def __init__(self, *args: object, **configs: object) -> None:
        raise TypeError("aiokafka's connections are not here: clients connect when a call needs it")
