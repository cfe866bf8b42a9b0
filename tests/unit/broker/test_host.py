"""A cluster that cannot start completely reports the reason in one error and releases its lock and ports."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from pyconsumer.broker.broker import Broker
from pyconsumer.broker.host import ClusterHost, ClusterOptions
from pyconsumer.broker.security import SecurityConfig
from pyconsumer.errors import BrokerStartError, ConfigurationError, IllegalStateError
from pyconsumer.structs import TopicPartition
from tests.unit.broker.support import batch


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """A loop that never runs: these tests call its methods."""
    made = asyncio.new_event_loop()
    yield made
    made.close()


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that another process listens on."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        yield other.getsockname()[1]


def two(loop: asyncio.AbstractEventLoop, folder: Path, *ports: Mapping[str, int]) -> ClusterHost:
    return ClusterHost(ClusterOptions(brokers=2, data_dir=folder, ports=ports), loop)


def runs(host: ClusterHost) -> None:
    host.start()
    assert sorted(host.brokers) == [0, 1]
    host.stop()


def burn(broker: Broker) -> None:
    """In place of ``Broker.start``."""
    raise OSError("the disk is on fire")


@pytest.mark.parametrize("second", [False, True], ids=["first broker", "second broker"])
def test_an_occupied_port_is_named_and_the_folder_released(
    loop: asyncio.AbstractEventLoop, taken: int, tmp_path: Path, second: bool
) -> None:
    ports = [{}, {"PLAINTEXT": taken}] if second else [{"PLAINTEXT": taken}]
    host = two(loop, tmp_path, *ports)
    with pytest.raises(BrokerStartError, match=rf"^cannot listen on 127\.0\.0\.1:{taken}: Address already in use"):
        host.start()
    assert (host.brokers, host.servers) == ({}, {})
    runs(two(loop, tmp_path))


def test_a_broker_that_cannot_start_leaves_no_folder_locked(
    loop: asyncio.AbstractEventLoop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Broker, "start", burn)
        with pytest.raises(BrokerStartError, match="the disk is on fire"):
            two(loop, tmp_path).start()
    runs(two(loop, tmp_path))


def test_a_folder_is_released_even_if_the_stop_fails(
    loop: asyncio.AbstractEventLoop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(broker: Broker, **_: object) -> None:
        raise OSError("no space left")

    host = two(loop, tmp_path)
    host.start()
    with monkeypatch.context() as patch:
        patch.setattr(Broker, "stop", fail)
        with pytest.raises(OSError, match="no space left"):
            host.stop()
    runs(two(loop, tmp_path))


def test_a_broker_that_fails_to_restart_may_retry_on_its_port(
    loop: asyncio.AbstractEventLoop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = two(loop, tmp_path)
    host.start()
    port = host.ports()[1]["PLAINTEXT"]
    host.kill_broker(1)
    with monkeypatch.context() as patch:
        patch.setattr(Broker, "start", burn)
        with pytest.raises(BrokerStartError, match="broker 1 cannot start: the disk is on fire"):
            host.restart_broker(1)
    host._held_ports.pop(1)["PLAINTEXT"].close()
    with socket.create_server(("127.0.0.1", port)), pytest.raises(BrokerStartError, match=f"127.0.0.1:{port}"):
        host.restart_broker(1)
    assert sorted(host.servers) == [0]
    host.restart_broker(1)
    assert host.ports()[1]["PLAINTEXT"] == port
    host.stop()


class TestRecoveryInSteps:
    @pytest.fixture
    def host(self, loop: asyncio.AbstractEventLoop, tmp_path: Path) -> Iterator[ClusterHost]:
        """Two brokers, the second of which was killed with a log of 3 MB."""
        host = two(loop, tmp_path)
        host.start()
        host.controller.create_topic("t", 1, 2)
        log = host.brokers[1].partitions[TopicPartition("t", 0)].log
        for _ in range(30):
            log.append(batch(b"x" * 100_000), 0)
        host.kill_broker(1)
        yield host
        host.stop()

    def test_the_other_brokers_work_in_between(self, host: ClusterHost) -> None:
        steps = host.restarting_broker(1)
        next(steps)
        assert host.progress == "node 1: recovering t-0, 1.0 of 3.0 MB; 0 of 1 logs are open"
        assert (sorted(host.brokers), sorted(host.servers), host.controller.brokers) == ([0], [0], [0])
        host.command("create_topic", {"name": "new", "partitions": 1, "replication_factor": 1})
        host.command("delete_topic", {"name": "t"})
        host.command("create_topic", {"name": "t", "partitions": 2, "replication_factor": 1})
        for _ in steps:
            pass
        assert (host.progress, sorted(host.brokers)) == ("", [0, 1])
        assert TopicPartition("t", 0) not in host.brokers[1].partitions  # it was a replica of the deleted topic
        host.command("create_topic", {"name": "both", "partitions": 1, "replication_factor": 2})

    def test_one_that_is_given_up_can_be_tried_again(self, host: ClusterHost) -> None:
        steps = host.restarting_broker(1)
        next(steps)
        steps.close()
        assert host.progress == ""
        host.restart_broker(1)
        assert host.brokers[1].partitions[TopicPartition("t", 0)].log.log_end_offset == 30

    def test_a_second_call_waits_for_the_first(self, host: ClusterHost) -> None:
        first, second = host.restarting_broker(1), host.restarting_broker(1)
        next(first)
        next(second)
        for _ in first:
            next(second)
        assert list(second) == []
        with pytest.raises(IllegalStateError, match="was not killed"):
            host.restart_broker(1)

    def test_a_cancelled_start_releases_the_folder(
        self, loop: asyncio.AbstractEventLoop, host: ClusterHost, tmp_path: Path
    ) -> None:
        host.restart_broker(1)
        host.abandon()
        again = two(loop, tmp_path)
        steps = again.starting()
        next(steps)
        assert again.progress.startswith("node 0: ")
        steps.close()
        runs(two(loop, tmp_path))


def test_clients_are_served_only_when_all_brokers_have_started(loop: asyncio.AbstractEventLoop, tmp_path: Path) -> None:
    host = two(loop, tmp_path)
    host.start()
    host.controller.create_topic("t", 1, 2)
    host.abandon()
    again = two(loop, tmp_path)
    steps = again.starting()
    next(steps)
    address = "127.0.0.1", again.ports()[0]["PLAINTEXT"]
    with socket.create_connection(address, 5):
        loop.run_until_complete(asyncio.sleep(0))
        assert not again.servers[0].connection_count
        for _ in steps:
            pass
        while again.servers[0].connection_count != 1:
            loop.run_until_complete(asyncio.sleep(0))
    again.stop()


def test_the_log_warns_of_users_that_only_the_data_folder_has(
    loop: asyncio.AbstractEventLoop, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for users in ({"alice": "secret", "bob": "secret"}, {"alice": "secret"}):
        caplog.clear()
        options = ClusterOptions(data_dir=tmp_path, listeners=("SASL_PLAINTEXT",), security=SecurityConfig(users=users))
        host = ClusterHost(options, loop)
        host.start()
        host.stop()
        assert ("may still log in: 'bob'" in caplog.text) is ("bob" not in users)
        assert "'alice'" not in caplog.text


def test_ports_end_at_65535() -> None:
    ports = [{"PLAINTEXT": 65_535}, {"PLAINTEXT": 65_536}]
    ClusterOptions(brokers=1, ports=ports[:1]).check()
    with pytest.raises(ConfigurationError, match="there is no port 65536: 2 brokers need"):
        ClusterOptions(brokers=2, ports=ports).check()
