"""``kafka.*`` options of the sink: settings of Java's producer, turned into ours."""

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
        "key.serializer": "keys are binary or text; make them with the functions of DataFrames",
        "value.serializer": "values are binary or text; make them with the functions of DataFrames",
        "interceptor.classes": "an interceptor could change records, so none is allowed",
        "partitioner.class": "classes of Java cannot be used; a column named partition chooses partitions",
        "transactional.id": "ask for transactions by deliveryGuarantee=exactly-once, and name them by"
        " transactionalIdPrefix",
    },
    frozenset(
        {
            "auto.include.jmx.reporter",
            "enable.metrics.push",
            "metric.reporters",
            "metrics.num.samples",
            "metrics.recording.level",
            "metrics.sample.window.ms",
            "partitioner.adaptive.partitioning.enable",
            "partitioner.availability.timeout.ms",
            "security.providers",
        }
    ),
    frozenset(),
    "pyconsumer's producer has nothing like it",
)


#: A producer's defaults suit single records; a task sends many at once.
_BULK: Final = {"batch.size": "262144", "linger.ms": "20", "client.id": "pyconsumer-spark"}
#: The most that brokers allow by default (``transaction.max.timeout.ms``): a batch and a restart have to fit.
_TRANSACTION_TIMEOUT_MS: Final = "900000"


def producer_settings(
    options: Mapping[str, str],
    *,
    warn: bool = False,
    transactional_id: str | None = None,
    transaction_timeout_ms: int | None = None,
) -> dict[str, Any]:
    """Return what :class:`pyconsumer.KafkaProducer` is to be made with.

    Args:
        options: by Kafka's dotted names, without ``kafka.``.
        warn: whether to log which options have no effect.
        transactional_id: for a producer with transactions.
        transaction_timeout_ms: in place of the options'.

    Raises:
        ConfigurationError: an unknown, illegal or unsupported setting; values of secret ones are not shown.
    """
    values = translate({**_BULK, **options}, _SINK, warn=warn)
    if "retries" in values:  # without a dot in its name the setting takes no text
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
        raise ConfigurationError("option kafka.acks=0: nobody would report that a record was lost; use 1 or all")
    return values
