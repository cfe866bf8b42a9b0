"""What is tried again when the cluster does not answer."""

from __future__ import annotations

import pytest

from pyconsumer.errors import KafkaTimeoutError
from pyconsumer.spark.lookups import ClusterLookups
from tests.unit.spark.fake_broker import TP, FakeConnection


def asked(*, patient: bool) -> tuple[float, list[float]]:
    """How long an unreachable leader is waited for, and the pauses between."""
    connection = FakeConnection(default_api_timeout_ms="500")
    connection.leader_known = False
    pauses: list[float] = []
    lookups = ClusterLookups(
        connection,  # type: ignore[arg-type]
        attempts=3,
        retry_ms=200,
        patient=patient,
        sleep=pauses.append,
    )
    start = connection.clock.now()
    with pytest.raises(KafkaTimeoutError, match=r"asking for offsets at x:9092 took longer than 500 ms"):
        lookups.offsets({TP: -1})
    return connection.clock.now() - start, pauses


def test_a_batch_tells_soon_that_the_cluster_is_not_there() -> None:
    elapsed, pauses = asked(patient=False)
    assert elapsed == pytest.approx(0.5, abs=0.11)
    assert pauses == []


def test_a_stream_outlives_a_longer_outage() -> None:
    elapsed, pauses = asked(patient=True)
    assert elapsed == pytest.approx(1.5, abs=0.33)
    assert pauses == [0.2, 0.2]
