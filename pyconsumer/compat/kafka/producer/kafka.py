"""``KafkaProducer`` with kafka-python's API."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import pyconsumer
from pyconsumer.clock import seconds_of
from pyconsumer.compat.border import crosses
from pyconsumer.compat.kafka import structs
from pyconsumer.compat.kafka.border import border
from pyconsumer.compat.kafka.checks import check_topic_name
from pyconsumer.compat.kafka.defaults import PRODUCER_DEFAULTS
from pyconsumer.compat.kafka.internals import ProducerInternals
from pyconsumer.compat.kafka.partitioner.default import as_function
from pyconsumer.compat.kafka.producer.future import FutureRecordMetadata
from pyconsumer.compat.kafka.serializer.abstract import as_serializer, check_no_text
from pyconsumer.compat.kafka.settings import GivenConfig, connect, translate
from pyconsumer.errors import KafkaTimeoutError
from pyconsumer.structs import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from pyconsumer.telemetry import hooks

__all__ = ["KafkaProducer"]

_log = logging.getLogger(__name__)

_DEFAULTS: Final[Mapping[str, Any]] = {
    "bootstrap_servers": "localhost:9092",
    "linger_ms": 0,
    "reconnect_backoff_max_ms": 30_000,
}
_BOOTSTRAP_TIMEOUT_MS: Final = 30_000


@border.guard
class KafkaProducer(ProducerInternals, pyconsumer.KafkaProducer[Any, Any]):
    """A producer for programs that were written for kafka-python.

    Args:
        configs: settings of kafka-python and of pyconsumer. If ``api_version`` is given, the constructor does not
            connect.

    Raises:
        NoBrokersAvailableError: no broker could be reached within ``bootstrap_timeout_ms`` (30 s).
        ConfigurationError: a setting is unknown, has a wrong value, or is not supported.

    Differences from :class:`pyconsumer.KafkaProducer`: The constructor connects. ``bootstrap_servers`` is
    ``localhost:9092`` by default, and ``linger_ms`` is 0. The times of ``flush`` and ``close`` are in seconds.
    """

    #: kafka-python's defaults by name.
    DEFAULT_CONFIG: ClassVar[dict[str, Any]] = dict(PRODUCER_DEFAULTS)
    _takes_text = False  # without a serializer
    _future_class = FutureRecordMetadata

    def __init__(self, **configs: Any) -> None:
        given = dict(configs)
        bootstrap_ms = configs.pop("bootstrap_timeout_ms", _BOOTSTRAP_TIMEOUT_MS)
        configs.pop("allow_auto_create_topics", None)  # the broker decides
        mine = frozenset(("max_in_flight_requests_per_connection",))
        for name in ("key_serializer", "value_serializer"):
            if configs.get(name) is not None:
                configs[name] = as_serializer(configs[name])
        if configs.get("partitioner") is not None:
            configs["partitioner"] = as_function(configs["partitioner"])
        super().__init__(translate(configs, defaults=_DEFAULTS, meaningful=mine, documented=PRODUCER_DEFAULTS))
        self.config: Any = GivenConfig(self.config, PRODUCER_DEFAULTS, given)
        self._bootstrap_ms: float = bootstrap_ms
        try:
            if configs.get("api_version") is None:
                connect(self.config, bootstrap_ms)
        except BaseException:
            self.close(timeout=0)
            raise

    def bootstrap_connected(self) -> bool:
        """Return whether a broker can be reached within ``request_timeout_ms``. After ``close`` it is False."""
        if self._closed:
            return False
        try:
            connect(self.config, self.config.request_timeout_ms)
        except pyconsumer.errors.KafkaError:
            return False
        return True

    @staticmethod
    def max_usable_produce_magic(api_version: Any = None) -> int:
        """Return the version of record batches, which is always 2."""
        return 2

    @crosses
    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: Sequence[tuple[str, bytes | None]] | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> FutureRecordMetadata:
        """Send a record, and return its future. See :meth:`pyconsumer.KafkaProducer.send`.

        If a serializer raises an exception, it is raised unchanged.

        Raises:
            TypeError: the topic, key or value has a wrong type.
            ValueError: no topic can have this name.
        """
        try:
            quick = self._quick
            if quick is not None and hooks.active is None:
                future = quick(topic, value, key, headers, partition, timestamp_ms)  # as there, without its frame
                if future is not None:
                    return future  # type: ignore[return-value]  # of the class above
            if not self._closed:
                check_topic_name(topic)
                check_no_text(self.config, key, value)
            return super().send(topic, value, key, headers, partition, timestamp_ms)  # type: ignore[return-value]
        except Exception as error:
            crossed = border.crossed(error)
            if crossed is error:
                raise
        raise crossed

    def transaction(self) -> Any:
        """Run a block as a transaction, as in ``with producer.transaction():``."""
        return border.context(super().transaction())

    def metrics(self, raw: bool = False) -> dict[str, dict[str, float]]:
        """Return counters since the start, by group and name. ``raw`` has no effect."""
        return super().metrics()

    def flush(self, timeout: float | None = None, *, timeout_ms: float | None = None) -> None:  # type: ignore[override]
        """Wait until all records that were passed to ``send`` have been acknowledged or have failed.

        After ``close`` there are none, so the call has no effect.

        Args:
            timeout: seconds. None waits as long as deliveries may take.
            timeout_ms: the same in milliseconds.

        Raises:
            KafkaTimeoutError: some records have no result in time. They are still being sent.
        """
        if self._closed:
            return
        super().flush(timeout_ms=timeout_ms if timeout is None else _in_ms(timeout))

    def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        group_metadata: structs.ConsumerGroupMetadata | ConsumerGroupMetadata | str | None = None,
        timeout_ms: int | None = None,
        *,
        consumer_group_id: str | None = None,
    ) -> None:
        """Commit the positions of a consumer as part of the transaction.

        Args:
            offsets: the next offset to read of each partition.
            group_metadata: the result of the consumer's ``group_metadata()``, or the group id.
            timeout_ms: see :meth:`pyconsumer.KafkaProducer.send_offsets_to_transaction`.
            consumer_group_id: the group id. This is the argument's name in kafka-python 2.x.
        """
        group = consumer_group_id if group_metadata is None else group_metadata
        if group is None:
            raise TypeError("send_offsets_to_transaction() needs group_metadata, or the group's id")
        super().send_offsets_to_transaction(offsets, group, timeout_ms)  # type: ignore[arg-type]

    def close(  # type: ignore[override]
        self, timeout: float | None = None, null_logger: bool = False, *, timeout_ms: float | None = None
    ) -> None:
        """Send the buffered records and end the background thread.

        Args:
            timeout: seconds. When the time is up, the remaining records are dropped, and a warning has their number.
                None waits until all records are sent or have reached their delivery timeout.
            null_logger: has no effect. Logging is configured by :mod:`logging`.
            timeout_ms: ``timeout`` in milliseconds.
        """
        try:
            super().close(timeout_ms=timeout_ms if timeout is None else _in_ms(timeout))
        except KafkaTimeoutError as dropped:
            _log.info("%s", dropped)  # the sender has warned; kafka-python's close does not raise


def _in_ms(timeout: float) -> float:
    return seconds_of(timeout, "timeout", unit="seconds") * 1000
