"""A program whose log handlers own clients, or whose standard error is not read. Started as a child: it may hang.

``handler CLIENT WAY SERVERS TOPIC GROUP``: the handler of ``logging.config.dictConfig`` owns a client, and is closed
under the lock of :mod:`logging` when the configuration is loaded again.
``pipe WHO SERVERS TOPIC GROUP``: the pipe behind standard error is full.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import logging
import logging.config
import os
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

from pyconsumer import KafkaAdminClient, KafkaConsumer, KafkaProducer
from pyconsumer.aio import AsyncKafkaAdminClient, AsyncKafkaConsumer, AsyncKafkaProducer
from pyconsumer.broker import EmbeddedCluster

PATIENCE_S = 30.0
numbers = itertools.count()


class Owner:
    """A client that a handler owns: how it is opened, used and closed."""

    def __init__(self, servers: str, topic: str, group_id: str) -> None:
        self.servers, self.topic, self.group_id = servers, topic, f"{group_id}-{next(numbers)}"

    def open(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


class Producer(Owner):
    def open(self) -> None:
        self.client = KafkaProducer(bootstrap_servers=self.servers)
        self.client.send(self.topic, b"opened").get(PATIENCE_S)

    def close(self) -> None:
        with self.client:
            self.client.send(self.topic, b"closing")
            self.client.flush()


class Consumer(Owner):
    def open(self) -> None:
        self.client = KafkaConsumer(self.topic, bootstrap_servers=self.servers, group_id=self.group_id)
        while not self.client.assignment():
            self.client.poll(100)

    def close(self) -> None:
        with self.client:
            self.client.poll(0)


class Admin(Owner):
    def open(self) -> None:
        self.client = KafkaAdminClient(bootstrap_servers=self.servers)
        self.client.list_topics()

    def close(self) -> None:
        with self.client:
            self.client.list_topics()


class OnLoop(Owner):
    def open(self) -> None:
        self.runner = asyncio.Runner()
        self.runner.run(self.start())

    def close(self) -> None:
        self.runner.run(self.stop())
        self.runner.close()

    async def start(self) -> None:
        raise NotImplementedError

    async def stop(self) -> None:
        raise NotImplementedError


class AsyncProducer(OnLoop):
    async def start(self) -> None:
        self.client = AsyncKafkaProducer(bootstrap_servers=self.servers)
        await (await self.client.send(self.topic, b"opened"))

    async def stop(self) -> None:
        async with self.client:
            await self.client.send(self.topic, b"closing")


class AsyncConsumer(OnLoop):
    async def start(self) -> None:
        self.client = AsyncKafkaConsumer(self.topic, bootstrap_servers=self.servers, group_id=self.group_id)
        while not self.client.assignment():
            await self.client.poll(100)

    async def stop(self) -> None:
        async with self.client:
            await self.client.poll(0)


class AsyncAdmin(OnLoop):
    async def start(self) -> None:
        self.client = AsyncKafkaAdminClient(bootstrap_servers=self.servers)
        await self.client.list_topics()

    async def stop(self) -> None:
        async with self.client:
            await self.client.list_topics()


OWNERS: dict[str, type[Owner]] = {
    "producer": Producer,
    "consumer": Consumer,
    "admin": Admin,
    "aio producer": AsyncProducer,
    "aio consumer": AsyncConsumer,
    "aio admin": AsyncAdmin,
}


class OwningHandler(logging.Handler):
    """Owns a client. It takes lines of any thread, under its lock, as every handler."""

    def __init__(self, owner: Owner, way: str) -> None:
        super().__init__(logging.DEBUG)
        self.owner: Owner | None = owner
        self.way = way
        self.lines = 0
        owner.open()

    def emit(self, record: logging.LogRecord) -> None:
        self.lines += 1

    def close(self) -> None:
        """Close the client, under the lock of logging and of this handler."""
        owner, self.owner = self.owner, None
        if owner is not None and self.way == "close":
            owner.close()
        elif owner is not None and self.way == "drop":
            del owner
            gc.collect()
        elif owner is not None:
            kept.append(owner)  # the end of the interpreter finds it open
        super().close()


kept: list[Owner] = []


def load_twice(client: str, way: str, *where: str) -> None:
    """Load a configuration twice. The second time closes the first handler."""
    warnings.simplefilter("ignore", ResourceWarning)
    logging.captureWarnings(True)
    conf: dict[str, Any] = {
        "version": 1,
        "disable_existing_loggers": False,
        "handlers": {"kafka": {"()": lambda: OwningHandler(OWNERS[client](*where), way)}},
        "loggers": {"pyconsumer": {"handlers": ["kafka"], "level": "DEBUG"}},
    }
    logging.config.dictConfig(conf)
    logging.config.dictConfig(conf)


def fill(descriptor: int) -> None:
    """Fill the pipe behind a descriptor, which blocks from then on."""
    os.set_blocking(descriptor, False)
    try:
        for size in (4096, 1):
            try:
                while True:
                    os.write(descriptor, b"." * size)
            except BlockingIOError:
                pass
    finally:
        os.set_blocking(descriptor, True)


def wait_for(condition: Callable[[], object]) -> None:
    """Look again until a condition is met."""
    until = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


def use_with_full_pipe(who: str, servers: str, topic: str, group_id: str) -> None:
    """Use something whose thread logs, while this thread does not log."""
    log = logging.getLogger("pyconsumer")
    handler = logging.StreamHandler()
    if who == "consumer":
        with KafkaConsumer(
            topic, bootstrap_servers=servers, group_id=group_id, heartbeat_interval_ms=50, session_timeout_ms=6_000
        ) as consumer:
            while not consumer.assignment():
                consumer.poll(100)
            fill(2)
            log.addHandler(handler)
            log.setLevel(logging.DEBUG)
            for _ in range(3):
                before = consumer.metrics()["consumer-coordinator-metrics"]["heartbeat-total"]
                wait_for(
                    lambda before=before: (  # type: ignore[misc]
                        consumer.metrics()["consumer-coordinator-metrics"]["heartbeat-total"] > before
                    )
                )
            log.removeHandler(handler)  # this thread would log in close(), to a pipe that nobody reads
    elif who == "producer":
        producer = KafkaProducer(bootstrap_servers=servers)
        fill(2)
        log.addHandler(handler)
        log.setLevel(logging.DEBUG)
        producer.send(topic, b"first").get(PATIENCE_S)
        producer.flush(timeout_ms=PATIENCE_S * 1000)
        producer.close(timeout_ms=PATIENCE_S * 1000)
    else:
        with EmbeddedCluster(in_thread=True) as cluster:
            cluster.create_topic(topic)
            fill(2)
            log = logging.getLogger("pyconsumer.broker")
            log.addHandler(handler)
            log.setLevel(logging.DEBUG)
            with KafkaConsumer(topic, bootstrap_servers=cluster.bootstrap_servers, group_id=group_id) as consumer:
                wait_for(lambda: consumer.poll(100) or consumer.assignment())


if __name__ == "__main__":
    kind, *rest = sys.argv[1:]
    if kind == "handler":
        load_twice(*rest)
    else:
        use_with_full_pipe(*rest)
    print("returned", flush=True)
    if kind == "pipe":
        os._exit(0)  # logging.shutdown would wait for the reader of the pipe
