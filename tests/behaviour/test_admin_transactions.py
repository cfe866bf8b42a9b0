"""Transactions as operators see them, on every broker: by the admin client and by ``pyconsumer transactions``."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable

import pytest
from click.testing import CliRunner, Result

from pyconsumer import KafkaAdminClient, KafkaProducer, TopicPartition
from pyconsumer.cli import cli
from pyconsumer.errors import InvalidTxnStateError, ProducerFencedError, TransactionalIdNotFoundError
from pyconsumer.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pyconsumer.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from pyconsumer.protocol.records import BatchBuilder
from tests.support.cluster import Cluster
from tests.support.process import wait_until

pytestmark = pytest.mark.faces


@pytest.fixture
def producer(cluster: Cluster, group_id: str) -> Iterable[KafkaProducer]:
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, transactional_id=group_id) as made:
        made.init_transactions()
        yield made


def run(cluster: Cluster, *args: str) -> Result:
    return CliRunner().invoke(cli, ["transactions", *args, "-b", cluster.bootstrap_servers])


def test_an_open_transaction_is_listed_and_described(
    cluster: Cluster, admin: KafkaAdminClient, producer: KafkaProducer, topic: str, group_id: str
) -> None:
    tp = TopicPartition(topic, 0)
    producer.begin_transaction()
    offset = producer.send(topic, b"x").get(10).offset
    (listed,) = admin.list_transactions(states=["Ongoing"], pattern=group_id)
    assert (listed.transactional_id, listed.state) == (group_id, "Ongoing")
    assert not admin.list_transactions(pattern=group_id, min_duration_ms=600_000)
    (found,) = admin.describe_transactions([group_id]).values()
    assert (found.state, found.partitions, found.timeout_ms) == ("Ongoing", (tp,), 60_000)
    assert found.start_ms is not None
    ((state,),) = admin.describe_producers([tp]).values()
    assert (state.producer_id, state.transaction_start_offset) == (found.producer_id, offset)
    assert not admin.find_hanging_transactions([tp])
    assert admin.find_hanging_transactions([tp], max_transaction_timeout_ms=0) == []  # its coordinator knows it
    producer.commit_transaction()

    def completed() -> bool:
        (after,) = admin.describe_transactions([group_id]).values()
        return after.state == "CompleteCommit" and after.partitions == ()

    wait_until(completed, 60, "the end of the transaction")
    ((state,),) = admin.describe_producers([tp]).values()
    assert not state.is_open


def test_an_unknown_id_has_no_transaction(admin: KafkaAdminClient) -> None:
    with pytest.raises(TransactionalIdNotFoundError, match="no-such-id"):
        admin.describe_transactions(["no-such-id"])
    with pytest.raises(ValueError, match="Sleeping"):
        admin.list_transactions(states=["Sleeping"])


def test_fencing_aborts_open_transactions(
    admin: KafkaAdminClient, producer: KafkaProducer, topic: str, group_id: str
) -> None:
    producer.begin_transaction()
    producer.send(topic, b"x").get(10)
    ((_, epoch),) = admin.fence_producers([group_id]).values()
    assert epoch > 0
    with pytest.raises(ProducerFencedError):
        producer.commit_transaction()


@pytest.mark.embedded_only("Apache Kafka lets only brokers open such a transaction")
def test_a_hanging_transaction_is_found_and_aborted(new_cluster: Callable[..., Cluster], group_id: str) -> None:
    """As older brokers could leave it: the marker is lost, and the coordinator has forgotten the transaction."""
    cluster = new_cluster("embedded", config={"transaction.partition.verification.enable": "false"})
    cluster.create_topic("t", 1)
    tp = TopicPartition("t", 0)
    with (
        KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as plain,
        KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin,
    ):
        plain.send("t", b"before").get(10)
        hang(cluster, producer_id=77)
        assert not admin.find_hanging_transactions([tp])
        (found,) = admin.find_hanging_transactions([tp], max_transaction_timeout_ms=0)
        assert (found.partition, found.producer.producer_id, found.transactional_id) == (tp, 77, None)
        shown = run(cluster, "find-hanging", "--max-timeout", "0")
        assert "pyconsumer transactions abort t 0 1" in shown.output
        with pytest.raises(InvalidTxnStateError, match="Open ones begin at: 1"):
            admin.abort_transaction(tp, 5)
        assert "aborted the transaction of t-0" in run(cluster, "abort", "t", "0", "1").output
        ((*_, state),) = admin.describe_producers([tp]).values()
        assert not state.is_open


def hang(cluster: Cluster, producer_id: int) -> None:
    """Write a transactional batch that no coordinator knows of."""
    builder = BatchBuilder("none", size_limit=1000)
    builder.try_append(int(time.time() * 1000), None, b"hangs", ())
    batch = builder.build(producer_id=producer_id, producer_epoch=0, base_sequence=0, is_transactional=True)
    with cluster.raw() as raw:
        request = ProduceRequest(
            "lost", -1, 10_000, [TopicProduceData("t", partition_data=[PartitionProduceData(0, batch)])]
        )
        answer = raw.request(request, 11).responses[0].partition_responses[0]
        assert answer.error_code == 0


def test_a_marker_with_an_old_epoch_is_refused(cluster: Cluster, producer: KafkaProducer, topic: str) -> None:
    with producer.transaction():
        producer.send(topic, b"x")
    producer.begin_transaction()
    producer.send(topic, b"y").get(10)
    with KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin, cluster.raw() as raw:
        ((state,),) = admin.describe_producers([TopicPartition(topic, 0)]).values()
        marker = WritableTxnMarker(
            state.producer_id, state.producer_epoch - 1, True, [WritableTxnMarkerTopic(topic, [0])], 0
        )
        answer = raw.request(WriteTxnMarkersRequest([marker]))
        assert answer.markers[0].topics[0].partitions[0].error_code == 47
    producer.commit_transaction()


@pytest.mark.slow
def test_the_command_line(cluster: Cluster, producer: KafkaProducer, topic: str, group_id: str) -> None:
    producer.begin_transaction()
    producer.send(topic, b"x").get(10)
    listed = run(cluster, "list", "--state", "Ongoing", "--pattern", group_id, "--json")
    assert json.loads(listed.output)["transactional_id"] == group_id
    assert group_id in run(cluster, "list").output.replace("\n", "")
    shown = run(cluster, "describe", group_id).output
    assert f"{group_id} is Ongoing" in shown
    assert f"  {topic}-0" in shown
    assert json.loads(run(cluster, "describe", group_id, "--json").output)["partitions"] == [f"{topic}-0"]
    producer.commit_transaction()

    def states() -> list[str]:
        dumped = run(cluster, "dump", "--id", group_id, "--json")
        assert dumped.exit_code == 0, dumped.output
        return [json.loads(line)["value"]["state"] for line in dumped.output.splitlines()]

    wait_until(lambda: states() == ["Empty", "Ongoing", "PrepareCommit", "CompleteCommit"], 60, "four records")
    assert f"{group_id} Ongoing producer" in run(cluster, "dump", "--id", group_id).output
    empty = run(cluster, "list", "--pattern", "nothing-is-named-so")
    assert (empty.stdout, empty.stderr) == ("", "no transactions\n")
    failed = run(cluster, "describe", "no-such-id")
    assert failed.exit_code == 1 or isinstance(failed.exception, TransactionalIdNotFoundError)
    assert "fenced" in run(cluster, "fence", group_id).output
