"""Errors of the Spark source and sink, with the names that Spark's own Kafka connector gives to the same conditions."""

from __future__ import annotations

import re
from typing import Any

from pyconsumer.errors import KafkaError
from pyconsumer.structs import TopicPartition

__all__ = ["DataLossError", "OffsetsError", "ReadError", "WriteError", "reason_from_spark"]


class _ConditionError(KafkaError):
    """An error whose message begins with ``[CONDITION]``, so that users can search for it."""

    def __init__(self, condition: str, message: str) -> None:
        super().__init__(f"[{condition}] {message}")
        self.condition = condition
        self._message = message

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.condition, self._message))


class OffsetsError(_ConditionError):
    """Offsets or timestamps in the options do not match the topic, or contradict each other.

    Attributes:
        condition: name of the error condition, such as ``KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED``.
    """


class DataLossError(_ConditionError):
    """Records that the query should read no longer exist. This is raised with ``failOnDataLoss=true``.

    Attributes:
        condition: name of the error condition, such as ``KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE``.
    """


class ReadError(KafkaError):
    """A task could not read its range. The message has the partition, the offset and the cause.

    The cause is also the ``__cause__``.

    Attributes:
        topic_partition, offset: the position that could not be read.
    """

    def __init__(self, message: str, topic_partition: TopicPartition, offset: int) -> None:
        super().__init__(f"{topic_partition} at offset {offset}: {message}")
        self.topic_partition = topic_partition
        self.offset = offset
        self._message = message

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self._message, self.topic_partition, self.offset))


class WriteError(KafkaError):
    """A task could not write its rows. The message has the cause, which is also the ``__cause__``."""


def reason_from_spark(error: object) -> str:
    """Return the most useful line of an error from Spark.

    The text of such an error may contain several stack traces.
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    python = [line for line in lines if re.match(r"(pyconsumer|pyspark)\.[\w.]+(Error|Exception): ", line)]
    java = [line.removeprefix(": ") for line in lines if re.match(r": [\w.$]+(Error|Exception): ", line)]
    return (python[-1:] or java or lines or ["for an unknown reason"])[0]
