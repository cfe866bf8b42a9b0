"""``kafka.client_async``: a name for annotations and ``isinstance``."""

from __future__ import annotations

__all__ = ["KafkaClient"]


class KafkaClient:
    """kafka-python's network client, which other clients have inside. None can be made here.

    Raises:
        TypeError: always.
    """

    def __init__(self, **configs: object) -> None:
        raise TypeError("kafka-python's network client is not here: call the method of KafkaAdminClient that you need")
