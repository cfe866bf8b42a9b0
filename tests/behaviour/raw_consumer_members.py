"""Members of the consumer protocol as raw messages (KIP-848): each sends exactly the requests of its test."""

from __future__ import annotations

import uuid
from typing import Any

from pyconsumer.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from pyconsumer.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from tests.behaviour.raw_members import Connect
from tests.support.process import wait_until
from tests.support.raw_client import RawClient

__all__ = ["ConsumerMember", "described", "settle"]

Owned = dict[bytes, list[int]]


class ConsumerMember:
    """A member on a connection of its own. It revokes at once when the coordinator asks for it, unless ``holds``."""

    def __init__(
        self,
        connect: Connect,
        group: str,
        *topics: str,
        instance: str | None = None,
        regex: str | None = None,
        assignor: str | None = None,
        rebalance_ms: int = 20_000,
    ) -> None:
        self.client: RawClient = connect()
        self.group = group
        self.topics: tuple[str, ...] | None = topics
        self.instance = instance
        self.regex = regex
        self.assignor = assignor
        self.rebalance_ms = rebalance_ms
        self.member_id = str(uuid.uuid4())
        self.epoch = self.previous_epoch = 0
        self.owned: Owned = {}
        self.holds = False

    def request(self, **changes: Any) -> ConsumerGroupHeartbeatRequest:
        """A full heartbeat with all facts of the member. ``changes`` are fields."""
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.instance,
            rebalance_timeout_ms=self.rebalance_ms,
            subscribed_topic_names=None if self.topics is None else list(self.topics),
            subscribed_topic_regex=self.regex,
            server_assignor=self.assignor,
            topic_partitions=[
                TopicPartitions(topic_id=topic_id, partitions=list(indexes)) for topic_id, indexes in self.owned.items()
            ],
        )
        for name, value in changes.items():
            setattr(request, name, value)
        return request

    def send(self, version: int = 1, **changes: Any) -> Any:
        """Send a full heartbeat as it stands, and take over the response."""
        answer = self.client.request(self.request(**changes), version)
        if answer.error_code == 0:
            self.member_id = answer.member_id
            if answer.member_epoch != self.epoch:
                self.previous_epoch, self.epoch = self.epoch, answer.member_epoch
            if answer.assignment is not None and not self.holds:
                self.owned = {bytes(one.topic_id): one.partitions for one in answer.assignment.topic_partitions}
        return answer

    def sparse(self, **changes: Any) -> Any:
        """Send a heartbeat with the member's id and epoch alone."""
        request = ConsumerGroupHeartbeatRequest(group_id=self.group, member_id=self.member_id, member_epoch=self.epoch)
        for name, value in changes.items():
            setattr(request, name, value)
        return self.client.request(request, 1)

    def leave(self, epoch: int = -1) -> Any:
        """Leave. -2 for a static member that will be back."""
        answer = self.sparse(member_epoch=epoch, instance_id=self.instance)
        self.epoch, self.owned = 0, {}
        return answer

    @property
    def count(self) -> int:
        return sum(map(len, self.owned.values()))


def described(client: RawClient, group: str) -> Any:
    """The group as ConsumerGroupDescribe returns it."""
    (found,) = client.request(ConsumerGroupDescribeRequest(group_ids=[group])).groups
    return found


def settle(*members: ConsumerMember) -> Any:
    """Send heartbeats in turn until the group is Stable and return its description."""

    def turn() -> bool:
        for member in members:
            answer = member.send()
            assert answer.error_code == 0, (answer.error_code, answer.error_message)
        return bool(described(members[0].client, members[0].group).group_state == "Stable")

    wait_until(turn, 60, "the group is Stable")
    return described(members[0].client, members[0].group)
