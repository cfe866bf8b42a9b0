"""Commands to an embedded cluster: each gets its own response, also after a timeout, and from several threads."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from pyconsumer.broker import EmbeddedCluster, runners
from pyconsumer.broker.log.manager import LogManager
from pyconsumer.errors import (
    BrokerStartError,
    ConfigurationError,
    IllegalStateError,
    KafkaTimeoutError,
    TopicAlreadyExistsError,
)

pytestmark = pytest.mark.concurrent


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(data_dir=":memory:") as running:
        yield running


def test_a_late_response_to_a_command_is_not_used_for_the_next_one(
    cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid = cluster.pid
    rule = cluster.faults.add("error", "Metadata", client_id="nobody", error_code=6)
    os.kill(pid, signal.SIGSTOP)
    os.waitpid(pid, os.WUNTRACED)  # it is a child of ours, so this waits until it has stopped
    try:
        with monkeypatch.context() as patch:
            patch.setattr(runners, "_COMMAND_TIMEOUT_S", 0.01)
            with pytest.raises(KafkaTimeoutError, match=r"^the brokers did not respond to the command 'ping' within"):
                cluster.command("ping")
            with pytest.raises(
                KafkaTimeoutError,
                match=r"^the brokers did not respond to the command 'create_topic' .* may still carry it out",
            ):
                cluster.create_topic("late")
    finally:
        os.kill(pid, signal.SIGCONT)
    assert cluster.faults.hits(rule) == 0
    assert cluster.pid == pid
    with pytest.raises(TopicAlreadyExistsError):
        cluster.create_topic("late")
    assert cluster.elect_preferred_leaders() == 0


@pytest.mark.usefixtures("another_package_here")
def test_the_brokers_process_runs_this_package_and_not_one_in_the_current_folder() -> None:
    with EmbeddedCluster(data_dir=":memory:") as running:
        assert running.elect_preferred_leaders() == 0


def test_threads_get_the_responses_to_their_own_commands(cluster: EmbeddedCluster) -> None:
    def add(number: int) -> bool:
        cluster.create_topic(f"shared-{number}")
        with pytest.raises(TopicAlreadyExistsError, match=f"shared-{number}"):
            cluster.create_topic(f"shared-{number}")
        return cluster.pid == pid

    pid = cluster.pid
    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(add, range(40)))


def test_a_command_behind_a_slow_one_times_out_too(cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runners, "_COMMAND_TIMEOUT_S", 0.01)
    runner = cluster._runner
    assert isinstance(runner, runners.ProcessRunner)
    with (
        runner._lock,
        pytest.raises(KafkaTimeoutError, match=r"'ping' was not sent within 0\.01 s: the brokers are busy"),
    ):
        cluster.command("ping")


def test_a_command_in_a_thread_times_out_with_the_same_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with EmbeddedCluster(data_dir=":memory:", in_thread=True) as cluster:
        with monkeypatch.context() as patch:
            patch.setattr(runners, "_COMMAND_TIMEOUT_S", 0.0)
            patch.setattr(cluster._runner, "_loop", _Asleep())
            with pytest.raises(
                KafkaTimeoutError, match=r"^the brokers did not respond to the command 'ping' within 0 s"
            ):
                cluster.command("ping")
        assert cluster.pid == os.getpid()


class _Asleep:
    def call_soon_threadsafe(self, _action: object) -> None:
        """Fail if it is called."""


def test_a_process_that_has_ended_is_named_as_the_cause() -> None:
    with EmbeddedCluster(data_dir=":memory:") as cluster:
        os.kill(cluster.pid, signal.SIGKILL)
        with pytest.raises(BrokerStartError, match="the broker process has ended: status -9"):
            cluster.command("ping")


class TestStartsThatTakeTooLong:
    def test_the_error_names_the_log_in_recovery(self, monkeypatch: pytest.MonkeyPatch) -> None:
        line = '{"id": 1, "progress": "node 0: recovering t-0, 1.0 of 9.0 MB; 2 of 7 logs are open"}'
        program = ["/bin/sh", "-c", f"read line; echo '{line}'; exec sleep 60"]
        with monkeypatch.context() as patch:
            patch.setattr(runners, "child_python", lambda *_: program)
            cluster = EmbeddedCluster(start_timeout_ms=2000)
            with pytest.raises(
                BrokerStartError,
                match=r"did not start within 2 s \(node 0: recovering t-0, 1\.0 of 9\.0 MB; 2 of 7 logs are open\); .*"
                "start_timeout_ms",
            ):
                cluster.start()
        cluster._deadlines = runners.Deadlines()
        with cluster:  # the object is as before
            assert cluster.elect_preferred_leaders() == 0

    def test_in_a_thread_too(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        cluster = EmbeddedCluster(data_dir=tmp_path, in_thread=True)
        with cluster:
            cluster.create_topic("t", 1)
            cluster.kill()
            with monkeypatch.context() as patch:
                patch.setattr(LogManager, "opening_all", _endless)
                cluster._deadlines = runners.Deadlines(0.2)
                with pytest.raises(
                    BrokerStartError, match=r"did not start within 0\.2 s \(node 0: 0 of 1 logs are open"
                ):
                    cluster.restart()
            cluster._deadlines = runners.Deadlines()
            cluster.restart()
            assert cluster.elect_preferred_leaders() == 0

    @pytest.mark.parametrize("in_thread", [False, True])
    def test_a_late_restart_may_be_awaited_again(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_thread: bool
    ) -> None:
        released = threading.Event()
        opening_all = LogManager.opening_all

        def held(logs: LogManager, *more: Any) -> Iterator[None]:
            while not released.is_set():
                yield
            yield from opening_all(logs, *more)

        with EmbeddedCluster(2, tmp_path, in_thread=in_thread) as cluster:
            cluster.kill_broker(1)
            monkeypatch.setattr(LogManager, "opening_all", held)  # in a thread it may be done at once
            cluster._runner._deadlines = runners.Deadlines(0.0)  # type: ignore[union-attr]
            with pytest.raises(KafkaTimeoutError, match=r"broker 1 did not restart within 0 s.*, and goes on"):
                cluster.restart_broker(1)
            released.set()
            cluster._runner._deadlines = runners.Deadlines()  # type: ignore[union-attr]
            cluster.restart_broker(1)
            with pytest.raises(IllegalStateError, match="was not killed"):
                cluster.restart_broker(1)
            cluster.create_topic("t", 1, 2)

    def test_a_temporary_cluster_keeps_its_data_when_a_restart_fails(self) -> None:
        with EmbeddedCluster() as cluster:
            cluster.create_topic("t", 1)
            cluster.kill()
            with EmbeddedCluster(data_dir=cluster.data_dir), pytest.raises(BrokerStartError, match="in use by another"):
                cluster.restart()
            cluster.restart()
            with pytest.raises(TopicAlreadyExistsError):
                cluster.create_topic("t", 1)
            folder = cluster.data_dir
        assert folder is not None
        assert not folder.exists()

    @pytest.mark.parametrize("name", ["start_timeout_ms", "stop_timeout_ms"])
    def test_times_that_cannot_be(self, name: str) -> None:
        for value in (0, -1, float("nan")):
            with pytest.raises(ConfigurationError, match=f"{name} must be greater than 0"):
                EmbeddedCluster(**{name: value})  # type: ignore[arg-type]


def _endless(_logs: LogManager, *_: object) -> Iterator[None]:
    while True:
        yield
