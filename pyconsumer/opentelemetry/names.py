"""The names of OpenTelemetry's semantic conventions for messaging: of 1.45, and of the versions before.

1.45 renamed some attributes. ``OTEL_SEMCONV_STABILITY_OPT_IN`` chooses: ``messaging`` gives the names of 1.45,
``messaging/dup`` both, and anything else the names before, which other Python instrumentations have. The names of
spans and instruments are the same in both.
"""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = [
    "BATCH_SIZE",
    "CLIENT_ID",
    "CONSUMED_MESSAGES",
    "DESTINATION",
    "DURATION_BUCKETS_S",
    "ERROR_TYPE",
    "GROUP",
    "OPERATION_DURATION",
    "OPERATION_NAME",
    "OPERATION_TYPE",
    "PARTITION",
    "PROCESS_DURATION",
    "SENT_MESSAGES",
    "STABILITY_VARIABLE",
    "Renamed",
    "schema_url",
    "versions",
]

STABILITY_VARIABLE: Final = "OTEL_SEMCONV_STABILITY_OPT_IN"

OPERATION_NAME: Final = "messaging.operation.name"
OPERATION_TYPE: Final = "messaging.operation.type"
DESTINATION: Final = "messaging.destination.name"
PARTITION: Final = "messaging.destination.partition.id"
GROUP: Final = "messaging.consumer.group.name"
CLIENT_ID: Final = "messaging.client.id"
BATCH_SIZE: Final = "messaging.batch.message_count"
ERROR_TYPE: Final = "error.type"

OPERATION_DURATION: Final = "messaging.client.operation.duration"
SENT_MESSAGES: Final = "messaging.client.sent.messages"
CONSUMED_MESSAGES: Final = "messaging.client.consumed.messages"
PROCESS_DURATION: Final = "messaging.process.duration"

#: The bounds that the conventions give for both durations.
DURATION_BUCKETS_S: Final = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)


class Renamed(NamedTuple):
    """The names that 1.45 changed."""

    schema: str
    system: str
    offset: str
    key: str
    tombstone: str
    cluster_id: str


_BEFORE: Final = Renamed(
    "1.44.0",
    "messaging.system",
    "messaging.kafka.offset",
    "messaging.kafka.message.key",
    "messaging.kafka.message.tombstone",
    "messaging.kafka.cluster.id",
)
_SINCE_1_45: Final = Renamed(
    "1.45.0",
    "messaging.system.name",
    "kafka.offset",
    "kafka.message.key",
    "kafka.message.tombstone",
    "kafka.cluster.id",
)


def versions(opt_in: str) -> tuple[Renamed, ...]:
    """Return the sets of names that the value of the variable asks for. The first one has the schema."""
    asked = {one.strip() for one in opt_in.split(",")}
    if "messaging/dup" in asked:
        return _SINCE_1_45, _BEFORE
    return (_SINCE_1_45,) if "messaging" in asked else (_BEFORE,)


def schema_url(names: tuple[Renamed, ...]) -> str:
    """Return the address of the schema, which tells backends how to translate the names."""
    return f"https://opentelemetry.io/schemas/{names[0].schema}"
