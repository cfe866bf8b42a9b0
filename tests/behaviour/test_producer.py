"""The producer on real brokers: arrivals, their order, failures."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from pyconsumer.errors import (
    AuthenticationError,
    BufferExhaustedError,
    ConfigurationError,
    IllegalStateError,
    KafkaError,
    KafkaTimeoutError,
    MessageTooLargeError,
    RecordTooLargeError,
    RequestCancelledError,
    SerializationError,
)
from pyconsumer.producer import KafkaProducer
from pyconsumer.producer.partitioner import partition_for_key
from pyconsumer.protocol.api import ApiKey
from pyconsumer.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from pyconsumer.structs import RecordMetadata
from tests.support.cluster import Cluster
from tests.support.log_reader import end_offset, read_batches, read_partition
from tests.support.process import wait_until
from tests.support.proxy import KafkaProxy

pytestmark = pytest.mark.faces


def values(cluster: Cluster, topic: str, partition: int = 0) -> list[bytes | None]:
    return [record.value for record in read_partition(cluster, topic, partition)]


@pytest.mark.smoke
def test_records_arrive_as_they_were_sent(cluster: Cluster, topic: str) -> None:
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        future = producer.send(topic, b"value", b"key", [("h", b"1"), ("n", None)], timestamp_ms=1234)
        assert future.get(60) == RecordMetadata(topic, 0, 0, 1234, 3, 5, 3)
        assert producer.send(topic, None, None).get(60).offset == 1
        assert producer.send(topic, "text", "ключ").get(60).serialized_key_size == 8

    first, second, third = read_partition(cluster, topic)
    assert (first.key, first.value, first.headers, first.timestamp) == (
        b"key",
        b"value",
        [("h", b"1"), ("n", None)],
        1234,
    )
    assert (second.key, second.value, second.headers) == (None, None, [])
    assert abs(second.timestamp - time.time() * 1000) < 60_000
    assert (third.key, third.value) == ("ключ".encode(), b"text")


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_compression_arrives(cluster: Cluster, topic: str, codec: str) -> None:
    sent = [b"%06d" % n * 10 for n in range(2000)]
    with KafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers, compression_type=codec, linger_ms=60_000
    ) as producer:
        for value in sent:  # a batch leaves when it is full, the last one at close
            producer.send(topic, value)

    assert values(cluster, topic) == sent
    codes = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
    batches = read_batches(cluster, topic)
    assert {batch.attributes & 7 for batch in batches} == {codes[codec]}
    assert len(batches) < 40


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_every_kind_of_acknowledgement(cluster: Cluster, topic: str, acks: object) -> None:
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, acks=acks) as producer:
        futures = [producer.send(topic, b"%d" % n) for n in range(100)]
        offsets = [future.get(60).offset for future in futures]
        with cluster.raw() as client:
            deadline = time.monotonic() + 60
            while end_offset(client, topic) < 100 and time.monotonic() < deadline:
                continue

    assert offsets == ([-1] * 100 if acks == 0 else list(range(100)))
    assert values(cluster, topic) == [b"%d" % n for n in range(100)]


def test_keys_go_to_the_partitions_that_java_chooses(cluster: Cluster, make_topic: Callable[..., str]) -> None:
    topic = make_topic(5)
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for n in range(200):
            producer.send(topic, b"v", b"key-%d" % n)
        assert producer.partitions_for(topic) == set(range(5))

    for partition in range(5):
        for record in read_partition(cluster, topic, partition):
            assert record.key is not None
            assert partition_for_key(record.key, 5) == partition


def test_order_is_kept_through_lost_connections_and_errors(
    cluster: Cluster, make_topic: Callable[..., str], proxy: KafkaProxy
) -> None:
    topic = make_topic(2)
    proxy.cut(ApiKey.PRODUCE, direction="response", count=2)
    proxy.fail(ApiKey.PRODUCE, error_code=6, count=2)
    with KafkaProducer(
        bootstrap_servers=proxy.bootstrap_servers, batch_size=500, linger_ms=0, retry_backoff_ms=20
    ) as producer:
        futures = [producer.send(topic, b"%05d" % n, partition=n % 2) for n in range(600)]
        producer.flush(timeout_ms=60_000)

    assert all(future.succeeded() for future in futures)
    for partition in (0, 1):
        # idempotence: what arrived before the connection was cut is not there twice
        assert values(cluster, topic, partition) == [b"%05d" % n for n in range(partition, 600, 2)]


def test_batches_carry_producer_id_and_sequence(cluster: Cluster, topic: str) -> None:
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, batch_size=0) as producer:
        for n in range(5):
            producer.send(topic, b"%d" % n)

    batches = read_batches(cluster, topic)
    assert [batch.base_sequence for batch in batches] == list(range(5))
    assert len({batch.producer_id for batch in batches}) == 1
    assert batches[0].producer_id >= 0


def test_without_idempotence_batches_carry_no_producer_id(cluster: Cluster, topic: str) -> None:
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, enable_idempotence=False) as producer:
        producer.send(topic, b"x").get(60)

    assert read_batches(cluster, topic)[0].producer_id == -1


def test_a_broker_that_lost_the_sequence_gets_a_new_epoch(cluster: Cluster, topic: str, proxy: KafkaProxy) -> None:
    proxy.fail(ApiKey.PRODUCE, error_code=45, count=1)  # the answer says OUT_OF_ORDER_SEQUENCE, the batch was written
    with KafkaProducer(bootstrap_servers=proxy.bootstrap_servers, retry_backoff_ms=10) as producer:
        producer.send(topic, b"a").get(60)
        producer.send(topic, b"b").get(60)

    batches = read_batches(cluster, topic)
    assert len({(batch.producer_id, batch.producer_epoch) for batch in batches}) == 2
    assert values(cluster, topic)[-1] == b"b"


def test_a_batch_that_is_too_large_for_the_broker_is_split(cluster: Cluster, make_topic: Callable[..., str]) -> None:
    topic = make_topic(config={"max.message.bytes": 2000})
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, batch_size=50_000, linger_ms=200) as producer:
        futures = [producer.send(topic, b"%04d" % n * 25) for n in range(100)]
        producer.flush(timeout_ms=30_000)

    assert [future.get(0).offset for future in futures] == list(range(100))
    assert values(cluster, topic) == [b"%04d" % n * 25 for n in range(100)]


def test_a_record_that_is_too_large_for_the_broker_fails_alone(
    cluster: Cluster, make_topic: Callable[..., str]
) -> None:
    topic = make_topic(config={"max.message.bytes": 2000})
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=100, batch_size=50_000) as producer:
        small = producer.send(topic, b"small")
        large = producer.send(topic, bytes(5000))
        after = producer.send(topic, b"after")
        with pytest.raises(MessageTooLargeError):
            large.get(60)
        assert small.get(60).offset == 0
        assert after.get(60).offset == 1

    assert values(cluster, topic) == [b"small", b"after"]


def test_a_refused_record_costs_no_new_producer_id(cluster: Cluster, make_topic: Callable[..., str]) -> None:
    topic = make_topic(config={"max.message.bytes": 2000})
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, batch_size=0) as producer:
        producer.send(topic, b"before").get(60)
        with pytest.raises(MessageTooLargeError):
            producer.send(topic, bytes(5000)).get(60)
        producer.send(topic, b"after").get(60)

    before, after = read_batches(cluster, topic)
    assert (before.producer_id, before.base_sequence) == (after.producer_id, after.base_sequence - 1)


def test_linger_collects_records_into_one_batch(cluster: Cluster, topic: str) -> None:
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=60_000) as producer:
        producer.send(topic, b"warm up")
        producer.flush(timeout_ms=60_000)
        for n in range(50):
            producer.send(topic, b"%d" % n)

    assert [batch.record_count for batch in read_batches(cluster, topic)] == [1, 50]


def test_flush_ends_the_waiting(cluster: Cluster, topic: str) -> None:
    with KafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers, linger_ms=50_000, delivery_timeout_ms=120_000
    ) as producer:
        futures = [producer.send(topic, b"%d" % n) for n in range(10)]
        assert not any(future.is_done for future in futures)
        producer.flush(timeout_ms=20_000)
        assert all(future.succeeded() for future in futures)


def test_callbacks_come_in_order_from_the_sender_thread(cluster: Cluster, topic: str) -> None:
    seen: list[tuple[int, str]] = []
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=60_000) as producer:
        for n in range(100):
            producer.send(topic, b"%d" % n).add_callback(
                lambda metadata: seen.append((metadata.offset, threading.current_thread().name))
            )

    assert [offset for offset, _ in seen] == list(range(100))
    assert all(name.startswith("pyconsumer-sender") for _, name in seen)


def test_serializers_and_their_failures(cluster: Cluster, topic: str) -> None:
    class Upper:
        def serialize(self, topic: str, headers: object, data: str) -> bytes:
            return f"{topic}:{data.upper()}".encode()

    with KafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers, key_serializer=Upper(), value_serializer=lambda v: v.encode()
    ) as producer:
        producer.send(topic, "v", "k").get(60)
        with pytest.raises(SerializationError, match="value_serializer raised for topic"):
            producer.send(topic, 5, "k")
    record = read_partition(cluster, topic)[0]
    assert (record.key, record.value) == (f"{topic}:K".encode(), b"v")


def test_interceptors_see_and_change_records(cluster: Cluster, topic: str) -> None:
    acknowledged: list[tuple[int, object]] = []

    class Stamp:
        def on_send(self, topic, key, value, headers, partition, timestamp_ms):  # type: ignore[no-untyped-def]
            return topic, key, value + b"!", [("stamp", b"1")], partition, timestamp_ms

        def on_acknowledgement(self, metadata: RecordMetadata, error: object) -> None:
            acknowledged.append((metadata.offset, error))

    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, interceptors=[Stamp()]) as producer:
        producer.send(topic, b"v").get(60)

    record = read_partition(cluster, topic)[0]
    assert (record.value, record.headers) == (b"v!", [("stamp", b"1")])
    assert acknowledged == [(0, None)]


def test_log_append_time_is_returned(cluster: Cluster, make_topic: Callable[..., str]) -> None:
    topic = make_topic(config={"message.timestamp.type": "LogAppendTime"})
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        metadata = producer.send(topic, b"v", timestamp_ms=5).get(60)

    assert abs(metadata.timestamp - time.time() * 1000) < 60_000


@pytest.mark.blocking_only("only tasks of one loop may share the producer for asyncio")
def test_several_threads_share_a_producer(cluster: Cluster, make_topic: Callable[..., str]) -> None:
    topic = make_topic(3)
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, buffer_memory=20_000) as producer:

        def send(thread: int) -> None:
            for n in range(500):
                producer.send(topic, b"%d-%05d" % (thread, n), partition=thread)

        threads = [threading.Thread(target=send, args=(n,)) for n in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    for partition in range(3):
        assert values(cluster, topic, partition) == [b"%d-%05d" % (partition, n) for n in range(500)]


def test_a_topic_that_is_missing_fails_within_max_block_ms(cluster: Cluster, topic: str) -> None:
    with (
        KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, max_block_ms=1500) as producer,
        pytest.raises((KafkaTimeoutError, KafkaError), match="bad topic name"),
    ):
        producer.send("bad topic name", b"x")
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        with pytest.raises(ValueError, match="partitions 0 to 0, not 7"):
            producer.send(topic, b"x", partition=7)
        producer.send(topic, b"x").get(60)


def test_too_large_records_and_wrong_settings_raise_at_once() -> None:
    with pytest.raises(ConfigurationError, match="batch_size"):
        KafkaProducer(bootstrap_servers="localhost:1", batchsize=5)
    with pytest.raises(ConfigurationError, match="acks"):
        KafkaProducer(bootstrap_servers="localhost:1", acks=1, enable_idempotence=True)
    with pytest.raises(ConfigurationError, match="delivery_timeout_ms"):
        KafkaProducer(bootstrap_servers="localhost:1", delivery_timeout_ms=10)
    for wrong in (
        {"acks": 1},
        {"retries": 0},
        {"max_in_flight_requests_per_connection": 6},
        {"enable_idempotence": False},
    ):
        with pytest.raises(ConfigurationError, match=f"transactional_id needs.*{next(iter(wrong))}|acks='all'"):
            KafkaProducer(bootstrap_servers="localhost:1", transactional_id="t", **wrong)
    with pytest.raises(ConfigurationError, match="transactional_id"):
        KafkaProducer(bootstrap_servers="localhost:1", transactional_id="")
    producer = KafkaProducer(bootstrap_servers="localhost:1", max_request_size=1000)
    with pytest.raises(RecordTooLargeError, match="more than max_request_size"):
        producer.send("t", bytes(1000))
    producer.close(timeout_ms=0)
    with pytest.raises(IllegalStateError, match="closed"):
        producer.send("t", b"x")


def deliver(producer: KafkaProducer, topic: str) -> None:
    """Send until a record arrives: its timeouts, short for the sake of the test, may be over on a busy machine."""

    def arrives() -> bool:
        try:
            producer.send(topic, b"x").get(60)
        except KafkaTimeoutError:
            return False
        return True

    wait_until(arrives, 60, "a record that arrives")


@pytest.mark.concurrent
def test_deadlines_hold_with_every_broker_dead(dead_address: str) -> None:
    started = time.monotonic()
    producer = KafkaProducer(bootstrap_servers=dead_address, max_block_ms=400)
    with pytest.raises(KafkaTimeoutError, match=r"within max_block_ms.*TCP"):
        producer.send("t", b"x")
    producer.flush(timeout_ms=100)
    producer.close(timeout_ms=500)

    assert time.monotonic() - started < 30


@pytest.mark.concurrent
@pytest.mark.embedded_only("the broker is killed")
@pytest.mark.slow
def test_records_fail_by_their_delivery_timeout_when_the_broker_dies(
    cluster_kind: str, new_cluster: Callable[..., Cluster]
) -> None:
    cluster = new_cluster(cluster_kind)
    topic = cluster.create_topic("t")
    producer = KafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers,
        delivery_timeout_ms=6000,
        request_timeout_ms=2000,
        linger_ms=0,
        buffer_memory=5000,
        max_block_ms=2000,
    )
    deliver(producer, topic)
    cluster.stop()
    futures = [producer.send(topic, bytes(1000)) for _ in range(4)]
    with pytest.raises(BufferExhaustedError, match="no room for"):
        producer.send(topic, bytes(1000))
    for future in futures:
        with pytest.raises(KafkaTimeoutError, match="delivery_timeout_ms"):
            future.get(60)
    producer.close(timeout_ms=1000)


@pytest.mark.concurrent
def test_close_with_a_timeout_drops_the_remaining_records(cluster: Cluster, topic: str, proxy: KafkaProxy) -> None:
    producer = KafkaProducer(bootstrap_servers=proxy.bootstrap_servers)
    producer.send(topic, b"x").get(60)
    proxy.hold(ApiKey.PRODUCE)
    future = producer.send(topic, b"y")
    started = time.monotonic()
    with pytest.raises(KafkaTimeoutError, match=rf"within 300 ms: 1 record for {topic} dropped"):
        producer.close(timeout_ms=300)

    assert time.monotonic() - started < 25, "not the 30 s of a request"
    with pytest.raises(RequestCancelledError, match="closed before"):
        future.get(60)


def test_a_close_that_drops_records_says_how_many(
    topic: str, cluster: Cluster, proxy: KafkaProxy, caplog: pytest.LogCaptureFixture
) -> None:
    producer = KafkaProducer(bootstrap_servers=proxy.bootstrap_servers, linger_ms=60_000)
    producer.partitions_for(topic)
    for _ in range(3):
        producer.send(topic, b"x")
    proxy.hold(ApiKey.PRODUCE)  # close begins to send them, and on a busy machine they might arrive
    producer.close(timeout_ms=0)
    (message,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert f"closed: 3 records for {topic} dropped" in message


@pytest.mark.parametrize("call", ["flush", "close"])
def test_times_are_given_by_name(call: str) -> None:
    producer = KafkaProducer(bootstrap_servers="localhost:1")
    with pytest.raises(TypeError, match=rf"{call}\(timeout_ms=5000\) means 5 s, and {call}\(timeout_ms=5\) means 5 ms"):
        getattr(producer, call)(5)
    with pytest.raises(TypeError, match="takes its time by name"):
        getattr(producer, call)(True)
    for wrong in (True, "5"):
        with pytest.raises(TypeError, match=rf"the timeout_ms of {call}\(\) must be a number of milliseconds"):
            getattr(producer, call)(timeout_ms=wrong)
    with pytest.raises(ValueError, match="must not be negative: -1"):
        getattr(producer, call)(timeout_ms=-1)
    producer.close(timeout_ms=0)


def test_metrics_count(cluster: Cluster, topic: str) -> None:
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for _ in range(3):
            producer.send(topic, b"x").get(60)
        metrics = producer.metrics()["producer-metrics"]

    assert metrics["record-send-total"] == 3
    assert metrics["batch-send-total"] == 3
    assert metrics["record-error-total"] == 0
    assert metrics["buffer-available-bytes"] == metrics["buffer-total-bytes"]


@pytest.mark.blocking_only("a callback runs in the producer's thread, which is not the loop's")
def test_a_callback_may_send_and_close_but_not_wait(cluster: Cluster, topic: str) -> None:
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=0)
    raised: list[BaseException] = []
    done = threading.Event()

    def attempt(call: Callable[[], object]) -> None:
        try:
            call()
        except KafkaError as error:
            raised.append(error)

    def callback(metadata: RecordMetadata) -> None:
        attempt(producer.flush)
        attempt(lambda: producer.send("never-seen-before", b"x"))
        attempt(lambda: producer.send(topic, b"from a callback").get())
        producer.close()
        done.set()

    producer.send(topic, b"x").add_callback(callback)
    assert done.wait(60)
    producer.close()

    assert [type(error) for error in raised] == [IllegalStateError, KafkaTimeoutError, IllegalStateError]


@pytest.mark.concurrent
@pytest.mark.blocking_only("an event loop does not survive a fork")
def test_after_a_fork_the_child_cannot_use_the_producer_and_the_parent_continues(cluster: Cluster, topic: str) -> None:
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        producer.send(topic, b"1").get(60)
        child = os.fork()
        if not child:
            status = 1
            try:
                producer.send(topic, b"child")
            except IllegalStateError:
                producer.close()
                status = 0
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        producer.send(topic, b"2").get(60)

    assert values(cluster, topic) == [b"1", b"2"]


@pytest.mark.parametrize("protocol", ["SSL", "SASL_PLAINTEXT", "SASL_SSL"])
def test_encrypted_and_authenticated(cluster: Cluster, topic: str, protocol: str) -> None:
    with KafkaProducer(**secured(cluster, protocol)) as producer:
        assert producer.send(topic, b"x" * 100_000).get(60).offset == 0

    assert values(cluster, topic) == [b"x" * 100_000]


def secured(cluster: Cluster, protocol: str, **changes: Any) -> dict[str, Any]:
    """Settings of a client for a listener."""
    options: dict[str, Any] = {"bootstrap_servers": cluster.address(protocol), "security_protocol": protocol}
    if "SSL" in protocol:
        options["ssl_cafile"] = str(cluster.certificates.ca_pem)
    if "SASL" in protocol:
        options |= {
            "sasl_mechanism": "PLAIN",
            "sasl_plain_username": cluster.credentials.username,
            "sasl_plain_password": cluster.credentials.password,
        }
    return options | changes


def test_a_refused_login_comes_out_of_send_at_once(cluster: Cluster, topic: str) -> None:
    started = time.monotonic()
    with KafkaProducer(**secured(cluster, "SASL_PLAINTEXT", sasl_plain_password="wrong")) as producer:
        with pytest.raises(AuthenticationError, match=r"SASL with .* failed"):
            producer.send(topic, b"x")
        with pytest.raises(AuthenticationError):
            producer.partitions_for(topic)

    assert time.monotonic() - started < 40  # max_block_ms is 60 s


def test_a_wrong_authority_comes_out_of_send_at_once(cluster: Cluster, topic: str) -> None:
    started = time.monotonic()
    stranger = str(cluster.certificates.stranger_ca_pem)
    with (
        KafkaProducer(**secured(cluster, "SSL", ssl_cafile=stranger)) as producer,
        pytest.raises(AuthenticationError, match="certificate"),
    ):
        producer.send(topic, b"x")

    assert time.monotonic() - started < 40


@pytest.mark.concurrent
def test_an_expired_batch_in_flight_does_not_keep_the_sender_busy(
    cluster: Cluster, topic: str, proxy: KafkaProxy
) -> None:
    producer = KafkaProducer(
        bootstrap_servers=proxy.bootstrap_servers,
        delivery_timeout_ms=1500,
        request_timeout_ms=1400,
        linger_ms=0,
        metadata_max_age_ms=300,
    )
    deliver(producer, topic)
    hold = proxy.hold(ApiKey.PRODUCE)
    with pytest.raises(KafkaTimeoutError, match="delivery_timeout_ms"):
        producer.send(topic, b"y").get(60)
    assert turns_until_newer_metadata(producer, proxy) < 20
    hold.release()
    deliver(producer, topic)
    producer.close()


@pytest.mark.concurrent
def test_an_idle_producer_sleeps(cluster: Cluster, topic: str, proxy: KafkaProxy) -> None:
    with KafkaProducer(bootstrap_servers=proxy.bootstrap_servers, metadata_max_age_ms=300) as producer:
        producer.send(topic, b"x").get(60)
        assert turns_until_newer_metadata(producer, proxy) < 20


def turns_until_newer_metadata(producer: KafkaProducer, proxy: KafkaProxy) -> int:
    """Return how often the sender looks around until metadata have come twice, which takes at least their age."""
    seen, turns = len(proxy.events(ApiKey.METADATA, "response")), producer._delegate.sender.turns
    proxy.wait(lambda: len(proxy.events(ApiKey.METADATA, "response")) >= seen + 2, 60, "metadata, twice")
    return producer._delegate.sender.turns - turns


@pytest.mark.cluster
def test_records_without_a_key_go_to_leaders_in_the_rack_of_the_producer(nodes: Cluster, topic_name: str) -> None:
    """KIP-1123. The proxy says that each broker has a rack of its own."""
    nodes.create_topic(topic_name, 6)

    def set_racks(message: Any) -> None:
        for broker in message.brokers:
            broker.rack = f"rack-{broker.node_id}"

    with KafkaProxy(nodes.bootstrap_servers) as proxy:
        proxy.edit(ApiKey.METADATA, set_racks)
        near = {"client_rack": f"rack-{nodes.node_ids[1]}", "partitioner_rack_aware": True}
        with KafkaProducer(bootstrap_servers=proxy.bootstrap_servers, batch_size=100, **near) as producer:
            sent = [producer.send(topic_name, b"x" * 60) for _ in range(60)]
            used = {future.get(60).partition for future in sent}
            keyed = {producer.send(topic_name, b"x", str(number)).get(60).partition for number in range(60)}
    with nodes.raw() as client:
        found = client.request(MetadataRequest(topics=[MetadataRequestTopic(name=topic_name)])).topics[0]
    led = {one.partition_index for one in found.partitions if one.leader_id == nodes.node_ids[1]}
    assert used == led
    assert keyed == set(range(6)), "keys decide as ever"
