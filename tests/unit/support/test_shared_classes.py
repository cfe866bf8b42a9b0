"""Kafka's programs start from the file that ``shared_classes`` makes."""

from __future__ import annotations

import pytest

from tests.support.java import KafkaTools
from tests.support.process import run, wait_until
from tests.support.shared_classes import prepare_shared_classes


@pytest.mark.kafka
@pytest.mark.slow
def test_kafkas_classes_come_from_the_file(kafka_tools: KafkaTools) -> None:
    prepare_shared_classes()
    wait_until(kafka_tools.shared_classes.exists, 300, "the file, which another process may be making")
    command = kafka_tools.command("TopicCommand", "--help")
    command.insert(command.index("-cp"), "-Xlog:class+load:stdout")
    told = run(command).stdout
    assert "org.apache.kafka.tools.TopicCommand source: shared objects file" in told
