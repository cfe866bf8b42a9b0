"""Groups that move between the protocols while their members stay: raw messages on both brokers (KIP-848)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from pyconsumer.errors import Errors
from pyconsumer.protocol.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from pyconsumer.protocol.consumer_protocol import TopicPartition as OwnedPartitions
from pyconsumer.protocol.messages.describe_groups import DescribeGroupsRequest
from pyconsumer.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from pyconsumer.protocol.messages.list_groups import ListGroupsRequest
from tests.behaviour.raw_consumer_members import ConsumerMember, described, settle
from tests.behaviour.raw_members import Connect, Member, fetch_offset
from tests.support.cluster import Cluster
from tests.support.process import wait_until
from tests.support.raw_client import RawClient


@pytest.fixture
def topic(connect: Connect, group_id: str) -> str:
    """A topic of four partitions that the coordinator knows."""
    name = f"t-{group_id}"
    connect().create_topic(name, partitions=4)
    probe = ConsumerMember(connect, f"{group_id}-probe", name)
    while probe.count < 4:
        assert probe.send().error_code == 0
    probe.leave()
    return name


class ClassicMember(Member):
    """A member of the classic protocol that reports its partitions, and takes those of SyncGroup."""

    owned: tuple[int, ...] = ()

    def send_join(self, version: int | None = None) -> None:
        owned = [OwnedPartitions(topic=self.topics[0], partitions=list(self.owned))] if self.owned else []
        metadata = ConsumerProtocolSubscription(topics=list(self.topics), owned_partitions=owned).encode_with_version(1)
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=self.session_ms,
            rebalance_timeout_ms=self.rebalance_ms,
            member_id=self.member_id,
            group_instance_id=self.instance,
            protocol_type=self.protocol_type,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=metadata) for name in self.protocols],
        )
        self.client.send(request, version)

    def take(self) -> Any:
        """Join, sync, take the assignment, and return the response of JoinGroup."""
        answer = self.join()
        if answer.error_code == Errors.MEMBER_ID_REQUIRED:
            answer = self.join()
        if answer.error_code == 0:
            synced = self.sync()
            assert synced.error_code == 0
            self.owned = partitions_of(synced.assignment)
        return answer

    def turn(self) -> None:
        """Send a heartbeat, and join again if it says so."""
        code = self.heartbeat()
        if code == Errors.REBALANCE_IN_PROGRESS:
            assert self.take().error_code == 0
        else:
            assert code == 0


def partitions_of(assignment: bytes) -> tuple[int, ...]:
    found = ConsumerProtocolAssignment.decode_with_version(assignment)[0].assigned_partitions
    return tuple(sorted(index for one in found for index in one.partitions))


def plan(topic: str, *partitions: int, user_data: bytes | None = None) -> bytes:
    """An assignment of the classic protocol."""
    entry: Any = ConsumerProtocolAssignment.FIELDS[0].type
    message = ConsumerProtocolAssignment(
        assigned_partitions=[entry(topic=topic, partitions=list(partitions))], user_data=user_data
    )
    return message.encode_with_version(1)


def kind_of(client: RawClient, group: str) -> tuple[str, str]:
    """Type and state of a group."""
    for one in client.request(ListGroupsRequest()).groups:
        if one.group_id == group:
            return one.group_type, one.group_state
    return "", ""


def stable_classic(connect: Connect, group_id: str, topic: str, *, user_data: bytes | None = None) -> ClassicMember:
    member = ClassicMember(connect, group_id, topics=(topic,))
    assert member.join_with_id().error_code == 0
    synced = member.sync({member.member_id: plan(topic, 0, 1, 2, 3, user_data=user_data)})
    assert synced.error_code == 0
    member.owned = (0, 1, 2, 3)
    return member


@contextmanager
def connecting(cluster: Cluster, group_id: str) -> Iterator[Connect]:
    """Opens connections to a cluster of the test's own, once its coordinator has loaded the group's partition."""
    with ExitStack() as clients:

        def connect() -> RawClient:
            client = clients.enter_context(cluster.raw())
            client.coordinator(group_id)
            return client

        first = connect()
        wait_until(lambda: fetch_offset(first, group_id, "any")[1] == 0, 60, "groups are served")
        yield connect


def test_an_upgrade_and_a_downgrade(connect: Connect, group_id: str, topic: str) -> None:
    classic = stable_classic(connect, group_id, topic)
    assert kind_of(classic.client, group_id) == ("classic", "Stable")
    newer = ConsumerMember(connect, group_id, topic)
    joined = newer.send()
    assert (joined.error_code, joined.assignment.topic_partitions) == (0, [])
    assert kind_of(newer.client, group_id)[0] == "consumer"
    found = described(newer.client, group_id)
    assert sorted(one.member_type for one in found.members) == [0, 1]
    while kind_of(newer.client, group_id)[1] != "Stable":
        classic.turn()
        newer.send()
        held = [index for indexes in newer.owned.values() for index in indexes]
        assert not set(held) & set(classic.owned)
    assert (len(classic.owned), newer.count) == (2, 2)
    assert classic.heartbeat() == 0
    assert classic.sync().error_code == 0
    assert newer.client.request(DescribeGroupsRequest(groups=[group_id])).groups[0].group_state == "Dead"
    assert newer.leave().error_code == 0
    assert kind_of(classic.client, group_id)[0] == "classic"
    assert classic.heartbeat() == Errors.REBALANCE_IN_PROGRESS
    answer = classic.join()
    assert (answer.error_code, answer.leader) == (0, classic.member_id)
    assert classic.sync({classic.member_id: plan(topic, 0, 1, 2, 3)}).error_code == 0
    assert kind_of(classic.client, group_id) == ("classic", "Stable")


def test_a_classic_member_joins_a_consumer_group(connect: Connect, group_id: str, topic: str) -> None:
    newer = ConsumerMember(connect, group_id, topic)
    settle(newer)
    classic = ClassicMember(connect, group_id, topics=(topic,))
    answer = classic.take()
    assert (answer.error_code, answer.protocol_name, answer.leader, answer.members) == (0, "range", "", [])
    while kind_of(newer.client, group_id)[1] != "Stable" or newer.count == 4:
        newer.send()
        classic.turn()
    assert (len(classic.owned), newer.count) == (2, 2)
    other = Member(connect, group_id, protocols=("roundrobin",), topics=(topic,))
    assert other.join().error_code == Errors.INCONSISTENT_GROUP_PROTOCOL
    connected = Member(connect, group_id, protocol_type="connect", topics=(topic,))
    assert connected.join().error_code == Errors.INCONSISTENT_GROUP_PROTOCOL
    classic.generation += 1
    assert classic.heartbeat() == Errors.ILLEGAL_GENERATION
    classic.generation -= 1
    (left,) = classic.leave().members
    assert left.error_code == 0
    while newer.count < 4:
        assert newer.send().error_code == 0


def test_user_data_of_a_custom_assignor_prevents_an_upgrade(connect: Connect, group_id: str, topic: str) -> None:
    classic = stable_classic(connect, group_id, topic, user_data=b"mine")
    refused = ConsumerMember(connect, group_id, topic).send()
    assert (refused.error_code, refused.error_message) == (
        Errors.GROUP_ID_NOT_FOUND,
        (
            f"Cannot upgrade classic group {group_id} to consumer group because an unsupported custom assignor is in "
            "use. Please refer to the documentation or switch to a default assignor before re-attempting the upgrade."
        ),
    )
    assert kind_of(classic.client, group_id) == ("classic", "Stable")


@pytest.mark.parametrize("garbage", [b"\0", b"\0\1\xff\xff", b"\0\0\0\0\0\1\x7f\xff"], ids=["short", "null", "cut"])
def test_garbage_that_a_leader_has_assigned_prevents_an_upgrade(
    cluster: Cluster, connect: Connect, group_id: str, topic: str, garbage: bytes
) -> None:
    classic = ClassicMember(connect, group_id, topics=(topic,))
    assert classic.join_with_id().error_code == 0
    assert classic.sync({classic.member_id: garbage}).error_code == 0
    refused = ConsumerMember(connect, group_id, topic).send()
    assert classic.heartbeat() == 0
    if refused.error_code == Errors.UNKNOWN_SERVER_ERROR and not cluster.embedded:
        return  # Apache Kafka does not expect all kinds of it
    assert (refused.error_code, refused.error_message) == (
        Errors.GROUP_ID_NOT_FOUND,
        (
            f"Cannot upgrade classic group {group_id} to consumer group because the embedded consumer protocol is "
            "malformed."
        ),
    )


def test_a_group_of_another_type_is_not_upgraded(connect: Connect, group_id: str) -> None:
    member = Member(connect, group_id, protocol_type="connect").stable()
    refused = ConsumerMember(connect, group_id, "some-topic").send()
    assert (refused.error_code, refused.error_message) == (
        Errors.GROUP_ID_NOT_FOUND,
        (
            f"Cannot upgrade classic group {group_id} to consumer group because the group does not use the consumer "
            "embedded protocol."
        ),
    )
    assert member.heartbeat() == 0


def test_empty_groups_change_their_kind(connect: Connect, group_id: str, topic: str) -> None:
    newer = ConsumerMember(connect, group_id, topic)
    settle(newer)
    newer.leave()
    assert kind_of(newer.client, group_id) == ("consumer", "Empty")
    classic = stable_classic(connect, group_id, topic)
    assert kind_of(newer.client, group_id) == ("classic", "Stable")
    classic.leave()
    assert kind_of(newer.client, group_id) == ("classic", "Empty")
    settle(newer)
    assert kind_of(newer.client, group_id) == ("consumer", "Stable")


@pytest.mark.embedded_only("Apache Kafka 4.3.1 answers UNKNOWN_SERVER_ERROR: no assignor has been chosen yet")
def test_a_classic_group_in_its_first_rebalance_is_upgraded(
    cluster_kind: str, new_cluster: Callable[..., Cluster], group_id: str
) -> None:
    """Programs of both kinds that are started within ``group.initial.rebalance.delay.ms``, 3 s by default."""
    topic = "first"
    cluster = new_cluster(cluster_kind, config={"group.initial.rebalance.delay.ms": 60_000})
    cluster.create_topic(topic, 4)
    with connecting(cluster, group_id) as connect:
        waiting = ClassicMember(connect, group_id, topics=(topic,))
        assert waiting.join().error_code == Errors.MEMBER_ID_REQUIRED
        waiting.send_join()
        newer = ConsumerMember(connect, group_id, topic)
        wait_until(
            lambda: kind_of(newer.client, group_id) == ("classic", "PreparingRebalance"), 60, "the first rebalance"
        )
        assert newer.send().error_code == 0
        assert waiting.receive_join().error_code == Errors.REBALANCE_IN_PROGRESS
        assert waiting.take().error_code == 0
        while kind_of(newer.client, group_id)[1] != "Stable" or newer.count != 2:
            newer.send()
            waiting.turn()
        assert (len(waiting.owned), newer.count) == (2, 2)


@pytest.mark.embedded_only("on Apache Kafka 4.3.1 the partitions of the member that left stay without an owner")
def test_classic_members_left_alone_in_a_consumer_group_share_the_partitions_of_the_last_one(
    cluster_kind: str, new_cluster: Callable[..., Cluster], group_id: str
) -> None:
    """Under the policy ``upgrade``. The last one leaves when a new target may not be computed yet (KIP-1263)."""
    settings = {"group.consumer.migration.policy": "upgrade", "group.consumer.assignment.interval.ms": 3000}
    cluster = new_cluster(cluster_kind, config=settings)
    cluster.create_topic("left", 4)
    with connecting(cluster, group_id) as connect:
        newer = ConsumerMember(connect, group_id, "left")
        assert newer.send().error_code == 0
        members = [ClassicMember(connect, group_id, topics=("left",)) for _ in range(2)]
        for member in members:
            assert member.take().error_code == 0

        def shared(count: int) -> bool:
            for member in members:
                member.turn()
            return len({index for member in members for index in member.owned}) == count

        wait_until(lambda: newer.send().error_code == 0 and shared(4 - newer.count) and newer.count, 60, "three share")
        newer.leave()
        wait_until(lambda: shared(4), 60, "two share everything")
        assert kind_of(members[0].client, group_id) == ("consumer", "Stable")
