"""The errors of aiokafka for pyconsumer's errors.

:mod:`pyconsumer.compat.border` is the mechanism. aiokafka has several errors where ours is an ``IllegalStateError``, so
consumers and producers have rules of their own.
"""

from __future__ import annotations

from typing import Any, Final

from pyconsumer.compat.aiokafka import errors
from pyconsumer.compat.border import Border
from pyconsumer.compat.error_classes import pair
from pyconsumer.compat.error_table import AIOKAFKA_FOR_OURS
from pyconsumer.errors import (
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    IllegalStateError,
    InvalidGroupIdError,
    InvalidOffsetError,
    KafkaError,
    NoOffsetForPartitionError,
    TopicAuthorizationFailedError,
    TransactionAbortableError,
    TransactionalIdAuthorizationFailedError,
)

__all__ = ["ConsumerStoppedError", "border", "consumer_border", "producer_border"]

_DENIED: Final = (
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailedError,
)


def _partitions(error: InvalidOffsetError) -> Any:
    if isinstance(error, NoOffsetForPartitionError) and len(error.partitions) == 1:
        return next(iter(error.partitions))
    return dict(error.partitions)


def _consumer_rule(error: KafkaError) -> str | None:
    if isinstance(error, InvalidGroupIdError) and error.args:  # found by the client: it was given no group
        return "IllegalOperation"
    return None


def _producer_rule(error: KafkaError) -> str | None:
    if isinstance(error, TransactionAbortableError) and isinstance(error.__cause__, _DENIED):
        denied: str = producer_border.kind(error.__cause__).__name__  # aiokafka raises it alone
        return denied
    if not isinstance(error, IllegalStateError):
        return None
    cause = error.__cause__
    if isinstance(cause, KafkaError):  # the producer cannot be used any more: aiokafka raises the cause again
        name: str = producer_border.kind(cause).__name__
        return name
    return "ProducerClosed" if " closed" in str(error) else "IllegalOperation"


#: Of clients without a rule of their own.
border: Final = Border(
    {name: getattr(errors, name) for name in errors.__all__ if isinstance(getattr(errors, name), type)},
    AIOKAFKA_FOR_OURS,
    errors.kafka_errors,
    partitions=_partitions,
    rule=lambda _: None,
)
consumer_border: Final = border.ruled(_consumer_rule)
producer_border: Final = border.ruled(_producer_rule)

#: aiokafka's error, which is an ``IllegalStateError`` of ours, too.
ConsumerStoppedError: Final[Any] = pair(errors.ConsumerStoppedError, IllegalStateError)
