"""Batches that are odd, and that Apache Kafka stores: the broker takes them, and the consumer reads every record.

The oddity of each is in ``tests/vectors/make_tolerance.py``, and the records of Java's consumer in ``tolerance.json``.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from pyconsumer import TopicPartition
from pyconsumer.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.behaviour.consumer_support import consuming, read
from tests.support.cluster import Cluster
from tests.support.raw_client import RawClient
from tests.vectors.make_tolerance import client_batches

_SETS: list[dict[str, Any]] = json.loads((Path(__file__).parents[1] / "vectors/tolerance.json").read_text())
_READ_BY_JAVA = {one["name"]: one["records"] for one in _SETS if one["error"] is None}
#: Kafka's broker writes other offsets into a batch whose offsets are odd.
_CORRECTED = ("record: an offset", "record: the same offset", "record: offsets in the wrong order")
_REFUSED = ("record: a timestamp that overflows",)


def _odd() -> dict[str, tuple[bytes, list[Any]]]:
    """Return the batches that a broker stores as they are, and the records that Java reads in each."""
    return {
        name: (batch, _READ_BY_JAVA[name][:count])
        for name, (batch, count) in client_batches().items()
        if count and name in _READ_BY_JAVA and not name.startswith(_CORRECTED + _REFUSED)
    }


def _produce(client: RawClient, topic: str, batch: bytes) -> Any:
    data = PartitionProduceData(index=0, records=batch)
    request = ProduceRequest(
        acks=-1, timeout_ms=10_000, topic_data=[TopicProduceData(name=topic, partition_data=[data])]
    )
    deadline = time.monotonic() + 60
    while True:
        answer = client.request(request, 9).responses[0].partition_responses[0]
        if answer.error_code not in (3, 5, 6) or time.monotonic() > deadline:  # the leader may not know of it yet
            return answer
        time.sleep(0.02)


@pytest.mark.twins
def test_odd_batches_are_stored_and_read(cluster: Cluster, topic: str) -> None:
    refused, expected = {}, []
    with cluster.raw() as client:
        for name, (batch, records) in _odd().items():
            answer = _produce(client, topic, batch)
            if answer.error_code:
                refused[name] = (answer.error_code, answer.error_message)
            else:
                expected += [(name, *fields) for _, *fields in records]
    assert refused == {}
    assert len(_odd()) > 80
    with consuming(cluster, TopicPartition(topic, 0)) as consumer:
        found = read(consumer, len(expected))
    assert [record.offset for record in found] == list(range(len(expected)))
    for record, (name, timestamp, key, value, headers) in zip(found, expected, strict=True):
        seen = [None if data is None else data.hex() for data in (record.key, record.value)]
        assert (record.timestamp, seen) == (timestamp, [key, value]), name
        assert [[header, None if data is None else data.hex()] for header, data in record.headers] == headers, name
