"""Kafka's own measuring programs, ``ProducerPerformance`` and ``ConsumerPerformance``."""

from __future__ import annotations

import re

from tests.benchmarks.measure import WrongAnswerError, timed
from tests.benchmarks.results import Run
from tests.benchmarks.setup import Setup

__all__ = ["consume_with_java", "produce_with_java"]


def produce_with_java(setup: Setup, servers: str, topic: str, records: int, size_bytes: int, *extra: str) -> Run:
    """Java's ``ProducerPerformance``. Its own figure, without its warm-up records."""
    warm_up = records // 4
    finished, _, cpu = timed(
        lambda: setup.tools.run(
            "ProducerPerformance",
            *("--bootstrap-server", servers, "--topic", topic, "--throughput", "-1"),
            *("--num-records", str(records + warm_up), "--warmup-records", str(warm_up)),
            *("--record-size", str(size_bytes)),
            *extra,
            timeout_s=600,
            quick=False,
        )
    )
    everything = re.findall(r"^(\d+) records sent, ", finished.stdout, re.MULTILINE)
    steady = re.search(r"^(\d+) steady state records sent, ([\d.]+) records/sec", finished.stdout, re.MULTILINE)
    if not everything or int(everything[-1]) != records + warm_up or steady is None or int(steady[1]) != records:
        raise WrongAnswerError(f"ProducerPerformance did not send {records + warm_up} records:\n{finished.stdout}")
    # Its processor time is that of the whole process, so it is divided by all that it sent.
    return Run("", amount=records, seconds=records / float(steady[2]), cpu_s=cpu * records / (records + warm_up))


def consume_with_java(setup: Setup, servers: str, topic: str, records: int) -> Run:
    """Java's ``ConsumerPerformance``. Its own figure, without the time until the group was formed."""
    finished, _, cpu = timed(
        lambda: setup.tools.run(
            "ConsumerPerformance",
            *("--bootstrap-server", servers, "--topic", topic, "--num-records", str(records), "--hide-header"),
            *("--timeout", "30000"),
            timeout_s=600,
            quick=False,
        )
    )
    fields = [text.strip() for text in finished.lines[-1].split(",")]
    if int(fields[4]) < records:
        raise WrongAnswerError(f"ConsumerPerformance read {fields[4]} of {records} records")
    if not float(fields[9]):
        raise WrongAnswerError("ConsumerPerformance could not measure so short a time")
    return Run("", amount=records, seconds=records / float(fields[9]), cpu_s=cpu)
