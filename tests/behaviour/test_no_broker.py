"""A cluster that is not there, or not yet: the error of each client and its deadline."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any

import pytest

from pyconsumer import KafkaAdminClient, KafkaConsumer, KafkaProducer
from pyconsumer.aio import AsyncKafkaAdminClient, AsyncKafkaConsumer, AsyncKafkaProducer
from pyconsumer.broker import EmbeddedCluster
from pyconsumer.errors import NoBrokersAvailableError

CALLS: dict[str, Callable[[Any], object]] = {
    "consumer": lambda settings: _in(KafkaConsumer("t", **settings), lambda client: client.poll(60_000)),
    "lookup": lambda settings: _in(KafkaConsumer(**settings), lambda client: client.partitions_for_topic("t")),
    "member": lambda settings: _in(KafkaConsumer("t", group_id="g", **settings), lambda client: client.poll(60_000)),
    "producer": lambda settings: _in(KafkaProducer(**settings), lambda client: client.send("t", b"x")),
    "admin": lambda settings: _in(KafkaAdminClient(**settings), lambda client: client.list_topics()),
    "aio consumer": lambda settings: _awaited(AsyncKafkaConsumer, lambda client: client.poll(60_000), settings),
    "aio lookup": lambda settings: _awaited(AsyncKafkaConsumer, lambda client: client.topics(), settings),
    "aio producer": lambda settings: _awaited(AsyncKafkaProducer, lambda client: client.send("t", b"x"), settings),
    "aio admin": lambda settings: _awaited(AsyncKafkaAdminClient, lambda client: client.list_topics(), settings),
}


def _in(client: Any, call: Callable[[Any], object]) -> object:
    with client:
        return call(client)


def _awaited(make: Any, call: Callable[[Any], Any], settings: dict[str, Any]) -> object:
    async def run() -> object:
        async with make(**settings) as client:
            if make is AsyncKafkaConsumer:
                client.subscribe(["t"])
            return await call(client)

    return asyncio.run(run())


@pytest.mark.parametrize("name", CALLS)
def test_a_limit_makes_every_client_raise(name: str, dead_address: str, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(NoBrokersAvailableError, match=r"within 0\.4 s") as caught:
        CALLS[name]({"bootstrap_servers": dead_address, "bootstrap_timeout_ms": 400})
    assert dead_address in str(caught.value)
    assert "refused" in str(caught.value)
    told = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert [record.name for record in told] == ["pyconsumer.network"], "one line, however often it was tried"
    assert "no broker at" in told[0].getMessage()


@pytest.mark.slow
def test_a_consumer_that_starts_before_the_cluster_reads_when_it_is_there(caplog: pytest.LogCaptureFixture) -> None:
    with EmbeddedCluster() as cluster:  # whose port is kept for it while it is dead
        cluster.kill()
        servers = cluster.bootstrap_servers
        with KafkaConsumer("later", bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
            for _ in range(3):
                assert not consumer.poll(100)
            assert len(caplog.records) == 1
            cluster.restart()
            with KafkaProducer(bootstrap_servers=servers) as producer:
                producer.send("later", b"x")
            deadline = time.monotonic() + 60
            while not consumer.poll(200):
                assert time.monotonic() < deadline
    texts = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert "has responded yet, trying again" in texts[0]
    assert any("a broker has responded after" in text for text in texts)
