"""``kafka.conn``: a name for annotations and ``isinstance``."""

from __future__ import annotations

__all__ = ["BrokerConnection"]


class BrokerConnection:
    """A connection of kafka-python's network client. It cannot be created here.

    Raises:
        TypeError: always.
    """

    def __init__(self, *args: object, **configs: object) -> None:
        raise TypeError("kafka-python's connections are not here: clients connect when a call needs it")
