"""Records of consumer groups (KIP-848) as text, and as JSON in the format of Kafka's own tools. Functions, no state."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterable
from typing import Any

from pyconsumer.protocol import consumer_group_records as wire
from pyconsumer.protocol.primitives import Struct, uuid_to_str
from pyconsumer.protocol.schema import UUID, Message

__all__ = ["as_json_data", "as_words"]

_STATES = {
    0: "stable",
    1: "has partitions to revoke",
    2: "waits for partitions",
    127: "in an unknown state",
}


def as_json_data(value: Struct) -> dict[str, Any]:
    """Return a record's value in the format of Kafka's tools.

    It has Kafka's field names, and ids and bytes are in base64.

    A tagged field that has its default is left out, as in the record itself.
    """
    found: dict[str, Any] = {}
    for spec in value.FIELDS:
        item = getattr(value, spec.name)
        if spec.tag < 0 or item != spec.default:
            found[_kafka_name(spec.name)] = _json(item, is_id=spec.type is UUID)
    return found


def _json(item: Any, *, is_id: bool) -> Any:
    if isinstance(item, list):
        return [_json(each, is_id=is_id) for each in item]
    if isinstance(item, Struct):
        return as_json_data(item)
    if isinstance(item, (bytes, memoryview)):
        return uuid_to_str(bytes(item)) if is_id else b64encode(item).decode()
    return item


def _kafka_name(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


def as_words(value: Message) -> str:
    """Return a record's value in words."""
    return _WORDS[type(value)](value)


def _group(value: wire.ConsumerGroupMetadataValue) -> str:
    return f"group epoch {value.epoch}, metadata hash {value.metadata_hash}"


def _partition_metadata(value: wire.ConsumerGroupPartitionMetadataValue) -> str:
    return ", ".join(f"{one.topic_name} has {one.num_partitions} partitions" for one in value.topics) or "no topics"


def _member(value: wire.ConsumerGroupMemberMetadataValue) -> str:
    parts = [f"{value.client_id} at {value.client_host}"]
    if value.instance_id:
        parts.append(f"instance {value.instance_id}")
    if value.rack_id:
        parts.append(f"rack {value.rack_id}")
    if value.subscribed_topic_names:
        parts.append(f"subscribed to {' '.join(value.subscribed_topic_names)}")
    if value.subscribed_topic_regex:
        parts.append(f"subscribed to the pattern {value.subscribed_topic_regex}")
    if value.server_assignor:
        parts.append(f"assignor {value.server_assignor}")
    parts.append(f"rebalance timeout {value.rebalance_timeout_ms} ms")
    classic = value.classic_member_metadata
    if classic is not None:
        names = " ".join(one.name for one in classic.supported_protocols)
        parts.append(f"classic member with {names}, session timeout {classic.session_timeout_ms} ms")
    return ", ".join(parts)


def _target_metadata(value: wire.ConsumerGroupTargetAssignmentMetadataValue) -> str:
    computed = f", computed at {value.assignment_timestamp} ms" if value.assignment_timestamp > 0 else ""
    return f"assignment epoch {value.assignment_epoch}{computed}"


def _target(value: wire.ConsumerGroupTargetAssignmentMemberValue) -> str:
    return f"is to have {_partitions(value.topic_partitions)}"


def _current(value: wire.ConsumerGroupCurrentMemberAssignmentValue) -> str:
    state = _STATES.get(value.state, f"in state {value.state}")
    text = f"member epoch {value.member_epoch} after {value.previous_member_epoch}, {state}, "
    text += f"has {_partitions(value.assigned_partitions)}"
    if value.partitions_pending_revocation:
        text += f", is to revoke {_partitions(value.partitions_pending_revocation)}"
    return text


def _regex(value: wire.ConsumerGroupRegularExpressionValue) -> str:
    return f"matches {' '.join(value.topics) or 'nothing'} of version {value.version} of the cluster's topics"


def _partitions(topics: Iterable[wire.TopicPartition | wire.TopicPartitions]) -> str:
    """Return partitions as ``ID-NUMBER``: these records contain the ids of topics instead of names."""
    named = (f"{uuid_to_str(one.topic_id)}-{index}" for one in topics for index in sorted(one.partitions))
    return " ".join(named) or "nothing"


_WORDS: dict[type[Message], Callable[[Any], str]] = {
    wire.ConsumerGroupMetadataValue: _group,
    wire.ConsumerGroupPartitionMetadataValue: _partition_metadata,
    wire.ConsumerGroupMemberMetadataValue: _member,
    wire.ConsumerGroupTargetAssignmentMetadataValue: _target_metadata,
    wire.ConsumerGroupTargetAssignmentMemberValue: _target,
    wire.ConsumerGroupCurrentMemberAssignmentValue: _current,
    wire.ConsumerGroupRegularExpressionValue: _regex,
}
