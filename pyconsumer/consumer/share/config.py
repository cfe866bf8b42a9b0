"""The settings of a share consumer. They are the consumer's, without those that belong to the group on the broker."""

from __future__ import annotations

import itertools
from typing import Any, Final

from pyconsumer.consumer.config import CONSUMER_SETTINGS
from pyconsumer.errors import ConfigurationError
from pyconsumer.settings.config import REQUIRED, Choice, ClientConfig, Integer, Setting, Settings, Text

__all__ = ["IN_THE_GROUP", "SHARE_CONSUMER_SETTINGS", "ShareConsumerConfig"]

_ALTER = "'kafka-configs.sh --alter --entity-type groups --entity-name GROUP --add-config NAME=VALUE' sets it"
#: Settings of a consumer that a share consumer refuses, with what takes their place.
IN_THE_GROUP: Final = {
    "isolation_level": f"the group's setting share.isolation.level takes its place: {_ALTER}",
    "auto_offset_reset": f"the group's setting share.auto.offset.reset takes its place: {_ALTER}",
    "enable_auto_commit": "share_acknowledgement_mode takes its place. How long a record stays acquired is the group's"
    f" setting share.record.lock.duration.ms: {_ALTER}",
    "group_instance_id": "members of a share group are never static: partitions are shared, so a restart moves none",
    "partition_assignment_strategy": "the broker assigns the partitions (group.share.assignors on the broker)",
    "interceptors": "set_acknowledgement_commit_callback takes the place of on_commit",
    "session_timeout_ms": f"the group's setting share.session.timeout.ms takes its place: {_ALTER}",
    "heartbeat_interval_ms": f"the group's setting share.heartbeat.interval.ms takes its place: {_ALTER}",
    "group_protocol": "a share consumer has its own protocol",
    "group_remote_assignor": "the broker assigns the partitions (group.share.assignors on the broker)",
}
#: Settings of a consumer that have no meaning here and no replacement either.
_WITHOUT_MEANING: Final = (
    "rebalance_delay_ms",
    "enable_auto_offset_store",
    "auto_commit_interval_ms",
    "max_partition_fetch_bytes",
    "fetch_buffer_bytes",
    "decode_threads",
    "enable_incremental_fetch_sessions",
    "exclude_internal_topics",
)
_numbers = itertools.count(1)


class ShareConsumerConfig(ClientConfig):
    """The settings of a share consumer. See :data:`SHARE_CONSUMER_SETTINGS`."""

    group_id: str
    share_acknowledgement_mode: str
    share_acquire_mode: str
    max_poll_interval_ms: int
    max_poll_records: int
    client_rack: str
    fetch_min_bytes: int
    fetch_max_bytes: int
    fetch_max_wait_ms: int
    check_crcs: bool
    key_deserializer: Any
    value_deserializer: Any
    on_record_error: Any
    allow_auto_create_topics: bool
    consumer_timeout_ms: int | None
    schema_timeout_ms: int
    share_delivery_count_limit: int

    @property
    def is_explicit(self) -> bool:
        """Return whether the application acknowledges each record."""
        return self.share_acknowledgement_mode == "explicit"

    @property
    def limits_records(self) -> bool:
        """Return whether a poll acquires at most ``max_poll_records`` records (KIP-1206)."""
        return self.share_acquire_mode == "record_limit"

    @classmethod
    def finish(cls, values: dict[str, Any], given: frozenset[str]) -> None:
        super().finish(values, given)
        if "client_id" not in given:
            values["client_id"] = f"share-consumer-{values['group_id']}-{next(_numbers)}"
        if values["on_record_error"] == "null":
            raise ConfigurationError(
                "on_record_error='null' is for typed columns, which a share consumer does not have"
            )
        if values["fetch_max_wait_ms"] >= values["request_timeout_ms"]:
            raise ConfigurationError(
                f"fetch_max_wait_ms ({values['fetch_max_wait_ms']}) must be below request_timeout_ms"
                f" ({values['request_timeout_ms']}): otherwise every idle fetch times out"
            )


def _shared() -> list[Setting]:
    left_out = {*IN_THE_GROUP, *_WITHOUT_MEANING}
    return [setting for setting in CONSUMER_SETTINGS if setting.name not in left_out]


def _hints() -> dict[str, str]:
    """Return the advice for each refused setting, under all of its names."""
    found = dict(CONSUMER_SETTINGS.hints)
    for name, advice in IN_THE_GROUP.items():
        setting = CONSUMER_SETTINGS.find(name)
        for each in (name,) if setting is None else setting.names:
            is_name = "_" in advice.partition(" ")[0]
            found[each] = f"a share consumer does not have it. {advice if is_name else advice[0].upper() + advice[1:]}"
    return found


SHARE_CONSUMER_SETTINGS: Final[Settings[ShareConsumerConfig]] = Settings(
    "share consumer",
    (
        *_shared(),
        Setting("group_id", REQUIRED, Text(), "The share group. Its members share the records of each partition."),
        Setting(
            "share_acknowledgement_mode",
            "implicit",
            Choice("implicit", "explicit"),
            "`implicit`: the next poll, or `commit`, accepts the records of the last poll. `explicit`: you acknowledge"
            " each record by `acknowledge` before you poll again.",
        ),
        Setting(
            "share_acquire_mode",
            "batch_optimized",
            Choice("batch_optimized", "record_limit"),
            "`batch_optimized`: whole batches of the log are acquired, and one poll returns them, which may be more"
            " records than `max_poll_records`. `record_limit`: no more than `max_poll_records` are acquired"
            " (KIP-1206).",
        ),
        Setting(
            "share_delivery_count_limit",
            5,
            Integer(1),
            "The most deliveries of a record, for a consumer that may not read the group's setting"
            " `share.delivery.count.limit`. Dead letters need it.",
        ),
    ),
    ShareConsumerConfig,
    hints=_hints(),
)
"""All settings of :class:`pyconsumer.KafkaShareConsumer`."""
