"""Metrics for Prometheus: names, labels, values that are left out, clients that come and go, and the server."""

from __future__ import annotations

import contextlib
import json
import os
import runpy
import selectors
import signal
import socket
import threading
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from pyconsumer import KafkaAdminClient, KafkaConsumer
from pyconsumer.errors import KafkaError
from pyconsumer.testing import RunningClock

prometheus_client = pytest.importorskip("prometheus_client")  # the extra [prometheus], which some lanes lack

from pyconsumer.metrics import collector, prometheus, serve  # noqa: E402
from pyconsumer.metrics.prometheus import serve_collector  # noqa: E402

_NOWHERE = "127.0.0.1:1"
_EXAMPLES = Path(__file__).parents[3] / "examples"


def samples() -> dict[str, float]:
    registry = prometheus_client.CollectorRegistry()
    registry.register(collector())
    return {
        sample.name + str(sorted(sample.labels.items())): sample.value
        for family in registry.collect()
        for sample in family.samples
    }


def test_names_are_those_of_the_jmx_exporter() -> None:
    with KafkaConsumer(bootstrap_servers=_NOWHERE, client_id="named", group_id="g"):
        found = samples()
    assert found["kafka_consumer_consumer_metrics_request[('client_id', 'named')]"] == 0.0
    assert found["kafka_consumer_consumer_fetch_manager_metrics_records_consumed[('client_id', 'named')]"] == 0.0
    assert (
        found["kafka_consumer_consumer_coordinator_metrics_failed_rebalance_rate_per_hour[('client_id', 'named')]"] == 0
    )
    assert "kafka_consumer_app_info_StartTimeMs[('id', 'named')]" in found
    assert not [name for name in found if "commit_latency" in name], "NaN is left out"


@pytest.mark.parametrize("name", ['a"b', "back\\slash", "two\nlines", 'all "of\\n\n\\" them', "a\rreturn", "{}=,"])
def test_values_of_labels_are_escaped_in_the_text(name: str) -> None:
    with KafkaConsumer(bootstrap_servers=_NOWHERE, client_id=name), serve(0) as server:
        url = f"http://127.0.0.1:{server.port}/metrics"
        with urllib.request.urlopen(url, timeout=60) as response:
            text = response.read().decode()
    written = name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    line = f'kafka_consumer_consumer_metrics_request{{client_id="{written}"}} 0.0'
    assert line in text.split("\n")
    families = pytest.importorskip("prometheus_client.parser").text_string_to_metric_families(text)
    labels = [one.labels for family in families for one in family.samples if family.name.endswith("metrics_request")]
    assert {"client_id": name} in labels


def test_clients_come_and_go() -> None:
    assert not [name for name in samples() if "goes" in name]
    with KafkaAdminClient(bootstrap_servers=_NOWHERE, client_id="goes"):
        assert "kafka_admin_client_admin_client_metrics_request[('client_id', 'goes')]" in samples()
    assert not [name for name in samples() if "goes" in name]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_server_can_be_closed_in_a_forked_child_and_keeps_serving_in_the_parent() -> None:
    with serve(0) as server:
        child = os.fork()
        if not child:
            signal.alarm(10)  # ends a child that hangs
            server.close()
            os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics", timeout=30) as response:
            assert response.status == 200


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_of_prefork_shows_its_own_clients_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """As under gunicorn with ``--preload``: clients and a server before the fork, a scrape of the child after it."""
    with KafkaConsumer(bootstrap_servers=_NOWHERE, client_id="parent") as consumer, serve(0) as server:
        registry = prometheus_client.CollectorRegistry()
        registry.register(collector())
        read, write = os.pipe()
        child = os.fork()
        if not child:
            signal.alarm(30)  # ends a child that hangs
            with os.fdopen(write, "w") as out:
                try:
                    out.write(_seen_in_a_child(consumer, registry, server.port))
                except BaseException as error:
                    out.write(repr(error))
            os._exit(0)
        os.close(write)
        with os.fdopen(read) as pipe:
            assert pipe.read() == "no client, create a new one after a fork, OSError, own, nothing of the parent"
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics", timeout=30) as response:
            assert b'client_id="parent"' in response.read(), "the child has ended nothing of the parent's"


def _seen_in_a_child(consumer: KafkaConsumer, registry: Any, taken: int) -> str:
    found = [] if prometheus_client.generate_latest(registry) else ["no client"]
    try:
        consumer.poll(0)
    except KafkaError as error:
        found.append(str(error).rpartition(": ")[2])
    try:
        serve(taken)  # two workers with one port
    except OSError:
        found.append("OSError")
    with KafkaConsumer(bootstrap_servers=_NOWHERE, client_id="own"), serve(0) as server:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics", timeout=30) as response:
            text = response.read().decode()
        same = prometheus_client.generate_latest(registry).decode()
    found += ["own"] * ('client_id="own"' in text and 'client_id="own"' in same)
    found += ["nothing of the parent"] * ("parent" not in text + same)
    return ", ".join(found)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_the_port_is_free_when_the_parent_has_closed_it_although_a_child_lives() -> None:
    read, write = os.pipe()
    lives, tell = os.pipe()
    server = serve(0)
    child = os.fork()
    if not child:
        signal.alarm(60)
        os.write(tell, b"x")
        os.close(write)
        os.read(read, 1)  # until the parent has closed its end
        os._exit(0)
    os.read(lives, 1)
    server.close()
    serve(server.port).close()
    for one in (read, write, lives, tell):
        os.close(one)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_multiprocess_mode_is_answered_by_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """The page of all workers is made of their files, so our metrics are absent."""
    collector()
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", "/nowhere")
    serve(0).close()  # a port for each process is the way
    assert caplog.text == ""
    collector()
    assert "multiprocess mode of prometheus-client is not supported" in caplog.text
    multiprocess = pytest.importorskip("prometheus_client.multiprocess")
    registry = prometheus_client.CollectorRegistry()
    multiprocess.MultiProcessCollector(registry, path=str(tmp_path))
    with KafkaConsumer(bootstrap_servers=_NOWHERE):
        assert prometheus_client.generate_latest(registry) == b""


def test_two_scrapes_at_once_beside_a_consumer_that_waits() -> None:
    clock = RunningClock()
    consumer = KafkaConsumer("t", bootstrap_servers=_NOWHERE, client_id="blocked", clock=clock)
    waiting = threading.Thread(target=consumer.poll, args=(60_000,))
    with serve(0) as server:
        waiting.start()

        def scrape(_: int) -> str:
            with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics", timeout=30) as response:
                text: str = response.read().decode()
            return text

        with ThreadPoolExecutor(2) as pool:
            pages = list(pool.map(scrape, range(8)))
        clock.advance(61.0)
        waiting.join()
    consumer.close()
    assert all('kafka_consumer_consumer_metrics_select{client_id="blocked"}' in page for page in pages)
    assert all(" NaN" not in page for page in pages)
    assert all("# TYPE kafka_consumer_consumer_metrics_select untyped" in page for page in pages)


class _Held:
    """A collector whose scrape waits."""

    def __init__(self) -> None:
        self.begun, self.go_on = threading.Event(), threading.Event()

    def describe(self) -> tuple[()]:
        return ()

    def collect(self) -> Iterator[Any]:
        self.begun.set()
        self.go_on.wait(60)
        yield prometheus_client.core.GaugeMetricFamily("held", "", value=5.0)


def _refuse_dns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each question for a name fail. Where DNS is broken, it takes seconds."""

    def asked(*_: object) -> None:
        raise AssertionError("the server has asked DNS")

    for name in ("getfqdn", "gethostbyaddr", "gethostbyname", "getnameinfo", "gethostname"):
        monkeypatch.setattr(socket, name, asked)
    resolve = socket.getaddrinfo
    monkeypatch.setattr(
        socket,
        "getaddrinfo",
        lambda asked, *rest, flags=0, **named: resolve(asked, *rest, flags=flags | socket.AI_NUMERICHOST, **named),
    )


def test_the_server_of_the_health_example_asks_no_dns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Probes that take seconds make Kubernetes restart a program that works."""
    serve_health = runpy.run_path(str(_EXAMPLES / "health_server.py"))["serve_health"]
    with KafkaConsumer(bootstrap_servers=_NOWHERE) as consumer:
        _refuse_dns(monkeypatch)
        with serve_health(consumer, 0) as server:
            answer = urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/alive", timeout=60)
            assert json.load(answer)["client_id"] == consumer.config.client_id
            server.shutdown()


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "::1"])
def test_the_server_asks_no_dns(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _refuse_dns(monkeypatch)
    try:
        server = serve(0, host)
    except OSError:
        if host != "::1":
            raise
        pytest.skip("this machine has no IPv6")
    with server:
        address = "[::1]" if host == "::1" else "127.0.0.1"
        with urllib.request.urlopen(f"http://{address}:{server.port}/metrics", timeout=60) as response:
            assert response.status == 200


def test_the_server_ends_at_once_with_connections_that_have_sent_no_request() -> None:
    with serve(0) as server:
        silent = socket.create_connection(("127.0.0.1", server.port), timeout=60)
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics", timeout=60) as response:
            response.read()  # connections are accepted in order, so the other one has its thread now
        threads = {one for one in threading.enumerate() if "process_request_thread" in one.name}
        assert threads
        server.close()
        for one in threads:
            one.join(60)
            assert not one.is_alive()
        assert silent.recv(100) == b""
        silent.close()
        server.close()


def test_a_scrape_in_progress_is_answered_before_close_returns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prometheus, "_LONGEST_END_S", 60.0)
    held = _Held()
    server = serve_collector(held, 0, "127.0.0.1")
    with ThreadPoolExecutor(2) as pool:
        page = pool.submit(_page, server.port)
        assert held.begun.wait(60)
        closing = pool.submit(server.close)
        server._thread.join(60)
        assert not closing.done()
        held.go_on.set()
        closing.result(60)
        assert "\nheld 5.0\n" in page.result(60)


def test_a_scrape_that_takes_too_long_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prometheus, "_LONGEST_END_S", 0.05)
    held = _Held()
    server = serve_collector(held, 0, "127.0.0.1")
    with ThreadPoolExecutor(1) as pool:
        page = pool.submit(_page, server.port)
        assert held.begun.wait(60)
        server.close()
        with pytest.raises(OSError):
            page.result(60)
        held.go_on.set()


def test_the_server_does_not_poll() -> None:
    """So ``close`` has no interval to wait for."""
    asked: list[Any] = []

    class Selector(selectors.DefaultSelector):
        def select(self, timeout: float | None = None) -> Any:
            asked.append(timeout)
            return super().select(timeout)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(selectors, "DefaultSelector", Selector)
        serve(0).close()
    assert set(asked) <= {None}


def test_a_request_that_is_no_http_leaves_the_server_as_it_is() -> None:
    with serve(0) as server:
        for sent in (b"\x16\x03\x01\x00", b"GET\r\n\r\n", b"A" * 70_000, b"POST / HTTP/1.0\r\n\r\n"):
            with socket.create_connection(("127.0.0.1", server.port), timeout=60) as one:
                one.sendall(sent)
                one.shutdown(socket.SHUT_WR)
                with contextlib.suppress(ConnectionError):
                    while one.recv(65536):
                        pass
        assert _page(server.port) is not None


def _page(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as response:
        text: str = response.read().decode()
    return text


def test_the_server_ends() -> None:
    before = set(threading.enumerate())
    server = serve(0)
    port = server.port
    server.close()
    assert {one.name for one in set(threading.enumerate()) - before} <= {"pyconsumer-log"}
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5)
