"""The code of the page about Spark runs, and its tables of options have all there are."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyconsumer import KafkaProducer
from pyconsumer.broker import EmbeddedCluster
from pyconsumer.schemas import AvroSerializer, MessageField, SchemaRegistryClient, SerializationContext
from pyconsumer.spark import options, sink
from tests.support.cluster import Cluster
from tests.support.spark_topics import reader

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(480)]

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "spark.md").read_text(encoding="utf-8")
PAGE_OF_SCHEMAS = (DOCS / "schemas.md").read_text(encoding="utf-8")


_OF_SINK = tuple(name for name in sink._KNOWN_OF_SINK if name != "checkpointLocation")
_OF_EXACTLY_ONCE = sink._OF_EXACTLY_ONCE


def test_the_code_runs(
    spark: Any,
    new_cluster: Callable[..., Cluster],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    cluster = new_cluster("embedded")  # of its own: the page names its topics
    cluster.create_topic("flights", 2)
    cluster.create_topic("flights-upper", 2)
    for topic in ("flights-once", "orders-json", "orders-dead", "orders-small"):
        cluster.create_topic(topic, 2)
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for number in range(10):
            producer.send("flights", f"to{number}", key="k")
    code = "\n".join(re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
    code = code.replace("localhost:9092", cluster.bootstrap_servers).replace('"archive/', f'"{tmp_path}/archive/')
    names: dict[str, Any] = {}
    with _registry_with_orders(cluster) as url:
        exec(compile(code.replace("http://localhost:8081", url), "docs/spark.md", "exec"), names)
    assert names["spark"] is spark
    said = capsys.readouterr().out
    assert "0 records behind" in said
    assert "|  7| Ada|" in said
    assert spark.read.parquet(str(tmp_path / "archive" / "flights")).count() == 10
    once = reader(
        spark, cluster.bootstrap_servers, {"subscribe": "flights-once", "kafka.isolation.level": "read_committed"}
    )
    assert once.load().count() == 10
    for topic, value in (("orders-json", b'{"id":7,"customer":{"name":"Ada"}}'), ("orders-dead", b"{}")):
        found = reader(
            spark, cluster.bootstrap_servers, {"subscribe": topic, "kafka.isolation.level": "read_committed"}
        )
        assert [bytes(row.value) for row in found.load().collect()] == [value]
    small = reader(spark, cluster.bootstrap_servers, {"subscribe": "orders-small"}).load()
    assert [bytes(row.value)[5:] for row in small.collect()] == [b"\x0e\6Ada"]
    copied = reader(spark, cluster.bootstrap_servers, {"subscribe": "flights-upper"}).load()
    assert sorted(row.value for row in copied.collect()) == [b"TO%d" % number for number in range(10)]


def test_a_typed_frame_from_zero(spark: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """The first program of the page about schemas prints what stands below it."""
    page = PAGE_OF_SCHEMAS.partition("## From zero to a typed DataFrame")[2]
    code, printed = (
        re.search(rf"^```{kind}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL) for kind in ("python", "text")
    )
    assert code is not None
    assert printed is not None
    names: dict[str, Any] = {}
    exec(compile(code[1], "docs/schemas.md", "exec"), names)
    assert names["spark"] is spark
    assert capsys.readouterr().out == printed[1]


@contextmanager
def _registry_with_orders(cluster: Cluster) -> Iterator[str]:
    """A registry, and the topic ``orders`` with a good and a bad value."""
    customer = {"type": "record", "name": "Customer", "fields": [{"name": "name", "type": "string"}]}
    fields = [{"name": "id", "type": "long"}, {"name": "customer", "type": customer}]
    with (
        EmbeddedCluster(data_dir=":memory:", schema_registry=True) as registry,
        SchemaRegistryClient(registry.schema_registry_url) as client,
        KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer,
    ):
        serializer = AvroSerializer(client, json.dumps({"type": "record", "name": "Order", "fields": fields}))
        context = SerializationContext("orders", MessageField.VALUE)
        producer.send("orders", serializer({"id": 7, "customer": {"name": "Ada"}}, context))
        producer.send("orders", b"{}")
        producer.flush()
        yield registry.schema_registry_url


def test_the_code_of_the_readme_runs(spark: Any, new_cluster: Callable[..., Cluster]) -> None:
    cluster = new_cluster("embedded")
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        producer.send("flights", "one")
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```python\n(from pyconsumer.spark .*?)^```$", readme, re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(code.replace("localhost:9092", cluster.bootstrap_servers), "README.md", "exec"), names)
    assert names["flights"].count() == 1


@pytest.mark.parametrize(
    ("heading", "known"),
    [
        ("## Options of the source", options._KNOWN),
        ("## Options of the sink", tuple(name for name in _OF_SINK if name not in _OF_EXACTLY_ONCE)),
        ("## Exactly once", ("deliveryGuarantee", *_OF_EXACTLY_ONCE)),
    ],
)
def test_the_tables_have_every_option(heading: str, known: tuple[str, ...]) -> None:
    section = PAGE.split(heading + "\n")[1].split("\n## ")[0]
    named = [
        name
        for row in re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
        for name in re.findall(r"`([^`]+)`", row.partition(" | ")[0])
        if not name.startswith(("kafka.", "schema.registry."))
    ]
    assert sorted(named) == sorted(known)
