"""Metrics for Prometheus: names, labels, values that are left out, clients that come and go, and the server."""

from __future__ import annotations

import os
import signal
import threading
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest

from pyconsumer import KafkaAdminClient, KafkaConsumer
from pyconsumer.testing import RunningClock

prometheus_client = pytest.importorskip("prometheus_client")  # the extra [prometheus], which some lanes lack

from pyconsumer.metrics import collector, serve  # noqa: E402

_NOWHERE = "127.0.0.1:1"


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


def test_the_server_ends() -> None:
    before = set(threading.enumerate())
    server = serve(0)
    port = server.port
    server.close()
    assert {one.name for one in set(threading.enumerate()) - before} <= {"pyconsumer-log"}
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5)
