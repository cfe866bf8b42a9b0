"""Client id and group on each line of a client's log, in every thread and on event loops."""

from __future__ import annotations

import logging
import time

import pytest

from pyconsumer import KafkaConsumer, KafkaProducer, background_log
from pyconsumer.workers import Workers
from tests.behaviour.consumer_support import member
from tests.support.cluster import Cluster


def names_of(caplog: pytest.LogCaptureFixture, logger: str) -> set[tuple[str | None, str | None]]:
    """Return the clients and groups of the lines of a logger and those below it."""
    assert background_log.flush()
    return {
        (record.client_id, record.group_id)  # type: ignore[attr-defined]
        for record in caplog.records
        if record.name == logger or record.name.startswith(f"{logger}.")
    }


@pytest.mark.concurrent
@pytest.mark.faces
@pytest.mark.protocols
def test_each_line_names_its_client_and_its_group(
    cluster: Cluster, topic: str, group_id: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "pyconsumer")
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, client_id="writer") as producer:
        producer.send(topic, b"x").get(30)
        assert names_of(caplog, "pyconsumer.network") == {("writer", None)}
        assert names_of(caplog, "pyconsumer.producer") <= {("writer", None)}
    caplog.clear()
    with member(cluster, group_id, topic, client_id="reader", heartbeat_interval_ms=100) as consumer:
        consumer.poll(5_000)
        consumer.commit()
        time.sleep(0.3)  # heartbeats
    for logger in ("pyconsumer.consumer", "pyconsumer.network"):
        assert names_of(caplog, logger) == {("reader", group_id)}, logger


@pytest.mark.concurrent
def test_lines_of_workers_name_their_consumer(
    cluster: Cluster, topic: str, group_id: str, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(record: object) -> None:
        raise ValueError("no")

    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        producer.send(topic, b"x").get(30)
    caplog.set_level(logging.DEBUG, "pyconsumer.workers")
    with (
        KafkaConsumer(
            topic,
            bootstrap_servers=cluster.bootstrap_servers,
            group_id=group_id,
            client_id="worker",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as consumer,
        pytest.raises(ValueError, match="no"),
    ):
        Workers(consumer, fails, run_in="threads").run(until_caught_up=True)
    assert names_of(caplog, "pyconsumer.workers") == {("worker", group_id)}
