"""Members of groups as raw messages: each goes one step at a time, and sends exactly the requests of its test.

One connection for each member: a broker answers the requests of a connection in order, so a pending JoinGroup delays
everything behind it. The fixture ``connect`` makes the connections.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyconsumer.errors import Errors
from pyconsumer.protocol.consumer_protocol import ConsumerProtocolSubscription
from pyconsumer.protocol.messages.heartbeat import HeartbeatRequest
from pyconsumer.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from pyconsumer.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from pyconsumer.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from pyconsumer.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pyconsumer.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from pyconsumer.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.support.raw_client import RawClient

__all__ = ["Connect", "Member", "fetch_offset", "pair", "subscription", "topic_id_of"]

Connect = Callable[[], RawClient]


def subscription(*topics: str) -> bytes:
    return ConsumerProtocolSubscription(topics=list(topics)).encode_with_version(0)


class Member:
    """A member of a group on a connection of its own, which goes one step at a time."""

    def __init__(
        self,
        connect: Connect,
        group: str,
        *,
        instance: str | None = None,
        protocols: tuple[str, ...] = ("range",),
        topics: tuple[str, ...] = ("some-topic",),
        protocol_type: str = "consumer",
        session_ms: int = 20_000,
        rebalance_ms: int = 20_000,
        metadata: bytes | None = None,
    ) -> None:
        self.client = connect()
        self.metadata = metadata
        self.group = group
        self.instance = instance
        self.protocols = protocols
        self.topics = topics
        self.protocol_type = protocol_type
        self.session_ms = session_ms
        self.rebalance_ms = rebalance_ms
        self.member_id = ""
        self.generation = -1

    def send_join(self, version: int | None = None) -> None:
        metadata = subscription(*self.topics) if self.metadata is None else self.metadata
        protocols = [JoinGroupRequestProtocol(name=name, metadata=metadata) for name in self.protocols]
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=self.session_ms,
            rebalance_timeout_ms=self.rebalance_ms,
            member_id=self.member_id,
            group_instance_id=self.instance,
            protocol_type=self.protocol_type,
            protocols=protocols,
        )
        self.client.send(request, version)

    def receive_join(self) -> Any:
        answer = self.client.receive()[1]
        if answer.error_code in (0, Errors.MEMBER_ID_REQUIRED):
            self.member_id, self.generation = answer.member_id, answer.generation_id
        return answer

    def join(self, version: int | None = None) -> Any:
        self.send_join(version)
        return self.receive_join()

    def join_with_id(self) -> Any:
        """Ask for an id, and join with it."""
        assert self.join().error_code == Errors.MEMBER_ID_REQUIRED
        return self.join()

    def send_sync(self, assignments: dict[str, bytes] | None = None, **more: Any) -> None:
        request = SyncGroupRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance,
            protocol_type=self.protocol_type,
            protocol_name=self.protocols[0],
            assignments=[SyncGroupRequestAssignment(key, value) for key, value in (assignments or {}).items()],
        )
        for name, value in more.items():
            setattr(request, name, value)
        self.client.send(request)

    def sync(self, assignments: dict[str, bytes] | None = None, **more: Any) -> Any:
        self.send_sync(assignments, **more)
        return self.client.receive()[1]

    def stable(self) -> Member:
        """Be the only member of a stable group, with the assignment ``own``."""
        answer = self.join() if self.instance else self.join_with_id()
        assert answer.error_code == 0
        assert self.sync({self.member_id: b"own"}).assignment == b"own"
        return self

    def heartbeat(self, **more: Any) -> int:
        request = HeartbeatRequest(self.group, self.generation, self.member_id, self.instance)
        for name, value in more.items():
            setattr(request, name, value)
        return int(self.client.request(request).error_code)

    def until_told_to_rejoin(self) -> None:
        """Heartbeat until the coordinator reports a rebalance, which it does when it has received a JoinGroup."""
        while (code := self.heartbeat()) == 0:
            pass
        assert code == Errors.REBALANCE_IN_PROGRESS

    def commit(self, topic: str, offset: int, **more: Any) -> int:
        request = OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance,
            topics=[OffsetCommitRequestTopic(name=topic, partitions=[OffsetCommitRequestPartition(0, offset)])],
        )
        for name, value in more.items():
            setattr(request, name, value)
        return int(self.client.request(request, 9).topics[0].partitions[0].error_code)

    def leave(self) -> Any:
        identity = MemberIdentity(self.member_id, self.instance)
        return self.client.request(LeaveGroupRequest(self.group, members=[identity]))


def pair(connect: Connect, group: str, **options: Any) -> tuple[Member, Member]:
    """A stable group of two, the first one its leader. Assignments ``1`` and ``2``."""
    first = Member(connect, group, **options).stable()
    second = Member(connect, group, **options)
    assert second.join().error_code == Errors.MEMBER_ID_REQUIRED
    second.send_join()
    assert first.join().error_code == 0
    second.receive_join()
    second.send_sync()
    assert first.sync({first.member_id: b"1", second.member_id: b"2"}).assignment == b"1"
    assert second.client.receive()[1].assignment == b"2"
    return first, second


def fetch_offset(client: RawClient, group: str, topic: str) -> tuple[int, int]:
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=[OffsetFetchRequestTopics(topic)])])
    request.groups[0].topics[0].partition_indexes = [0]  # type: ignore[index]
    (answer,) = client.request(request, 9).groups
    if answer.error_code:
        return -1, answer.error_code
    part = answer.topics[0].partitions[0]
    return part.committed_offset, part.error_code


def topic_id_of(client: RawClient, topic: str) -> bytes:
    return bytes(client.request(MetadataRequest(topics=[MetadataRequestTopic(name=topic)])).topics[0].topic_id)
