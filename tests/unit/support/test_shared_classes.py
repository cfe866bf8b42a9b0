"""Programs in Java start from the files that ``shared_classes`` makes, and Spark's Python without an archive."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from tests.support.java import KafkaTools
from tests.support.process import run
from tests.support.shared_classes import share_kafkas_classes, sparks_file
from tests.support.spark import spark_home


@pytest.mark.kafka
@pytest.mark.slow
def test_kafkas_classes_come_from_the_file(kafka_tools: KafkaTools) -> None:
    share_kafkas_classes()
    command = kafka_tools.command("TopicCommand", "--help")
    command.insert(command.index("-cp"), "-Xlog:class+load:stdout")
    output = run(command).stdout
    assert "org.apache.kafka.tools.TopicCommand source: shared objects file" in output


def test_jars_that_were_replaced_get_another_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Java silently ignores a file made from other jars: each new installation would have been slow from then on."""
    monkeypatch.setenv("PYCONSUMER_TEST_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir()
    monkeypatch.setattr("tests.support.shared_classes.what_java_says", lambda java: "the same")
    jars = tmp_path / "jars"
    jars.mkdir()
    jar = jars / "a.jar"
    jar.write_bytes(b"a class")
    os.utime(jar, (1_000_000, 1_000_000))
    first = sparks_file("java", jars)
    assert sparks_file("java", jars) == first
    first.write_bytes(b"classes")
    os.utime(jar, (1_000_000, 1_000_001))
    assert sparks_file("java", jars) != first
    assert not first.exists()


def test_environments_with_the_same_pyspark_share_a_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fresh clones share the file of Java's classes. To make it takes 40 s."""
    monkeypatch.setenv("PYCONSUMER_TEST_CACHE", str(tmp_path / "cache"))
    installed = [tmp_path / name for name in ("one", "two", "three")]
    for number, folder in enumerate(installed):
        for file in ("bin/spark-class", "sbin/start-master.sh", "jars/a.jar", "python/lib/pyspark.zip"):
            (folder / file).parent.mkdir(parents=True)
            (folder / file).write_text(file if number < 2 else f"another {file}")
        os.utime(folder / "jars" / "a.jar", (1_000_000, 1_000_000 + number))

    homes = [spark_home(folder, "4.0.0") for folder in installed]

    assert homes[0] == homes[1]
    assert spark_home(installed[0], "4.0.1") not in homes
    assert homes[2] != homes[0]
    for file in ("bin/spark-class", "sbin/start-master.sh", "jars/a.jar"):
        assert (homes[0] / file).read_text() == file
        assert (homes[2] / file).read_text() == f"another {file}"
    assert not (homes[0] / "python").exists(), "PySpark comes from the package, not from an archive"


#: Spark's start, a task and its end take 10 s of processor time, and a busy machine has had a minute of them.
_HANGS_AFTER_S = 200.0

_PROGRAM = """
import pyspark
from pyconsumer.spark import session

spark = session()
[found] = spark.sparkContext.parallelize([0], 1).map(lambda _: __import__("pyspark").__file__).collect()
print(found == pyspark.__file__)
spark.stop()
"""


@pytest.mark.spark
@pytest.mark.slow
def test_spark_starts_fast(tmp_path: Path) -> None:
    """Tests marked ``spark`` start their programs so: Java classes from a file, PySpark in workers from no archive."""
    output = tmp_path / "classes"
    options = {"SPARK_SUBMIT_OPTS": f"{os.environ['SPARK_SUBMIT_OPTS']} -Xlog:class+load:file={output}"}
    printed = run([sys.executable, "-c", _PROGRAM], timeout_s=_HANGS_AFTER_S, env=options).check().stdout
    [source] = re.findall(r"org\.apache\.spark\.SparkContext source: (.*)", output.read_text())
    assert source.startswith("shared objects file")
    assert "True" in printed.split()
