"""Translates the ``kafka.*`` options of the sink into settings of a producer. Functions without state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyconsumer.errors import ConfigurationError
from pyconsumer.producer.config import PRODUCER_SETTINGS
from pyconsumer.spark.client_config import Side, dotted_names, translate
from pyconsumer.spark.option_values import read_number

__all__ = ["producer_settings"]

_SINK: Final = Side(
    dotted_names(PRODUCER_SETTINGS) | {"acks", "retries"},
    {
        "key.serializer": "keys must be binary or string; encode them with the functions of DataFrames",
        "value.serializer": "values must be binary or string; encode them with the functions of DataFrames",
        "interceptor.classes": "an interceptor could change records, so none is allowed",
        "partitioner.class": "classes of Java cannot be used; to choose partitions add a column named partition",
        "transactional.id": "for transactions set deliveryGuarantee=exactly-once, and transactionalIdPrefix to name"
        " them",
    },
    frozenset(
        {
            "auto.include.jmx.reporter",
            "enable.metrics.push",
            "metric.reporters",
            "metrics.recording.level",
            "security.providers",
        }
    ),
    frozenset(),
    "pyconsumer's producer has no such setting",
)


#: For throughput: a producer's own defaults suit single records, and a task sends many at once.
_BULK: Final = {"batch.size": "262144", "linger.ms": "20", "client.id": "pyconsumer-spark"}
#: The maximum that brokers allow by default (``transaction.max.timeout.ms``). A transaction stays open through its
#: batch, and through a restart of the driver.
_TRANSACTION_TIMEOUT_MS: Final = "900000"


def producer_settings(
    options: Mapping[str, str],
    *,
    warn: bool = False,
    transactional_id: str | None = None,
    transaction_timeout_ms: int | None = None,
) -> dict[str, Any]:
    """Return the settings for a :class:`pyconsumer.KafkaProducer`.

    Args:
        options: the options by Kafka's dotted names, without the prefix ``kafka.``.
        warn: True logs a warning for options that have no effect.
        transactional_id: the transactional id, for a producer with transactions.
        transaction_timeout_ms: the transaction timeout. It replaces the one in the options.

    Raises:
        ConfigurationError: a setting is unknown, invalid or not supported. The message does not contain the values of
            secrets.
    """
    values = translate({**_BULK, **options}, _SINK, warn=warn)
    if "retries" in values:  # it has no dotted name, and only those are converted from text
        values["retries"] = read_number({"kafka.retries": values["retries"]}, "kafka.retries", 0, 0)
    if transactional_id is not None:
        values["transactional.id"] = transactional_id
        values.setdefault("transaction.timeout.ms", _TRANSACTION_TIMEOUT_MS)
        if transaction_timeout_ms is not None:
            values["transaction.timeout.ms"] = str(transaction_timeout_ms)
    try:
        built = PRODUCER_SETTINGS.build(values)
    except ConfigurationError as error:
        raise ConfigurationError(f"in the kafka.* options: {error}") from None
    if built.acks == 0:
        raise ConfigurationError("option kafka.acks must not be 0: lost records would not be noticed. Use 1 or all")
    return values
