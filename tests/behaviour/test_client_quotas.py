"""Quotas of clients: the requests with Kafka's errors, the order of precedence, and throttling, on both brokers."""

from __future__ import annotations

import asyncio
import math
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from pyconsumer import KafkaAdminClient, KafkaConsumer, KafkaProducer
from pyconsumer.admin import DEFAULT_ENTITY, NewTopic, QuotaEntity
from pyconsumer.aio import AsyncKafkaAdminClient
from pyconsumer.broker import EmbeddedCluster
from pyconsumer.errors import Errors, InvalidRequestError
from pyconsumer.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from pyconsumer.protocol.messages.api_versions import ApiVersionsRequest
from pyconsumer.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from pyconsumer.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from pyconsumer.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from pyconsumer.protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from pyconsumer.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pyconsumer.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pyconsumer.quotas import CONNECTION_RATE, CONSUMER_RATE, MUTATION_RATE, PRODUCER_RATE, REQUEST_PERCENTAGE
from pyconsumer.structs import TopicPartition
from tests.support.certificates import Certificates
from tests.support.cluster import Cluster
from tests.support.java import tools
from tests.support.process import wait_until
from tests.support.raw_client import RawClient
from tests.unit.protocol.records.helpers import batch

#: A client's rate is that of the ten whole windows before, and of the present one.
_WINDOWS_S = 10.5
_USER = "ANONYMOUS"


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[KafkaAdminClient]:
    with KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as client:
        yield client
        client.alter_client_quotas(
            {entity: dict.fromkeys(values) for entity, values in client.describe_client_quotas().items()}
        )
        wait_until(lambda: not client.describe_client_quotas(), 60, "the end of all quotas")


def set_quota(admin: KafkaAdminClient, entity: QuotaEntity, **values: float) -> None:
    """Set quotas, and wait until the broker has them."""
    admin.alter_client_quotas({entity: values})
    wait_until(lambda: values.items() <= admin.describe_client_quotas().get(entity, {}).items(), 60, f"{entity}")


def client(cluster: Cluster, client_id: str) -> RawClient:
    return RawClient(cluster.bootstrap_servers, timeout_s=20, client_id=client_id)


def produce(topic: str, size: int) -> ProduceRequest:
    data = PartitionProduceData(0, batch(0, 1, value=b"x" * size))
    return ProduceRequest(None, 1, 5000, [TopicProduceData(topic, partition_data=[data])])


def fetch(topic: str, most: int, session: tuple[int, int] = (0, -1)) -> FetchRequest:
    part = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=most)
    topics = [FetchTopic(topic=topic, partitions=[part])]
    return FetchRequest(max_bytes=most, session_id=session[0], session_epoch=session[1], topics=topics)


def alter(raw: RawClient, *entries: tuple[Mapping[str, str | None], list[tuple[str, float | None]]]) -> list[Any]:
    """Return code and text of each entry's result."""
    request = AlterClientQuotasRequest(
        [
            EntryData(
                [EntityData(kind, name) for kind, name in entity.items()],
                [OpData(key, value or 0.0, value is None) for key, value in ops],
            )
            for entity, ops in entries
        ]
    )
    return [(one.error_code, one.error_message) for one in raw.request(request).entries]


def test_quotas_are_set_described_and_removed(admin: KafkaAdminClient, topic: str) -> None:
    user, both = QuotaEntity(user=topic), QuotaEntity(user=topic, client_id=DEFAULT_ENTITY)
    address = QuotaEntity(ip=DEFAULT_ENTITY)
    wanted: dict[QuotaEntity, dict[str, float | None]] = {
        user: {PRODUCER_RATE: 1e6, REQUEST_PERCENTAGE: 12.5},
        both: {CONSUMER_RATE: 2e6, MUTATION_RATE: 0.5},
        address: {CONNECTION_RATE: 1000},
    }
    assert admin.alter_client_quotas(wanted) == dict.fromkeys(wanted)
    wait_until(lambda: admin.describe_client_quotas() == wanted, 60, "the quotas")
    assert admin.describe_client_quotas(user) == {one: wanted[one] for one in (user, both)}
    assert admin.describe_client_quotas(user, strict=True) == {user: wanted[user]}
    assert admin.describe_client_quotas(user, types=["client-id"]) == {both: wanted[both]}
    assert admin.describe_client_quotas(types=["ip"]) == {address: wanted[address]}
    assert admin.describe_client_quotas(QuotaEntity(user="nobody")) == {}
    change = {user: {PRODUCER_RATE: None, CONSUMER_RATE: 5.0}}
    assert admin.alter_client_quotas(change, validate_only=True) == {user: None}
    assert admin.describe_client_quotas(user, strict=True) == {user: wanted[user]}
    admin.alter_client_quotas(change)
    after = {CONSUMER_RATE: 5.0, REQUEST_PERCENTAGE: 12.5}
    wait_until(lambda: admin.describe_client_quotas(user, strict=True) == {user: after}, 60, "the change")
    with pytest.raises(InvalidRequestError, match="Invalid configuration key"):
        admin.alter_client_quotas({user: {CONNECTION_RATE: 1}, both: {CONSUMER_RATE: 7}})
    with pytest.raises(ValueError, match="types are user"):
        admin.describe_client_quotas(types=["group"])


def test_a_coroutine_has_the_same_result(cluster: Cluster, admin: KafkaAdminClient, topic: str) -> None:
    async def program() -> Any:
        async with AsyncKafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as client:
            entity = QuotaEntity(client_id=topic)
            assert await client.alter_client_quotas({entity: {PRODUCER_RATE: 10}}) == {entity: None}
            while not (found := await client.describe_client_quotas(entity)):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            return found

    assert asyncio.run(program()) == {QuotaEntity(client_id=topic): {PRODUCER_RATE: 10}}


_INVALID = {
    "no entity": ({}, [(PRODUCER_RATE, 1.0)]),
    "unknown type": ({"group": "g"}, [(PRODUCER_RATE, 1.0)]),
    "empty name": ({"user": ""}, [(PRODUCER_RATE, 1.0)]),
    "address and user": ({"ip": "10.0.0.1", "user": "u"}, [(CONNECTION_RATE, 1.0)]),
    "no address": ({"ip": "300.0.0.1.invalid"}, [(CONNECTION_RATE, 1.0)]),
    "unknown key": ({"user": "u"}, [("speed", 1.0)]),
    "key of another type": ({"ip": None}, [(PRODUCER_RATE, 1.0)]),
    "zero": ({"user": "u"}, [(PRODUCER_RATE, 0.0)]),
    "negative": ({"user": "u"}, [(REQUEST_PERCENTAGE, -1.0)]),
    "fraction": ({"user": "u"}, [(CONSUMER_RATE, 1.5)]),
    "too large": ({"ip": "10.0.0.1"}, [(CONNECTION_RATE, 2.0**31)]),
    "key twice": ({"user": "u"}, [(PRODUCER_RATE, 1.0), (PRODUCER_RATE, 2.0)]),
    "one of two keys is wrong": ({"user": "u"}, [(PRODUCER_RATE, 1.0), ("speed", 2.0)]),
}


@pytest.mark.parametrize("case", _INVALID)
def test_invalid_changes_are_refused(cluster: Cluster, admin: KafkaAdminClient, case: str) -> None:
    with cluster.raw() as raw:
        ((code, text),) = alter(raw, _INVALID[case])  # type: ignore[arg-type]
        assert (code, bool(text)) == (Errors.INVALID_REQUEST, True)
    assert admin.describe_client_quotas() == {}


def test_odd_changes_that_kafka_accepts(cluster: Cluster, admin: KafkaAdminClient, topic: str) -> None:
    entity = {"client-id": topic}
    with cluster.raw() as raw:
        assert alter(raw, (entity, [(PRODUCER_RATE, None), ("no such key", None)])) == [(0, None)]
        # Of an entity that occurs twice, the first change counts, and the result is an error.
        ((code, _),) = alter(raw, (entity, [(PRODUCER_RATE, 1.0)]), (entity, [(CONSUMER_RATE, 1.0)]))
        assert code == Errors.INVALID_REQUEST
    found = {QuotaEntity(client_id=topic): {PRODUCER_RATE: 1.0}}
    wait_until(lambda: admin.describe_client_quotas() == found, 60, "the first change")


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([("", 0, "x")], Errors.INVALID_REQUEST),
        ([("user", 0, "x"), ("user", 2, None)], Errors.INVALID_REQUEST),
        ([("group", 0, "x")], Errors.UNSUPPORTED_VERSION),
        ([("user", 0, None)], Errors.INVALID_REQUEST),
        ([("user", 1, "x")], Errors.INVALID_REQUEST),
        ([("user", 2, "x")], Errors.INVALID_REQUEST),
        ([("user", 3, None)], Errors.INVALID_REQUEST),
        ([("user", 1, None), ("ip", 1, None)], Errors.INVALID_REQUEST),
    ],
)
def test_invalid_filters_are_refused(cluster: Cluster, components: list[tuple[str, int, str]], code: int) -> None:
    with cluster.raw() as raw:
        response = raw.request(DescribeClientQuotasRequest([ComponentData(*one) for one in components]))
        assert (response.error_code, response.entries) == (code, None)


def test_the_strongest_quota_counts(cluster: Cluster, admin: KafkaAdminClient, topic: str) -> None:
    """The throttle time tells which quota has been applied. Each is a tenth of the weaker one."""
    size, name = 50_000, topic
    levels = [  # from the weakest
        (QuotaEntity(client_id=DEFAULT_ENTITY), "client"),
        (QuotaEntity(client_id=name), "client"),
        (QuotaEntity(user=DEFAULT_ENTITY), "user"),
        (QuotaEntity(user=DEFAULT_ENTITY, client_id=DEFAULT_ENTITY), "both"),
        (QuotaEntity(user=DEFAULT_ENTITY, client_id=name), "both"),
        (QuotaEntity(user=_USER), "user"),
        (QuotaEntity(user=_USER, client_id=DEFAULT_ENTITY), "both"),
        (QuotaEntity(user=_USER, client_id=name), "both"),
    ]
    # Each counts the traffic of a client id, a user, or both. All of it is this test's.
    counted = dict.fromkeys(("client", "user", "both"), 0)
    limit = 2000.0
    for entity, whose in levels:
        set_quota(admin, entity, **{PRODUCER_RATE: limit})
        counted[whose] += size

        def throttled(whose: str = whose, limit: float = limit) -> bool:
            with client(cluster, name) as raw:
                throttle_s = raw.request(produce(topic, size), 9).throttle_time_ms / 1000
            found = (throttle_s + _WINDOWS_S) * limit
            if abs(found / counted[whose] - 1) < 0.25:
                return True
            counted[whose] += size  # it was counted for a weaker quota, which Apache Kafka still had
            return False

        wait_until(throttled, 60, f"the quota of {entity}")
        limit = max(1.0, limit // 3)


def test_a_throttled_producer_is_answered_first_and_then_waits(
    cluster: Cluster, admin: KafkaAdminClient, topic: str
) -> None:
    set_quota(admin, QuotaEntity(client_id=topic), **{PRODUCER_RATE: 20_000})
    with client(cluster, topic) as raw:
        assert raw.request(produce(topic, 100_000), 9).throttle_time_ms == 0
        began = time.monotonic()
        throttle_ms = raw.request(produce(topic, 120_000), 9).throttle_time_ms
        assert 0 < throttle_ms < 1500
        raw.send(ApiVersionsRequest(), 0)
        raw.receive()
        assert throttle_ms / 1000 - 0.05 < time.monotonic() - began
        held: list[bytes] = []  # both requests arrive at once
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(raw, "send_bytes", held.append)
            raw.send(produce(topic, 20_000), 9)
            raw.send(ApiVersionsRequest(), 0)
        began = time.monotonic()
        raw.send_bytes(b"".join(held))
        throttle_ms = raw.receive()[1].throttle_time_ms
        raw.receive()
        assert 0.2 < throttle_ms / 1000 < time.monotonic() - began + 0.05
        began = time.monotonic()
        throttle_ms = raw.request(produce(topic, 900_000), 9).throttle_time_ms
        assert throttle_ms > 30_000
        assert time.monotonic() - began < 20, "the answer comes first"
    with client(cluster, f"{topic}-other") as raw:
        assert raw.request(produce(topic, 300_000), 9).throttle_time_ms == 0


@pytest.mark.parametrize("listener", ["PLAINTEXT", "SSL"])
def test_a_throttled_client_that_goes_holds_no_place(certificates: Certificates, listener: str) -> None:
    with EmbeddedCluster(
        data_dir=":memory:",
        listeners=(listener,),
        ssl_certfile=certificates.server_pem,
        quotas={QuotaEntity(client_id="fast"): {PRODUCER_RATE: 1000}},
        config={"max.connections.per.ip": 1},
    ) as cluster:
        cluster.create_topic("t")
        tls = ssl.create_default_context(cafile=str(certificates.ca_pem)) if listener == "SSL" else None
        with RawClient(cluster.bootstrap_servers, client_id="fast", tls=tls, timeout_s=20) as raw:
            assert raw.request(produce("t", 200_000), 9).throttle_time_ms > 150_000

        def is_served() -> bool:
            try:
                with RawClient(cluster.bootstrap_servers, tls=tls, timeout_s=20) as other:
                    return bool(other.brokers())
            except (OSError, EOFError):  # as there is still the other connection
                return False

        wait_until(is_served, 60, "another connection")


def test_a_throttled_fetch_is_empty(cluster: Cluster, admin: KafkaAdminClient, topic: str) -> None:
    with cluster.raw() as raw:
        for _ in range(3):
            assert raw.request(produce(topic, 250_000), 9).responses[0].partition_responses[0].error_code == 0
    set_quota(admin, QuotaEntity(user=_USER, client_id=topic), **{CONSUMER_RATE: 40_000})
    with client(cluster, topic) as raw:
        first = raw.request(fetch(topic, 300_000, (0, 0)), 12)
        assert (first.throttle_time_ms, first.session_id > 0) == (0, True)
        assert len(first.responses[0].partitions[0].records) > 250_000
        second = raw.request(fetch(topic, 1_000_000, (first.session_id, 1)), 12)
        assert 0 < second.throttle_time_ms < 15_000
        assert (second.responses, second.session_id) == ([], first.session_id)
    with client(cluster, topic) as raw:
        full = raw.request(fetch(topic, 1_000_000, (0, 0)), 12)
        assert full.throttle_time_ms > 0
        assert (full.responses, full.session_id) == ([], 0)


def test_a_fetch_for_more_than_the_quota_ends(cluster: Cluster, admin: KafkaAdminClient, topic: str) -> None:
    """A response has at most the bytes of ten windows. More would be throttled each time, without an end."""
    with cluster.raw() as raw:
        for _ in range(3):
            raw.request(produce(topic, 150_000), 9)
    set_quota(admin, QuotaEntity(user=_USER, client_id=topic), **{CONSUMER_RATE: 20_000})
    with client(cluster, topic) as raw:
        for _ in range(20):
            response = raw.request(fetch(topic, 10_000_000), 12)
            if response.responses:
                break
        assert 150_000 < len(response.responses[0].partitions[0].records) <= 200_000


@pytest.mark.embedded_only(reason="Apache Kafka counts the exact size, and here each partition counts 50 bytes")
def test_partitions_without_records_count_if_they_are_sent(
    cluster: Cluster, admin: KafkaAdminClient, topic: str
) -> None:
    cluster.create_topic(f"{topic}-wide", 60)
    set_quota(admin, QuotaEntity(user=_USER, client_id=topic), **{CONSUMER_RATE: 200})
    with client(cluster, topic) as raw:
        idle = [FetchPartition(partition=number, partition_max_bytes=1000) for number in range(60)]
        first = raw.request(FetchRequest(session_epoch=0, topics=[FetchTopic(f"{topic}-wide", partitions=idle)]), 12)
        for epoch in range(1, 4):  # a session sends no partition that has nothing new
            again = raw.request(FetchRequest(session_id=first.session_id, session_epoch=epoch), 12)
            assert (again.throttle_time_ms, again.error_code, again.responses) == (0, 0, [])
        missing = [FetchPartition(partition=number, partition_max_bytes=1000) for number in range(100, 160)]
        failed = FetchRequest(session_epoch=-1, topics=[FetchTopic(f"{topic}-wide", partitions=missing)])
        assert raw.request(failed, 12).throttle_time_ms == 0  # 3,000 bytes, counted as the 2,000 of ten seconds
        found = raw.request(failed, 12)
        assert (found.responses, found.throttle_time_ms > 0) == ([], True)


def test_clients_wait_and_count_it(cluster: Cluster, admin: KafkaAdminClient, topic: str) -> None:
    set_quota(admin, QuotaEntity(client_id=topic), **{PRODUCER_RATE: 22_500, CONSUMER_RATE: 22_500})
    where: dict[str, Any] = {"bootstrap_servers": cluster.bootstrap_servers, "client_id": topic}
    began = time.monotonic()
    with KafkaProducer(**where, linger_ms=0) as producer:
        for _ in range(13):
            producer.send(topic, b"x" * 20_000).result(30)
        sent_s = time.monotonic() - began
        found = producer.metrics()["producer-metrics"]
        assert found["produce-throttle-time-max"] > 0  # type: ignore[operator]
    assert sent_s > 0.6  # 225,000 bytes go at once, and after 240,000 the client waits for 0.67 s
    began = time.monotonic()
    with KafkaConsumer(**where, auto_offset_reset="earliest", fetch_max_bytes=30_000) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        size = 0
        while size < 8 * 20_000:  # of each response a part is cut off, so that the quota is used up sooner
            size += sum(len(record.value or b"") for found in consumer.poll(1000).values() for record in found)
            assert time.monotonic() - began < 30
        metrics = consumer.metrics()["consumer-fetch-manager-metrics"]
        assert metrics["fetch-throttle-time-max"] > 0  # type: ignore[operator]


def test_mutations_of_the_controller(cluster: Cluster, admin: KafkaAdminClient, topic: str) -> None:
    """The bucket has 11 s of tokens. It may go below zero once, and then refuses until it is filled up again."""
    set_quota(admin, QuotaEntity(client_id=topic), **{MUTATION_RATE: 2})

    def create(raw: RawClient, name: str, partitions: int, version: int) -> tuple[int, int]:
        request = CreateTopicsRequest([CreatableTopic(f"{topic}-{name}", partitions, 1)], 10_000)
        response = raw.request(request, version)
        return response.topics[0].error_code, response.throttle_time_ms

    with client(cluster, topic) as raw:
        assert create(raw, "a", 24, 7) == (0, 0)
        code, throttle_ms = create(raw, "b", 1, 7)
        assert (code, 0 < throttle_ms <= 1000) == (Errors.THROTTLING_QUOTA_EXCEEDED, True)
        began = time.monotonic()
        code, _ = create(raw, "b", 4, 7)  # the connection was not read until the time was over
        assert (code, time.monotonic() - began > throttle_ms / 1000 - 0.1) == (0, True)
        code, throttle_ms = create(raw, "c", 1, 5)  # older clients do not know the error
        assert (code, throttle_ms > 0) == (0, True)
    with KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers, client_id=topic) as throttled:
        throttled.create_topics([NewTopic(f"{topic}-d", 1, 1)], timeout_ms=30_000)  # it waits, and tries again


def test_partitions_that_are_deleted_or_added_are_mutations(
    cluster: Cluster, admin: KafkaAdminClient, topic: str
) -> None:
    """The first version of each request with the error, and the last one before it, which is only throttled."""
    exceeded = Errors.THROTTLING_QUOTA_EXCEEDED
    names = [f"{topic}-{name}" for name in "abcdef"]
    admin.create_topics([NewTopic(name, 1, 1) for name in names])
    name_of = dict(zip("abcdef", names, strict=True))
    for client_id in (f"{topic}-grows", f"{topic}-deletes"):
        set_quota(admin, QuotaEntity(client_id=client_id), **{MUTATION_RATE: 2})

    def asked(client_id: str, request: Any, version: int) -> tuple[int, bool]:
        """Return the error of the only item, and whether the client is throttled. It has a connection of its own."""
        with client(cluster, f"{topic}-{client_id}") as raw:
            response = raw.request(request, version)
        items = next(items for name in ("results", "responses", "topics") if (items := getattr(response, name, None)))
        return items[0].error_code, response.throttle_time_ms > 0

    def grow(name: str, count: int) -> CreatePartitionsRequest:
        return CreatePartitionsRequest([CreatePartitionsTopic(name_of[name], count, None)], 10_000)

    def delete(name: str, version: int) -> DeleteTopicsRequest:
        if version < 6:
            return DeleteTopicsRequest(topic_names=[name_of[name]], timeout_ms=10_000)
        return DeleteTopicsRequest([DeleteTopicState(name_of[name])], timeout_ms=10_000)

    new = CreateTopicsRequest([CreatableTopic(f"{topic}-new", 1, 1)], 10_000)
    assert asked("grows", grow("a", 50), 3) == (0, False)  # 49 of 22
    assert asked("grows", grow("b", 2), 3) == (exceeded, True)
    for version in (5, 6):
        assert asked("grows", delete("b", version), version) == (exceeded, True)
    assert asked("grows", new, 6) == (exceeded, True)
    assert asked("grows", grow("b", 2), 2) == (0, True)
    assert asked("grows", delete("c", 4), 4) == (0, True)
    assert asked("grows", new, 5) == (0, True)
    assert asked("deletes", delete("a", 6), 6) == (0, False)  # its 50 partitions
    assert asked("deletes", delete("d", 6), 6) == (exceeded, True)


def test_connections_of_an_address(cluster: Cluster, admin: KafkaAdminClient) -> None:
    set_quota(admin, QuotaEntity(ip="127.0.0.1"), **{CONNECTION_RATE: 1})

    def refused() -> bool:
        with cluster.raw() as raw:
            try:
                raw.request(ApiVersionsRequest(), 0)
            except (OSError, EOFError):
                return True
        return False

    began = time.monotonic()
    count = 0
    while not refused():
        count += 1
        assert count < 40
    assert time.monotonic() - began > 0.5  # it is held before it is closed
    set_quota(admin, QuotaEntity(ip="127.0.0.1"), **{CONNECTION_RATE: 1000})
    wait_until(lambda: not refused(), 60, "another connection")


@pytest.mark.kafka
@pytest.mark.embedded_only(reason="Kafka's own broker needs no proof of Kafka's tool")
def test_kafkas_tool(cluster: Cluster, admin: KafkaAdminClient, topic: str) -> None:
    command = ("ConfigCommand", "--bootstrap-server", cluster.bootstrap_servers)
    names = ("--entity-type", "users", "--entity-name", topic, "--entity-type", "clients", "--entity-default")
    tools().run(*command, *names, "--alter", "--add-config", f"{PRODUCER_RATE}=1024,{REQUEST_PERCENTAGE}=50.5")
    entity = QuotaEntity(user=topic, client_id=DEFAULT_ENTITY)
    assert admin.describe_client_quotas() == {entity: {PRODUCER_RATE: 1024, REQUEST_PERCENTAGE: 50.5}}
    shown = tools().run(*command, *names, "--describe").stdout
    assert f"{PRODUCER_RATE}=1024.0" in shown
    tools().run(*command, *names, "--alter", "--delete-config", PRODUCER_RATE)
    assert admin.describe_client_quotas() == {entity: {REQUEST_PERCENTAGE: 50.5}}
    refused = tools().run(*command, *names, "--alter", "--add-config", f"{PRODUCER_RATE}=-1", check=False)
    assert "must be greater than 0" in refused.stdout + refused.stderr


def moved(send: Callable[[], tuple[int, int]], wait: Callable[[float], None], now: Callable[[], float]) -> float:
    """Send requests for 75 s. Return the bytes a second after the first 15 s.

    Args:
        send: sends one request. It returns the bytes and the throttle time in ms.
    """
    began, total = now(), 0
    while (at := now() - began) < 75:
        size, throttle_ms = send()
        total += size if at > 15 else 0
        wait(throttle_ms / 1000)
    return total / 60


def producing(raw: RawClient, topic: str) -> tuple[int, int]:
    return 20_000, raw.request(produce(topic, 20_000), 9).throttle_time_ms


def fetching(raw: RawClient, topic: str) -> tuple[int, int]:
    """Read the topic's only batch once more. A throttled response is empty."""
    response = raw.request(fetch(topic, 20_000), 12)
    return sum(len(one.partitions[0].records or b"") for one in response.responses), response.throttle_time_ms


_WAYS = {PRODUCER_RATE: producing, CONSUMER_RATE: fetching}


@pytest.mark.parametrize("key", _WAYS)
def test_a_client_gets_its_quota_and_no_more(topic: str, key: str) -> None:
    with EmbeddedCluster(
        data_dir=":memory:", in_thread=True, quotas={QuotaEntity(client_id=topic): {key: 50_000}}
    ) as cluster:
        cluster.create_topic(topic, config={"retention.ms": "-1"})  # its record is old
        passed = 0.0

        def wait(seconds: float) -> None:
            nonlocal passed
            passed += seconds + 0.01
            cluster.advance_clock(seconds + 0.01)

        with RawClient(cluster.bootstrap_servers, client_id="another") as raw:
            raw.request(produce(topic, 20_000), 9)
        with RawClient(cluster.bootstrap_servers, client_id=topic) as raw:
            rate = moved(lambda: _WAYS[key](raw, topic), wait, lambda: passed)
    assert 0.85 < rate / 50_000 < 1.15


@pytest.mark.slow
def test_a_client_gets_its_quotas_in_real_time(cluster: Cluster, admin: KafkaAdminClient, topic: str) -> None:
    admin.create_topics([NewTopic(f"{topic}-kept", 1, topic_configs={"retention.ms": "-1"})])
    with cluster.raw() as raw:
        raw.request(produce(f"{topic}-kept", 20_000), 9)
    set_quota(admin, QuotaEntity(client_id=topic), **dict.fromkeys(_WAYS, 50_000))

    def measure(way: Callable[[RawClient, str], tuple[int, int]], topic_of_way: str) -> float:
        with client(cluster, topic) as raw:
            return moved(lambda: way(raw, topic_of_way), lambda seconds: None, time.monotonic)

    with ThreadPoolExecutor(2) as pool:
        rates = list(pool.map(measure, _WAYS.values(), [topic, f"{topic}-kept"]))
    assert [math.isclose(rate, 50_000, rel_tol=0.15) for rate in rates] == [True, True], rates
