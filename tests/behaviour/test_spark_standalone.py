"""A standalone cluster of Spark: Master and Worker are processes, and four executors work at once.

Nothing of pyconsumer is installed beside the executors. The driver's worker, which plans, can parse Protobuf and
check JSON. Two of them are usual ones. The Python of the third has another
ABI. The fourth may run no file from its folders (``noexec``). All work in one folder that is ``noexec``, if this system
lets the tests mount one, so that the usual ones take the compiled decoders from their temporary folders.

A test takes two minutes of a processor, so they run with ``PYCONSUMER_SPARK_CLUSTERS=1`` alone, as in ``tox -e long``.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pytest

pytest.importorskip("pyspark")

from pyconsumer.broker import EmbeddedCluster
from pyconsumer.schemas import Schema, SchemaRegistryClient
from tests.support.process import GuardedProcess, wait_until
from tests.support.spark import need_spark
from tests.support.spark_bare import fill, run_in, workers_packages
from tests.support.spark_standalone import Machines
from tests.support.spark_topics import Row, produce

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        not os.environ.get("PYCONSUMER_SPARK_CLUSTERS"),
        reason="set PYCONSUMER_SPARK_CLUSTERS=1",
    ),
]

ROOT = Path(__file__).parents[2]
EXECUTORS = 4
RECORDS = 40
ODD_ABI = ".cpython-399-odd.so"
SCHEMAS = {
    "avro": '{"type": "record", "name": "R", "fields": [{"name": "x", "type": "int"}]}',
    "json": '{"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}',
    "protobuf": 'syntax = "proto3"; message R { optional int32 x = 1; }',
}
#: A later version, whose values the executors meet, too.
NEWER = 'syntax = "proto3"; message Other {} message R { optional int32 x = 1; int32 y = 2; }'

#: The Python of the executors. Their folders end with their numbers.
_PYTHON = """#!/bin/sh
export TMPDIR=<tmp>/$(basename "$PWD")
case "$PWD" in
*/app-*/2) exec <python> -S <odd> "$@" ;;
*/app-*/3) export TMPDIR="$PWD" ;;
*/app-*) ;;
*) export PYTHONPATH="$PYTHONPATH:<parsers>" ;;
esac
mkdir -p "$TMPDIR"
exec <python> -S "$@"
"""
_ODD = """
import importlib.machinery, os, runpy, sys
os.makedirs(os.environ["TMPDIR"], exist_ok=True)
import pyarrow
importlib.machinery.EXTENSION_SUFFIXES.insert(0, <abi>)
assert sys.argv[1] == "-m"
sys.argv[:2] = []
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""
_SETTINGS = """
settings = {
    "spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR",
    "spark.driver.memory": "1g", "spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1",
    "spark.executor.cores": "1", "spark.executor.memory": "512m",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "300s",
}
"""
_JOB = """
from pyconsumer.spark import check
for found in check(spark):
    print("executor", found.records, found.avro, found.has_registry_client, found.reason)
brokers = {"kafka.bootstrap.servers": <servers>}
values = {**brokers, "schema.registry.url": <registry>, "minPartitions": "8"}
def numbers(topic, **more):
    frame = spark.read.format("pyconsumer").options(**values, subscribe=topic).options(**more).load()
    return frame.select("value")
def right(frame):
    return sorted(row.x for row in frame.select("value.x").collect()) == [*range(<records>)]
for place, (form, schema) in enumerate(<schemas>.items()):
    frame = numbers(form, **{"value.format": form, "value.schema.id": str(place + 1)})
    print("typed", form, right(frame))
    out = frame.write.format("pyconsumer").options(**brokers, topic=f"{form}-<run>")
    out = out.options(**{"value.format": form, "value.schema": schema, "schema.registry.url": <registry>})
    try:
        out.mode("append").save()
    except Exception as error:
        print("not written", form, " ".join(str(error).split())[:9000])
    else:
        print("written", form, right(numbers(f"{form}-<run>", **{"value.format": form})))
newer = {"value.format": "protobuf", "value.schema.id": "3"}
try:
    numbers("newer", **newer).collect()
except Exception as error:
    print("not parsed", " ".join(str(error).split())[:9000])
given = {"value.format": "protobuf", "value.schema": <schemas>["protobuf"]}
print("given", [row.x for row in numbers("newer", **given).select("value.x").collect()])
spark.stop()
"""
_CLASSIC = (
    """
import sys
sys.path.insert(0, <root>)
from pyconsumer.spark import session
"""
    + _SETTINGS
    + """
spark = session(master=<master>, **settings)
"""
    + _JOB
)
_SERVER = (
    """
from pyspark.sql import SparkSession
"""
    + _SETTINGS
    + """
settings["spark.plugins"] = "org.apache.spark.sql.connect.SparkConnectPlugin"
settings["spark.connect.grpc.binding.port"] = "0"
spark = SparkSession.builder.master(<master>).config(map=settings).getOrCreate()
service = "org.apache.spark.sql.connect.service.SparkConnectService$"
java = spark._jvm.java.lang
service = java.Thread.currentThread().getContextClassLoader().loadClass(service).getField("MODULE$").get(None)
print("port", service.localPort(), flush=True)
input()
"""
)
_CLIENT = (
    """
import sys
sys.path.insert(0, <root>)
from pyconsumer.spark import session
spark = session(master=<url>)
"""
    + _JOB
)


class World(NamedTuple):
    """A standalone cluster of Spark, and a topic with values of a registry's schema."""

    master: str
    environment: dict[str, str]
    has_noexec: bool
    values: dict[str, str]

    def check(self, said: str) -> None:
        """Each executor used the best decoders for it, and all rows were right."""
        executors = sorted(line.removeprefix("executor ") for line in said.splitlines() if line.startswith("executor "))
        assert len(executors) == EXECUTORS, said
        usual = [one for one in executors if one == "native native True "]
        assert len(usual) == (2 if self.has_noexec else 3), executors
        odd = [one for one in executors if ODD_ABI.strip(".") in one]
        assert [one.partition(" the ")[0] for one in odd] == ["pure pure True"], executors
        if self.has_noexec:
            (blocked,) = (one for one in executors if "failed to map segment" in one)
            assert blocked.startswith("pure pure True ")
        lines = said.splitlines()
        for form in SCHEMAS:
            assert f"typed {form} True" in lines, said
            assert (f"written {form} True" in lines) == (form != "json"), said
        # The checker of JSON and the compiler of Protobuf are compiled, so they are not sent.
        (unwritten,) = (line for line in lines if line.startswith("not written json"))
        assert "pip install pyconsumer[json-schema]" in unwritten
        (unparsed,) = (line for line in lines if line.startswith("not parsed"))
        for part in ("that of the column, 3", "needs grpcio-tools: pip install pyconsumer[protobuf]", "value.schema"):
            assert part in unparsed
        assert "given [7]" in lines


def _can_mount(folder: Path) -> bool:
    command = ["unshare", "-m", "mount", "-t", "tmpfs", "-o", "noexec", "tmpfs", str(folder)]
    try:
        return subprocess.run(command, capture_output=True, timeout=60, check=False).returncode == 0
    except OSError:
        return False


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    need_spark(connect=True)
    folder = tmp_path_factory.mktemp("standalone")
    work, odd, python = folder / "work", folder / "odd.py", folder / "python"
    work.mkdir()
    odd.write_text(fill(_ODD, abi=ODD_ABI))
    parsers = _linked(folder / "parsers", "google", "grpc", "grpc_tools", "jsonschema_rs")
    script = (
        _PYTHON.replace("<parsers>", str(parsers))
        .replace("<python>", sys.executable)
        .replace("<odd>", str(odd))
        .replace("<tmp>", str(folder / "t"))
    )
    python.write_text(script)
    python.chmod(0o755)
    machines = Machines(folder, python, workers_packages(folder))
    has_noexec = _can_mount(work)
    try:
        mount = f'mount -t tmpfs -o noexec tmpfs {work} && exec "$@"'
        before = ["unshare", "-m", "sh", "-c", mount, "sh"] if has_noexec else []
        machines.add(cores=EXECUTORS, memory="4g", work=work, before=before)
        with (
            EmbeddedCluster(data_dir=":memory:", schema_registry=True) as cluster,
            SchemaRegistryClient(cluster.schema_registry_url) as client,
        ):
            for place, (form, schema) in enumerate(SCHEMAS.items()):
                assert client.register_schema(f"any-{form}", Schema(schema, form.upper())) == place + 1
                rows = [Row(bytes([0, 0, 0, 0, place + 1]) + _bytes(form, number)) for number in range(RECORDS)]
                produce(cluster.bootstrap_servers, form, rows)
            assert client.register_schema("newer", Schema(NEWER, "PROTOBUF")) == 4
            produce(cluster.bootstrap_servers, "newer", [Row(b"\0\0\0\0\4\2\2\x08\7")])  # the path [1]
            values = {
                "servers": cluster.bootstrap_servers,
                "registry": cluster.schema_registry_url,
            }
            yield World(machines.url, machines.environment, has_noexec, values)
    finally:
        machines.stop()


def _bytes(form: str, number: int) -> bytes:
    made = {"avro": bytes([2 * number]), "json": b'{"x": %d}' % number, "protobuf": bytes([0, 8, number])}
    return made[form]


def _linked(folder: Path, *names: str) -> Path:
    """A folder of packages that are installed here."""
    folder.mkdir()
    for name in names:
        spec = find_spec(name)
        assert spec is not None
        (place,) = spec.submodule_search_locations or ()
        (folder / name).symlink_to(place)
    return folder


def _program(text: str, world: World, run: str, **more: str) -> str:
    text = text.replace("<records>", str(RECORDS)).replace("<schemas>", repr(SCHEMAS)).replace("<run>", run)
    return fill(text, root=str(ROOT), **world.values, **more)


def test_a_classic_session(world: World, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(_program(_CLASSIC, world, "classic", master=world.master))
    environment = {**world.environment, "PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    world.check(run_in(environment, script, tmp_path))


def test_over_spark_connect(world: World, tmp_path: Path) -> None:
    server_script, script = tmp_path / "server.py", tmp_path / "client.py"
    server_script.write_text(_program(_SERVER, world, "connect", master=world.master))
    lines: list[str] = []
    command = [sys.executable, "-S", str(server_script)]
    server = GuardedProcess(command, on_line=lines.append, env=world.environment, cwd=tmp_path)
    try:
        wait_until(lambda: any(line.startswith("port ") for line in lines) or not server.running, 300, "a port")
        assert server.running, server.stderr
        (line,) = (line for line in lines if line.startswith("port "))
        script.write_text(_program(_CLIENT, world, "connect", url=f"sc://127.0.0.1:{line.split()[1]}"))
        world.check(run_in({"PATH": os.environ["PATH"], "HOME": str(tmp_path)}, script, tmp_path))
    finally:
        server.stop()
