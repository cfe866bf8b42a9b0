"""User data of the delayed assignor: the last assignment, who is missing, and the time left.

The same blob goes both ways: from the leader to a member in its assignment, from a member to the next leader in its
subscription. An int16 version, then the fields in Kafka's notation. Fields that a
later version adds are ignored.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from pyconsumer.errors import ProtocolError
from pyconsumer.protocol import schema
from pyconsumer.protocol.schema import BOOL, INT32, STRING, Message, Struct, array, message, structure
from pyconsumer.structs import TopicPartition

__all__ = ["PRESENT", "Memory", "Share", "decode", "encode"]

_log = logging.getLogger("pyconsumer.assignors")

PRESENT: Final = -1
"""Instead of what is left of a delay: the member was there."""

_VERSION: Final = 0


class Share(NamedTuple):
    """The partitions of one member.

    Attributes:
        member_id, instance_id: the member. Only static members have an instance id.
        partitions: its last assignment.
        left_ms: how long its partitions still wait for the member, in ms. Or :data:`PRESENT`.
    """

    member_id: str
    instance_id: str | None
    partitions: tuple[TopicPartition, ...]
    left_ms: int = PRESENT

    @property
    def owner(self) -> str:
        """The member's name for log lines and errors: its instance id, or its member id if it has none."""
        return self.instance_id or self.member_id

    def after(self, passed_ms: int) -> Share:
        """Return this share after ``passed_ms`` more milliseconds."""
        return self if self.left_ms == PRESENT else self._replace(left_ms=max(0, self.left_ms - passed_ms))


@dataclass(frozen=True, slots=True)
class Memory:
    """The last assignment, as one member knows it.

    Attributes:
        generation_id: generation of the last assignment, -1 for none. It is not set in an assignment, because the
            receiver knows the generation.
        shares: the shares of all members, present or missing.
        leaves: True if the member is about to leave permanently.
        left: in a subscription: members that have told this member, as the leader, that they leave permanently.
        owes: in an assignment: True if the member must give up partitions and join again, even after a restart of its
            process.
    """

    generation_id: int = -1
    shares: tuple[Share, ...] = ()
    left: tuple[str, ...] = ()
    leaves: bool = field(default=False, kw_only=True)
    owes: bool = field(default=False, kw_only=True)


@structure
class _Topic(Struct):
    topic: str = schema.field(STRING, "0+", default="")
    partitions: list[int] = array(INT32, "0+", factory=list)


@structure
class _Share(Struct):
    member_id: str = schema.field(STRING, "0+", default="")
    instance_id: str | None = schema.field(STRING, "0+", nullable="0+", default=None)
    left_ms: int = schema.field(INT32, "0+", default=PRESENT)
    topics: list[_Topic] = array(_Topic, "0+", factory=list)


@message(-1, "data", versions="0", flexible="none")
class _Memory(Message):
    generation_id: int = schema.field(INT32, "0+", default=-1)
    leaves: bool = schema.field(BOOL, "0+", default=False)
    owes: bool = schema.field(BOOL, "0+", default=False)
    shares: list[_Share] = array(_Share, "0+", factory=list)
    left: list[str] = array(STRING, "0+", factory=list)


def encode(memory: Memory) -> bytes:
    """Encode the memory as bytes. Equal contents give equal bytes."""
    return _Memory(
        generation_id=memory.generation_id,
        leaves=memory.leaves,
        owes=memory.owes,
        shares=[
            _Share(
                member_id=share.member_id,
                instance_id=share.instance_id,
                left_ms=share.left_ms,
                topics=_by_topic(share.partitions),
            )
            for share in memory.shares
        ],
        left=list(memory.left),
    ).encode_with_version(_VERSION)


def decode(data: bytes | None) -> Memory:
    """Decode the bytes. Unreadable bytes give an empty memory, so that a faulty member does not stop the group."""
    if not data:
        return Memory()
    try:
        found, _ = _Memory.decode_with_version(data)
    except ProtocolError as error:
        _log.warning("user data of the delayed assignor cannot be read: %s", error)
        return Memory()
    shares = tuple(
        Share(
            share.member_id,
            share.instance_id,
            tuple(TopicPartition(topic.topic, number) for topic in share.topics for number in topic.partitions),
            max(share.left_ms, PRESENT),
        )
        for share in found.shares
    )
    return Memory(found.generation_id, shares, tuple(found.left), leaves=found.leaves, owes=found.owes)


def _by_topic(partitions: Sequence[TopicPartition]) -> list[_Topic]:
    topics: dict[str, list[int]] = {}
    for partition in sorted(partitions):
        topics.setdefault(partition.topic, []).append(partition.partition)
    return [_Topic(topic=topic, partitions=numbers) for topic, numbers in topics.items()]
