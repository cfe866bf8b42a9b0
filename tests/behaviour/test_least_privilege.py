"""Which rights ten programs need: recorded on the embedded broker, and exactly enough on both brokers."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pyconsumer import KafkaAdminClient, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from pyconsumer.acls import parse_acl
from pyconsumer.admin import NewTopic, OffsetSpec, ScramMechanism, UserScramCredentialUpsertion
from pyconsumer.aio import AsyncKafkaAdminClient, AsyncKafkaConsumer, AsyncKafkaProducer
from pyconsumer.broker import EmbeddedCluster
from pyconsumer.errors import IllegalStateError, KafkaError
from pyconsumer.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pyconsumer.quotas import PRODUCER_RATE, QuotaEntity
from tests.behaviour.access_support import alice_login, authorized_cluster, set_acls
from tests.support.certificates import Certificates
from tests.support.cluster import Cluster
from tests.support.raw_client import RawClient
from tests.unit.protocol.records.helpers import batch

_NUMBERS = itertools.count(1)
_PATIENCE_MS = 20_000

Login = dict[str, Any]
#: A program takes a login, the name of a topic with a record, and a name that nobody has used.
Program = Callable[[Login, str, str], None]


def produce(login: Login, topic: str, fresh: str) -> None:
    with KafkaProducer(**login) as producer:
        producer.send(topic, b"v").result(timeout=20)


async def produce_on_a_loop(login: Login, topic: str, fresh: str) -> None:
    async with AsyncKafkaProducer(**login) as producer:
        await producer.send_and_wait(topic, b"v")


def consume(login: Login, topic: str, fresh: str) -> None:
    with KafkaConsumer(topic, group_id=fresh, auto_offset_reset="earliest", **login) as consumer:
        assert consumer.poll(_PATIENCE_MS).count()
        consumer.commit()


async def consume_on_a_loop(login: Login, topic: str, fresh: str) -> None:
    async with AsyncKafkaConsumer(topic, group_id=fresh, auto_offset_reset="earliest", **login) as consumer:
        assert (await consumer.poll(_PATIENCE_MS)).count()
        await consumer.commit()


def read_without_a_group(login: Login, topic: str, fresh: str) -> None:
    with KafkaConsumer(auto_offset_reset="earliest", **login) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        assert consumer.poll(_PATIENCE_MS).count()


async def produce_in_a_transaction(login: Login, topic: str, fresh: str) -> None:
    async with AsyncKafkaProducer(transactional_id=fresh, **login) as producer:
        await producer.init_transactions()
        async with producer.transaction():
            await producer.send(topic, b"v")


def exactly_once(login: Login, topic: str, fresh: str) -> None:
    with KafkaProducer(transactional_id=fresh, **login) as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send(topic, b"v")
            producer.send_offsets_to_transaction({TopicPartition(topic, 0): OffsetAndMetadata(1)}, fresh)


async def create_a_topic(login: Login, topic: str, fresh: str) -> None:
    async with AsyncKafkaAdminClient(**login) as admin:
        await admin.create_topics([NewTopic(fresh, 1)])


def show_lag(login: Login, topic: str, fresh: str) -> None:
    partition = TopicPartition(topic, 0)
    with KafkaAdminClient(**login) as admin:
        admin.list_group_offsets(fresh, [partition])
        admin.list_offsets({partition: OffsetSpec.LATEST})


async def shrink_and_grow(login: Login, topic: str, fresh: str) -> None:
    async with AsyncKafkaAdminClient(**login) as admin:
        await admin.delete_records({TopicPartition(topic, 0): 1})
        await admin.create_partitions({topic: 2}, validate_only=True)


#: The rules of each program, with ``T`` for the topic and ``F`` for the fresh name.
NEEDED: dict[Callable[..., Any], list[str]] = {
    produce: ["alice: WRITE topic T"],
    produce_on_a_loop: ["alice: WRITE topic T"],
    consume: ["alice: READ topic T", "alice: READ group F"],
    consume_on_a_loop: ["alice: READ topic T", "alice: READ group F"],
    read_without_a_group: ["alice: READ topic T"],
    produce_in_a_transaction: ["alice: WRITE topic T", "alice: WRITE transactional_id F"],
    exactly_once: [
        "alice: READ topic T",
        "alice: WRITE topic T",
        "alice: READ group F",
        "alice: WRITE transactional_id F",
    ],
    create_a_topic: ["alice: CREATE topic F"],
    show_lag: ["alice: DESCRIBE topic T", "alice: DESCRIBE group F"],
    shrink_and_grow: ["alice: DELETE topic T", "alice: ALTER topic T"],
}


@pytest.fixture(scope="module")
def guarded(cluster_kind: str, certificates: Certificates) -> Iterator[Cluster]:
    with authorized_cluster(cluster_kind, certificates) as made:
        yield made


@pytest.fixture(scope="module")
def topic(guarded: Cluster) -> str:
    """A topic with a record. No program changes it for another one."""
    guarded.create_topic("lp-orders")
    _write(guarded)
    return "lp-orders"


def _write(cluster: Cluster) -> None:
    part = TopicProduceData("lp-orders", partition_data=[PartitionProduceData(0, batch())])
    with cluster.raw() as client:
        client.request(ProduceRequest(None, 1, 5000, [part]))


def run(program: Callable[..., Any], cluster: Cluster, topic: str, fresh: str) -> None:
    login = alice_login(cluster)
    if program in (consume, consume_on_a_loop, read_without_a_group):
        _write(cluster)  # one that no other program has deleted
    if asyncio.iscoroutinefunction(program):
        asyncio.run(program(login, topic, fresh))
    else:
        program(login, topic, fresh)


def allow(admin: RawClient, lines: list[str], topic: str, fresh: str) -> None:
    """Let these rules be the only ones, for a topic and a name."""
    kinds = {"T": topic, "F": fresh}
    set_acls(admin, [acl._replace(name=kinds[acl.name]) for line in lines for acl in parse_acl(line)])


@pytest.mark.parametrize("program", list(NEEDED), ids=lambda program: program.__name__)
def test_a_program_needs_exactly_its_list(guarded: Cluster, topic: str, program: Callable[..., Any]) -> None:
    lines = NEEDED[program]
    if guarded.embedded:
        fresh = f"lp-{next(_NUMBERS)}"
        with guarded.server.record_access() as record:
            run(program, guarded, topic, fresh)
        plain = [acl._replace(name={topic: "T", fresh: "F"}.get(acl.name, acl.name)) for acl in record.needed]
        assert list(map(str, plain)) == lines
    with guarded.raw() as admin:
        fresh = f"lp-{next(_NUMBERS)}"
        allow(admin, lines, topic, fresh)
        run(program, guarded, topic, fresh)
        for missing in lines:
            fresh = f"lp-{next(_NUMBERS)}"
            allow(admin, [line for line in lines if line != missing], topic, fresh)
            with pytest.raises(KafkaError):
                run(program, guarded, topic, fresh)


@pytest.mark.embedded_only(reason="the recorder is a part of the embedded broker")
def test_a_record_names_the_missing_rules(guarded: Cluster, topic: str) -> None:
    with guarded.raw() as admin:
        set_acls(admin, [])
    with guarded.server.record_access(allow_all=False) as record, pytest.raises(KafkaError):
        run(produce, guarded, topic, "lp-unused")
    assert [str(acl) for acl in record.denied if acl.resource_type.name == "TOPIC"] == [
        f"alice: DESCRIBE topic {topic}"
    ]


@pytest.mark.embedded_only(reason="the recorder is a part of the embedded broker")
def test_a_record_and_a_repair_outlive_a_kill() -> None:
    users, rule, kept = {"alice": "alice-secret"}, "alice: READ topic kept", QuotaEntity(user="kept")
    with EmbeddedCluster(
        users=users, acls=[rule], quotas={kept: {PRODUCER_RATE: 1e9}}, config={"super.users": "User:root"}
    ) as cluster:
        with cluster.record_access() as record, pytest.raises(IllegalStateError), cluster.record_access():
            pass
        with cluster.record_access() as record:
            for topic in ("before", "after"):
                with KafkaProducer(**cluster.login("alice")) as producer:
                    producer.send(topic, b"v").result(timeout=20)
                if topic == "before":
                    cluster.kill()
                    cluster.restart()
        assert [str(acl) for acl in record.needed if acl.operation.name == "WRITE"] == [
            "alice: WRITE topic after",
            "alice: WRITE topic before",
        ]
        cluster.set_acls("alice: DESCRIBE cluster", "alice: ALTER cluster", "alice: ALTER_CONFIGS cluster")
        with KafkaAdminClient(**cluster.login("alice")) as admin:
            admin.alter_user_scram_credentials([UserScramCredentialUpsertion("eve", ScramMechanism.SCRAM_SHA_256, "x")])
            admin.alter_client_quotas({kept: {PRODUCER_RATE: 7}, QuotaEntity(user="eve"): {PRODUCER_RATE: 5}})
            assert len(admin.describe_acls()) == 3
            cluster.kill()
            cluster.repair()
            rights = "alice: DESCRIBE,DESCRIBE_CONFIGS cluster"
            cluster.add_acls(rights)
            assert set(admin.describe_acls()) == {*parse_acl(rule), *parse_acl(rights)}
            assert admin.describe_client_quotas() == {kept: {PRODUCER_RATE: 1e9}}
            assert list(admin.describe_user_scram_credentials()) == ["alice"]
