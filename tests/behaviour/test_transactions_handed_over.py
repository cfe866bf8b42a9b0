"""Transactions that a producer lets go of and that somebody else ends, as the Spark sink does it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

pytest.importorskip("pyspark")  # the requests are part of the Spark sink

from pyconsumer import KafkaAdminClient, KafkaProducer
from pyconsumer.errors import IllegalStateError, InvalidTxnStateError, KafkaError, ProducerFencedError
from pyconsumer.network.futures import Steps
from pyconsumer.producer.producer import detach_transaction
from pyconsumer.producer.transaction_manager import DetachedTransaction
from pyconsumer.spark import transaction_calls as calls
from pyconsumer.structs import OffsetAndMetadata, TopicPartition
from tests.behaviour.consumer_support import read_to_end
from tests.support.cluster import Cluster

Ends = dict[str, KafkaError]


def hand_over(cluster: Cluster, topic: str, name: str, values: list[bytes]) -> DetachedTransaction:
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, transactional_id=name) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        for value in values:
            producer.send(topic, value)
        found = detach_transaction(producer)
        assert found is not None
        with pytest.raises(KafkaError, match="handed over"):
            producer.commit_transaction()
    return found


def end(admin: KafkaAdminClient, one: DetachedTransaction, *, commit: bool) -> Ends:
    def steps(until: float) -> Steps[Ends]:
        return calls.end(admin._calls, [one], commit=commit, deadline=until)

    return admin._run(steps, None)


def check(cluster: Cluster, topic: str, version: int) -> None:
    """Everything that is done with a transaction which was handed over."""
    with KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
        kept = hand_over(cluster, topic, f"{topic}-a", [b"1", b"2"])
        dropped = hand_over(cluster, topic, f"{topic}-b", [b"3"])
        fenced = hand_over(cluster, topic, f"{topic}-c", [b"4"])
        assert {one.is_v2 for one in (kept, dropped, fenced)} == {version == 2}
        names = [one.transactional_id for one in (kept, dropped, fenced)]
        assert admin._run(lambda until: calls.open_ids(admin._calls, f"{topic}-", until), None) == names
        states = admin._run(lambda until: calls.describe(admin._calls, [*names, "nobody"], until), None)
        assert {name: (state.transaction_state, state.producer_epoch) for name, state in states.items()} == {
            one.transactional_id: ("Ongoing", one.epoch) for one in (kept, dropped, fenced)
        }
        assert read_to_end(cluster.bootstrap_servers, topic, 1, "read_committed") == []
        assert end(admin, kept, commit=True) == {}
        assert end(admin, dropped, commit=False) == {}
        assert admin._run(lambda until: calls.fence(admin._calls, [fenced.transactional_id], until), None) == {}
        for _ in range(2):  # by whoever comes after a crash
            assert end(admin, kept, commit=True) == {}
        refused = end(admin, dropped, commit=True)
        assert [type(error) for error in refused.values()] == [InvalidTxnStateError]
        assert end(admin, fenced, commit=True).keys() == {fenced.transactional_id}
        assert read_to_end(cluster.bootstrap_servers, topic, 1, "read_committed") == [b"1", b"2"]
        left = admin._run(lambda until: calls.open_ids(admin._calls, f"{topic}-", until), None)
        states = admin._run(lambda until: calls.describe(admin._calls, left, until), None)
        assert left == [fenced.transactional_id]
        assert states[left[0]].transaction_timeout_ms == calls.FENCED_TIMEOUT_MS


def test_a_transaction_is_ended_by_somebody_else(cluster: Cluster, topic: str) -> None:
    check(cluster, topic, 1 if cluster.kind == "apache_old" else 2)


def test_the_same_under_transaction_version_1(new_cluster: Callable[..., Cluster], topic_name: str) -> None:
    cluster = new_cluster("embedded", features={"transaction.version": 1})
    check(cluster, cluster.create_topic(topic_name), 1)


def test_a_producer_whose_id_was_fenced_can_write_no_more(cluster: Cluster, topic: str) -> None:
    with KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
        producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, transactional_id=topic)
        producer.init_transactions()
        producer.begin_transaction()
        with pytest.raises(IllegalStateError):
            producer.begin_transaction()
        assert admin._run(lambda until: calls.fence(admin._calls, [topic], until), None) == {}
        with pytest.raises(KafkaError):
            producer.send(topic, b"late").get(30)
        with pytest.raises(KafkaError) as caught:
            detach_transaction(producer)
        assert isinstance(caught.value, ProducerFencedError) or isinstance(caught.value.__cause__, KafkaError)
        producer.close()
        assert [one.state for one in admin.list_transactions() if one.transactional_id == topic] != ["Ongoing"]


def test_an_offset_is_read_after_the_transaction_that_commits_it(cluster: Cluster, topic: str, group_id: str) -> None:
    tp = TopicPartition(topic, 0)
    with KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:

        def read() -> OffsetAndMetadata | None:
            return admin._run(lambda until: calls.stable_offset(admin._calls, group_id, tp, until), None)

        assert read() is None
        with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, transactional_id=topic) as producer:
            producer.init_transactions()
            with producer.transaction():
                producer.send_offsets_to_transaction({tp: OffsetAndMetadata(7, "said")}, group_id)
        found = read()
        assert found is not None
        assert (found.offset, found.metadata) == (7, "said")
