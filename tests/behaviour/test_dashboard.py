"""The dashboard in ``examples/``: Prometheus scrapes our clients, and each expression of the dashboard has a value."""

from __future__ import annotations

import json
import re
import shutil
import socket
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("prometheus_client")  # the extra [prometheus]

from pyconsumer import KafkaAdminClient, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from pyconsumer.cli.export import GroupLags
from pyconsumer.metrics import serve
from pyconsumer.metrics.prometheus import serve_collector
from tests.support.cluster import Cluster
from tests.support.process import GuardedProcess, wait_until

DASHBOARD = Path(__file__).parents[2] / "examples" / "grafana_dashboard.json"
_CONFIG = """\
global: {{scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 10m}}
scrape_configs:
- {{job_name: clients, static_configs: [{{targets: ["127.0.0.1:{clients}"]}}]}}
- {{job_name: groups, static_configs: [{{targets: ["127.0.0.1:{groups}"]}}]}}
"""
#: The variables of the dashboard and of Grafana.
_VARIABLES = {"$client_id": "dashboard-.*", "$consumergroup": ".*", "$__rate_interval": "20s"}


def expressions() -> dict[str, str]:
    """Return the expressions by panel, with the variables' values."""
    found: dict[str, str] = {}
    for panel in json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]:
        for target in panel.get("targets", ()):
            text = target["expr"]
            for name, value in _VARIABLES.items():
                text = text.replace(name, value)
            found[f"{panel['id']} {panel['title']} {target['refId']}"] = text
    return found


class Prometheus:
    """A Prometheus that scrapes two ports."""

    def __init__(self, folder: Path, program: str, clients: int, groups: int) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = free.getsockname()[1]
        config = folder / "prometheus.yml"
        config.write_text(_CONFIG.format(clients=clients, groups=groups))
        self.process = GuardedProcess(
            [
                program,
                f"--config.file={config}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{self._port}",
            ],
            output=folder / "prometheus.log",
        )

    def query(self, expression: str) -> list[float]:
        """Return the values of an expression, NaN left out. Nothing if it cannot be evaluated yet."""
        form = urllib.parse.urlencode({"query": expression})
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/api/v1/query?{form}", timeout=10) as response:
                answer: dict[str, Any] = json.load(response)
        except (ConnectionError, urllib.error.URLError):
            return []
        values = [float(one["value"][1]) for one in answer["data"]["result"]]
        return [value for value in values if value == value]


@pytest.fixture
def prometheus(cluster: Cluster, topic: str, group_id: str, tmp_path: Path) -> Iterator[Prometheus]:
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("Prometheus is not installed: apt-get install prometheus")
    servers = cluster.bootstrap_servers
    with (
        KafkaProducer(bootstrap_servers=servers, client_id="dashboard-writer") as producer,
        KafkaConsumer(
            topic,
            bootstrap_servers=servers,
            client_id="dashboard-reader",
            group_id=group_id,
            auto_offset_reset="earliest",
            auto_commit_interval_ms=100,
            heartbeat_interval_ms=100,
        ) as consumer,
        KafkaAdminClient(bootstrap_servers=servers, client_id="dashboard-boss") as admin,
        serve(0) as clients,
        serve_collector(GroupLags(admin, f"{group_id}.*", "", 30_000), 0, "127.0.0.1") as groups,
    ):
        admin.alter_group_offsets(f"{group_id}-2", {TopicPartition(topic, 0): OffsetAndMetadata(0)})
        running = Prometheus(tmp_path, program, clients.port, groups.port)
        try:
            for _ in range(40):  # some scrapes see the clients at work
                producer.send(topic, b"x").get(30)
                consumer.poll(100)
            yield running
        finally:
            running.process.stop()


@pytest.mark.concurrent
@pytest.mark.slow
@pytest.mark.embedded_only("Prometheus and our clients are judged here. Names do not depend on the broker")
def test_each_expression_of_the_dashboard_has_a_value(prometheus: Prometheus) -> None:
    missing = dict(expressions())
    assert len(missing) > 25

    def evaluated() -> bool:
        for panel, text in list(missing.items()):
            if prometheus.query(text):
                del missing[panel]
        return not missing

    try:
        wait_until(evaluated, 60, "a value of each expression", interval_s=0.5)
    except AssertionError:
        raise AssertionError(f"without a value: {missing}") from None


def test_the_dashboard_names_its_variables_and_places_its_panels() -> None:
    dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    names = {f"${variable['name']}" for variable in dashboard["templating"]["list"]}
    assert names == {"$datasource", *_VARIABLES} - {"$__rate_interval"}
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(ids)) == len(ids)
    assert not [text for text in expressions().values() if "$" in text]
    targets = [target for panel in dashboard["panels"] for target in panel.get("targets", ())]
    assert len(expressions()) == len(targets), "each one is evaluated: two of a panel with the same refId would be one"
    always = [text for text in expressions().values() if re.search(r"\b(?:vector|absent|scalar)\(|\bor\b", text)]
    assert always == [], "these have a value without any metric"
