"""Commands on a cluster whose brokers advertise an address that cannot be reached, beside one that can."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from pyconsumer import KafkaConsumer, KafkaProducer, TopicPartition
from pyconsumer.broker.ports import hold_port
from pyconsumer.cli import _run
from pyconsumer.errors import KafkaError
from tests.behaviour.consumer_support import fill
from tests.support.cluster import Cluster
from tests.support.proxy import KafkaProxy

Here = Callable[..., tuple[int, str, str]]


@pytest.fixture
def unreachable(cluster: Cluster) -> Iterator[tuple[str, str]]:
    """The address of a proxy before ``cluster`` that advertises a closed port, and that port."""
    with hold_port("127.0.0.1", 0) as held:
        dead = held.getsockname()
        with KafkaProxy(cluster.bootstrap_servers, advertised=dead) as proxy:
            yield proxy.bootstrap_servers, f"{dead[0]}:{dead[1]}"


@pytest.fixture
def here(capfd: pytest.CaptureFixture[str]) -> Here:
    """Run a command in this process and return its status and output."""

    def run(*arguments: str) -> tuple[int, str, str]:
        status = _run(arguments)
        return (status, *capfd.readouterr())

    return run


@pytest.mark.parametrize("group", [(), ("-g",)])
def test_consume_ends_with_an_error_if_no_broker_can_be_reached(
    unreachable: tuple[str, str], cluster: Cluster, topic: str, group_id: str, here: Here, group: tuple[str, ...]
) -> None:
    fill(cluster, topic, 1)
    servers, dead = unreachable
    member = (*group, group_id) if group else ()
    status, out, err = here(
        "consume", topic, "--from-beginning", "--idle-ms", "5000", "--timeout-ms", "10000", "-b", servers, *member
    )
    assert (status, out) == (1, "")
    *warnings, last = err.splitlines()
    assert last.startswith("Error: no record could be read: ")
    (warning,) = [line for line in warnings if dead in line]
    assert warning.startswith("Warning: ")
    for line in (warning, last):
        assert "the address as broker" in line
        assert "advertises itself" in line


def test_consume_of_an_empty_topic_is_no_error(cluster: Cluster, topic: str, here: Here) -> None:
    assert here("consume", topic, "--idle-ms", "1000", "--bootstrap-server", cluster.bootstrap_servers) == (0, "", "")


def test_groups_watch_warns_and_ends_with_an_error(unreachable: tuple[str, str], group_id: str, here: Here) -> None:
    servers, dead = unreachable
    began = time.monotonic()
    status, out, err = here("groups", "watch", group_id, "--timeout-ms", "8000", "-b", servers)
    assert (status, out) == (1, "")
    *warnings, last = err.splitlines()
    assert last.startswith("Error: ")
    assert "advertises itself" in last
    assert len([line for line in warnings if dead in line]) == 1
    assert time.monotonic() < began + 60


def test_errors_of_the_clients_say_where_the_address_is_from(unreachable: tuple[str, str], topic: str) -> None:
    servers, dead = unreachable
    with (
        KafkaConsumer(bootstrap_servers=servers, default_api_timeout_ms=6000) as consumer,
        KafkaProducer(bootstrap_servers=servers, delivery_timeout_ms=6000, request_timeout_ms=5000) as producer,
    ):
        consumer.assign([TopicPartition(topic, 0)])
        for call in (
            lambda: consumer.position(TopicPartition(topic, 0)),
            lambda: producer.send(topic, b"x").result(timeout=60),
        ):
            with pytest.raises(KafkaError) as caught:
                call()
            assert dead in str(caught.value)
            assert "as broker" in str(caught.value)
            assert "advertises itself" in str(caught.value)


def test_archive_ends_with_an_error_before_its_stream_begins(unreachable: tuple[str, str], topic: str) -> None:
    pytest.importorskip("pyspark")
    from pyconsumer.spark.archive import _identify
    from pyconsumer.spark.options import SourceOptions

    servers, dead = unreachable
    client = SourceOptions.parse(
        {"kafka.bootstrap.servers": servers, "subscribe": topic, "kafka.default.api.timeout.ms": "8000"}
    ).kafka_options
    with pytest.raises(KafkaError, match="advertises itself") as caught:
        _identify(topic, client)
    assert dead in str(caught.value)
