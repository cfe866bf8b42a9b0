"""Kafka's broker settings about share groups (KIP-932), and the settings of single share groups. A table."""

from __future__ import annotations

import re
from typing import Final

from pyconsumer.broker.settings import BrokerSetting, ConfigType, Value, between, one_of

__all__ = ["SHARE_BROKER_SETTINGS", "SHARE_GROUP_SETTINGS", "duration_ms"]

_INT, _SHORT, _STRING = ConfigType.INT, ConfigType.SHORT, ConfigType.STRING

_DURATION: Final = re.compile(
    r"by_duration:P(?:(?P<days>\d+)D)?(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?",
    re.IGNORECASE,
)


def duration_ms(value: str) -> int | None:
    """Return the milliseconds of ``by_duration:`` with a duration as in ISO 8601, or None if it is something else."""
    found = _DURATION.fullmatch(value)
    if found is None or not any(found.groups()):
        return None
    days, hours, minutes, seconds = (float(found[name] or 0) for name in ("days", "hours", "minutes", "seconds"))
    return round(((days * 24 + hours) * 60 + minutes) * 60_000 + seconds * 1000)


def _reset(value: Value) -> str | None:
    if str(value).lower() in ("earliest", "latest") or duration_ms(str(value)) is not None:
        return None
    return "must be earliest, latest or by_duration:<a duration as in ISO 8601, such as PT1H>"


def _number(name: str, default: int, doc: str, low: int, high: int | None = None) -> BrokerSetting:
    return BrokerSetting(name, _INT, default, doc, between(low, high))


SHARE_BROKER_SETTINGS: Final[tuple[BrokerSetting, ...]] = (
    _number("group.share.assignment.interval.ms", 1_000, "Shortest time between two target assignments.", 0),
    BrokerSetting(
        "group.share.assignors", ConfigType.LIST, ["simple"], "Assignor of share groups. There is only one here."
    ),
    _number("group.share.delivery.count.limit", 5, "How often a record is delivered at most.", 2, 10),
    _number("group.share.heartbeat.interval.ms", 5_000, "How often members of share groups send heartbeats.", 1),
    _number(
        "group.share.initialize.retry.interval.ms", 30_000, "Pause before a share partition is begun once more.", 1
    ),
    _number("group.share.max.assignment.interval.ms", 15_000, "Largest value of share.assignment.interval.ms.", 0),
    _number("group.share.max.delivery.count.limit", 10, "Largest value of share.delivery.count.limit.", 5, 25),
    _number("group.share.max.heartbeat.interval.ms", 15_000, "Largest value of share.heartbeat.interval.ms.", 1),
    _number(
        "group.share.max.partition.max.record.locks",
        4_000,
        "Largest value of share.partition.max.record.locks.",
        2_000,
        10_000,
    ),
    _number(
        "group.share.max.record.lock.duration.ms",
        60_000,
        "Largest value of share.record.lock.duration.ms.",
        30_000,
        3_600_000,
    ),
    _number("group.share.max.session.timeout.ms", 60_000, "Largest value of share.session.timeout.ms.", 1),
    _number("group.share.max.share.sessions", 2_000, "Most share sessions of a broker.", 1),
    _number("group.share.max.size", 200, "Most members of a share group.", 1, 1_000),
    _number("group.share.min.assignment.interval.ms", 0, "Smallest value of share.assignment.interval.ms.", 0),
    _number("group.share.min.delivery.count.limit", 2, "Smallest value of share.delivery.count.limit.", 2, 5),
    _number("group.share.min.heartbeat.interval.ms", 5_000, "Smallest value of share.heartbeat.interval.ms.", 1),
    _number(
        "group.share.min.partition.max.record.locks",
        100,
        "Smallest value of share.partition.max.record.locks.",
        100,
        2_000,
    ),
    _number(
        "group.share.min.record.lock.duration.ms",
        15_000,
        "Smallest value of share.record.lock.duration.ms.",
        1_000,
        30_000,
    ),
    _number("group.share.min.session.timeout.ms", 45_000, "Smallest value of share.session.timeout.ms.", 1),
    _number(
        "group.share.partition.max.record.locks", 2_000, "Most records in flight in a share partition.", 100, 10_000
    ),
    _number("group.share.record.lock.duration.ms", 30_000, "How long a record is locked.", 1_000, 3_600_000),
    _number("group.share.session.timeout.ms", 45_000, "How long a member of a share group may be silent.", 1),
    _number(
        "share.coordinator.cold.partition.snapshot.interval.ms",
        300_000,
        "How often share partitions that are hardly used get a snapshot.",
        1,
    ),
    _number(
        "share.coordinator.load.buffer.size", 5 * 2**20, "Bytes read at a time when share partitions are loaded.", 1
    ),
    _number(
        "share.coordinator.snapshot.update.records.per.snapshot",
        500,
        "Updates of a share partition after which a snapshot is written.",
        0,
        500,
    ),
    BrokerSetting(
        "share.coordinator.state.topic.compression.codec",
        _INT,
        0,
        "Compression of __share_group_state (0: none).",
        one_of(0, 1, 2, 3, 4),
    ),
    _number("share.coordinator.state.topic.min.isr", 2, "min.insync.replicas of __share_group_state.", 1),
    _number("share.coordinator.state.topic.num.partitions", 50, "Partitions of __share_group_state.", 1),
    _number(
        "share.coordinator.state.topic.prune.interval.ms",
        300_000,
        "How often the beginning of __share_group_state is removed.",
        1,
    ),
    BrokerSetting(
        "share.coordinator.state.topic.replication.factor", _SHORT, 3, "Replicas of __share_group_state.", between(1)
    ),
    _number("share.coordinator.state.topic.segment.bytes", 104_857_600, "Segment size of __share_group_state.", 1),
    _number("share.coordinator.write.timeout.ms", 5_000, "Longest wait for the replicas of a share state.", 1),
)

#: The settings of single share groups. The numbers have a broker setting ``group.<name>`` as their default.
SHARE_GROUP_SETTINGS: Final[tuple[BrokerSetting, ...]] = (
    _number("share.assignment.interval.ms", 1_000, "Shortest time between two target assignments.", 0),
    BrokerSetting("share.auto.offset.reset", _STRING, "latest", "Where a new share group begins to read.", _reset),
    _number("share.delivery.count.limit", 5, "How often a record is delivered at most.", 2),
    _number("share.heartbeat.interval.ms", 5_000, "How often members send heartbeats.", 1),
    BrokerSetting(
        "share.isolation.level",
        _STRING,
        "read_uncommitted",
        "Whether records of open and aborted transactions are delivered.",
        one_of("read_committed", "read_uncommitted"),
    ),
    _number("share.partition.max.record.locks", 2_000, "Most records in flight in a share partition.", 100),
    _number("share.record.lock.duration.ms", 30_000, "How long a record is locked.", 1_000),
    BrokerSetting(
        "share.renew.acknowledge.enable", ConfigType.BOOLEAN, True, "Whether members may renew their locks (KIP-1222)."
    ),
    _number("share.session.timeout.ms", 45_000, "How long a member may be silent.", 1),
)
