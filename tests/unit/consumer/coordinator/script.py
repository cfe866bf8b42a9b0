"""A membership core driven by a test: the coordinator's responses are scripted, and the test advances the clock."""

from __future__ import annotations

from collections.abc import Mapping

from pyconsumer.consumer.coordinator.classic_group_membership import ClassicMembership
from pyconsumer.consumer.coordinator.classic_group_state import (
    BuildJoin,
    CompleteJoin,
    ComputeAssignment,
    PrepareJoin,
    SendJoin,
    SendSync,
)
from pyconsumer.consumer.coordinator.coordinator_discovery import USER
from pyconsumer.consumer.coordinator.group_state import FindCoordinator, Generation, SendHeartbeat
from pyconsumer.consumer.coordinator.membership import MemberSettings
from pyconsumer.network.backoff import Backoff
from pyconsumer.protocol.consumer_protocol import encode_assignment, encode_subscription
from pyconsumer.protocol.messages.heartbeat import HeartbeatResponse
from pyconsumer.protocol.messages.join_group import (
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from pyconsumer.protocol.messages.sync_group import SyncGroupResponse
from pyconsumer.structs import BrokerMetadata, TopicPartition

NODE = BrokerMetadata(1, "one", 9092)
OTHER = BrokerMetadata(2, "two", 9092)
BACKOFF = Backoff(0.1, 1.0, jitter=0.0)


def settings(**changes: object) -> MemberSettings:
    """Session 10 s, heartbeat every 3 s, poll at least every 300 s, backoff 0.1 s to 1 s without jitter."""
    values: dict[str, object] = {
        "group_id": "g",
        "session_timeout": 10.0,
        "rebalance_timeout": 300.0,
        "heartbeat_interval": 3.0,
        "request_timeout": 30.0,
        "backoff": BACKOFF,
    }
    return MemberSettings(**(values | changes))  # type: ignore[arg-type]


class Member:
    """A core with helpers that take it from state to state and check each step on the way."""

    def __init__(self, topics: str = "t", **changes: object) -> None:
        self.core = ClassicMembership(settings(**changes))
        self.now = 0.0
        self.topics = frozenset(topics.split())
        self.core.on_subscription(self.topics)

    def advance(self, seconds: float) -> None:
        self.now += seconds

    def find(self, node: BrokerMetadata = NODE) -> None:
        assert isinstance(self.core.next_action(self.now), FindCoordinator)
        self.core.on_coordinator_found(USER, node, self.now)

    def prepare(self) -> PrepareJoin:
        step = self.core.next_action(self.now)
        assert isinstance(step, PrepareJoin), step
        self.core.on_prepared(step.generation)
        return step

    def build(self) -> SendJoin:
        assert isinstance(self.core.next_action(self.now), BuildJoin)
        protocols = [JoinGroupRequestProtocol(name="range", metadata=encode_subscription(self.topics))]
        step = self.core.begin_join(protocols, self.topics, self.now)
        assert step is not None
        return step

    def send_join(self) -> SendJoin:
        """Bring the core from any state to a JoinGroup in flight."""
        if self.core.coordinator is None:
            self.find()
        if isinstance(self.core.next_action(self.now), PrepareJoin):
            self.prepare()
        return self.build()

    def join(self, generation: int = 1, *, leader: str = "leader", member_id: str = "me") -> SendSync | None:
        """A JoinGroup sent and answered."""
        step = self.send_join()
        return self.answer_join(step, generation_id=generation, leader=leader, member_id=member_id)

    def answer_join(self, step: SendJoin, error_code: int = 0, **fields: object) -> SendSync | None:
        values: dict[str, object] = {
            "generation_id": 1,
            "leader": "leader",
            "member_id": "me",
            "protocol_name": "range",
        }
        if error_code:
            values = {"generation_id": -1, "member_id": step.request.member_id}
        response = JoinGroupResponse(error_code=error_code, **(values | fields))  # type: ignore[arg-type]
        return self.core.on_join_response(step.attempt, response, self.now)

    def answer_sync(self, step: SendSync, error_code: int = 0, share: bytes = b"", **fields: object) -> None:
        response = SyncGroupResponse(error_code=error_code, assignment=share, **fields)  # type: ignore[arg-type]
        self.core.on_sync_response(step.attempt, response, self.now)

    def stable(self, generation: int = 1, **fields: str) -> Generation:
        """A follower whose assignment the application knows."""
        sync = self.join(generation, **fields)
        assert sync is not None
        self.answer_sync(sync, share=encode_assignment([TopicPartition("t", 0)]))
        assert isinstance(self.core.next_action(self.now), CompleteJoin)
        self.core.on_completed()
        return self.core.generation

    def lead(
        self, generation: int = 1, *, members: Mapping[str, str] = {"me": "t"}, **fields: object
    ) -> ComputeAssignment:
        """The leader, which must assign now."""
        step = self.send_join()
        given = [
            JoinGroupResponseMember(member_id=name, metadata=encode_subscription(topics.split()))
            for name, topics in members.items()
        ]
        sync = self.answer_join(step, generation_id=generation, leader="me", members=given, **fields)
        assert sync is None
        election = self.core.next_action(self.now)
        assert isinstance(election, ComputeAssignment)
        return election

    def lead_to_stable(self, snapshot: Mapping[str, object], **fields: object) -> None:
        election = self.lead(**fields)  # type: ignore[arg-type]
        sync = self.core.on_assigned(election.attempt, {"me": b""}, snapshot, self.now)
        assert sync is not None
        self.answer_sync(sync)
        self.core.on_completed()

    def heartbeat(self) -> SendHeartbeat:
        """The heartbeat that is due now."""
        step = self.core.next_background(self.now)
        assert isinstance(step, SendHeartbeat), step
        return step

    def answer_heartbeat(self, step: SendHeartbeat, error_code: int = 0) -> None:
        self.core.on_heartbeat_response(
            step.generation, step.node.node_id, HeartbeatResponse(error_code=error_code), self.now
        )
