"""The tutorial works as it is typed in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pyconsumer.broker import EmbeddedCluster
from tests.support.cluster import Cluster
from tests.support.typed_pages import Typist

PAGE = (Path(__file__).parents[2] / "docs" / "tutorial.md").read_text("utf-8")
_QUICKER = {"consumer_timeout_ms=10_000": "consumer_timeout_ms=6_000", "session()": "session('local[2]')"}
#: Three seconds on the broker that a reader starts.
_DELAY = {"group.initial.rebalance.delay.ms": 1000}


def _section(title: str) -> str:
    return PAGE.split(f". {title}\n")[1].split("\n## ")[0]


@pytest.mark.slow
def test_the_tutorial_works_up_to_spark(tmp_path: Path, new_cluster: Callable[..., Cluster]) -> None:
    typist = Typist(tmp_path, new_cluster("embedded", config=_DELAY).bootstrap_servers, _QUICKER)
    typist.do(PAGE.split("\n## 9. Spark\n")[0])
    programs = [line.split()[1] for line in typist.done if line.startswith("python ")]
    assert programs == ["order.py", "kitchen.py", "kitchen.py", "bill.py", "bill.py", "board.py"]
    assert typist.done[-1] == "pytest -q"


@pytest.mark.slow
def test_the_tutorials_step_with_schemas_works(tmp_path: Path) -> None:
    with EmbeddedCluster(schema_registry=True) as cluster:
        url = str(cluster.schema_registry_url)
        typist = Typist(tmp_path, cluster.bootstrap_servers, {"http://localhost:8081": url}, registry=url)
        typist.do(_section("Orders with a schema"))
        assert typist.done[0] == "python cakes.py"
        assert typist.type("pyconsumer schemas list --json").stdout.count("cakes-value") == 1


@pytest.mark.slow
def test_the_tutorials_workers_work(tmp_path: Path, new_cluster: Callable[..., Cluster]) -> None:
    typist = Typist(tmp_path, new_cluster("embedded").bootstrap_servers, _QUICKER)
    for section in ("Records in and out", "Send from a program"):
        typist.do(_section(section))
    typist.type("python order.py")
    typist.do(_section("Many orders at once"))
    assert typist.done[-1] == "python deliver.py"


@pytest.mark.spark
@pytest.mark.slow
def test_the_tutorials_report_works(tmp_path: Path, new_cluster: Callable[..., Cluster]) -> None:
    pytest.importorskip("pyspark")
    typist = Typist(tmp_path, new_cluster("embedded").bootstrap_servers, _QUICKER)
    typist.do(_section("Records in and out"))
    typist.do(_section("Send from a program"))
    typist.type("python order.py")
    report = _section("Spark")
    typist.do(report.split("```console\n$ python report.py")[0])
    finished = typist.type("python report.py")
    assert finished.stdout.strip() == report.split("$ python report.py\n")[1].split("```")[0].strip()
