"""Everyday uses of aiokafka: ``cases_of_aiokafka.py ADDRESS SCENE,SCENE PREFIX`` prints a line for each outcome.

These are the outcomes of eleven programs that found most differences between aiokafka and our layer. The program knows
only aiokafka. Its scenes run at the same time, each with topics of its own. Times are printed as the limit that they
keep, since no two runs are equal.
"""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import json
import logging
import pickle
import sys
import time
import traceback
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any

import aiokafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, ConsumerRecord, TopicPartition
from aiokafka import errors as of_aiokafka
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.structs import OffsetAndMetadata

Scene = Callable[[str, str], Awaitable[None]]
SCENES: dict[str, Scene] = {}
#: A member has started within this time: the broker waits 3 s for others, and the machine may be busy.
START_S = 50.0
#: Another member works on a record for this time.
WORK_S = 40.0
LONG_S = 120.0
CURRENT: ContextVar[str] = ContextVar("the scene of this task")


def scene(function: Scene) -> Scene:
    SCENES[function.__name__] = function
    return function


def show(name: str, value: Any) -> None:
    print(json.dumps([CURRENT.get(), name, value]), flush=True)


def attempt(name: str, call: Callable[[], Any]) -> None:
    """Show the result of a call, or the class and the text of its exception."""
    try:
        show(name, repr(call()))
    except Exception as error:
        show(name, [type(error).__name__, str(error)])


async def filled(address: str, topic: str, *values: bytes) -> None:
    async with AIOKafkaProducer(bootstrap_servers=address) as producer:
        for value in values:
            await producer.send_and_wait(topic, value, headers=[("a", b"b")], timestamp_ms=1_000)


async def started(consumer: AIOKafkaConsumer, name: str) -> None:
    """Start a member, and show that it had joined in good time."""
    began = time.monotonic()
    await consumer.start()
    took = time.monotonic() - began
    show(name, "in good time" if took < START_S else f"after {took:.0f} s")


def member(address: str, prefix: str, *topics: str, **settings: Any) -> AIOKafkaConsumer:
    return AIOKafkaConsumer(
        *topics,
        bootstrap_servers=address,
        group_id=f"{prefix}-g",
        auto_offset_reset="earliest",
        request_timeout_ms=60_000,
        **settings,
    )


async def value_of(consumer: AIOKafkaConsumer) -> str:
    record = await asyncio.wait_for(consumer.getone(), LONG_S)
    return str(record.value.decode())


# -- 01, 02, 08: the end of start() ------------------------------------------------------------------------------------


@scene
async def start_on_a_new_topic(address: str, prefix: str) -> None:
    consumer = member(address, prefix, prefix)
    await started(consumer, "started")
    async with asyncio.timeout(LONG_S):  # if the broker makes the topic late, the member joins without partitions first
        while not consumer.assignment():  # noqa: ASYNC110 - nothing announces it
            await asyncio.sleep(0.1)
    show("assignment", sorted(tp.partition for tp in consumer.assignment()))
    await filled(address, prefix, b"x")
    show("record", await value_of(consumer))
    await consumer.stop()


@scene
async def start_on_an_empty_topic(address: str, prefix: str) -> None:
    class Listener(ConsumerRebalanceListener):
        def on_partitions_revoked(self, revoked: Any) -> None:
            show("revoked", len(revoked))

        def on_partitions_assigned(self, assigned: Any) -> None:
            show("assigned", len(assigned))

    for what in ("with a record", "empty"):
        topic = f"{prefix}-{what.replace(' ', '-')}"
        async with AIOKafkaProducer(bootstrap_servers=address) as producer:
            if what == "empty":
                await producer.partitions_for(topic)
                await asyncio.sleep(1)
            else:
                await producer.send_and_wait(topic, b"x")
        consumer = member(address, topic)
        consumer.subscribe([topic], listener=Listener())
        await started(consumer, what)
        await consumer.stop()


@scene
async def start_without_partitions(address: str, prefix: str) -> None:
    await filled(address, prefix, b"x")
    members = [member(address, prefix, prefix, heartbeat_interval_ms=300) for _ in range(2)]
    await asyncio.gather(*(started(each, "started") for each in members))
    show("partitions", sorted(len(each.assignment()) for each in members))
    for each in members:
        await each.stop()


@scene
async def start_with_a_pattern(address: str, prefix: str) -> None:
    await filled(address, f"{prefix}-a", b"x")
    consumer = member(address, prefix)
    consumer.subscribe(pattern=f"{prefix}.*")
    await started(consumer, "started")
    show("subscription", sorted(consumer.subscription()))
    show("assignment", sorted(consumer.assignment()))
    while not consumer.assignment():  # noqa: ASYNC110 - as programs do
        await asyncio.sleep(0.1)
    show("record", await value_of(consumer))
    await consumer.stop()


# -- 03: records and structures ----------------------------------------------------------------------------------------


@scene
async def records(address: str, prefix: str) -> None:
    async with AIOKafkaProducer(bootstrap_servers=address) as producer:
        await producer.send_and_wait(prefix, b"v", headers=[("a", b"b")], timestamp_ms=1_000)
        future = await producer.send(prefix, b"v2")
        show("future", [asyncio.isfuture(future), type(future).__name__])
        await future
    async with AIOKafkaConsumer(prefix, bootstrap_servers=address, auto_offset_reset="earliest") as consumer:
        record: Any = await asyncio.wait_for(consumer.getone(), LONG_S)
    attempt("set an attribute", lambda: setattr(record, "consumer", 1))
    attempt("the attribute", lambda: record.consumer)
    attempt("asdict", lambda: dataclasses.asdict(record))
    attempt("replace", lambda: dataclasses.replace(record, value=b"z"))
    attempt("vars", lambda: vars(record))
    attempt("copy", lambda: copy.copy(record))
    attempt("pickle", lambda: pickle.loads(pickle.dumps(record)).offset)
    attempt("hash", lambda: hash(record))
    attempt("equal", lambda: record == copy.deepcopy(record))
    attempt("class[...]", lambda: ConsumerRecord[bytes, bytes])
    attempt("subclass", lambda: type("Mine", (ConsumerRecord,), {}).__mro__[1].__name__)
    attempt("fields", lambda: [field.name for field in dataclasses.fields(record)])
    attempt("isinstance", lambda: isinstance(record, ConsumerRecord))
    attempt("headers", lambda: record.headers)
    attempt("positional", lambda: ConsumerRecord("t", 0, 1, 2, 0, b"k", b"v", None, 1, 1, ()))
    attempt(
        "keywords",
        lambda: ConsumerRecord(
            topic="t",
            partition=0,
            offset=1,
            timestamp=2,
            timestamp_type=0,
            key=b"k",
            value=b"v",
            checksum=None,
            serialized_key_size=1,
            serialized_value_size=1,
            headers=(),
        ),
    )
    attempt("set a field", lambda: setattr(record, "value", 1))
    attempt("str of a partition", lambda: str(TopicPartition("t", 1)))
    attempt("f-string of a partition", lambda: f"{TopicPartition('t', 1)}")
    attempt("_asdict of a partition", lambda: TopicPartition("t", 1)._asdict())
    attempt("OffsetAndMetadata", lambda: OffsetAndMetadata(1, ""))


# -- 04: errors --------------------------------------------------------------------------------------------------------


@scene
async def errors(address: str, prefix: str) -> None:
    calls: dict[str, Callable[[AIOKafkaConsumer], Awaitable[Any]]] = {
        "getone": lambda consumer: consumer.getone(),
        "anext": lambda consumer: anext(aiter(consumer)),
        "getmany": lambda consumer: consumer.getmany(timeout_ms=9_000),
    }
    for name, call in calls.items():
        consumer = AIOKafkaConsumer(f"{prefix}-{name}", bootstrap_servers=address)
        await consumer.start()
        task = asyncio.ensure_future(call(consumer))
        await asyncio.sleep(0.5)
        await consumer.stop()
        try:
            show(f"{name} returned", repr(await task))
        except of_aiokafka.KafkaError as error:
            show(f"{name}: except KafkaError", type(error).__name__)
        except of_aiokafka.ConsumerStoppedError as error:
            show(f"{name}: except ConsumerStoppedError", repr(error))
        except Exception as error:
            show(f"{name}: except Exception", repr(error))

    def caught() -> Exception:
        try:
            raise of_aiokafka.KafkaError("x")
        except (of_aiokafka.ProducerFenced, of_aiokafka.IllegalOperation, of_aiokafka.KafkaError) as error:
            return error

    attempt("except (ProducerFenced, X)", caught)
    attempt("ProducerFenced()", lambda: len(of_aiokafka.ProducerFenced().args))
    attempt("text of ProducerFenced", lambda: of_aiokafka.ProducerFenced().args)
    attempt("subclass of IllegalOperation", lambda: type("Mine", (of_aiokafka.IllegalOperation,), {}))
    attempt("for_code(36)", lambda: of_aiokafka.for_code(36)("m"))
    attempt("__version__", lambda: aiokafka.__version__)
    attempt("str(KafkaError)", lambda: str(of_aiokafka.KafkaError("a")))
    attempt("NoBrokersAvailable()", lambda: of_aiokafka.NoBrokersAvailable())  # type: ignore[attr-defined]
    attempt("retriable", lambda: of_aiokafka.RequestTimedOutError().retriable)
    attempt("errno", lambda: of_aiokafka.TopicAlreadyExistsError.errno)


# -- 05: a listener that raises ----------------------------------------------------------------------------------------


@scene
async def listener_that_raises(address: str, prefix: str) -> None:
    class Listener(ConsumerRebalanceListener):
        async def on_partitions_revoked(self, revoked: Any) -> None:
            pass

        async def on_partitions_assigned(self, assigned: Any) -> None:
            raise ValueError("in my listener")

    await filled(address, prefix, b"x")
    consumer = member(address, prefix)
    consumer.subscribe([prefix], listener=Listener())
    await started(consumer, "started")
    show("record", await value_of(consumer))
    await consumer.stop()


# -- 06, 07: settings --------------------------------------------------------------------------------------------------

_OF_PRODUCERS: tuple[dict[str, Any], ...] = (
    {"transactional_id": "PREFIX", "enable_idempotence": False},
    {"transactional_id": "PREFIX", "acks": 1},
    {"enable_idempotence": True, "acks": "all"},
    {"acks": -1},
    {"api_version": "auto"},
    {"max_request_size": 1, "linger_ms": 1.5},
    {"bootstrap_servers": ["ADDRESS"]},
    {"bootstrap_servers": "ADDRESS,127.0.0.1:1"},
    {"sasl_oauth_token_provider": None},
    {
        "compression_type": "zstd",
        "retry_backoff_ms": 10,
        "metadata_max_age_ms": 1000,
        "connections_max_idle_ms": None,
    },
    {"sasl_mechanism": "PLAIN", "sasl_plain_username": None, "sasl_plain_password": None},
    {"ssl_context": None, "security_protocol": "PLAINTEXT"},
)
_OF_CONSUMERS: tuple[dict[str, Any], ...] = (
    {"group_id": "PREFIX", "rebalance_timeout_ms": None},
    {"group_id": None, "enable_auto_commit": True},
    {"session_timeout_ms": 10000, "heartbeat_interval_ms": 3000, "group_id": "PREFIX"},
    {"max_poll_interval_ms": 1000, "group_id": "PREFIX"},
    {"auto_offset_reset": "none"},
    {"request_timeout_ms": 305000},
    {"client_id": None},
    {"group_instance_id": "x", "group_id": "PREFIX"},
    {"client_rack": "r"},
    {"exclude_internal_topics": False},
    {"isolation_level": "read_committed", "fetch_min_bytes": 0},
    {"connections_max_idle_ms": None},
    {"consumer_timeout_ms": 200, "check_crcs": True, "fetch_max_bytes": 1},
    {"sasl_mechanism": "PLAIN", "sasl_plain_username": None, "sasl_plain_password": None},
    {"client_rack": None, "max_poll_records": None},
)


@scene
async def settings(address: str, prefix: str) -> None:
    def given(of_client: dict[str, Any]) -> dict[str, Any]:
        text = json.dumps({"bootstrap_servers": "ADDRESS"} | of_client)
        found: dict[str, Any] = json.loads(text.replace("ADDRESS", address).replace("PREFIX", prefix))
        return found

    for each in _OF_PRODUCERS:
        try:
            producer = AIOKafkaProducer(**given(each))
            await producer.start()
            await producer.stop()
        except Exception as error:
            show(f"producer {each}", [isinstance(error, ValueError), type(error).__name__, str(error)])
        else:
            show(f"producer {each}", "taken")
    for each in _OF_CONSUMERS:
        try:
            consumer = AIOKafkaConsumer(**given(each))
            await consumer.start()
        except Exception as error:
            show(f"consumer {each}", [isinstance(error, ValueError), type(error).__name__, str(error)])
            continue
        show(f"consumer {each}", "taken")
        try:
            await consumer.stop()
        except asyncio.CancelledError:  # of the original's own task
            show(f"stop of consumer {each}", "CancelledError")
        else:
            show(f"stop of consumer {each}", "done")


# -- 09, 12: two members -----------------------------------------------------------------------------------------------


async def _read_while_assigned(consumer: AIOKafkaConsumer, got: list[str]) -> None:
    while True:
        if not consumer.assignment():
            await asyncio.sleep(0.3)
            continue
        for found in (await consumer.getmany(timeout_ms=300)).values():
            got += [record.value.decode() for record in found]


@scene
async def standby(address: str, prefix: str) -> None:
    await filled(address, prefix, b"1")
    got: list[str] = []
    members = [member(address, prefix, prefix, heartbeat_interval_ms=500) for _ in range(2)]
    tasks = []
    for each in members:
        await each.start()
        tasks.append(asyncio.create_task(_read_while_assigned(each, got)))
    async with asyncio.timeout(LONG_S):
        while sorted(len(each.assignment()) for each in members) != [0, 1] or not got:  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.1)
    show("got", sorted(set(got)))
    owner = 0 if members[0].assignment() else 1
    tasks[owner].cancel()
    await asyncio.wait([tasks[owner]])
    await members[owner].stop()
    await filled(address, prefix, b"2")
    async with asyncio.timeout(LONG_S):
        while len(set(got)) < 2:  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.1)
    show("after the owner has left", sorted(set(got)))
    show("assignment", sorted(members[1 - owner].assignment()))
    tasks[1 - owner].cancel()
    await asyncio.wait([tasks[1 - owner]])
    await members[1 - owner].stop()


@scene
async def slow_handler(address: str, prefix: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=address)
    await admin.start()
    await admin.create_topics([NewTopic(prefix, 2, 1)])
    await admin.close()
    async with AIOKafkaProducer(bootstrap_servers=address) as producer:
        for partition in range(2):
            await producer.send_and_wait(prefix, b"1", partition=partition)
            await producer.send_and_wait(prefix, b"2", partition=partition)  # aiokafka may have committed the first
    first, second = member(address, prefix, prefix), member(address, prefix, prefix)
    await first.start()
    await first.getone()
    began = time.monotonic()

    async def work() -> None:
        await asyncio.sleep(WORK_S)
        await first.getmany(timeout_ms=3_000)

    working = asyncio.create_task(work())
    await second.start()
    show("the second member started", "meanwhile" if time.monotonic() - began < WORK_S else "after the work")
    show("partitions", len(second.assignment()))
    await asyncio.wait_for(second.getone(), LONG_S)
    show("the second member read", "meanwhile" if time.monotonic() - began < WORK_S else "after the work")
    await working
    await second.stop()
    await first.stop()


# -- 11: public and internal values ------------------------------------------------------------------------------------


@scene
async def values(address: str, prefix: str) -> None:
    class Counting(AIOKafkaConsumer):
        calls = 0

        async def getone(self, *partitions: TopicPartition) -> Any:
            self.calls += 1
            return await super().getone(*partitions)

    producer: Any = AIOKafkaProducer(bootstrap_servers=address)
    await producer.start()
    await producer.send_and_wait(prefix, b"v", key=b"k")
    consumer: Any = Counting(
        prefix, bootstrap_servers=address, group_id=f"{prefix}-g", client_id="mine", auto_offset_reset="earliest"
    )
    await consumer.start()
    async for _ in consumer:
        break
    show("calls of getone by async for", consumer.calls)
    reads: dict[str, Callable[[], Any]] = {
        "class of producer.client": lambda: type(producer.client).__name__,
        "producer.client._bootstrap_servers": lambda: producer.client._bootstrap_servers,
        "producer.client._client_id": lambda: producer.client._client_id,
        "producer._closed": lambda: producer._closed,
        "producer._sender.sender_task": lambda: producer._sender.sender_task.done(),
        "class of producer._sender.sender_task": lambda: type(producer._sender.sender_task).__name__,
        "producer._key_serializer": lambda: producer._key_serializer,
        "consumer._client": lambda: str(consumer._client),
        "consumer._group_id": lambda: consumer._group_id,
        "consumer._coordinator.member_id": lambda: consumer._coordinator.member_id[:5],
        "consumer._coordinator.generation": lambda: consumer._coordinator.generation,
        "consumer._coordinator.coordinator_id": lambda: consumer._coordinator.coordinator_id in {0, 1},
        "consumer._subscription.topics": lambda: consumer._subscription.topics,
        "consumer._closed": lambda: consumer._closed,
        "consumer._fetcher": lambda: type(consumer._fetcher).__name__,
        "consumer._max_poll_records": lambda: consumer._max_poll_records,
    }
    for name, read in reads.items():
        attempt(name, read)
    await consumer.stop()
    await producer.stop()


async def run(wanted: str, address: str, prefix: str) -> None:
    """Run a scene. Its last line says that it is done, or how it failed."""
    CURRENT.set(wanted)
    try:
        await SCENES[wanted](address, prefix)
    except Exception as error:
        traceback.print_exc()
        show("failed", repr(error))
    else:
        print(json.dumps([wanted, "done"]), flush=True)


async def run_all(wanted: list[str], address: str, prefix: str) -> None:
    await asyncio.gather(*(run(name, address, f"{prefix}-{name}") for name in wanted))


if __name__ == "__main__":
    _, server, names, name_prefix = sys.argv
    logging.disable(logging.CRITICAL)
    asyncio.run(run_all(names.split(","), server, name_prefix))
