"""The errors of kafka-python for pyconsumer's errors.

:mod:`pyconsumer.compat.border` is the mechanism.
"""

from __future__ import annotations

from typing import Any, Final

from pyconsumer.compat.border import Border
from pyconsumer.compat.error_table import KAFKA_FOR_OURS
from pyconsumer.compat.kafka import errors
from pyconsumer.errors import (
    AuthenticationError,
    InvalidGroupIdError,
    InvalidOffsetError,
    KafkaError,
    LogTruncationError,
    NoOffsetForPartitionError,
)

__all__ = ["border"]


def _partitions(error: InvalidOffsetError) -> Any:
    if isinstance(error, LogTruncationError):
        error.__dict__["divergent_offsets"] = dict.fromkeys(error.partitions)  # no offset is known to be safe
    return set(error.partitions) if isinstance(error, NoOffsetForPartitionError) else dict(error.partitions)


def _rule(error: KafkaError) -> str | None:
    if isinstance(error, AuthenticationError) and error.stage == "SASL":
        return "SaslAuthenticationFailedError"
    if isinstance(error, InvalidGroupIdError) and error.args:  # found by the client: it was given no group
        return "IllegalStateError"
    return None


#: Of all clients of the layer.
border: Final = Border(
    {name: getattr(errors, name) for name in errors.__all__ if isinstance(getattr(errors, name), type)},
    KAFKA_FOR_OURS,
    errors.kafka_errors,
    partitions=_partitions,
    rule=_rule,
)
