"""Random lists of rules over the wire: on both brokers the answers are those of Kafka's rules.

The rules themselves are compared with Kafka's authorizer in ``tests/vectors/test_authorizer.py``. Here a broker gets
each list, and a user asks by real requests for what it may do.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from pyconsumer.acls import AclBinding, AclOperation, AclPermission, PatternType, ResourceType
from pyconsumer.broker.access.authorizer import Authorizer
from pyconsumer.broker.access.store import AclStore
from pyconsumer.errors import Errors
from pyconsumer.protocol.messages.delete_groups import DeleteGroupsRequest
from pyconsumer.protocol.messages.describe_cluster import DescribeClusterRequest
from pyconsumer.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pyconsumer.protocol.messages.find_coordinator import FindCoordinatorRequest
from pyconsumer.protocol.messages.heartbeat import HeartbeatRequest
from pyconsumer.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from pyconsumer.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.behaviour.access_support import as_alice, authorized_cluster, set_acls
from tests.support.certificates import Certificates
from tests.support.cluster import Cluster
from tests.support.raw_client import RawClient
from tests.unit.protocol.records.helpers import batch

#: `tox -e long` has 100.
_LISTS = int(os.environ.get("PYCONSUMER_ACL_LISTS", "15"))
_SEED = 39

_NAMES = ["a", "ab", "abc", "abd", "b", "ab-c.d_e"]
_ALICE, _HOST = "User:alice", "127.0.0.1"
_TOPIC, _GROUP, _CLUSTER, _ID = (
    ResourceType.TOPIC,
    ResourceType.GROUP,
    ResourceType.CLUSTER,
    ResourceType.TRANSACTIONAL_ID,
)
_KAFKA_CLUSTER = "kafka-cluster"
#: What Kafka tells of a resource in a field of bits.
_BITS = {
    _TOPIC: "READ WRITE CREATE DELETE ALTER DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS",
    _CLUSTER: "CREATE CLUSTER_ACTION DESCRIBE_CONFIGS IDEMPOTENT_WRITE ALTER_CONFIGS DESCRIBE ALTER",
}

_Answers = dict[tuple[str, str], object]


def _lists() -> Iterator[list[AclBinding]]:
    """Return lists with few names and operations, so that rules meet each other and the questions."""
    chance = random.Random(_SEED)
    operations = [AclOperation[name] for name in dict.fromkeys(["ALL", *" ".join(_BITS.values()).split()])]
    for _ in range(_LISTS):
        kinds = chance.sample([_TOPIC, _GROUP, _CLUSTER, _ID], chance.randint(1, 3))
        common = chance.sample(operations, chance.randint(2, 5))
        acls = set()
        for _ in range(chance.choice([4, 8, 20, 40])):
            kind = chance.choice(kinds)
            name = _KAFKA_CLUSTER if kind == _CLUSTER else chance.choice([*_NAMES, "*"])
            acls.add(
                AclBinding(
                    kind,
                    name,
                    chance.choice([_ALICE, _ALICE, _ALICE, "User:*", "User:bob"]),
                    chance.choice(common),
                    chance.choice(["*", "*", _HOST, "10.0.0.1"]),
                    chance.choice([AclPermission.ALLOW] * 4 + [AclPermission.DENY]),
                    chance.choice([PatternType.LITERAL, PatternType.PREFIXED]),
                )
            )
        yield sorted(acls)


def _wanted(acls: Iterable[AclBinding]) -> _Answers:
    store = AclStore(lambda undo, change: None)
    store.create(acls)
    authorizer = Authorizer(store, frozenset(), allow_without_acl=False)

    def may(kind: ResourceType, name: str, operation: str) -> bool:
        return authorizer.allows(_ALICE, _HOST, AclOperation[operation], kind, name)

    def bits(kind: ResourceType, name: str) -> frozenset[str]:
        return frozenset(one for one in _BITS[kind].split() if may(kind, name, one))

    found: _Answers = {
        ("cluster", ""): bits(_CLUSTER, _KAFKA_CLUSTER) if may(_CLUSTER, _KAFKA_CLUSTER, "DESCRIBE") else frozenset()
    }
    for name in _NAMES:
        found["metadata", name] = bits(_TOPIC, name) if may(_TOPIC, name, "DESCRIBE") else "refused"
        found["fetch", name] = may(_TOPIC, name, "READ")
        found["produce", name] = may(_TOPIC, name, "WRITE")
        found["coordinator of a group", name] = may(_GROUP, name, "DESCRIBE")
        found["heartbeat", name] = may(_GROUP, name, "READ")
        found["delete group", name] = may(_GROUP, name, "DELETE")
        found["coordinator of a transaction", name] = may(_ID, name, "DESCRIBE")
    return found


def _answered(alice: RawClient) -> _Answers:
    def named(number: int) -> frozenset[str]:
        return frozenset(one.name for one in AclOperation if number > 0 and number & (1 << one))

    cluster = alice.request(DescribeClusterRequest(include_cluster_authorized_operations=True))
    found: _Answers = {("cluster", ""): named(cluster.cluster_authorized_operations)}
    topics = [MetadataRequestTopic(name=name) for name in _NAMES]
    for topic in alice.request(MetadataRequest(topics, False, False, True)).topics:
        refused = topic.error_code == Errors.TOPIC_AUTHORIZATION_FAILED
        found["metadata", topic.name] = "refused" if refused else named(topic.topic_authorized_operations)
    part = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=100)
    reading = [FetchTopic(topic=name, partitions=[part]) for name in _NAMES]
    fetch = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1000, session_epoch=-1, topics=reading)
    for topic in alice.request(fetch, 12).responses:
        found["fetch", topic.topic] = topic.partitions[0].error_code != Errors.TOPIC_AUTHORIZATION_FAILED
    writing = [TopicProduceData(name, partition_data=[PartitionProduceData(0, batch())]) for name in _NAMES]
    for topic in alice.request(ProduceRequest(None, 1, 5000, writing), 12).responses:
        found["produce", topic.name] = topic.partition_responses[0].error_code != Errors.TOPIC_AUTHORIZATION_FAILED
    for key_type, what, error in (
        (0, "coordinator of a group", Errors.GROUP_AUTHORIZATION_FAILED),
        (1, "coordinator of a transaction", Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
    ):
        asked = FindCoordinatorRequest(key_type=key_type, coordinator_keys=_NAMES)
        for one in alice.request(asked).coordinators:
            found[what, one.key] = one.error_code != error
    for name in _NAMES:
        code = alice.request(HeartbeatRequest(name, 1, "nobody")).error_code
        found["heartbeat", name] = code != Errors.GROUP_AUTHORIZATION_FAILED
    for group in alice.request(DeleteGroupsRequest(_NAMES)).results:
        found["delete group", group.group_id] = group.error_code != Errors.GROUP_AUTHORIZATION_FAILED
    return found


@pytest.fixture(scope="module")
def guarded(cluster_kind: str, certificates: Certificates) -> Iterator[Cluster]:
    with authorized_cluster(cluster_kind, certificates) as made:
        with made.raw() as client:
            for name in _NAMES:
                client.create_topic(name)
        yield made


def test_answers_by_requests_are_those_of_the_rules(guarded: Cluster) -> None:
    allowed: list[Any] = []
    with guarded.raw() as admin, as_alice(guarded) as alice:
        for number, acls in enumerate(_lists()):
            set_acls(admin, acls)
            wanted, found = _wanted(acls), _answered(alice)
            wrong = {what: (want, found.get(what)) for what, want in wanted.items() if found.get(what) != want}
            assert not wrong, f"list {number} of seed {_SEED}: wanted, found: {wrong} with {acls}"
            allowed += [one for one in wanted.values() if isinstance(one, bool)]
    assert 0.1 < sum(allowed) / len(allowed) < 0.9, "both answers occur often"
