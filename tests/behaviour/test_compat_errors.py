"""Errors as a program for kafka-python or aiokafka sees them: the same programs run with both packages."""

from __future__ import annotations

import asyncio
import importlib
import pickle
from collections.abc import Awaitable, Callable
from types import ModuleType
from typing import Any

import pytest

from pyconsumer import errors as ours
from tests.behaviour.consumer_support import fill
from tests.support.cluster import Cluster

WITHIN_S = 60


class OwnError(Exception):
    """Raised by the program's own serializers and deserializers."""


def own(*given: Any) -> Any:
    raise OwnError("the program's own")


def own_at_two(data: bytes | None) -> Any:
    if data == b"2":
        raise OwnError("the program's own")
    return data


@pytest.fixture(params=["kafka", "pyconsumer.compat.kafka"])
def kafka(request: pytest.FixtureRequest) -> ModuleType:
    """kafka-python, and ours in its place."""
    pytest.importorskip("kafka", reason="needs kafka-python, which pyconsumer[peers] installs")
    importlib.import_module(f"{request.param}.admin")
    return importlib.import_module(request.param)


@pytest.fixture(params=["aiokafka", "pyconsumer.compat.aiokafka"])
def aiokafka(request: pytest.FixtureRequest) -> ModuleType:
    """aiokafka, and ours in its place."""
    pytest.importorskip("aiokafka", reason="needs aiokafka, which pyconsumer[peers] installs")
    return importlib.import_module(request.param)


def check(package: ModuleType, error: BaseException | None, name: str, *, of_ours: type[Exception] | None) -> Any:
    """Check that an error is that of the package by its name, and one of ours if the package is ours."""
    cls = getattr(package.errors, name)
    assert type(error).__name__ == name
    assert isinstance(error, cls), repr(error)
    if "pyconsumer" in package.__name__ and of_ours is not None:
        assert isinstance(error, of_ours)
        assert type(pickle.loads(pickle.dumps(error))) is type(error)
    return error


def raised(call: Callable[[], Any]) -> Exception:
    try:
        found = call()
    except Exception as error:
        return error
    pytest.fail(f"it returned {found!r}")


async def awaited(coroutine: Awaitable[Any]) -> Exception:
    try:
        async with asyncio.timeout(WITHIN_S):
            found = await coroutine
    except TimeoutError:
        raise
    except Exception as error:
        return error
    pytest.fail(f"it returned {found!r}")


# -- kafka-python ----------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_serializer_of_the_program(kafka: ModuleType, cluster: Cluster, topic: str) -> None:
    for setting in ("key_serializer", "value_serializer"):
        producer = kafka.KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, **{setting: own})
        with pytest.raises(OwnError, match="the program's own") as caught:
            producer.send(topic, key=b"k", value=b"v")
        assert type(caught.value) is OwnError
        producer.close()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_deserializer_of_the_program(kafka: ModuleType, cluster: Cluster, topic: str) -> None:
    fill(cluster, topic, 5)
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=cluster.bootstrap_servers, value_deserializer=own_at_two, auto_offset_reset="earliest"
    )
    tp = kafka.TopicPartition(topic, 0)
    consumer.assign([tp])
    found: list[int] = []
    with pytest.raises(OwnError) as caught:  # noqa: PT012 - one of several polls
        while True:
            for records in consumer.poll(timeout_ms=1000).values():
                found += [record.offset for record in records]
    assert found == [0, 1]
    assert type(caught.value) is OwnError
    assert consumer.position(tp) == 2
    if "pyconsumer" in kafka.__name__:  # kafka-python cannot get past the record, by a seek neither
        with pytest.raises(OwnError):
            consumer.poll(timeout_ms=1000)
        consumer.seek(tp, 3)
        while len(found) < 4:
            for records in consumer.poll(timeout_ms=1000).values():
                found += [record.offset for record in records]
        assert found == [0, 1, 3, 4]
    consumer.close()


def test_errors_of_a_producer(kafka: ModuleType, cluster: Cluster, topic: str) -> None:
    producer = kafka.KafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers, max_block_ms=30_000, max_request_size=5_000_000, retries=0
    )
    too_large = check(
        kafka,
        raised(lambda: producer.send(topic, b"x" * 6_000_000)),
        "MessageSizeTooLargeError",
        of_ours=ours.RecordTooLargeError,
    )
    assert too_large.errno == 10
    given: list[Any] = []
    future = producer.send(topic, b"x" * 2_000_000).add_errback(given.append)
    error = raised(lambda: future.get(timeout=30))
    check(kafka, error, "MessageSizeTooLargeError", of_ours=ours.MessageTooLargeError)
    assert future.failed()
    assert not future.retriable()
    assert future.exception == error
    assert given == [error]
    check(kafka, raised(producer.begin_transaction), "IllegalStateError", of_ours=ours.IllegalStateError)
    producer.close()
    check(kafka, raised(lambda: producer.send(topic, b"x")), "IllegalStateError", of_ours=ours.IllegalStateError)


def test_a_record_without_a_result_in_time(kafka: ModuleType, cluster: Cluster, topic: str) -> None:
    producer = kafka.KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=60_000)
    future = producer.send(topic, b"x")
    error = check(kafka, raised(lambda: future.get(timeout=0.01)), "KafkaTimeoutError", of_ours=ours.KafkaTimeoutError)
    assert isinstance(error, kafka.errors.RetriableError)
    producer.flush()
    assert future.get(timeout=1).offset == 0
    producer.close()


def test_errors_of_a_consumer(kafka: ModuleType, cluster: Cluster, topic: str, group_id: str) -> None:
    fill(cluster, topic, 3)
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="none", request_timeout_ms=5_000
    )
    tp = kafka.TopicPartition(topic, 0)
    check(kafka, raised(consumer.commit), "IllegalStateError", of_ours=ours.InvalidGroupIdError)
    consumer.assign([tp])
    check(kafka, raised(lambda: consumer.subscribe([topic])), "IllegalStateError", of_ours=ours.IllegalStateError)

    def poll() -> None:
        while not consumer.poll(timeout_ms=500):
            pass

    error = check(kafka, raised(poll), "NoOffsetForPartitionError", of_ours=ours.NoOffsetForPartitionError)
    assert error.args == ({tp},)
    consumer.seek(tp, 100)
    error = check(kafka, raised(poll), "OffsetOutOfRangeError", of_ours=ours.OffsetsOutOfRangeError)
    assert (error.errno, error.args) == (1, ({tp: 100},))
    consumer.close()
    check(kafka, raised(consumer.poll), "IllegalStateError", of_ours=ours.IllegalStateError)


def test_a_failed_commit(kafka: ModuleType, cluster: Cluster, topic: str, group_id: str) -> None:
    fill(cluster, topic, 3)
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=cluster.bootstrap_servers, group_id=group_id, enable_auto_commit=False
    )
    tp = kafka.TopicPartition(topic, 0)
    consumer.assign([tp])
    given: list[Any] = []
    value = kafka.OffsetAndMetadata(1, "x" * 10_000, -1)
    error = raised(lambda: consumer.commit({tp: value}))
    check(kafka, error, "OffsetMetadataTooLargeError", of_ours=ours.OffsetMetadataTooLargeError)
    if "pyconsumer" in kafka.__name__:
        future = consumer.commit_async({tp: value}, callback=lambda offsets, outcome: given.append(outcome))
        while not given:
            consumer.poll(timeout_ms=100)
        for error in (given[0], future.exception, raised(future.result)):
            check(kafka, error, "OffsetMetadataTooLargeError", of_ours=ours.OffsetMetadataTooLargeError)
    consumer.close()


def test_a_listener_of_the_program(kafka: ModuleType, cluster: Cluster, topic: str, group_id: str) -> None:
    class Listener(kafka.ConsumerRebalanceListener):  # type: ignore[name-defined,misc]
        def on_partitions_revoked(self, revoked: Any) -> None:
            pass

        def on_partitions_assigned(self, assigned: Any) -> None:
            if assigned:
                own()

    consumer = kafka.KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers, group_id=group_id)
    consumer.subscribe([topic], listener=Listener())

    def poll() -> None:
        while True:
            consumer.poll(timeout_ms=500)

    error = raised(poll)
    if "pyconsumer" in kafka.__name__:
        assert type(error) is OwnError
    else:
        assert type(error) is kafka.errors.KafkaError
        assert type(error.__cause__) is OwnError
    consumer.close()


def test_errors_of_the_admin_client(kafka: ModuleType, cluster: Cluster, topic: str, group_id: str) -> None:
    admin = kafka.KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)
    new = importlib.import_module(f"{kafka.__name__}.admin").NewTopic(topic, 1, 1)
    error = raised(lambda: admin.create_topics([new]))
    check(kafka, error, "TopicAlreadyExistsError", of_ours=ours.TopicAlreadyExistsError)
    assert str(error).startswith("[Error 36] TopicAlreadyExistsError: ")
    error = raised(lambda: admin.delete_topics([f"{topic}-missing"]))
    check(kafka, error, "UnknownTopicOrPartitionError", of_ours=ours.UnknownTopicOrPartitionError)
    tp = kafka.TopicPartition(topic, 0)
    offsets = {tp: kafka.OffsetAndMetadata(0, "", -1)}
    assert admin.alter_group_offsets(group_id, offsets) == {tp: kafka.errors.NoError}
    outcome = admin.alter_group_offsets(group_id, {tp: kafka.OffsetAndMetadata(0, "x" * 10_000, -1)})
    assert outcome == {tp: kafka.errors.OffsetMetadataTooLargeError}
    assert set(admin.delete_groups([f"{group_id}-missing"]).values()) == {"GroupIdNotFoundError"}
    admin.close()


# -- aiokafka --------------------------------------------------------------------------------------------------------


@pytest.mark.asyncio
async def test_serializers_in_aiokafka(aiokafka: ModuleType, cluster: Cluster, topic: str) -> None:
    producer = aiokafka.AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers, value_serializer=own)
    async with producer:
        for call in (producer.send, producer.send_and_wait):
            assert type(await awaited(call(topic, b"v"))) is OwnError
        batch = producer.create_batch()
        assert type(raised(lambda: batch.append(key=None, value=b"v", timestamp=None))) is OwnError


@pytest.mark.asyncio
async def test_deserializers_in_aiokafka(aiokafka: ModuleType, cluster: Cluster, topic: str) -> None:
    fill(cluster, topic, 5)
    tp = aiokafka.TopicPartition(topic, 0)
    consumer = aiokafka.AIOKafkaConsumer(
        bootstrap_servers=cluster.bootstrap_servers, value_deserializer=own_at_two, auto_offset_reset="earliest"
    )
    consumer.assign([tp])
    async with consumer:
        assert [(await consumer.getone()).offset for _ in range(2)] == [0, 1]
        assert type(await awaited(consumer.getone())) is OwnError
        assert await consumer.position(tp) == 2
        consumer.seek(tp, 3)
        assert (await consumer.getone()).offset == 3
        consumer.seek(tp, 2)
        assert type(await awaited(consumer.getmany(timeout_ms=5_000))) is OwnError
        consumer.seek(tp, 2)
        assert type(await awaited(anext(aiter(consumer)))) is OwnError


@pytest.mark.asyncio
async def test_errors_of_aiokafkas_consumer(aiokafka: ModuleType, cluster: Cluster, topic: str, group_id: str) -> None:
    fill(cluster, topic, 3)
    tp = aiokafka.TopicPartition(topic, 0)
    consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="none")
    consumer.assign([tp])
    await consumer.start()
    error = check(aiokafka, await awaited(consumer.commit()), "IllegalOperation", of_ours=ours.InvalidGroupIdError)
    assert not isinstance(error, aiokafka.errors.KafkaError)
    error = await awaited(consumer.committed(tp))
    check(aiokafka, error, "IllegalOperation", of_ours=ours.InvalidGroupIdError)
    error = await awaited(consumer.getone())
    check(aiokafka, error, "NoOffsetForPartitionError", of_ours=ours.NoOffsetForPartitionError)
    assert error.args == (tp,)
    consumer.seek(tp, 100)
    error = check(
        aiokafka, await awaited(consumer.getone()), "OffsetOutOfRangeError", of_ours=ours.OffsetsOutOfRangeError
    )
    assert error.args == ({tp: 100},)
    await consumer.seek_to_beginning(*error.args[0])
    assert (await consumer.getone()).offset == 0
    error = raised(lambda: consumer.highwater(aiokafka.TopicPartition(topic, 7)))
    assert isinstance(error, (AssertionError, aiokafka.errors.IllegalStateError))
    await consumer.seek_to_end(tp)
    waiting = asyncio.ensure_future(consumer.getone())
    await asyncio.sleep(0)
    await consumer.stop()
    for call in (waiting, consumer.getone(), consumer.getmany()):
        stopped = check(aiokafka, await awaited(call), "ConsumerStoppedError", of_ours=ours.IllegalStateError)
        assert not isinstance(stopped, aiokafka.errors.KafkaError)


@pytest.mark.asyncio
@pytest.mark.parametrize("in_a_group", [False, True])
async def test_a_read_of_some_partitions_raises_no_error_of_another_one(
    aiokafka: ModuleType, cluster: Cluster, make_topic: Any, group_id: str, in_a_group: bool
) -> None:
    """Of four partitions one has no offset to begin at, one is out of range, one has a record that fails."""
    topic = make_topic(4)
    unset, beyond, wrong, good = tps = [aiokafka.TopicPartition(topic, number) for number in range(4)]
    for number in range(4):
        fill(cluster, topic, 5, partition=number)
    consumer = aiokafka.AIOKafkaConsumer(
        bootstrap_servers=cluster.bootstrap_servers,
        auto_offset_reset="none",
        value_deserializer=own_at_two,
        group_id=group_id if in_a_group else None,
        enable_auto_commit=False,
    )
    consumer.assign(tps)
    async with consumer:
        consumer.seek(beyond, 100)
        consumer.seek(wrong, 2)
        consumer.seek(good, 3)
        async with asyncio.timeout(WITHIN_S):
            assert (await consumer.getone(good)).offset == 3
            assert await consumer.position(good) == 4
            assert [record.offset for record in (await consumer.getmany(good, timeout_ms=30_000))[good]] == [4]
            assert await consumer.getmany(good, timeout_ms=200) == {}
            assert consumer.paused() == frozenset()
            await consumer.seek_to_end(good)
            assert await consumer.position(good) == 5
            consumer.seek(wrong, 3)
            assert {(await consumer.getone(good, wrong)).offset for _ in range(2)} == {3, 4}
        error = check(aiokafka, await awaited(consumer.getone(beyond, good)), "OffsetOutOfRangeError", of_ours=None)
        assert error.args == ({beyond: 100},)
        error = check(aiokafka, await awaited(consumer.getone(unset)), "NoOffsetForPartitionError", of_ours=None)
        assert error.args == (unset,)
        error = await awaited(consumer.getmany(unset, timeout_ms=30_000))
        check(aiokafka, error, "NoOffsetForPartitionError", of_ours=None)
        consumer.seek(unset, 0)
        consumer.seek(wrong, 2)
        assert (await consumer.getone(unset)).offset == 0
        assert type(await awaited(consumer.getone(wrong))) is OwnError


@pytest.mark.asyncio
async def test_a_pause_during_a_read_of_some_partitions_stays(
    aiokafka: ModuleType, cluster: Cluster, make_topic: Any
) -> None:
    topic = make_topic(2)
    first, second = tps = [aiokafka.TopicPartition(topic, number) for number in (0, 1)]
    fill(cluster, topic, 1, partition=1)
    consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest")
    consumer.assign(tps)
    async with consumer, asyncio.timeout(WITHIN_S):
        reading = asyncio.ensure_future(consumer.getone(first))
        await asyncio.sleep(0.1)
        assert consumer.paused() == frozenset()
        consumer.pause(second)
        fill(cluster, topic, 1, partition=0)
        assert (await reading).partition == 0
        assert consumer.paused() == {second}
        assert await consumer.getmany(timeout_ms=200) == {}
        consumer.resume(second)
        assert (await consumer.getone()).partition == 1


@pytest.mark.asyncio
async def test_errors_of_aiokafkas_producer(aiokafka: ModuleType, cluster: Cluster, topic: str) -> None:
    producer = aiokafka.AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers, max_request_size=5_000_000)
    await producer.start()
    error = await awaited(producer.send(topic, b"x" * 6_000_000))
    check(aiokafka, error, "MessageSizeTooLargeError", of_ours=ours.RecordTooLargeError)
    future = await producer.send(topic, b"x" * 2_000_000)
    error = await awaited(future)
    check(aiokafka, error, "MessageSizeTooLargeError", of_ours=ours.MessageTooLargeError)
    assert future.exception() is error
    error = await awaited(producer.send_and_wait(topic, b"x" * 2_000_000))
    check(aiokafka, error, "MessageSizeTooLargeError", of_ours=ours.MessageTooLargeError)
    error = await awaited(producer.begin_transaction())
    check(aiokafka, error, "IllegalOperation", of_ours=ours.IllegalStateError)
    assert not isinstance(error, aiokafka.errors.KafkaError)
    await producer.stop()
    error = await awaited(producer.send(topic, b"x"))
    check(aiokafka, error, "ProducerClosed", of_ours=ours.IllegalStateError)


@pytest.mark.asyncio
async def test_errors_of_transactions_in_aiokafka(aiokafka: ModuleType, cluster: Cluster, topic: str) -> None:
    settings = {"bootstrap_servers": cluster.bootstrap_servers, "transactional_id": f"{topic}-id"}
    first = aiokafka.AIOKafkaProducer(**settings)
    await first.start()
    error = await awaited(first.send(topic, b"x"))
    check(aiokafka, error, "IllegalOperation", of_ours=ours.IllegalStateError)
    async with first.transaction():
        await first.send_and_wait(topic, b"x")
    second = aiokafka.AIOKafkaProducer(**settings)
    await second.start()

    async def fenced() -> None:
        async with first.transaction():
            await first.send_and_wait(topic, b"y")

    check(aiokafka, await awaited(fenced()), "ProducerFenced", of_ours=ours.KafkaError)
    await second.stop()
    await first.stop()


@pytest.mark.asyncio
async def test_no_broker_in_aiokafka(aiokafka: ModuleType) -> None:
    for make in (aiokafka.AIOKafkaConsumer, aiokafka.AIOKafkaProducer):
        client = make(bootstrap_servers="127.0.0.1:1", request_timeout_ms=1_000)
        error = await awaited(client.start())
        check(aiokafka, error, "KafkaConnectionError", of_ours=ours.KafkaConnectionError)
        await client.stop()
