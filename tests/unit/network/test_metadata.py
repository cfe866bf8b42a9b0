"""Tests of the client's metadata of the cluster."""

from __future__ import annotations

import math
from typing import Any

import pytest

from pyconsumer.errors import (
    AuthenticationError,
    Errors,
    InvalidTopicError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)
from pyconsumer.network.backoff import Backoff
from pyconsumer.network.metadata import Metadata, MetadataQuery
from pyconsumer.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from pyconsumer.protocol.primitives import ZERO_UUID
from pyconsumer.settings.config import Address
from pyconsumer.structs import BrokerMetadata, TopicPartition

ID1, ID2 = b"1" * 16, b"2" * 16
T0 = TopicPartition("t", 0)


def partition(number: int = 0, leader: int = 1, epoch: int = 5, error: int = 0) -> MetadataResponsePartition:
    return MetadataResponsePartition(
        error_code=error,
        partition_index=number,
        leader_id=leader,
        leader_epoch=epoch,
        replica_nodes=[1, 2],
        isr_nodes=[1],
        offline_replicas=[2],
    )


def topic(
    name: str | None = "t",
    *partitions: MetadataResponsePartition,
    topic_id: bytes = ID1,
    error: int = 0,
    internal: bool = False,
) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=error,
        name=name,
        topic_id=topic_id,
        is_internal=internal,
        partitions=[] if error else list(partitions or [partition()]),
    )


def response(*topics: MetadataResponseTopic, brokers: tuple[int, ...] = (1, 2), **options: Any) -> MetadataResponse:
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=n, host=f"h{n}", port=9092, rack="r") for n in brokers],
        controller_id=2,
        cluster_id="c",
        topics=list(topics),
        **options,
    )


def make(**options: Any) -> Metadata:
    options.setdefault("backoff", Backoff(0.1, 1.0, random=lambda: 0.5))
    return Metadata(bootstrap=[Address("a", 1), Address("b", 2)], **options)


def known(*topics: MetadataResponseTopic, **options: Any) -> Metadata:
    """Metadata after a response at time 0."""
    metadata = make(**options)
    topics = topics or (topic(),)
    metadata.set_topics({t.name for t in topics if t.name is not None})
    metadata.update(response(*topics), 12, 0.0)
    return metadata


def names(request: MetadataRequest) -> list[str | None] | None:
    return None if request.topics is None else [t.name for t in request.topics]


# -- bootstrap, brokers, topics ----------------------------------------------------------------------------------------


def test_at_first_the_brokers_are_the_bootstrap_addresses() -> None:
    metadata = make()
    assert metadata.is_bootstrap
    assert [(b.node_id < 0, b.host, b.port) for b in metadata.brokers()] == [(True, "a", 1), (True, "b", 2)]
    assert metadata.next_update_at(7.0) == 7.0
    assert metadata.partitions_for("t") is None
    assert metadata.topic_id("t") == ZERO_UUID


def test_a_response_replaces_them() -> None:
    metadata = known()
    assert not metadata.is_bootstrap
    assert metadata.brokers() == [BrokerMetadata(1, "h1", 9092, "r"), BrokerMetadata(2, "h2", 9092, "r")]
    assert metadata.broker(2) == BrokerMetadata(2, "h2", 9092, "r")
    assert metadata.broker(3) is None
    assert (metadata.controller_id, metadata.cluster_id, metadata.update_count) == (2, "c", 1)


def test_a_response_without_brokers_keeps_the_known_ones() -> None:
    metadata = known()
    metadata.update(response(brokers=()), 12, 1.0)
    assert len(metadata.brokers()) == 2


def test_topics_and_partitions() -> None:
    metadata = known(topic("t", partition(1), partition(0), partition(2)), topic("u", topic_id=ID2))
    found = metadata.partitions_for("t")
    assert found is not None
    assert [p.partition for p in found] == [0, 1, 2]
    assert found[0].replicas == (1, 2)
    assert found[0].isr == (1,)
    assert found[0].offline_replicas == (2,)
    assert metadata.partition_count("t") == 3
    assert metadata.partition_count("x") == 0
    assert metadata.topics() == ["t", "u"]
    assert metadata.topic_id("u") == ID2
    assert metadata.topic_name(ID2) == "u"
    assert metadata.topic_name(bytes(16)) is None


def test_internal_topics_are_left_out_unless_requested() -> None:
    offsets = topic("__consumer_offsets", topic_id=ID2, internal=True)
    assert known(topic(), offsets).topics() == ["t"]
    assert known(topic(), offsets, exclude_internal_topics=False).topics() == ["__consumer_offsets", "t"]


def test_a_partition_with_an_unknown_leader_has_none() -> None:
    metadata = known(topic("t", partition(0), partition(1, leader=-1, error=5), partition(2, leader=9)))
    assert metadata.leader(T0) is not None
    assert metadata.leader(TopicPartition("t", 1)) is None
    assert metadata.leader(TopicPartition("t", 2)) is None
    assert metadata.leader(TopicPartition("t", 3)) is None
    assert metadata.leader(TopicPartition("x", 0)) is None
    assert metadata.partition(TopicPartition("t", 1)) is not None


# -- what is asked -----------------------------------------------------------------------------------------------------


def test_the_tracked_topics_are_requested() -> None:
    metadata = make(allow_auto_topic_creation=False)
    assert names(metadata.query(0.0).request) == []
    metadata.set_topics({"b", "a"})
    query = metadata.query(0.0)
    assert names(query.request) == ["a", "b"]
    assert not query.request.allow_auto_topic_creation
    metadata.set_all_topics()
    assert names(metadata.query(0.0).request) is None


def test_a_new_topic_is_requested_alone_and_at_once() -> None:
    metadata = known()
    assert metadata.next_update_at(0.01) == 300.0
    assert metadata.add_topic("new")
    assert not metadata.add_topic("new")
    assert metadata.next_update_at(0.01) == 0.01
    query = metadata.query(0.01)
    assert query.partial
    assert names(query.request) == ["new"]
    metadata.update(response(topic("new", topic_id=ID2)), 12, 0.02, query)
    assert metadata.topics() == ["new", "t"]
    assert not metadata.update_requested
    assert metadata.wanted_topics() == {"t", "new"}


def test_setting_the_same_topics_requests_no_update() -> None:
    metadata = known()
    assert not metadata.set_topics({"t"})
    assert not metadata.update_requested


def test_topics_that_are_not_tracked_any_more_are_forgotten() -> None:
    metadata = known(topic("t"), topic("u", topic_id=ID2))
    metadata.set_topics({"u"})
    assert metadata.topics() == ["u"]
    assert metadata.leader_epoch(T0) == -1


def test_topics_that_their_owner_calls_idle_are_forgotten_before_a_query() -> None:
    idle: dict[float, list[str]] = {300.0: ["t"], 600.0: ["u", "new"]}
    metadata = make(idle_topics=lambda now: idle.get(now, []))
    metadata.set_topics({"t", "u"})
    metadata.update(response(topic("t"), topic("u", topic_id=ID2)), 12, 0.0)
    query = metadata.query(300.0)
    assert names(query.request) == ["u"]
    assert metadata.topics() == ["u"]
    metadata.update(response(topic("u", topic_id=ID2)), 12, 300.0, query)
    metadata.add_topic("new")
    query = metadata.query(600.0)
    assert names(query.request) == []
    metadata.update(response(), 12, 600.0, query)
    assert not metadata.update_requested
    assert metadata.add_topic("t")
    assert names(metadata.query(601.0).request) == ["t"]


@pytest.mark.parametrize("error", [0, Errors.TOPIC_AUTHORIZATION_FAILED])
def test_untracked_topics_of_a_response_are_left_out(error: int) -> None:
    metadata = known(topic("t"))
    metadata.update(response(topic("t"), topic("u", topic_id=ID2, error=error)), 12, 1.0)
    assert metadata.topics() == ["t"]
    assert metadata.topic_error("u") is None
    assert metadata.take_topic_error() is None
    assert metadata.add_topic("u")
    query = metadata.query(2.0)
    assert names(query.request) == ["u"]
    metadata.set_topics({"t"})  # before its answer comes
    metadata.update(response(topic("u", topic_id=ID2)), 12, 2.0, query)
    assert metadata.topics() == ["t"]


def test_from_all_topics_to_some_requests_only_unknown_ones() -> None:
    metadata = known(topic("t"), topic("u", topic_id=ID2))
    metadata.set_all_topics()
    metadata.update(response(topic("t"), topic("u", topic_id=ID2)), 12, 1.0)
    assert not metadata.set_topics({"t"})
    assert metadata.topics() == ["t"]


def test_transient_topics_are_requested_while_they_are_needed() -> None:
    metadata = known()
    metadata.add_transient_topics({"t", "once"})
    query = metadata.query(1.0)
    assert names(query.request) == ["once"]
    metadata.update(response(topic("once", topic_id=ID2)), 12, 1.0, query)
    assert metadata.partitions_for("once") is not None
    metadata.clear_transient_topics()
    metadata.request_update()
    assert names(metadata.query(2.0).request) == ["t"]


def test_a_full_response_replaces_and_a_partial_one_adds() -> None:
    metadata = known(topic("t"), topic("u", topic_id=ID2))
    metadata.update(response(topic("u", topic_id=ID2)), 12, 1.0)
    assert metadata.topics() == ["u"]
    metadata.update(response(topic("t")), 12, 1.0, MetadataQuery(MetadataRequest(), True, 0, 0))
    assert metadata.topics() == ["t", "u"]


# -- when it is asked --------------------------------------------------------------------------------------------------


def test_metadata_expires_after_its_maximum_age() -> None:
    metadata = known(max_age=300.0)
    assert metadata.next_update_at(10.0) == 300.0
    assert not metadata.query(300.0).partial


def test_asking_waits_for_the_backoff() -> None:
    metadata = known()
    metadata.request_update()
    assert metadata.next_update_at(0.05) == pytest.approx(0.1)
    assert metadata.next_update_at(0.5) == 0.5


def test_failures_make_the_backoff_grow() -> None:
    metadata = make()
    waits = []
    for _ in range(5):
        metadata.query(10.0)
        metadata.failed(10.0)
        waits.append(round(metadata.next_update_at(10.0) - 10.0, 3))
    assert waits == [0.1, 0.2, 0.4, 0.8, 1.0]
    metadata.request_update(reset_backoff=True)
    assert metadata.next_update_at(10.0) == 10.0


def test_responses_without_progress_raise_the_backoff_too() -> None:
    metadata = make()
    metadata.set_topics({"t"})
    waits = []
    for _ in range(4):
        query = metadata.query(10.0)
        metadata.update(response(topic("t", partition(0, leader=-1, error=5))), 12, 10.0, query)
        assert metadata.update_requested
        waits.append(round(metadata.next_update_at(10.0) - 10.0, 3))
    assert waits == [0.1, 0.1, 0.2, 0.4]
    metadata.update(response(topic("t", partition(0, leader=2))), 12, 10.0)
    assert not metadata.update_requested


def test_a_response_settles_only_earlier_update_requests() -> None:
    metadata = known()
    metadata.request_update()
    query = metadata.query(1.0)
    metadata.request_update()
    metadata.update(response(topic()), 12, 1.1, query)
    assert metadata.update_requested
    metadata.update(response(topic()), 12, 1.3, metadata.query(1.2))
    assert not metadata.update_requested


# -- epochs and ids ----------------------------------------------------------------------------------------------------


def test_an_older_leader_epoch_is_ignored() -> None:
    metadata = known(topic("t", partition(epoch=5, leader=1)))
    metadata.update(response(topic("t", partition(epoch=4, leader=2))), 12, 1.0)
    found = metadata.leader(T0)
    assert found is not None
    assert (found.leader, found.leader_epoch) == (1, 5)
    metadata.update(response(topic("t", partition(epoch=6, leader=2))), 12, 2.0)
    found = metadata.leader(T0)
    assert found is not None
    assert (found.leader, found.leader_epoch) == (2, 6)


def test_an_old_response_for_an_unknown_partition_is_left_out() -> None:
    metadata = known(topic("t", topic_id=ZERO_UUID))
    metadata.update(response(topic("t", topic_id=ZERO_UUID, error=3)), 12, 1.0)
    assert metadata.partitions_for("t") is None
    metadata.update(response(topic("t", partition(epoch=2), topic_id=ZERO_UUID)), 12, 2.0)
    assert metadata.partitions_for("t") == []
    metadata.update(response(topic("t", partition(epoch=5), topic_id=ZERO_UUID)), 12, 2.0)
    assert metadata.leader(T0) is not None


def test_a_recreated_topic_restarts_its_leader_epochs() -> None:
    metadata = known(topic("t", partition(epoch=5)))
    metadata.update(response(topic("t", partition(epoch=0, leader=2), topic_id=ID2)), 12, 1.0)
    found = metadata.leader(T0)
    assert found is not None
    assert (found.leader, found.leader_epoch) == (2, 0)
    assert metadata.leader_epoch(T0) == 0
    assert metadata.topic_name(ID1) is None
    assert metadata.topic_name(ID2) == "t"


def test_a_topic_that_returns_with_a_new_id_restarts_its_epochs() -> None:
    metadata = known(topic("t", partition(epoch=5)))
    metadata.update(response(topic("t", error=3)), 12, 1.0)
    metadata.update(response(topic("t", partition(epoch=0), topic_id=ID2)), 12, 2.0)
    assert metadata.leader(T0) is not None


def test_epochs_of_old_versions_are_not_believed() -> None:
    metadata = make()
    metadata.set_topics({"t"})
    metadata.update(response(topic("t", partition(epoch=5))), 8, 0.0)
    assert metadata.leader_epoch(T0) == -1
    found = metadata.leader(T0)
    assert found is not None
    assert found.leader_epoch == -1


def test_an_epoch_seen_elsewhere_makes_the_leader_unusable_until_metadata_catches_up() -> None:
    metadata = known(topic("t", partition(epoch=5)))
    assert not metadata.see_epoch(T0, 5)
    assert not metadata.see_epoch(T0, -1)
    assert not metadata.see_epoch(TopicPartition("unknown", 0), 3)
    assert not metadata.update_requested
    assert metadata.see_epoch(T0, 7)
    assert metadata.update_requested
    assert metadata.leader(T0) is None
    metadata.update(response(topic("t", partition(epoch=6, leader=2))), 12, 1.0)
    assert metadata.leader(T0) is None
    metadata.update(response(topic("t", partition(epoch=7, leader=2))), 12, 1.0)
    assert metadata.leader(T0) is not None


def test_leader_hints_of_other_responses_are_used_if_they_are_newer() -> None:
    metadata = known(topic("t", partition(0, epoch=5), partition(1, epoch=5), partition(2, epoch=5)))
    changed = metadata.update_leaders(
        {
            T0: (3, 6),
            TopicPartition("t", 1): (2, 5),
            TopicPartition("t", 2): (8, 9),
            TopicPartition("x", 0): (3, 1),
        },
        [BrokerMetadata(3, "h3", 9092)],
    )
    assert changed == {T0}
    found = metadata.leader(T0)
    assert found is not None
    assert (found.leader, found.leader_epoch) == (3, 6)
    assert metadata.broker(3) is not None
    metadata.update(response(topic("t", partition(0, epoch=5, leader=1))), 12, 1.0)
    found = metadata.partition(T0)
    assert found is not None
    assert found.leader == 3


@pytest.mark.parametrize(
    ("answer", "tp", "said"),
    [
        (topic("t"), TopicPartition("t", 3), "topic 't' has partition 0 alone, not 3"),
        (topic("t", error=Errors.UNKNOWN_TOPIC_OR_PARTITION), T0, "there is no topic 't'"),
    ],
)
def test_the_third_response_without_a_partition_is_accepted(
    answer: MetadataResponseTopic, tp: TopicPartition, said: str
) -> None:
    """A broker may lag behind the others when a topic or a partition was just created."""
    metadata = make()
    metadata.set_topics({"t"})
    since = metadata.update_count
    for number in range(3):
        assert metadata.absence(tp, since) is None
        metadata.update(response(answer), 12, float(number))
    error = metadata.absence(tp, since)
    assert isinstance(error, UnknownTopicOrPartitionError)
    assert said in str(error)
    assert metadata.absence(tp, metadata.update_count) is None, "for who begins to ask now"
    assert metadata.absence(TopicPartition("another", 0), since) is None, "nobody asked for it"


def test_a_topic_known_by_its_id_alone() -> None:
    metadata = known()
    metadata.update(response(topic(None, partition(epoch=9), topic_id=ID1), topic(None, topic_id=b"9" * 16)), 12, 1.0)
    assert metadata.leader_epoch(T0) == 9
    assert metadata.topics() == ["t"]


# -- errors ------------------------------------------------------------------------------------------------------------


def test_a_retriable_error_requests_an_update() -> None:
    metadata = make()
    metadata.set_topics({"t"})
    metadata.update(response(topic("t", error=3)), 12, 0.0)
    assert metadata.update_requested
    assert isinstance(metadata.topic_error("t"), UnknownTopicOrPartitionError)
    assert metadata.take_topic_error() is None
    metadata.update(response(topic("t")), 12, 1.0)
    assert metadata.topic_error("t") is None


@pytest.mark.parametrize("partial", [True, False])
def test_a_topic_missing_in_the_response_is_requested_again_after_a_growing_backoff(partial: bool) -> None:
    metadata = Metadata(backoff=Backoff(0.1, 1.0, jitter=0.0))
    if partial:
        metadata.update(response(), 12, 0.0)
    metadata.set_topics(["t", "u"])
    now, pauses = 10.0, []
    for _ in range(3):
        query = metadata.query(now)
        metadata.update(response(topic("u")), 12, now, query)
        pauses.append(round(metadata.next_update_at(now) - now, 3))
        now = metadata.next_update_at(now)
        assert "t" in (names(metadata.query(now).request) or ())
    assert pauses == [0.1, 0.1, 0.2]
    metadata.update(response(topic("t"), topic("u")), 12, now, metadata.query(now))
    assert metadata.next_update_at(now) == now + 300.0


def test_a_topic_that_is_not_tracked_any_more_is_not_requested_again() -> None:
    metadata = Metadata()
    metadata.set_topics(["t"])
    query = metadata.query(10.0)
    metadata.set_topics([])
    metadata.update(response(), 12, 10.0, query)
    assert metadata.next_update_at(10.0) == 310.0


def test_a_fatal_topic_error_is_reported_once_for_each_response() -> None:
    metadata = make()
    metadata.set_topics({"secret", "bad name", "t"})
    answer = response(topic("secret", error=29), topic("bad name", error=17), topic("t"))
    metadata.update(answer, 12, 0.0)
    assert not metadata.update_requested
    assert metadata.take_topic_error({"t"}) is None
    error = metadata.take_topic_error()
    assert isinstance(error, TopicAuthorizationFailedError)
    assert "secret" in str(error)
    assert isinstance(metadata.take_topic_error(), InvalidTopicError)
    assert metadata.take_topic_error() is None
    assert isinstance(metadata.topic_error("secret"), TopicAuthorizationFailedError)  # reported, but still known
    metadata.update(answer, 12, 1.0)
    assert isinstance(metadata.take_topic_error(), TopicAuthorizationFailedError)


def test_errors_of_untracked_topics_are_forgotten() -> None:
    metadata = make()
    metadata.set_topics({"secret"})
    metadata.update(response(topic("secret", error=29)), 12, 0.0)
    metadata.set_topics({"t"})
    assert metadata.take_topic_error() is None
    metadata.set_topics({"secret"})
    metadata.update(response(topic("secret", error=29)), 12, 0.0)
    metadata.update(response(), 12, 1.0)
    assert metadata.topic_error("secret") is None


def test_a_fatal_error_is_kept_until_a_response_comes() -> None:
    metadata = make()
    error = AuthenticationError("no")
    metadata.failed(0.0, error)
    assert metadata.fatal_error is None
    metadata.failed(0.0, error, fatal=True)
    assert metadata.fatal_error is error
    metadata.update(response(), 12, 1.0)
    assert metadata.fatal_error is None


# -- starting over -----------------------------------------------------------------------------------------------------


def test_repeated_rebootstraps_need_pauses_until_there_is_an_update() -> None:
    metadata = known()
    pauses = []
    for _ in range(6):
        metadata.rebootstrap(50.0)
        pauses.append(metadata.next_update_at(50.0) - 50.0)
    assert pauses == pytest.approx([0.0, 0.1, 0.2, 0.4, 0.8, 1.0])


def test_starting_over_keeps_topics_and_epochs_and_uses_new_ids() -> None:
    metadata = known()
    before = {broker.node_id for broker in make().brokers()}
    metadata.rebootstrap()
    assert metadata.is_bootstrap
    assert [b.host for b in metadata.brokers()] == ["a", "b"]
    assert not before & {broker.node_id for broker in metadata.brokers()}
    assert metadata.topics() == ["t"]
    assert metadata.leader(T0) is None
    assert metadata.leader_epoch(T0) == 5
    assert metadata.next_update_at(0.0) == 0.0


def test_rebootstrap_is_due_after_a_long_time_without_a_response() -> None:
    metadata = known(rebootstrap_after=300.0)
    assert not metadata.must_rebootstrap(1e6)
    metadata.request_update()
    metadata.query(1000.0)
    metadata.failed(1000.0)
    metadata.query(1200.0)
    assert not metadata.must_rebootstrap(1300.0)
    assert metadata.must_rebootstrap(1301.0)
    metadata.rebootstrap()
    assert not metadata.must_rebootstrap(9999.0)
    assert not known(rebootstrap_after=math.inf).must_rebootstrap(1e9)


def test_a_broker_may_request_a_rebootstrap() -> None:
    metadata = known()
    assert not metadata.update(response(error_code=129), 13, 1.0)
    assert metadata.update_count == 1
    assert metadata.update(response(), 13, 1.0)
