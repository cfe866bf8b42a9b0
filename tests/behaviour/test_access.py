"""Access control on both brokers: what a rule means for sessions, waiting requests, transactions and groups."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from typing import Any

import pytest

from pyconsumer import KafkaAdminClient, KafkaConsumer, KafkaProducer
from pyconsumer.acls import AclBinding, parse_acl
from pyconsumer.broker import EmbeddedCluster
from pyconsumer.compat.aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from pyconsumer.compat.aiokafka.errors import GroupAuthorizationFailedError as AIOKafkaGroupAuthorizationFailedError
from pyconsumer.compat.aiokafka.errors import TopicAuthorizationFailedError as AIOKafkaTopicAuthorizationFailedError
from pyconsumer.compat.aiokafka.errors import TransactionalIdAuthorizationFailed
from pyconsumer.errors import (
    ClusterAuthorizationFailedError,
    Errors,
    TopicAuthorizationFailedError,
    TransactionAbortableError,
)
from pyconsumer.protocol.api import encode_request
from pyconsumer.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from pyconsumer.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from pyconsumer.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from pyconsumer.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from pyconsumer.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from pyconsumer.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from pyconsumer.protocol.messages.describe_acls import DescribeAclsRequest
from pyconsumer.protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from pyconsumer.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from pyconsumer.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pyconsumer.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from pyconsumer.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from pyconsumer.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pyconsumer.quotas import CONNECTION_RATE, PRODUCER_RATE
from tests.behaviour.access_support import (
    alice_login,
    as_alice,
    authorized_cluster,
    codes,
    logged_in,
    set_acls,
    stored_acls,
)
from tests.behaviour.raw_members import Member
from tests.support.certificates import Certificates
from tests.support.cluster import Cluster
from tests.support.java import tools
from tests.support.process import wait_until
from tests.support.raw_client import RawClient
from tests.unit.protocol.records.helpers import batch


@pytest.fixture(scope="module")
def guarded(cluster_kind: str, certificates: Certificates) -> Iterator[Cluster]:
    with authorized_cluster(cluster_kind, certificates) as made:
        yield made


@pytest.fixture
def admin(guarded: Cluster) -> Iterator[RawClient]:
    with guarded.raw() as client:
        yield client
        set_acls(client, [])


@pytest.fixture
def alice(guarded: Cluster) -> Iterator[RawClient]:
    with as_alice(guarded) as client:
        yield client


def rules(*lines: str) -> list[AclBinding]:
    return [acl for line in lines for acl in parse_acl(line)]


def fetch(topics: list[str], *, session: tuple[int, int] = (0, -1), wait_ms: int = 0) -> FetchRequest:
    part = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=10_000)
    return FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1 if wait_ms else 0,
        max_bytes=10_000,
        session_id=session[0],
        session_epoch=session[1],
        topics=[FetchTopic(topic=name, partitions=[part]) for name in topics],
    )


def fetched(response: object) -> dict[str, int]:
    return {topic.topic: part.error_code for topic in response.responses for part in topic.partitions}  # type: ignore[attr-defined]


def produce(topic: str) -> ProduceRequest:
    return ProduceRequest(None, 1, 5000, [TopicProduceData(topic, partition_data=[PartitionProduceData(0, batch())])])


def test_a_session_meets_a_new_rule_at_its_next_request(admin: RawClient, alice: RawClient, topic: str) -> None:
    names = [f"{topic}-a", f"{topic}-b"]
    for name in names:
        admin.create_topic(name)
    set_acls(admin, rules(f"alice: READ topic {topic}*"))
    first = alice.request(fetch(names, session=(0, 0)), 12)
    assert fetched(first) == dict.fromkeys(names, 0)
    set_acls(admin, rules(f"alice: READ topic {topic}*", f"deny alice: READ topic {names[0]}"))
    assert fetched(alice.request(fetch([], session=(first.session_id, 1)), 12)) == {
        names[0]: Errors.TOPIC_AUTHORIZATION_FAILED
    }
    set_acls(admin, rules(f"alice: READ topic {topic}*"))
    assert fetched(alice.request(fetch([], session=(first.session_id, 2)), 12)) == {names[0]: 0}


def test_a_fetch_that_waits_ends_as_it_was_admitted(admin: RawClient, alice: RawClient, topic: str) -> None:
    admin.create_topic(topic)
    set_acls(admin, rules(f"alice: READ topic {topic}"))
    alice.send(fetch([topic], wait_ms=20_000), 12)
    assert not alice.answered()
    set_acls(admin, [])
    admin.request(produce(topic), 12)
    _, response = alice.receive()
    assert fetched(response) == {topic: 0}
    assert response.responses[0].partitions[0].records
    assert fetched(alice.request(fetch([topic], wait_ms=20_000), 12)) == {topic: Errors.TOPIC_AUTHORIZATION_FAILED}


def test_an_allowed_partition_beside_a_denied_one_is_read(admin: RawClient, alice: RawClient, topic: str) -> None:
    good, bad = f"{topic}-good", f"{topic}-bad"
    for name in (good, bad):
        admin.create_topic(name)
        admin.request(produce(name), 12)
    set_acls(admin, rules(f"alice: READ topic {good}"))
    response = alice.request(fetch([good, bad]), 12)
    assert fetched(response) == {good: 0, bad: Errors.TOPIC_AUTHORIZATION_FAILED}
    assert {one.topic for one in response.responses if one.partitions[0].records} == {good}


def test_a_denied_write_beside_an_allowed_one_is_not_stored(admin: RawClient, alice: RawClient, topic: str) -> None:
    good, bad = f"{topic}-good", f"{topic}-bad"
    for name in (good, bad):
        admin.create_topic(name)
    set_acls(admin, rules(f"alice: WRITE topic {good}"))
    request = ProduceRequest(None, 1, 5000, [*produce(good).topic_data, *produce(bad).topic_data])
    response = alice.request(request, 12)
    assert {one.name: one.partition_responses[0].error_code for one in response.responses} == {
        good: 0,
        bad: Errors.TOPIC_AUTHORIZATION_FAILED,
    }
    answer = admin.request(fetch([bad]), 12)
    assert answer.responses[0].partitions[0].high_watermark == 0


def test_a_denied_write_without_an_answer_ends_the_connection(admin: RawClient, alice: RawClient, topic: str) -> None:
    admin.create_topic(topic)
    request = produce(topic)
    request.acks = 0
    alice.send(request, 12)
    assert alice.closed_by_broker


def test_a_topic_that_may_not_be_seen_is_as_one_that_does_not_exist(
    admin: RawClient, alice: RawClient, topic: str
) -> None:
    admin.create_topic(topic)
    (known,) = admin.request(MetadataRequest([MetadataRequestTopic(name=topic)])).topics

    def asked(*wanted: MetadataRequestTopic) -> list[tuple[int, bytes]]:
        found = alice.request(MetadataRequest(list(wanted), allow_auto_topic_creation=False))
        return sorted((one.error_code, one.topic_id) for one in found.topics)

    hidden, missing = MetadataRequestTopic(name=topic), MetadataRequestTopic(name=f"{topic}-missing")
    refused = (Errors.TOPIC_AUTHORIZATION_FAILED, bytes(16))
    assert asked(hidden, missing) == [refused, refused]
    assert asked(MetadataRequestTopic(topic_id=known.topic_id, name=None)) == [(refused[0], known.topic_id)]
    assert topic not in {one.name for one in alice.request(MetadataRequest(None)).topics}
    set_acls(admin, rules(f"alice: READ topic {topic}*"))  # which contains DESCRIBE
    assert asked(hidden) == [(0, known.topic_id)]
    assert asked(missing) == [(Errors.UNKNOWN_TOPIC_OR_PARTITION, bytes(16))]


def test_a_missing_topic_is_created_with_the_right_to_create_it(admin: RawClient, alice: RawClient, topic: str) -> None:
    def ask(name: str) -> int:
        (found,) = alice.request(MetadataRequest([MetadataRequestTopic(name=name)])).topics
        return found.error_code

    set_acls(admin, rules(f"alice: DESCRIBE topic {topic}*"))
    assert ask(f"{topic}-a") == Errors.TOPIC_AUTHORIZATION_FAILED
    assert not admin.leaders(f"{topic}-a")
    set_acls(admin, rules(f"alice: DESCRIBE topic {topic}*", f"alice: CREATE topic {topic}-b"))
    wait_until(lambda: ask(f"{topic}-b") == 0, 60, "the topic")
    assert ask(f"{topic}-a") == Errors.TOPIC_AUTHORIZATION_FAILED
    set_acls(admin, rules(f"alice: DESCRIBE topic {topic}*", "alice: CREATE cluster"))
    wait_until(lambda: ask(f"{topic}-c") == 0, 60, "the topic")


def test_the_last_permission_goes_and_a_denial_is_stronger(
    guarded: Cluster, admin: RawClient, alice: RawClient, topic: str
) -> None:
    admin.create_topic(topic)

    def may_read() -> bool:
        return fetched(alice.request(fetch([topic]), 12)) == {topic: 0}

    for lines, expected in (
        ([], False),
        ([f"alice: READ topic {topic}"], True),
        ([], False),
        (["*: READ topic *"], True),
        (["*: READ topic *", f"deny alice: READ topic {topic[:-1]}*"], False),
        (["*: READ topic *", "deny bob: READ topic *"], True),
        ([f"alice: READ topic {topic} from 127.0.0.1"], True),
        ([f"alice: READ topic {topic} from 10.0.0.1"], False),
        (["alice: ALL topic *", "deny *: DESCRIBE topic *"], True),
        ([f"Group:alice: READ topic {topic}"], False),
    ):
        set_acls(admin, rules(*lines))
        assert may_read() is expected, lines
    with guarded.raw() as other:  # a super user
        assert fetched(other.request(fetch([topic]), 12)) == {topic: 0}


def test_good_rules_are_created_found_and_deleted_among_bad_ones(admin: RawClient, topic: str) -> None:
    creations = [
        AclCreation(2, topic, 3, "User:alice", "*", 3, 3),
        AclCreation(2, "", 3, "User:alice", "*", 3, 3),
        AclCreation(4, "my-cluster", 3, "User:alice", "*", 3, 3),
        AclCreation(4, "kafka-cluster", 3, "User:alice", "*", 7, 3),
        AclCreation(2, topic, 3, "alice", "*", 3, 3),
        AclCreation(2, topic, 4, "User:alice", "*", 3, 2),
        AclCreation(2, topic, 3, "User:alice", "*", 3, 3),
        *(
            AclCreation(*values)
            for number in (-1, 99)
            for values in (
                (number, topic, 3, "User:alice", "*", 3, 3),
                (2, topic, number, "User:alice", "*", 3, 3),
                (2, topic, 3, "User:alice", "*", number, 3),
                (2, topic, 3, "User:alice", "*", 3, number),
            )
        ),
    ]
    bad = Errors.INVALID_REQUEST
    response = admin.request(CreateAclsRequest(creations))
    assert [one.error_code for one in response.results] == [0, bad, bad, 0, bad, 0, 0, *[bad] * 8]
    stored = rules(f"alice: READ topic {topic}", "alice: ALTER cluster", f"deny alice: READ topic {topic}*")
    wait_until(lambda: stored_acls(admin) == set(stored), 60, "the rules")

    def found(kind: int, name: str | None, pattern: int, permission: int = 1) -> int:
        response = admin.request(DescribeAclsRequest(kind, name, pattern, None, None, 1, permission))
        return sum(len(one.acls) for one in response.resources)

    assert found(2, topic, 3) == 1
    assert found(2, topic, 1) == 2
    assert found(2, f"{topic}-more", 2) == 1
    assert found(2, f"{topic}-more", 1) == 0
    assert found(1, None, 1, 2) == 1
    filters = [
        DeleteAclsFilter(2, topic, 1, None, None, 1, 1),
        DeleteAclsFilter(2, topic, 3, None, None, 1, 1),
        DeleteAclsFilter(3, "none", 3, None, None, 1, 1),
    ]
    wrong = [
        DeleteAclsFilter(*values)
        for number in (-1, 99)
        for values in (
            (number, topic, 3, None, None, 1, 1),
            (2, topic, number, None, None, 1, 1),
            (2, topic, 3, None, None, number, 1),
            (2, topic, 3, None, None, 1, number),
        )
    ]
    mixed = [*wrong[:4], filters[0], *wrong[4:], *filters[1:]]
    results = admin.request(DeleteAclsRequest(mixed)).filter_results
    refused = [(bad, 0)] * 4
    assert [(one.error_code, len(one.matching_acls)) for one in results] == [
        *refused,
        (0, 2),
        *refused,
        (0, 1),
        (0, 0),
    ]
    wait_until(lambda: stored_acls(admin) == set(rules("alice: ALTER cluster")), 60, "the rule that is left")


@pytest.mark.parametrize("part", range(4))
def test_rules_with_parts_of_filters_or_unknown_ones(guarded: Cluster, admin: RawClient, topic: str, part: int) -> None:
    def numbers(number: int) -> list[int]:
        found = [2, 3, 3, 3]  # READ of a topic with this name is allowed
        found[part] = number
        return found

    def creation(kind: int, pattern: int, operation: int, permission: int) -> AclCreation:
        return AclCreation(kind, topic, pattern, "User:alice", "*", operation, permission)

    def selection(kind: int, pattern: int, operation: int, permission: int) -> tuple[Any, ...]:
        return kind, topic, pattern, None, None, operation, permission

    good = creation(2, 3, 3, 3)
    for number in (1, 2) if part == 1 else (1,):  # ANY and MATCH are for filters. No rule of such a request is made.
        response = admin.request(CreateAclsRequest([good, creation(*numbers(number))]))
        assert [one.error_code for one in response.results] == [Errors.UNKNOWN_SERVER_ERROR] * 2
    assert stored_acls(admin) == set()
    set_acls(admin, rules(f"alice: READ topic {topic}"))
    found = admin.request(DescribeAclsRequest(*selection(*numbers(99))))
    assert (found.error_code, found.resources) == (0, [])
    for request in (  # Kafka cannot parse UNKNOWN
        CreateAclsRequest([good, creation(*numbers(0))]),
        DescribeAclsRequest(*selection(*numbers(0))),
        DeleteAclsRequest([DeleteAclsFilter(*selection(2, 3, 1, 1)), DeleteAclsFilter(*selection(*numbers(0)))]),
    ):
        with guarded.raw(timeout_s=20) as other:
            other.send(request)
            assert other.closed_by_broker
    assert stored_acls(admin) == set(rules(f"alice: READ topic {topic}"))


_LONGEST = 32767  # of a string in the protocol
_ODD_NAMES = {
    "empty": "",
    "space": " ",
    **{str(length): "a" * length for length in (249, 250, 255, 256, _LONGEST)},  # a topic's name has 249
    "control": "a\0b\nc\x7f",
    "signs": "a:b,c=d/\u00e9*%",
}


def _quota(kind: str, name: str, *, remove: bool = False) -> AlterClientQuotasRequest:
    change = OpData(CONNECTION_RATE if kind == "ip" else PRODUCER_RATE, 1000.0, remove)
    return AlterClientQuotasRequest([EntryData([EntityData(kind, name)], [change])])


#: What is asked with a name, in this order: a rule, user or quota is there when it is to be found or removed.
_ASKED: dict[str, Callable[[str], Any]] = {
    **{
        f"create {kind} {pattern}": partial(
            lambda kind, pattern, name: CreateAclsRequest([AclCreation(kind, name, pattern, "User:odd", "*", 3, 3)]),
            number,
            pattern,
        )
        for kind, number in {"topic": 2, "group": 3, "cluster": 4, "id": 5, "token": 6, "user": 7}.items()
        for pattern in (3, 4)
    },
    "create principal": lambda name: CreateAclsRequest(
        [AclCreation(2, "odd", 3, f"User:{name}"[:_LONGEST], "*", 3, 3)]
    ),
    "create whole principal": lambda name: CreateAclsRequest([AclCreation(2, "odd", 3, name, "*", 3, 3)]),
    "create host": lambda name: CreateAclsRequest([AclCreation(2, "odd", 3, "User:odd", name, 3, 3)]),
    "find name": lambda name: DescribeAclsRequest(2, name, 1, None, None, 1, 1),
    "find principal": lambda name: DescribeAclsRequest(2, None, 1, name, None, 1, 1),
    "find host": lambda name: DescribeAclsRequest(2, None, 1, None, name, 1, 1),
    "delete name": lambda name: DeleteAclsRequest([DeleteAclsFilter(1, name, 1, "User:odd", None, 1, 1)]),
    "delete principal": lambda name: DeleteAclsRequest([DeleteAclsFilter(1, "odd", 1, name, None, 1, 1)]),
    "delete host": lambda name: DeleteAclsRequest([DeleteAclsFilter(1, "odd", 1, None, name, 1, 1)]),
    "set user": lambda name: AlterUserScramCredentialsRequest(
        [], [ScramCredentialUpsertion(name, 1, 4096, b"s" * 16, b"p" * 64)]
    ),
    "find user": lambda name: DescribeUserScramCredentialsRequest([UserName(name)]),
    "delete user": lambda name: AlterUserScramCredentialsRequest([ScramCredentialDeletion(name, 1)], []),
    "find no user": lambda name: DescribeUserScramCredentialsRequest([UserName(name)]),
    **{f"set quota of {kind}": partial(_quota, kind) for kind in ("user", "client-id", "ip")},
    **{
        f"find quota of {kind}": partial(
            lambda kind, name: DescribeClientQuotasRequest([ComponentData(kind, 0, name)], False), kind
        )
        for kind in ("user", "client-id", "ip")
    },
    **{f"remove quota of {kind}": partial(_quota, kind, remove=True) for kind in ("user", "client-id", "ip")},
    "set quota of type": lambda name: _quota(name, "odd"),
}
_INVALID, _FAILED = {int(Errors.INVALID_REQUEST)}, {-1}
#: The errors that every name of a kind has, then those of single names.
_REFUSED: dict[str, set[int]] = {
    **{f"create cluster {pattern}": _INVALID for pattern in (3, 4)},
    "create whole principal": _INVALID,
    "find no user": {0, Errors.RESOURCE_NOT_FOUND},
    **{f"{change} quota of ip": _INVALID for change in ("set", "remove")},
    "set quota of type": _INVALID,
}
_REFUSED_OF_NAME: dict[str, dict[str, set[int]]] = {
    "empty": {
        **{one: _INVALID for one in _ASKED if one.startswith("create") and one.endswith(("3", "4"))},
        "set user": {int(Errors.UNACCEPTABLE_CREDENTIAL)},
        "delete user": {int(Errors.UNACCEPTABLE_CREDENTIAL)},
        "find user": {0, Errors.RESOURCE_NOT_FOUND},
        **{f"{change} quota of {kind}": _INVALID for change in ("set", "remove") for kind in ("user", "client-id")},
    },
    "signs": {"create whole principal": {0}},  # it has a colon
    # The text of the error repeats the name, and would be longer than the longest string.
    str(_LONGEST): dict.fromkeys(
        ("create whole principal", "find no user", "set quota of ip", "remove quota of ip", "set quota of type"),
        _FAILED,
    ),
}


def compact_length(text: bytes) -> bytes:
    """Return the length of a string as flexible versions of requests have it."""
    number, found = len(text) + 1, bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def error_codes(response: Any) -> set[int]:
    """Return the error codes of a response, without names."""
    return {int(one.rpartition("=")[2]) for one in codes(response) if "error_code=" in one.rpartition(".")[2]}


@pytest.mark.parametrize("name", _ODD_NAMES)
def test_odd_names_are_taken_or_refused_as_by_kafka(admin: RawClient, name: str) -> None:
    found, wanted = {}, {}
    for asked, make in _ASKED.items():
        wanted[asked] = _REFUSED_OF_NAME.get(name, {}).get(asked, _REFUSED.get(asked, {0}))
        request = make(_ODD_NAMES[name])

        def answered(request: Any = request) -> set[int]:
            return error_codes(admin.request(request))

        found[asked] = answered()
        if asked in ("find user", "find no user"):  # a broker reads a change after its controller
            wait_until(lambda: answered() == wanted[asked], 60, asked)  # noqa: B023
            found[asked] = wanted[asked]
    assert found == wanted


@pytest.mark.parametrize("length", [_LONGEST + 1, 1_000_000])
@pytest.mark.parametrize("asked", ["create topic 3", "create principal", "set user", "set quota of user"])
def test_a_name_longer_than_any_string_ends_the_connection(
    guarded: Cluster, admin: RawClient, asked: str, length: int
) -> None:
    name = "x" * 200
    request = _ASKED[asked](name)
    with guarded.raw(timeout_s=20) as other:
        frame = b"".join(encode_request(request, other.versions.choose(request.API_KEY), 1, "raw"))
        text = f"User:{name}".encode() if asked == "create principal" else name.encode()
        old = compact_length(text) + text
        assert frame.count(old) == 1
        longer = text.ljust(length, b"x")
        long = frame[4:].replace(old, compact_length(longer) + longer)
        other.send_bytes(len(long).to_bytes(4, "big") + long)
        assert other.closed_by_broker
    assert admin.request(DescribeAclsRequest(2, None, 1, None, None, 1, 1)).error_code == 0


def test_committed_offsets_of_topics_that_may_be_seen(
    guarded: Cluster, admin: RawClient, alice: RawClient, topic: str
) -> None:
    seen, hidden, group = f"{topic}-seen", f"{topic}-hidden", f"{topic}-group"
    for name in (seen, hidden):
        admin.create_topic(name)
    with KafkaConsumer(
        seen, hidden, group_id=group, bootstrap_servers=guarded.bootstrap_servers, auto_offset_reset="earliest"
    ) as consumer:
        wait_until(lambda: consumer.poll(100) is not None and len(consumer.assignment()) == 2, 20, "an assignment")
        consumer.commit(dict.fromkeys(consumer.assignment(), 1))
    set_acls(admin, rules(f"alice: DESCRIBE group {group}", f"alice: READ topic {seen}"))
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=None)])
    (found,) = alice.request(request, 9).groups
    assert {one.name for one in found.topics} == {seen}


def heartbeat(group: str, *, names: list[str] | None = None, regex: str | None = None) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id="A" * 22,
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=names,
        subscribed_topic_regex=regex,
        topic_partitions=[],
    )


def test_a_regular_expression_matches_what_the_member_may_see(admin: RawClient, alice: RawClient, topic: str) -> None:
    seen, hidden, group = f"{topic}-seen", f"{topic}-hidden", f"{topic}-group"
    for name in (seen, hidden):
        admin.create_topic(name)
    set_acls(admin, rules(f"alice: READ group {group}", f"alice: READ topic {seen}"))
    assert alice.request(heartbeat(group, names=[seen, hidden])).error_code == Errors.TOPIC_AUTHORIZATION_FAILED

    def joined() -> bool:
        return alice.request(heartbeat(group, regex=f"{topic}.*")).error_code == 0

    wait_until(joined, 20, "the coordinator")

    def assigned(client: RawClient) -> object:
        (found,) = client.request(ConsumerGroupDescribeRequest([group])).groups
        if found.error_code:
            return found.error_code
        return {one.topic_name for member in found.members for one in member.target_assignment.topic_partitions}

    def all_assigned() -> bool:
        alice.request(heartbeat(group, regex=f"{topic}.*"))
        return assigned(admin) == {seen}

    wait_until(all_assigned, 20, "an assignment")
    assert assigned(alice) == {seen}
    set_acls(admin, rules(f"alice: READ group {group}"))
    assert assigned(alice) == Errors.TOPIC_AUTHORIZATION_FAILED


def test_a_transaction_whose_rights_go_away(guarded: Cluster, admin: RawClient, topic: str) -> None:
    admin.create_topic(topic)
    login = alice_login(guarded)
    set_acls(admin, rules(f"alice: WRITE topic {topic}", f"alice: WRITE transactional_id {topic}"))
    with KafkaProducer(login, transactional_id=topic) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"first").result(20)
        set_acls(admin, rules(f"alice: WRITE transactional_id {topic}"))
        with pytest.raises(TopicAuthorizationFailedError):
            producer.send(topic, b"second").result(20)
        producer.abort_transaction()
    with KafkaConsumer(
        bootstrap_servers=guarded.bootstrap_servers, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        consumer.subscribe([topic])
        assert not list(consumer.poll(1000))


@pytest.mark.asyncio
async def test_a_producer_without_the_right_to_its_transactional_id_ends_at_once(
    guarded: Cluster, admin: RawClient, topic: str
) -> None:
    """No coordinator knows of it, so that its end waits for no abort. Programs of aiokafka get aiokafka's error."""
    set_acls(admin, rules(f"alice: DESCRIBE transactional_id {topic}", f"alice: WRITE topic {topic}"))
    with KafkaProducer(alice_login(guarded), transactional_id=topic) as producer:
        with pytest.raises(TransactionAbortableError, match="TRANSACTIONAL_ID_AUTHORIZATION_FAILED"):
            producer.init_transactions()
        began = time.monotonic()
        producer.close(timeout_ms=120_000)
        assert time.monotonic() - began < 60
    theirs = AIOKafkaProducer(**alice_login(guarded), transactional_id=topic)
    with pytest.raises(TransactionalIdAuthorizationFailed):
        await theirs.start()
    await theirs.stop()


@pytest.mark.asyncio
async def test_offsets_of_a_group_without_the_right_have_aiokafkas_error(
    guarded: Cluster, admin: RawClient, topic: str
) -> None:
    admin.create_topic(topic)
    set_acls(admin, rules(f"alice: WRITE transactional_id {topic}", f"alice: READ topic {topic}"))
    producer = AIOKafkaProducer(**alice_login(guarded), transactional_id=topic)
    await producer.start()
    try:
        await producer.begin_transaction()
        with pytest.raises(AIOKafkaGroupAuthorizationFailedError):
            await producer.send_offsets_to_transaction({TopicPartition(topic, 0): 0}, topic)
        with pytest.raises(AIOKafkaGroupAuthorizationFailedError):
            await producer.commit_transaction()
        await producer.abort_transaction()
    finally:
        await producer.stop()


def test_a_join_that_waits_ends_as_it_was_admitted(guarded: Cluster, admin: RawClient, topic: str) -> None:
    """The second member's join waits for the first one. Its right goes away meanwhile, and its next request fails."""
    set_acls(admin, rules(f"alice: READ group {topic}"))
    first, second = Member(guarded.raw, topic), Member(lambda: as_alice(guarded), topic)
    with closing(first.client), closing(second.client):
        admin.coordinator(topic)
        wait_until(lambda: first.join().error_code == Errors.MEMBER_ID_REQUIRED, 60, "the coordinator's records")
        assert first.join().error_code == 0
        assert first.sync({first.member_id: b"all"}).error_code == 0
        assert second.join().error_code == Errors.MEMBER_ID_REQUIRED
        second.send_join()
        first.until_told_to_rejoin()
        set_acls(admin, [])
        assert first.join().error_code == 0
        assert second.receive_join().error_code == 0
        assert second.sync().error_code == Errors.GROUP_AUTHORIZATION_FAILED


@pytest.mark.embedded_only("Only there can replication be paused")
def test_a_write_that_waits_is_stored_as_it_was_admitted() -> None:
    with EmbeddedCluster(
        2,
        data_dir=":memory:",
        users={"alice": "secret"},
        listeners=("SASL_PLAINTEXT", "PLAINTEXT"),
        acls=["alice: WRITE topic t"],
        config={"super.users": "User:ANONYMOUS"},
    ) as cluster:
        cluster.create_topic("t", 1, 2)
        for node_id in range(2):
            cluster.faults.pause_replication(node_id)
        request = produce("t")
        request.acks = -1
        with RawClient(cluster.address("PLAINTEXT")) as admin:
            leader = admin.leaders("t")[0]
        address = cluster.bootstrap_servers.split(",")[leader]
        with logged_in(address, b"\0alice\0secret") as alice, cluster.record_access(allow_all=False) as record:
            alice.send(request, 12)

            def has_asked() -> bool:
                cluster.update_record()
                return "alice: WRITE topic t" in map(str, record.needed)

            wait_until(has_asked, 60, "the request")
            assert not alice.answered()
            cluster.set_acls()
            for node_id in range(2):
                cluster.faults.resume_replication(node_id)
            answer = alice.receive()[1].responses[0].partition_responses[0]
            assert (answer.error_code, answer.base_offset) == (0, 0)
            answer = alice.request(request, 12).responses[0].partition_responses[0]
            assert answer.error_code == Errors.TOPIC_AUTHORIZATION_FAILED


def test_kafkas_tool_manages_rules(guarded: Cluster, admin: RawClient, topic: str) -> None:
    command = ("AclCommand", "--bootstrap-server", guarded.bootstrap_servers)
    added = ("--allow-principal", "User:alice", "--consumer", "--topic", topic, "--group", "g")
    tools().run(*command, "--add", *added)
    expected = set(rules(f"alice: READ,DESCRIBE topic {topic}", "alice: READ group g"))
    wait_until(lambda: stored_acls(admin) == expected, 60, "the rules")
    assert f"name={topic}, patternType=LITERAL" in tools().run(*command, "--list", "--topic", topic).stdout
    tools().run(*command, "--remove", "--force", *added)
    wait_until(lambda: stored_acls(admin) == set(), 60, "no rule")


@pytest.mark.embedded_only("Apache Kafka's own tests show that it stores rules")
def test_rules_are_there_after_a_kill(tmp_path) -> None:
    options = {"users": {"alice": "secret"}, "data_dir": tmp_path}
    with EmbeddedCluster(acls=["alice: ALTER cluster", "alice: DESCRIBE cluster"], **options) as cluster:  # type: ignore[arg-type]
        login = cluster.login("alice")
        cluster.kill()
        cluster.restart()
        with KafkaAdminClient(**login) as admin:
            assert admin.create_topics(["t"], raise_errors=False)["t"] is not None
    with EmbeddedCluster(config={"authorizer.class.name": ""}, **options) as cluster:  # type: ignore[arg-type]
        assert "2 access control lists have no effect" in cluster.log()


@pytest.mark.embedded_only("Its log has another form")
def test_the_log_names_what_was_denied() -> None:
    with EmbeddedCluster(data_dir=":memory:", users={"alice": "secret"}, acls=[]) as cluster:
        with KafkaAdminClient(**cluster.login("alice")) as admin, pytest.raises(ClusterAuthorizationFailedError):
            admin.list_config_resources()
        line = "pyconsumer.authorizer: User:alice is DENIED DESCRIBE_CONFIGS on CLUSTER kafka-cluster from 127.0.0.1"
        deadline = time.monotonic() + 5
        while line not in cluster.log() and time.monotonic() < deadline:
            time.sleep(0.02)
        assert line in cluster.log()


@pytest.mark.asyncio
@pytest.mark.parametrize("right", ["nothing", "DESCRIBE"])
@pytest.mark.parametrize("grouped", [False, True])
async def test_a_read_of_some_partitions_raises_no_refusal_of_another_topic(
    guarded: Cluster, admin: RawClient, topic: str, group_id: str, right: str, grouped: bool
) -> None:
    """Without DESCRIBE the metadata and the committed offset are refused, without READ the fetch."""
    mine, other = TopicPartition(f"{topic}-a", 0), TopicPartition(f"{topic}-b", 0)
    for tp in (mine, other):
        admin.create_topic(tp.topic)
        assert admin.request(produce(tp.topic), 12).responses[0].partition_responses[0].error_code == 0
    lines = [f"alice: READ topic {mine.topic}", f"alice: READ group {group_id}"]
    set_acls(admin, rules(*lines, *([f"alice: {right} topic {other.topic}"] if right != "nothing" else [])))
    settings = {"group_id": group_id, "enable_auto_commit": False} if grouped else {}
    reader = AIOKafkaConsumer(**alice_login(guarded), **settings, auto_offset_reset="earliest")
    reader.assign([mine, other])
    await reader.start()
    try:
        found = await reader.getmany(mine, timeout_ms=20_000)
        assert found.keys() == {mine}
        assert not await reader.getmany(mine, timeout_ms=200)
        with pytest.raises(AIOKafkaTopicAuthorizationFailedError, match=other.topic):
            await reader.getmany(other, timeout_ms=20_000)
        assert not await reader.getmany(mine, timeout_ms=10)
        with pytest.raises(AIOKafkaTopicAuthorizationFailedError, match=other.topic):
            await reader.getmany(timeout_ms=20_000)
    finally:
        await reader.stop()
