"""``KafkaProducer`` with kafka-python's habits."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

import pyconsumer
from pyconsumer.compat.kafka.partitioner.default import as_function
from pyconsumer.compat.kafka.serializer.abstract import as_serializer
from pyconsumer.compat.kafka.settings import GivenConfig, connect, translate
from pyconsumer.errors import KafkaTimeoutError
from pyconsumer.structs import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition

__all__ = ["KafkaProducer"]

_log = logging.getLogger(__name__)

_DEFAULTS: Final[Mapping[str, Any]] = {
    "bootstrap_servers": "localhost:9092",
    "linger_ms": 0,
    "reconnect_backoff_max_ms": 30_000,
}
_BOOTSTRAP_TIMEOUT_MS: Final = 30_000


class KafkaProducer(pyconsumer.KafkaProducer[Any, Any]):
    """A producer that a program for kafka-python can use.

    Args:
        configs: kafka-python's settings, and ours.

    Raises:
        NoBrokersAvailableError: no broker answered within ``bootstrap_timeout_ms`` (30 s); not with an ``api_version``,
            when nothing connects before the first call.
        ConfigurationError: a setting is unknown, has a wrong value, or cannot be had here.

    Differs from :class:`pyconsumer.KafkaProducer` in this: the constructor connects; ``bootstrap_servers`` is
    ``localhost:9092`` by default, and ``linger_ms`` 0; ``flush`` and ``close`` take seconds.
    """

    def __init__(self, **configs: Any) -> None:
        bootstrap_ms = configs.pop("bootstrap_timeout_ms", _BOOTSTRAP_TIMEOUT_MS)
        configs.pop("allow_auto_create_topics", None)  # the broker decides
        mine = frozenset(("max_in_flight_requests_per_connection",))
        for name in ("key_serializer", "value_serializer"):
            if configs.get(name) is not None:
                configs[name] = as_serializer(configs[name])
        if configs.get("partitioner") is not None:
            configs["partitioner"] = as_function(configs["partitioner"])
        super().__init__(translate(configs, defaults=_DEFAULTS, meaningful=mine))
        self.config: Any = GivenConfig(self.config, configs)
        self._bootstrap_ms: float = bootstrap_ms
        try:
            if configs.get("api_version") is None:
                connect(self.config, bootstrap_ms)
        except BaseException:
            self.close(timeout=0)
            raise

    def bootstrap_connected(self) -> bool:
        """Return whether a broker answers, within ``request_timeout_ms``."""
        try:
            connect(self.config, self.config.request_timeout_ms)
        except pyconsumer.errors.KafkaError:
            return False
        return True

    @staticmethod
    def max_usable_produce_magic(api_version: Any = None) -> int:
        """Return the version of record batches: always 2."""
        return 2

    def metrics(self, raw: bool = False) -> dict[str, dict[str, float]]:
        """Return counters since the start, by group and name; ``raw`` makes no difference."""
        return super().metrics()

    def flush(self, timeout: float | None = None, *, timeout_ms: float | None = None) -> None:  # type: ignore[override]
        """Wait until every record that was passed to ``send`` is acknowledged or has failed.

        Args:
            timeout: seconds; None waits as long as deliveries may take. ``timeout_ms`` is the same in milliseconds.

        Raises:
            KafkaTimeoutError: not everything was done in time; the rest continues.
        """
        super().flush(timeout_ms=timeout * 1000 if timeout is not None else timeout_ms)

    def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        group_metadata: ConsumerGroupMetadata | str | None = None,
        timeout_ms: int | None = None,
        *,
        consumer_group_id: str | None = None,
    ) -> None:
        """Commit the positions of a consumer as part of the transaction.

        Args:
            offsets: the next offset to read of each partition.
            group_metadata: what the consumer's ``group_metadata()`` returned, or the group's id.
            timeout_ms: as in :meth:`pyconsumer.KafkaProducer.send_offsets_to_transaction`.
            consumer_group_id: the group's id, as 2.x calls it.
        """
        group = consumer_group_id if group_metadata is None else group_metadata
        if group is None:
            raise TypeError("send_offsets_to_transaction() needs group_metadata, or the group's id")
        super().send_offsets_to_transaction(offsets, group, timeout_ms)

    def close(  # type: ignore[override]
        self, timeout: float | None = None, null_logger: bool = False, *, timeout_ms: float | None = None
    ) -> None:
        """Send what is left and end the background thread.

        Args:
            timeout: seconds; after this time the rest is dropped, and a warning says how many records. None waits until
                everything is sent or its delivery timeout has passed. ``timeout_ms`` is the same in milliseconds.
            null_logger: accepted; what is logged is configured by :mod:`logging`.
        """
        try:
            super().close(timeout_ms=timeout * 1000 if timeout is not None else timeout_ms)
        except KafkaTimeoutError as dropped:
            _log.info("%s", dropped)  # the sender has warned; kafka-python's close does not raise
