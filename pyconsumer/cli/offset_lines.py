"""Records of ``__consumer_offsets`` as text and as JSON. No I/O, no state."""

from __future__ import annotations

import json
from base64 import b64encode
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from pyconsumer.cli.group_record_lines import as_json_data, as_words
from pyconsumer.errors import CorruptRecordError, ProtocolError
from pyconsumer.protocol.consumer_group_records import VALUES, RecordType, decode_value
from pyconsumer.protocol.consumer_protocol import ConsumerProtocolAssignment
from pyconsumer.protocol.offsets_topic import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    NewerKey,
    OffsetCommitKey,
    OffsetCommitValue,
    UnknownKey,
    decode_group_value,
    decode_key,
    decode_newer_key,
    decode_offset_value,
    format_record,
)
from pyconsumer.protocol.primitives import ZERO_UUID, uuid_to_str
from pyconsumer.protocol.records import decode_control_type
from pyconsumer.protocol.schema import Message
from pyconsumer.structs import TopicPartition

__all__ = ["FORMATS", "DumpedRecord", "as_document", "as_text"]

#: ``text`` is ours; the others are the formats of Kafka's tools of these versions.
FORMATS = ("text", "2.0", "2.1")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CONTROL = -1
_PATTERN = "ConsumerGroupRegularExpression"


@dataclass(frozen=True, slots=True)
class DumpedRecord:
    """A decoded record.

    Attributes:
        key: the decoded key. None for a control record, and for a key that cannot be read.
        value: the decoded value. None for a tombstone, and for a type whose values are not supported.
        problem: the reason why the record cannot be read, or None.
        marker: the type of a control record, such as ``COMMIT``.
        raw_key, raw_value: the bytes of key and value.
    """

    partition: int
    offset: int
    timestamp: int
    raw_key: bytes | None
    raw_value: bytes | None
    key: OffsetCommitKey | GroupMetadataKey | NewerKey | UnknownKey | None = None
    value: Message | None = None
    problem: str | None = None
    marker: str | None = None

    @classmethod
    def read(
        cls,
        partition: int,
        offset: int,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        is_control: bool = False,
    ) -> DumpedRecord:
        """Decode a record. If that fails, the error is stored in ``problem``."""
        what: OffsetCommitKey | GroupMetadataKey | NewerKey | UnknownKey | None = None
        content: Message | None = None
        problem = marker = None
        try:
            if is_control:
                marker = decode_control_type(key).name
            elif key is None:
                problem = "it has no key"
            else:
                what = decode_newer_key(key) or decode_key(key)
                if isinstance(what, OffsetCommitKey):
                    content = None if value is None else decode_offset_value(value)
                elif isinstance(what, GroupMetadataKey):
                    content = None if value is None else decode_group_value(value)
                elif value is not None and (kind := int.from_bytes(key[:2], "big", signed=True)) in VALUES:
                    content = decode_value(RecordType(kind), value)
        except (ProtocolError, CorruptRecordError) as error:
            problem = str(error)
        return cls(partition, offset, timestamp, key, value, what, content, problem, marker)

    @property
    def group(self) -> str | None:
        """The group id, or None if it is unknown."""
        return self.key.group if isinstance(self.key, (OffsetCommitKey, GroupMetadataKey, NewerKey)) else None

    @property
    def kind(self) -> int:
        """The type of the record, which is the version of its key. -1 for a control record, and if there is no key."""
        return _CONTROL if self.raw_key is None or self.marker else int.from_bytes(self.raw_key[:2], "big", signed=True)

    @property
    def is_offset(self) -> bool:
        """Return whether the record is a committed offset."""
        return isinstance(self.key, OffsetCommitKey)

    @property
    def is_group(self) -> bool:
        """Return whether the record is metadata of a group or of its members, in either protocol."""
        return isinstance(self.key, (GroupMetadataKey, NewerKey))


def as_text(found: DumpedRecord, form: str) -> str | None:
    """Return a record as a line of text. Return None if the format has no line for it.

    (Kafka's formats skip unknown types.)
    """
    if form == "text":
        return f"{found.partition}@{found.offset} {_text(found)}"
    if found.problem or found.marker or found.raw_key is None or isinstance(found.key, NewerKey | UnknownKey):
        return None
    if form == "2.0":
        return format_record(found.raw_key, found.raw_value)
    return _text_2_1(found)


def _text(found: DumpedRecord) -> str:
    if found.problem:
        return f"unreadable: {found.problem}"
    if found.marker:
        return f"marker {found.marker}"
    if isinstance(found.key, OffsetCommitKey):
        what = f"{_shown(found.key.group)} {found.key.topic}-{found.key.partition}"
        if not isinstance(found.value, OffsetCommitValue):
            return f"{what} -> tombstone"
        commit = found.value
        parts = [f"{what} -> {commit.offset}"]
        if commit.leader_epoch >= 0:
            parts.append(f"leader epoch {commit.leader_epoch}")
        if commit.metadata:
            parts.append(f"metadata {json.dumps(commit.metadata, ensure_ascii=False)}")
        parts.append(f"committed {_time(commit.commit_timestamp)}")
        if commit.expire_timestamp >= 0:
            parts.append(f"expires {_time(commit.expire_timestamp)}")
        return ", ".join(parts)
    if isinstance(found.key, GroupMetadataKey):
        what = f"{_shown(found.key.group)} group"
        if not isinstance(found.value, GroupMetadataValue):
            return f"{what} -> tombstone"
        return f"{what} -> {_group_text(found.value)}"
    if isinstance(found.key, NewerKey):
        whose = "" if found.key.member is None else f" {_shown(found.key.member)}"
        if found.value is not None:
            content = as_words(found.value)
        else:
            content = "tombstone" if found.raw_value is None else f"{len(found.raw_value)} bytes"
        return f"{_shown(found.key.group)} {found.key.kind} (type {found.kind}){whose} -> {content}"
    value = "a tombstone" if found.raw_value is None else f"value of {len(found.raw_value)} bytes"
    return f"record type {found.kind}: key of {len(found.raw_key or b'')} bytes, {value}"


def _group_text(value: GroupMetadataValue) -> str:
    head = (
        f"generation {value.generation}, protocol type {value.protocol_type or 'none'},"
        f" assignor {value.protocol or 'none'}"
    )
    if value.current_state_timestamp >= 0:
        head += f", since {_time(value.current_state_timestamp)}"
    members = []
    for one in value.members:
        assigned = assignment_of(value, one)
        owns = f"{len(one.assignment)} bytes" if assigned is None else " ".join(map(_name, assigned)) or "nothing"
        instance = f", instance {_shown(one.group_instance_id)}" if one.group_instance_id is not None else ""
        leads = ", leader" if one.member_id == value.leader else ""
        members.append(
            f"{_shown(one.member_id)} ({_shown(one.client_id)} at {one.client_host}{instance}{leads}) has {owns}"
        )
    count = "1 member" if len(members) == 1 else f"{len(members)} members"
    return f"{head}, {count}" + (": " + "; ".join(members) if members else "")


def _text_2_1(found: DumpedRecord) -> str | None:
    """Return the line of Kafka 2.1 to 3.8, which has none for groups."""
    if not isinstance(found.key, OffsetCommitKey):
        return None
    what = f"[{found.key.group},{found.key.topic},{found.key.partition}]::"
    if not isinstance(found.value, OffsetCommitValue):
        return what + "NULL"
    commit = found.value
    epoch = "Optional.empty" if commit.leader_epoch < 0 else f"Optional[{commit.leader_epoch}]"
    expires = "None" if commit.expire_timestamp < 0 else f"Some({commit.expire_timestamp})"
    return (
        f"{what}OffsetAndMetadata(offset={commit.offset}, leaderEpoch={epoch}, metadata={commit.metadata}, "
        f"commitTimestamp={commit.commit_timestamp}, expireTimestamp={expires})"
    )


def as_document(found: DumpedRecord) -> dict[str, object]:
    """Return a record as an object for ``--json``.

    ``key`` and ``value`` have the format of Kafka's tools since 3.9: type or version, and ``data``. The other fields
    exist only in pyconsumer: the place of the record, ``assigned`` (partitions by member id), ``problem`` and
    ``marker``.
    """
    document: dict[str, object] = {
        "partition": found.partition,
        "offset": found.offset,
        "timestamp": found.timestamp,
        "key": {"type": found.kind, "data": _key_data(found)},
        "value": _value(found),
    }
    if isinstance(found.value, GroupMetadataValue):
        document["assigned"] = {
            one.member_id: None if (owned := assignment_of(found.value, one)) is None else [[*tp] for tp in owned]
            for one in found.value.members
        }
    extra = {"problem": found.problem, "marker": found.marker}
    return document | {name: text for name, text in extra.items() if text}


def _key_data(found: DumpedRecord) -> object:
    if isinstance(found.key, OffsetCommitKey):
        return {"group": found.key.group, "topic": found.key.topic, "partition": found.key.partition}
    if isinstance(found.key, GroupMetadataKey):
        return {"group": found.key.group}
    if isinstance(found.key, NewerKey):
        name = "regularExpression" if found.key.kind == _PATTERN else "memberId"
        return {"groupId": found.key.group} | ({} if found.key.member is None else {name: found.key.member})
    return _base64(found.raw_key)


def _value(found: DumpedRecord) -> dict[str, object] | None:
    if found.raw_value is None:
        return None
    version = int.from_bytes(found.raw_value[:2], "big", signed=True) if len(found.raw_value) > 1 else -1
    data: object
    if isinstance(found.value, OffsetCommitValue):
        commit = found.value
        data = {"offset": commit.offset, "metadata": commit.metadata, "commitTimestamp": commit.commit_timestamp}
        if version >= 3:
            data["leaderEpoch"] = commit.leader_epoch
        if version == 1:
            data["expireTimestamp"] = commit.expire_timestamp
        if commit.topic_id != ZERO_UUID:
            data["topicId"] = uuid_to_str(commit.topic_id)
    elif isinstance(found.value, GroupMetadataValue):
        group = found.value
        data = {
            "protocolType": group.protocol_type,
            "generation": group.generation,
            "protocol": group.protocol,
            "leader": group.leader,
            "members": [_member_data(one, version) for one in group.members],
        }
        if version >= 2:
            data["currentStateTimestamp"] = group.current_state_timestamp
    elif found.value is not None:
        data = as_json_data(found.value)
    else:
        data = _base64(found.raw_value)
    return {"version": version, "data": data}


def _member_data(one: MemberMetadata, version: int) -> dict[str, object]:
    data: dict[str, object] = {
        "memberId": one.member_id,
        "clientId": one.client_id,
        "clientHost": one.client_host,
        "sessionTimeout": one.session_timeout,
        "subscription": _base64(one.subscription),
        "assignment": _base64(one.assignment),
    }
    if version >= 1:
        data["rebalanceTimeout"] = one.rebalance_timeout
    if version >= 3:
        data["groupInstanceId"] = one.group_instance_id
    return data


def assignment_of(group: GroupMetadataValue, member: MemberMetadata) -> list[TopicPartition] | None:
    """Return the assignment of a member. Return None if it is not in the format of the consumer protocol."""
    if not member.assignment:
        return []
    if group.protocol_type != "consumer":
        return None
    try:
        assignment, _ = ConsumerProtocolAssignment.decode_with_version(member.assignment)
    except ProtocolError:
        return None
    return sorted(
        TopicPartition(entry.topic, partition)
        for entry in assignment.assigned_partitions
        for partition in entry.partitions
    )


def _base64(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode()


def _name(tp: TopicPartition) -> str:
    return f"{tp.topic}-{tp.partition}"


def _time(milliseconds: int) -> str:
    """Return a time in UTC, or the number itself if it is out of the calendar's range."""
    try:
        time = _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return str(milliseconds)
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _shown(text: str) -> str:
    """Return a name as one word: quoted if it is empty, or contains spaces or non-printable characters."""
    plain = text.isprintable() and text and " " not in text
    return text if plain else json.dumps(text)
