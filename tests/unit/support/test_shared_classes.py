"""Programs in Java start from the files that ``shared_classes`` makes."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.support.java import KafkaTools
from tests.support.process import run
from tests.support.shared_classes import share_kafkas_classes


@pytest.mark.kafka
@pytest.mark.slow
def test_kafkas_classes_come_from_the_file(kafka_tools: KafkaTools) -> None:
    share_kafkas_classes()
    command = kafka_tools.command("TopicCommand", "--help")
    command.insert(command.index("-cp"), "-Xlog:class+load:stdout")
    told = run(command).stdout
    assert "org.apache.kafka.tools.TopicCommand source: shared objects file" in told


@pytest.mark.spark
@pytest.mark.slow
def test_sparks_classes_come_from_the_file(tmp_path: Path) -> None:
    """Tests marked ``spark`` start their programs so."""
    told = tmp_path / "classes"
    options = {"SPARK_SUBMIT_OPTS": f"{os.environ['SPARK_SUBMIT_OPTS']} -Xlog:class+load:file={told}"}
    run([sys.executable, "-c", "from pyconsumer.spark import session; session().stop()"], env=options).check()
    assert "org.apache.spark.SparkContext source: shared objects file" in told.read_text()
