"""``store_offsets``: programs that commit finished records, on both faces of the consumer."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from pyconsumer import OffsetAndMetadata, TopicPartition
from pyconsumer.errors import IllegalStateError, InvalidGroupIdError
from tests.behaviour.consumer_support import consuming, fill, read
from tests.support.cluster import Cluster

pytestmark = pytest.mark.faces

BY_STORE = {"enable_auto_offset_store": False}
CLASSIC = {"heartbeat_interval_ms": 100}


def committed(cluster: Cluster, group_id: str, tp: TopicPartition) -> OffsetAndMetadata | None:
    with consuming(cluster, group_id=group_id) as other:
        found: OffsetAndMetadata | None = other.committed(tp, metadata=True)
        return found


def of_protocol(protocol: str) -> dict[str, Any]:
    return {"group_protocol": protocol} | (CLASSIC if protocol == "classic" else {})


@pytest.mark.protocols
def test_close_and_intervals_commit_only_stored_offsets(
    cluster: Cluster, group_protocol: str, topic: str, group_id: str
) -> None:
    tp = TopicPartition(topic, 0)
    fill(cluster, topic, 20)
    settings = BY_STORE | {"group_id": group_id} | of_protocol(group_protocol)
    with consuming(cluster, auto_commit_interval_ms=600_000, **settings) as consumer:
        consumer.subscribe([topic])
        records = read(consumer, 20)
        consumer.commit()
        assert consumer.committed(tp) is None, "nothing is stored"
        consumer.store_offsets(records[4])
        consumer.commit()
        assert consumer.committed(tp, metadata=True) == OffsetAndMetadata(5, "", records[4].leader_epoch)
        consumer.store_offsets({tp: 7})
        consumer.store_offsets(records[:12])
    found = committed(cluster, group_id, tp)
    assert found is not None
    assert found.offset == 12, "the last that was stored, in close"
    with consuming(cluster, auto_commit_interval_ms=100, **settings) as consumer:
        consumer.subscribe([topic])
        assert [record.offset for record in read(consumer, 8)] == list(range(12, 20))
        consumer.store_offsets({tp: 15})
        deadline = time.monotonic() + 60
        while consumer.committed(tp) != 15:
            assert time.monotonic() < deadline
            consumer.poll(50)


@pytest.mark.protocols
def test_stored_offsets_are_committed_before_a_partition_moves_and_never_after(
    cluster: Cluster, group_protocol: str, make_topic: Callable[..., str], group_id: str
) -> None:
    topic = make_topic(2)
    both = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
    for tp in both:
        fill(cluster, topic, 10, partition=tp.partition)
    settings = BY_STORE | {"group_id": group_id, "auto_commit_interval_ms": 600_000} | of_protocol(group_protocol)
    with consuming(cluster, **settings) as first, consuming(cluster, **settings) as second:
        first.subscribe([topic])
        read(first, 20)
        first.store_offsets(dict.fromkeys(both, 6))
        second.subscribe([topic])
        deadline = time.monotonic() + 60
        found: list[int] = []
        while not (len(first.assignment()) == len(second.assignment()) == 1 and found):
            assert time.monotonic() < deadline
            first.poll(20)
            found += [record.offset for record in second.poll(20).records()]
        assert found[0] == 6, "the other member starts where the first had finished"
        (moved,) = second.assignment()
        with pytest.raises(IllegalStateError, match="not assigned"):
            first.store_offsets({moved: 10})


def test_wrong_calls(cluster: Cluster, topic: str, group_id: str) -> None:
    tp = TopicPartition(topic, 0)
    with consuming(cluster) as consumer:
        consumer.assign([tp])
        with pytest.raises(InvalidGroupIdError):
            consumer.store_offsets({tp: 1})
    with consuming(cluster, group_id=group_id) as consumer:
        consumer.assign([tp])
        with pytest.raises(IllegalStateError, match="enable_auto_offset_store=False"):
            consumer.store_offsets({tp: 1})
    with consuming(cluster, group_id=group_id, enable_auto_offset_store=False) as consumer:
        consumer.assign([tp])
        with pytest.raises(ValueError, match="must not be negative"):
            consumer.store_offsets({tp: -1})
        consumer.store_offsets({tp: 4})
    found = committed(cluster, group_id, tp)
    assert found is not None
    assert found.offset == 4, "partitions assigned by hand are committed, too"
