"""FastStream on Kafka: ``faststream_scenes.py ADDRESS SCENE,SCENE PREFIX`` prints a line of JSON for each outcome.

The program knows only FastStream and aiokafka. It runs with any client of the name ``aiokafka``. Its
scenes run at the same time, each with topics of its own.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import traceback
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any

import aiokafka
from faststream import AckPolicy, Context, FastStream
from faststream.kafka import KafkaBroker, KafkaMessage, TestKafkaBroker

Scene = Callable[[str, str], Awaitable[None]]
SCENES: dict[str, Scene] = {}
LONG_S = 120.0
CURRENT: ContextVar[str] = ContextVar("the scene of this task")


def scene(function: Scene) -> Scene:
    SCENES[function.__name__] = function
    return function


def show(name: str, value: Any) -> None:
    print(json.dumps([CURRENT.get(), name, value]), flush=True)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(LONG_S):
        while not condition():  # noqa: ASYNC110 - handlers of the framework change it
            await asyncio.sleep(0.02)


async def committed(address: str, group: str, topic: str) -> int | None:
    consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=address, group_id=group, enable_auto_commit=False)
    await consumer.start()
    try:
        return await consumer.committed(aiokafka.TopicPartition(topic, 0))
    finally:
        await consumer.stop()


@scene
async def publish_and_subscribe(address: str, prefix: str) -> None:
    broker = KafkaBroker(address)
    seen: list[Any] = []

    @broker.subscriber(f"{prefix}-in", group_id=f"{prefix}-g", auto_offset_reset="earliest")
    @broker.publisher(f"{prefix}-out")
    async def handle(body: dict[str, Any], message: KafkaMessage) -> dict[str, Any]:
        seen.append([body, message.raw_message.key.decode(), message.headers.get("kind"), message.raw_message.offset])
        return {"twice": body["n"] * 2}

    async with broker:
        for n in range(3):
            await broker.publish({"n": n}, f"{prefix}-in", key=b"k%d" % n, headers={"kind": "x"})
        await broker.start()
        await until(lambda: len(seen) == 3)
        out = aiokafka.AIOKafkaConsumer(f"{prefix}-out", bootstrap_servers=address, auto_offset_reset="earliest")
        await out.start()
        got = [json.loads((await asyncio.wait_for(out.getone(), LONG_S)).value) for _ in range(3)]
        await out.stop()
    show("seen", seen)
    show("answers", got)
    show("committed", await committed(address, f"{prefix}-g", f"{prefix}-in"))


@scene
async def batches(address: str, prefix: str) -> None:
    broker = KafkaBroker(address)
    seen: list[int] = []
    sizes: list[int] = []

    @broker.subscriber(f"{prefix}-in", batch=True, auto_offset_reset="earliest", max_records=10)
    async def handle(bodies: list[int], message: KafkaMessage) -> None:
        seen.extend(bodies)
        sizes.append(len(message.raw_message))  # type: ignore[arg-type]

    async with broker:
        await broker.publish_batch(*range(25), topic=f"{prefix}-in")
        await broker.start()
        await until(lambda: len(seen) == 25)
    show("seen", sorted(seen))
    show("no batch is larger", max(sizes) <= 10)


@scene
async def patterns(address: str, prefix: str) -> None:
    broker = KafkaBroker(address)
    seen: list[Any] = []
    async with broker:
        for topic in (f"{prefix}-a-1", f"{prefix}-a-2", f"{prefix}-b-1"):
            await broker.publish("x", topic)

        @broker.subscriber(pattern=f"{prefix}-a-.*", group_id=f"{prefix}-g", auto_offset_reset="earliest")
        async def handle(body: str, message: KafkaMessage) -> None:
            seen.append(message.raw_message.topic.removeprefix(prefix))  # type: ignore[union-attr]

        await broker.start()
        await until(lambda: len(seen) == 2)
    show("seen", sorted(seen))


async def one_policy(address: str, prefix: str, policy: AckPolicy) -> None:
    """Fail at the second record: which offset is committed, and which records come again?"""
    topic, group = f"{prefix}-{policy.name.lower()}", f"{prefix}-{policy.name.lower()}-g"
    seen: list[int] = []

    async def serve(fails: bool, count: int) -> None:
        broker = KafkaBroker(address, logger=None)

        @broker.subscriber(topic, group_id=group, auto_offset_reset="earliest", ack_policy=policy)
        async def handle(body: int, message: KafkaMessage) -> None:
            seen.append(body)
            if fails and body == 1:
                raise ValueError("a fault of the program")
            if policy is AckPolicy.MANUAL:
                await message.ack()

        async with broker:
            if fails:
                for n in range(3):
                    await broker.publish(n, topic)
            await broker.start()
            await until(lambda: len(seen) >= count)
            await asyncio.sleep(0.3)

    await serve(True, 3)
    first = list(seen)
    show(f"{policy.name} first", first[:6] if policy is not AckPolicy.NACK_ON_ERROR else [first[0], 1 in first[1:]])
    show(f"{policy.name} committed", await committed(address, group, topic))


@scene
async def acknowledgements(address: str, prefix: str) -> None:
    for policy in (AckPolicy.ACK_FIRST, AckPolicy.ACK, AckPolicy.REJECT_ON_ERROR, AckPolicy.MANUAL):
        await one_policy(address, prefix, policy)


@scene
async def nack_on_error(address: str, prefix: str) -> None:
    await one_policy(address, prefix, AckPolicy.NACK_ON_ERROR)


@scene
async def workers(address: str, prefix: str) -> None:
    broker = KafkaBroker(address)
    seen: list[int] = []
    at_work = most = 0
    full = asyncio.Event()

    @broker.subscriber(f"{prefix}-in", auto_offset_reset="earliest", max_workers=4)
    async def handle(body: int) -> None:
        nonlocal at_work, most
        at_work += 1
        most = max(most, at_work)
        if at_work == 4:
            full.set()
        await asyncio.wait_for(full.wait(), LONG_S)  # records may arrive one by one
        await asyncio.sleep(0.05)  # a fifth could begin in this time
        at_work -= 1
        seen.append(body)

    async with broker:
        for n in range(12):
            await broker.publish(n, f"{prefix}-in")
        await broker.start()
        await until(lambda: len(seen) == 12)
    show("seen", sorted(seen))
    show("at the same time", most)


@scene
async def transactions(address: str, prefix: str) -> None:
    broker = KafkaBroker(address, transactional_id=f"{prefix}-t")
    async with broker:
        producer = broker._producer._producer.producer  # what the documentation of FastStream shows
        async with producer.transaction():
            await producer.send(f"{prefix}-in", b'"kept"')
        try:
            async with producer.transaction():
                await producer.send(f"{prefix}-in", b'"dropped"')
                raise ValueError("a fault of the program")
        except ValueError as error:
            show("error", str(error))
    consumer = aiokafka.AIOKafkaConsumer(
        f"{prefix}-in", bootstrap_servers=address, auto_offset_reset="earliest", isolation_level="read_committed"
    )
    await consumer.start()
    found = await consumer.getmany(timeout_ms=int(LONG_S * 1000))
    await consumer.stop()
    show("read", [record.value.decode() for records in found.values() for record in records])


@scene
async def creation(address: str, prefix: str) -> None:
    broker = KafkaBroker(address)

    @broker.subscriber(f"{prefix}-one", f"{prefix}-two", auto_offset_reset="earliest")
    async def handle(body: str) -> None:
        pass

    async with broker:
        await broker.start()
    admin = aiokafka.admin.AIOKafkaAdminClient(bootstrap_servers=address)
    await admin.start()
    show("topics", sorted(name.removeprefix(prefix) for name in await admin.list_topics() if name.startswith(prefix)))
    await admin.close()


@scene
async def reading_by_hand(address: str, prefix: str) -> None:
    broker = KafkaBroker(address)
    subscriber = broker.subscriber(f"{prefix}-in", auto_offset_reset="earliest")
    async with broker:
        await broker.publish("one", f"{prefix}-in")
        await broker.publish("two", f"{prefix}-in")
        await broker.start()
        first = await subscriber.get_one(timeout=LONG_S)
        show("get_one", await first.decode())
        async for message in subscriber:
            show("iteration", await message.decode())
            break


@scene
async def requests(address: str, prefix: str) -> None:
    broker = KafkaBroker(address)

    @broker.subscriber(f"{prefix}-in", auto_offset_reset="earliest")
    async def handle(body: str) -> str:
        return body.upper()

    answers: list[str] = []

    @broker.subscriber(f"{prefix}-reply", auto_offset_reset="earliest")
    async def reply(body: str, message: KafkaMessage) -> None:
        answers.append(f"{message.correlation_id}: {body}")

    async with broker:
        await broker.start()
        await broker.publish("hello", f"{prefix}-in", reply_to=f"{prefix}-reply", correlation_id="c-1")
        await until(lambda: len(answers) == 1)
        show("ping", await broker.ping(LONG_S))
    show("answers", answers)


@scene
async def in_memory(address: str, prefix: str) -> None:
    broker = KafkaBroker()
    seen: list[Any] = []

    @broker.subscriber("in", batch=False)
    @broker.publisher("out")
    async def handle(body: str, message: KafkaMessage) -> str:
        raw = message.raw_message
        seen.append([body, raw.topic, raw.partition, raw.offset, raw.checksum, raw.serialized_value_size])
        return body * 2

    @broker.subscriber("out")
    async def last(body: str) -> None:
        seen.append(body)

    async with TestKafkaBroker(broker):
        await broker.publish("a", "in", key=b"k", partition=0)
        handle.mock.assert_called_once_with("a")
        last.mock.assert_called_once_with("aa")
    show("seen", seen)


@scene
async def application(address: str, prefix: str) -> None:
    broker = KafkaBroker(address)
    app = FastStream(broker)
    calls: list[str] = []

    @app.on_startup
    async def before() -> None:
        calls.append("startup")

    @app.after_startup
    async def after() -> None:
        calls.append("after startup")
        await broker.publish("x", f"{prefix}-in")

    @app.on_shutdown
    async def end() -> None:
        calls.append("shutdown")

    @broker.subscriber(f"{prefix}-in", group_id=f"{prefix}-g", auto_offset_reset="earliest")
    async def handle(body: str, logger: Any = Context()) -> None:  # noqa: B008 - as FastStream wants it
        calls.append(f"handled {body}")
        app.exit()

    await asyncio.wait_for(app.run(), LONG_S)
    show("calls", calls)


@scene
async def fastapi(address: str, prefix: str) -> None:
    from fastapi import FastAPI
    from faststream.kafka.fastapi import KafkaRouter
    from httpx import ASGITransport, AsyncClient

    router = KafkaRouter(address)
    seen: list[str] = []

    @router.subscriber(f"{prefix}-in", group_id=f"{prefix}-g", auto_offset_reset="earliest")
    async def handle(body: str) -> None:
        seen.append(body)

    @router.post("/send")
    async def send(text: str) -> str:
        await router.broker.publish(text, f"{prefix}-in")
        return "sent"

    app = FastAPI()
    app.include_router(router)
    async with router.lifespan_context(app):
        async with AsyncClient(transport=ASGITransport(app), base_url="http://program") as client:
            show("answer", (await client.post("/send", params={"text": "hello"})).json())
        await until(lambda: len(seen) == 1)
    show("seen", seen)


@scene
async def prometheus(address: str, prefix: str) -> None:
    from faststream.kafka.prometheus import KafkaPrometheusMiddleware
    from prometheus_client import CollectorRegistry

    registry = CollectorRegistry()
    broker = KafkaBroker(address, middlewares=(KafkaPrometheusMiddleware(registry=registry),))
    seen: list[int] = []

    @broker.subscriber(f"{prefix}-in", auto_offset_reset="earliest")
    async def handle(body: int) -> None:
        seen.append(body)

    async with broker:
        for n in range(3):
            await broker.publish(n, f"{prefix}-in")
        await broker.start()
        await until(lambda: len(seen) == 3)
    values = {
        f"{sample.name} {sorted(sample.labels.items())}".replace(prefix, ""): sample.value
        for metric in registry.collect()
        for sample in metric.samples
        if sample.name.endswith("_total")
    }
    show("metrics", dict(sorted(values.items())))


@scene
async def opentelemetry(address: str, prefix: str) -> None:
    from faststream.kafka.opentelemetry import KafkaTelemetryMiddleware
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    broker = KafkaBroker(address, middlewares=(KafkaTelemetryMiddleware(tracer_provider=provider),))
    seen: list[int] = []

    @broker.subscriber(f"{prefix}-in", auto_offset_reset="earliest")
    async def handle(body: int) -> None:
        seen.append(body)

    async with broker:
        await broker.publish(1, f"{prefix}-in")
        await broker.start()
        await until(lambda: len(seen) == 1)
    spans = exporter.get_finished_spans()
    show("spans", sorted([span.name.replace(prefix, ""), span.kind.name] for span in spans))
    show("one trace", len({span.context.trace_id for span in spans if span.context}) == 1)


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
    logging.disable(logging.WARNING)
    asyncio.run(run_all(names.split(","), server, name_prefix))
