"""Encodes and decodes the Subscription in JoinGroup and the Assignment in SyncGroup.

Each begins with its version. A newer version is read as our newest one, and bytes after the known fields are ignored,
so that members with a newer client can be in the group (Java's ``ConsumerProtocol``). No state.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from pyconsumer import structs
from pyconsumer.errors import ProtocolError
from pyconsumer.protocol.primitives import Buffer
from pyconsumer.protocol.schema import (
    BYTES,
    INT32,
    STRING,
    Message,
    Struct,
    array,
    field,
    message,
    structure,
)

M = TypeVar("M", bound=Message)


@structure
class TopicPartition(Struct):
    topic: str = field(STRING, "1+", default="")
    partitions: list[int] = array(INT32, "1+", factory=list)


@message(-1, "data", versions="0-3", flexible="none")
class ConsumerProtocolSubscription(Message):
    topics: list[str] = array(STRING, "0+", factory=list)
    user_data: bytes | None = field(BYTES, "0+", nullable="0+", default=None)
    owned_partitions: list[TopicPartition] = array(TopicPartition, "1+", factory=list, ignorable=True)
    generation_id: int = field(INT32, "2+", default=-1, ignorable=True)
    rack_id: str | None = field(STRING, "3+", nullable="3+", default=None, ignorable=True)


@structure
class ConsumerProtocolAssignmentTopicPartition(Struct):
    topic: str = field(STRING, "0+", default="")
    partitions: list[int] = array(INT32, "0+", factory=list)


@message(-1, "data", versions="0-3", flexible="none")
class ConsumerProtocolAssignment(Message):
    assigned_partitions: list[ConsumerProtocolAssignmentTopicPartition] = array(
        ConsumerProtocolAssignmentTopicPartition, "0+", factory=list
    )
    user_data: bytes | None = field(BYTES, "0+", nullable="0+", default=None)


def encode_subscription(
    topics: Iterable[str],
    user_data: bytes | None = None,
    owned_partitions: Iterable[structs.TopicPartition] = (),
    generation_id: int = -1,
    rack_id: str | None = None,
    *,
    version: int = 3,
) -> bytes:
    """Encode a member's subscription for JoinGroup.

    Topics and partitions are sorted, so equal subscriptions give equal bytes.

    Args:
        owned_partitions: the partitions that the member keeps while it rejoins (since version 1, KIP-429).
        generation_id: the generation that assigned these partitions, -1 for none (since version 2, KIP-792).
        rack_id: the member's ``client_rack`` (since version 3, KIP-881).
        version: the version to encode.
    """
    by_topic: dict[str, list[int]] = {}
    for partition in sorted(owned_partitions):
        by_topic.setdefault(partition.topic, []).append(partition.partition)
    return ConsumerProtocolSubscription(
        topics=sorted(topics),
        user_data=user_data,
        owned_partitions=[TopicPartition(topic=topic, partitions=numbers) for topic, numbers in by_topic.items()],
        generation_id=generation_id,
        rack_id=rack_id,
    ).encode_with_version(version)


def decode_subscription(data: Buffer) -> ConsumerProtocolSubscription:
    """Read a member's subscription, of any version.

    Raises:
        ProtocolError: the bytes are not a subscription, or their version is negative.
    """
    return _decode(ConsumerProtocolSubscription, data)


def owned_partitions(subscription: ConsumerProtocolSubscription) -> list[structs.TopicPartition]:
    """Return the partitions that a member owns according to its subscription, in the order of the subscription."""
    return [
        structs.TopicPartition(item.topic, number)
        for item in subscription.owned_partitions
        for number in item.partitions
    ]


def encode_assignment(
    partitions: Iterable[structs.TopicPartition], user_data: bytes | None = None, *, version: int = 3
) -> bytes:
    """Encode a member's assignment for SyncGroup. Topics are in the order in which they first appear."""
    by_topic: dict[str, list[int]] = {}
    for partition in partitions:
        by_topic.setdefault(partition.topic, []).append(partition.partition)
    return ConsumerProtocolAssignment(
        assigned_partitions=[
            ConsumerProtocolAssignmentTopicPartition(topic=topic, partitions=numbers)
            for topic, numbers in by_topic.items()
        ],
        user_data=user_data,
    ).encode_with_version(version)


def decode_assignment(data: Buffer) -> tuple[list[structs.TopicPartition], bytes | None]:
    """Read a member's assignment. Return its partitions and user data. Empty bytes mean no partitions.

    Raises:
        ProtocolError: the bytes are not an assignment, or their version is negative.
    """
    if not len(data):
        return [], None
    message = _decode(ConsumerProtocolAssignment, data)
    partitions = [
        structs.TopicPartition(item.topic, number) for item in message.assigned_partitions for number in item.partitions
    ]
    return partitions, message.user_data


def _decode(cls: type[M], data: Buffer) -> M:
    if len(data) < 2:
        raise ProtocolError(f"{cls.__name__}: {len(data)} bytes are too short for a version")
    version = int.from_bytes(data[:2], "big", signed=True)
    if version < cls.MIN_VERSION:
        raise ProtocolError(f"{cls.__name__} has versions {cls.SCHEMA.versions}, not {version}")
    return cls.decode(memoryview(data)[2:], min(version, cls.MAX_VERSION), allow_trailing=True)
