"""Transactions of our producer, read by our consumer, on every broker."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from pyconsumer import KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from pyconsumer.errors import (
    ApplicationRecoverableError,
    CommitFailedError,
    Errors,
    IllegalStateError,
    InvalidTransactionTimeoutError,
    KafkaError,
    KafkaTimeoutError,
    ProducerFencedError,
    TransactionAbortableError,
    TransactionAbortedError,
)
from pyconsumer.producer.pending_request import TransactionResult
from pyconsumer.protocol.api import ApiKey
from pyconsumer.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.support.cluster import Cluster
from tests.support.process import wait_until
from tests.support.proxy import KafkaProxy

pytestmark = pytest.mark.faces

MakeTopic = Callable[..., str]


@pytest.fixture
def producer(cluster: Cluster, group_id: str) -> Iterable[KafkaProducer]:
    """A producer with transactions. Its transactional id is the name of the group."""
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, transactional_id=group_id) as made:
        made.init_transactions()
        yield made


def values(cluster: Cluster, topic: str, isolation: str = "read_committed", partition: int = 0) -> list[bytes | None]:
    """Return the records of a reader up to the end that it sees."""
    tp = TopicPartition(topic, partition)
    found = []
    with KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers, isolation_level=isolation) as consumer:
        consumer.assign([tp])
        consumer.seek_to_beginning()
        (end,) = consumer.end_offsets([tp]).values()
        while consumer.position(tp) < end:
            found += [record.value for record in consumer.poll(timeout_ms=10_000).records()]
    return found


def committed(cluster: Cluster, group_id: str, tp: TopicPartition) -> int | None:
    """The offset that the group has committed."""
    with KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers, group_id=group_id) as consumer:
        found = consumer.committed(tp)
        return None if found is None else getattr(found, "offset", found)


@pytest.mark.smoke
def test_sent_records_appear_with_the_commit(cluster: Cluster, producer: KafkaProducer, topic: str) -> None:
    producer.begin_transaction()
    for text in (b"msg1", b"msg2", b"msg3"):
        producer.send(topic, text)
    producer.flush()
    assert values(cluster, topic, "read_uncommitted") == [b"msg1", b"msg2", b"msg3"]
    assert values(cluster, topic) == []
    producer.commit_transaction()
    wait_until(lambda: values(cluster, topic) == [b"msg1", b"msg2", b"msg3"], 60, "the records of the transaction")


@pytest.mark.smoke
def test_aborted_records_never_appear(cluster: Cluster, producer: KafkaProducer, topic: str) -> None:
    producer.begin_transaction()
    sent = producer.send(topic, b"msg1")
    producer.flush()
    producer.abort_transaction()
    assert sent.get(0).offset == 0
    with producer.transaction():
        producer.send(topic, b"msg2")
    wait_until(lambda: values(cluster, topic) == [b"msg2"], 60, "the second transaction")
    assert values(cluster, topic, "read_uncommitted") == [b"msg1", b"msg2"]


def test_a_transaction_spans_partitions_and_topics(
    cluster: Cluster, producer: KafkaProducer, make_topic: MakeTopic
) -> None:
    topics = [make_topic(2), make_topic(1)]
    places = [(topics[0], 0), (topics[0], 1), (topics[1], 0)]
    for text, ok in ((b"a", True), (b"b", False), (b"c", True)):
        producer.begin_transaction()
        for topic, partition in places:
            producer.send(topic, text, partition=partition)
        producer.flush()
        if ok:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
    for topic, partition in places:
        wait_until(
            lambda topic=topic, partition=partition: values(cluster, topic, partition=partition) == [b"a", b"c"],  # type: ignore[misc]
            *(10, f"{topic}-{partition}"),
        )


def test_others_wait_behind_an_open_transaction(cluster: Cluster, producer: KafkaProducer, topic: str) -> None:
    """Records without a transaction, too. The end of the partition is the last stable offset."""
    tp = TopicPartition(topic, 0)
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as plain:
        plain.send(topic, b"before").get(10)
        producer.begin_transaction()
        producer.send(topic, b"inside").get(10)
        plain.send(topic, b"after").get(10)
    with KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers, isolation_level="read_committed") as consumer:
        consumer.assign([tp])
        assert consumer.end_offsets([tp]) == {tp: 1}
        consumer.seek_to_beginning()
        assert [record.value for record in consumer.poll(timeout_ms=10_000).records()] == [b"before"]
        assert not consumer.poll(timeout_ms=200)
        assert consumer.current_lag(tp) == 0
        producer.commit_transaction()
        found: list[bytes | None] = []
        while len(found) < 2:
            found += [record.value for record in consumer.poll(timeout_ms=10_000).records()]
        assert found == [b"inside", b"after"]

        def past_the_marker() -> bool:
            consumer.poll(timeout_ms=100)
            return consumer.position(tp) == 4

        wait_until(past_the_marker, 60, "a position behind the marker", interval_s=0)
        assert consumer.end_offsets([tp]) == {tp: 4}


@pytest.mark.smoke
def test_offsets_are_committed_with_the_transaction(
    cluster: Cluster, producer: KafkaProducer, topic: str, group_id: str
) -> None:
    tp = TopicPartition(topic, 0)
    producer.begin_transaction()
    producer.send(topic, b"x")
    producer.send_offsets_to_transaction({tp: OffsetAndMetadata(7, "why")}, group_id)
    producer.abort_transaction()
    wait_until(lambda: committed(cluster, group_id, tp) is None, 60, "no offset")
    with producer.transaction():
        producer.send_offsets_to_transaction({tp: 9}, group_id)
    assert committed(cluster, group_id, tp) == 9  # OffsetFetch waits until the outcome is there (KIP-447)


def test_pending_offsets_are_unstable(cluster: Cluster, producer: KafkaProducer, topic: str, group_id: str) -> None:
    tp = TopicPartition(topic, 0)
    producer.begin_transaction()
    producer.send_offsets_to_transaction({tp: 3}, group_id)
    with KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers, group_id=group_id) as consumer:
        with pytest.raises(KafkaTimeoutError, match="UNSTABLE_OFFSET_COMMIT"):
            consumer.committed(tp, timeout_ms=300)
        producer.commit_transaction()
        assert committed(cluster, group_id, tp) == 3


@pytest.mark.smoke
def test_a_second_producer_fences_the_first(
    cluster: Cluster, producer: KafkaProducer, topic: str, group_id: str
) -> None:
    producer.begin_transaction()
    producer.send(topic, b"first").get(10)
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, transactional_id=group_id) as second:
        second.init_transactions()
        assert values(cluster, topic) == []  # what the first one left open is aborted
        with pytest.raises(ProducerFencedError, match=f"'{group_id}' cannot be used any more"):
            producer.commit_transaction()
        with pytest.raises(ApplicationRecoverableError, match="make a new one"):
            producer.send(topic, b"more")
        with pytest.raises(ProducerFencedError):
            producer.abort_transaction()
        with second.transaction():
            second.send(topic, b"second")
    wait_until(lambda: values(cluster, topic) == [b"second"], 60, "the record of the second producer")


def test_a_block_that_raises_is_aborted(cluster: Cluster, producer: KafkaProducer, topic: str) -> None:
    def block() -> None:
        with producer.transaction():
            producer.send(topic, b"never").get(10)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        block()
    with producer.transaction() as same:
        same.send(topic, b"then")
    wait_until(lambda: values(cluster, topic) == [b"then"], 60, "the second block")


def test_records_that_wait_are_not_sent_when_the_transaction_is_aborted(
    cluster: Cluster, topic: str, group_id: str
) -> None:
    with KafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers,
        transactional_id=group_id,
        linger_ms=30_000,
        request_timeout_ms=5000,
    ) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        sent = producer.send(topic, b"waits")
        producer.abort_transaction()
        with pytest.raises(TransactionAbortedError, match="aborted first"):
            sent.get(0)
        with producer.transaction():  # the commit does not wait for the linger time
            producer.send(topic, b"committed")
    wait_until(lambda: values(cluster, topic, "read_uncommitted") == [b"committed"], 60, "one record")


def test_a_close_aborts_the_open_transaction(cluster: Cluster, topic: str, group_id: str) -> None:
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, transactional_id=group_id)
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(topic, b"open").get(10)
    producer.close()
    wait_until(lambda: committed_end(cluster, topic) == 2, 60, "the marker of the abort")
    assert values(cluster, topic) == []


def committed_end(cluster: Cluster, topic: str) -> int:
    """The last stable offset."""
    tp = TopicPartition(topic, 0)
    with KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers, isolation_level="read_committed") as consumer:
        return consumer.end_offsets([tp])[tp]


def test_a_transaction_that_takes_too_long_is_aborted(
    new_cluster: Callable[..., Cluster], cluster_kind: str, group_id: str
) -> None:
    soon = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": 200}
    cluster = new_cluster(cluster_kind, config=soon)
    cluster.create_topic("t", 1)
    with KafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers, transactional_id=group_id, transaction_timeout_ms=500
    ) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("t", b"slow").get(10)
        wait_until(lambda: committed_end(cluster, "t") == 2, 30, "the broker's abort")
        with pytest.raises(KafkaError, match="took longer than transaction_timeout_ms"):
            producer.commit_transaction()
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, transactional_id=group_id) as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send("t", b"quick")
    wait_until(lambda: values(cluster, "t") == [b"quick"], 60, "the quick one")


def test_a_timeout_beyond_the_brokers_limit_is_refused(cluster: Cluster, group_id: str) -> None:
    with (
        KafkaProducer(
            bootstrap_servers=cluster.bootstrap_servers, transactional_id=group_id, transaction_timeout_ms=900_001
        ) as producer,
        pytest.raises(InvalidTransactionTimeoutError),
    ):
        producer.init_transactions()


def test_offsets_of_a_consumer_that_lost_its_partitions_are_refused(
    cluster: Cluster, producer: KafkaProducer, topic: str, group_id: str
) -> None:
    tp = TopicPartition(topic, 0)
    with KafkaConsumer(
        topic, bootstrap_servers=cluster.bootstrap_servers, group_id=group_id, enable_auto_commit=False
    ) as consumer:
        wait_until(lambda: consumer.poll(timeout_ms=100) is None or consumer.assignment(), 30, "an assignment")
        member = consumer.group_metadata()
        with producer.transaction():
            producer.send_offsets_to_transaction({tp: 1}, member)
    producer.begin_transaction()
    with pytest.raises(TransactionAbortableError, match="not a member of the group any more") as raised:
        producer.send_offsets_to_transaction({tp: 2}, member)
    assert isinstance(raised.value.__cause__, CommitFailedError)
    producer.abort_transaction()
    assert committed(cluster, group_id, tp) == 1


def test_many_transactions_in_a_row(cluster: Cluster, producer: KafkaProducer, make_topic: MakeTopic) -> None:
    """Each begins while the end of the one before may still be carried out."""
    topic = make_topic(3)
    for n in range(50):
        producer.begin_transaction()
        for partition in range(3):
            producer.send(topic, b"%d" % n, partition=partition)
        if n % 5 == 4:
            producer.abort_transaction()
        else:
            producer.commit_transaction()
    expected = [b"%d" % n for n in range(50) if n % 5 != 4]
    for partition in range(3):
        wait_until(
            lambda partition=partition: values(cluster, topic, partition=partition) == expected,  # type: ignore[misc]
            *(20, "what was committed"),
        )


@pytest.mark.blocking_only("only tasks of one loop may share the producer for asyncio")
def test_two_threads_send_in_one_transaction(cluster: Cluster, producer: KafkaProducer, topic: str) -> None:
    def send(name: bytes) -> None:
        for n in range(100):
            producer.send(topic, b"%s%d" % (name, n))

    with producer.transaction():
        threads = [threading.Thread(target=send, args=(name,)) for name in (b"a", b"b")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    with pytest.raises(IllegalStateError, match="no transaction is open"):
        producer.send(topic, b"late")
    wait_until(lambda: len(values(cluster, topic)) == 200, 60, "all records")


def test_a_callback_cannot_wait_for_its_own_thread(producer: KafkaProducer, topic: str) -> None:
    found: list[BaseException] = []

    def commit(_: object) -> None:
        try:
            producer.commit_transaction()
        except BaseException as error:
            found.append(error)

    with producer.transaction():
        producer.send(topic, b"x").add_callback(commit).get(10)
        producer.flush()
    assert [type(error) for error in found] == [IllegalStateError]


def test_a_producer_without_an_id_has_no_transactions(cluster: Cluster) -> None:
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as plain:
        for call in (
            plain.init_transactions,
            plain.begin_transaction,
            plain.commit_transaction,
            plain.abort_transaction,
        ):
            with pytest.raises(IllegalStateError, match="set transactional_id"):
                call()


@pytest.mark.embedded_only("Apache Kafka formats its storage with one version")
@pytest.mark.parametrize(("version", "then"), [(0, 2), (1, 2), (2, 1)])
def test_the_version_may_change_between_transactions(
    new_cluster: Callable[..., Cluster], group_id: str, version: int, then: int
) -> None:
    cluster = new_cluster("embedded", features={"transaction.version": version})
    cluster.create_topic("t", 1)
    with (
        KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, transactional_id=group_id) as producer,
        cluster.raw() as raw,
    ):
        producer.init_transactions()
        with producer.transaction():
            producer.send("t", b"1")
        producer.begin_transaction()
        producer.send("t", b"2").get(10)
        change = FeatureUpdateKey("transaction.version", then, upgrade_type=1 if then > version else 2)
        assert raw.request(UpdateFeaturesRequest(feature_updates=[change])).error_code == 0
        producer.commit_transaction()
        for n in range(3, 6):
            with producer.transaction():
                producer.send("t", b"%d" % n)
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, transactional_id=group_id) as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send("t", b"6")
    wait_until(lambda: values(cluster, "t") == [b"%d" % n for n in range(1, 7)], 60, "all of them")


#: The calls of one turn of the loop, in their order.
STEPS = [
    ("transactions:CTP-04a", "init_transactions"),
    ("transactions:CTP-04b", "poll"),
    ("transactions:CTP-04c", "begin_transaction"),
    ("transactions:CTP-04d", "send"),
    ("transactions:CTP-04e", "OffsetAndMetadata"),
    ("transactions:CTP-04f", "send_offsets_to_transaction"),
    ("transactions:CTP-04g", "commit_transaction"),
]


@pytest.mark.smoke
def test_the_loop_of_consume_transform_produce_by_hand(cluster: Cluster, make_topic: MakeTopic, group_id: str) -> None:
    source, sink = make_topic(2), make_topic(1)
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as plain:
        for number in range(20):
            plain.send(source, b"%d" % number, key=b"k%d" % number, partition=number % 2)
    consumer = KafkaConsumer(
        source,
        bootstrap_servers=cluster.bootstrap_servers,
        group_id=group_id,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        max_poll_records=7,
    )
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, transactional_id=group_id)
    read = 0
    called: list[str] = []

    def call(function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        called.append(function.__name__)
        return function(*arguments, **named)

    with consumer, producer:
        call(producer.init_transactions)
        while read < 20:
            records = call(consumer.poll, timeout_ms=1000)
            if not records:
                continue
            call(producer.begin_transaction)
            offsets = {}
            for tp in records.partitions():
                for record in records.records(tp):
                    call(producer.send, sink, record.value, key=record.key)
                    offsets[tp] = call(OffsetAndMetadata, record.offset + 1)
                    read += 1
            call(producer.send_offsets_to_transaction, offsets, consumer.group_metadata())
            call(producer.commit_transaction)
    assert list(dict.fromkeys(called)) == [name for _, name in STEPS]
    wait_until(lambda: len(values(cluster, sink)) == 20, 60, "the records of all transactions")
    assert sorted(int(value or b"") for value in values(cluster, sink)) == list(range(20))
    assert [committed(cluster, group_id, TopicPartition(source, index)) for index in (0, 1)] == [10, 10]


def test_every_call_of_a_fenced_producer_says_that_it_is_fenced(cluster: Cluster, topic: str, group_id: str) -> None:
    def new() -> KafkaProducer:
        return KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, transactional_id=group_id)

    with new() as first, new() as second:
        first.init_transactions()
        first.begin_transaction()
        with pytest.raises(IllegalStateError, match="a transaction is open"):
            first.begin_transaction()
        first.send(topic, b"lost")
        first.flush()
        second.init_transactions()
        with pytest.raises(ProducerFencedError):
            first.commit_transaction()
        for call in (first.abort_transaction, first.begin_transaction, first.commit_transaction):
            with pytest.raises(ProducerFencedError, match="close it"):
                call()


@pytest.mark.parametrize(("commits_first", "restart"), [(True, 10), (False, 0)], ids=["commit-first", "process-first"])
def test_the_order_of_processing_and_committing_decides(
    cluster: Cluster, topic: str, group_id: str, commits_first: bool, restart: int
) -> None:
    """Ten records are read. The program ends when it has processed seven of them."""
    tp = TopicPartition(topic, 0)
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as plain:
        for number in range(10):
            plain.send(topic, b"%d" % number, partition=0)

    def consumer() -> KafkaConsumer:
        made = KafkaConsumer(
            bootstrap_servers=cluster.bootstrap_servers,
            group_id=group_id,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        )
        made.assign([tp])
        return made

    processed: list[int] = []
    with consumer() as first:
        found: list[int] = []
        while len(found) < 10:
            found += [record.offset for record in first.poll(timeout_ms=10_000).records()]
        if commits_first:
            first.commit()
        processed += found[:7]
    with consumer() as second:
        assert second.position(tp) == restart
        if restart < 10:
            again: list[int] = []
            while len(again) < 10:
                again += [record.offset for record in second.poll(timeout_ms=10_000).records()]
            processed += again
    assert [processed.count(number) for number in range(10)] == (
        [1] * 7 + [0] * 3 if commits_first else [2] * 7 + [1] * 3
    )


@pytest.mark.blocking_only("Ctrl-C ends the event loop, and all that runs on it")
@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
def test_ctrl_c_in_the_end_of_a_transaction_leaves_it_to_be_repeated(
    cluster: Cluster, producer: KafkaProducer, topic: str, monkeypatch: pytest.MonkeyPatch, commit: bool
) -> None:
    wait, interrupts = TransactionResult.wait, [KeyboardInterrupt]

    def interrupted(self: TransactionResult, timeout: float) -> bool:
        if interrupts:
            raise interrupts.pop()
        return wait(self, timeout)

    end, other = producer.commit_transaction, producer.abort_transaction
    if not commit:
        end, other = other, end
    producer.begin_transaction()
    producer.send(topic, b"first")
    monkeypatch.setattr(TransactionResult, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        end()
    with pytest.raises(IllegalStateError, match=f"{end.__name__}\\(\\) has not finished: call {end.__name__}"):
        other()
    end()
    with producer.transaction():
        producer.send(topic, b"second")
    expected = [b"first", b"second"] if commit else [b"second"]
    wait_until(lambda: values(cluster, topic) == expected, 60, "the records that were committed")


@pytest.mark.newest
def test_offsets_are_committed_by_topic_ids_once_they_are_known(
    cluster: Cluster, proxy: KafkaProxy, topic: str, group_id: str
) -> None:
    """KIP-1319, and a topic that was made again under its name is committed by its new id."""
    tp = TopicPartition(topic, 0)

    def versions() -> list[int]:
        return [event.api_version for event in proxy.events(ApiKey.TXN_OFFSET_COMMIT, "request")]

    with KafkaProducer(bootstrap_servers=proxy.bootstrap_servers, transactional_id=group_id) as producer:
        producer.init_transactions()

        def commit(offset: int) -> None:
            with producer.transaction():
                producer.send_offsets_to_transaction({tp: offset}, group_id)

        commit(1)  # by name, if the metadata that it asks for comes later
        producer.partitions_for(topic)
        commit(2)
        assert versions()[-1] == 6
        assert committed(cluster, group_id, tp) == 2
        cluster.delete_topic(topic)
        cluster.create_topic(topic, 1)
        commit(3)
        assert versions()[-1] == 6
    wait_until(lambda: committed(cluster, group_id, tp) == 3, 60, "the commit of the new topic")
    codes = [
        one.error_code
        for event in proxy.events(ApiKey.TXN_OFFSET_COMMIT, "response")
        for found in event.message.topics
        for one in found.partitions
    ]
    assert Errors.UNKNOWN_TOPIC_ID in codes
    assert codes[-1] == Errors.NONE
