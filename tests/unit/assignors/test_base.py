"""Tests of all assignors together: choice, names, base class, random groups compared with Apache Kafka's."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from pyconsumer.assignors import (
    Assignor,
    PartitionAssignor,
    RangeAssignor,
    RebalanceProtocol,
    RoundRobinAssignor,
    Subscription,
    common_protocol,
    resolve,
)
from pyconsumer.consumer.config import CONSUMER_SETTINGS
from pyconsumer.errors import ConfigurationError
from pyconsumer.structs import TopicPartition
from tests.unit.assignors.cluster import FakeCluster, run

VECTORS = Path(__file__).parents[2] / "vectors" / "assignors.jsonl"


class Everything(PartitionAssignor):
    """Assigns every member all partitions of its topics."""

    name = "broadcast"  # type: ignore[assignment]

    def assign_partitions(
        self, partitions_per_topic: Mapping[str, int], subscriptions: Mapping[str, Subscription]
    ) -> dict[str, list[TopicPartition]]:
        self.seen = dict(partitions_per_topic)
        return {
            member_id: [TopicPartition(t, p) for t in s.topics for p in range(partitions_per_topic.get(t, 0))]
            for member_id, s in subscriptions.items()
            if s.topics
        }


class Cooperative(Everything):
    name = "cooperative"  # type: ignore[assignment]

    def supported_protocols(self) -> tuple[RebalanceProtocol, ...]:
        return (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER)


class OnlyCooperative(Everything):
    name = "only-cooperative"  # type: ignore[assignment]

    def supported_protocols(self) -> tuple[RebalanceProtocol, ...]:
        return (RebalanceProtocol.COOPERATIVE,)


def names(assignors: Sequence[Assignor]) -> list[str]:
    return [assignor.name for assignor in assignors]


def test_random_groups_are_assigned_as_apache_kafka_does() -> None:
    count = 0
    for line in VECTORS.read_text().splitlines():
        case = json.loads(line)
        assignor = resolve(case["a"])[0]
        subscriptions = {
            member_id: Subscription(tuple(topics), rack_id=rack, group_instance_id=instance)
            for member_id, (topics, rack, instance) in case["m"].items()
        }
        result = assignor.assign(FakeCluster(case["t"]), subscriptions)
        shown: dict[str, dict[str, list[int]]] = {}
        for member_id, assignment in result.items():
            shown[member_id] = {}
            for topic, partition in assignment.partitions:
                shown[member_id].setdefault(topic, []).append(partition)
        assert shown == case["r"], line
        count += 1
    assert count == 600


def test_names_on_the_wire() -> None:
    assert names(resolve(["range", "roundrobin"])) == ["range", "roundrobin"]
    assert isinstance(resolve("range")[0], RangeAssignor)


def test_a_list_of_java_class_names_gives_the_names_in_its_order() -> None:
    java = "org.apache.kafka.clients.consumer.RoundRobinAssignor,org.apache.kafka.clients.consumer.RangeAssignor"
    assert names(resolve(java)) == ["roundrobin", "range"]


def test_comma_separated_names_are_accepted_as_in_the_documentation() -> None:
    for given in ("range,cooperative-sticky", ["range, cooperative-sticky"], ["range", "cooperative-sticky,"]):
        config = CONSUMER_SETTINGS.build({"bootstrap_servers": "h:1", "partition_assignment_strategy": given})
        assert names(resolve(config.partition_assignment_strategy)) == ["range", "cooperative-sticky"]


def test_own_assignors_as_class_or_object() -> None:
    mine = Everything()
    assert resolve(mine) == [mine]
    assert names(resolve([RoundRobinAssignor, mine, "range"])) == ["roundrobin", "broadcast", "range"]
    assert names(resolve(RangeAssignor)) == ["range"]


def test_two_assignors_of_one_name_are_rejected() -> None:
    with pytest.raises(ConfigurationError, match="two assignors are called 'range'"):
        resolve(["range", RangeAssignor()])


def test_names_of_the_assignors_that_come_along() -> None:
    names = ["range", "roundrobin", "sticky", "cooperative-sticky"]
    assert [assignor.name for assignor in resolve(names)] == names
    with pytest.raises(ConfigurationError, match="no assignor is called 'stream'"):
        resolve("stream")  # Kafka Streams' own


def test_the_default_is_javas_range_and_cooperative_sticky_which_allows_a_switch_in_one_rolling_restart() -> None:
    config = CONSUMER_SETTINGS.build({"bootstrap_servers": "h:1", "group_id": "g"})
    assignors = resolve(config.partition_assignment_strategy)
    assert names(assignors) == ["range", "cooperative-sticky"]
    assert common_protocol(assignors) is RebalanceProtocol.EAGER


@pytest.mark.parametrize("wrong", ["rang", "range,rang", "", [42], [dict]])
def test_an_invalid_assignor_is_rejected(wrong: object) -> None:
    with pytest.raises(ConfigurationError, match="partition_assignment_strategy"):
        resolve(wrong)  # type: ignore[arg-type]


def test_the_protocol_is_the_highest_that_all_support() -> None:
    assert common_protocol(resolve(["range", "roundrobin"])) is RebalanceProtocol.EAGER
    assert common_protocol([Cooperative()]) is RebalanceProtocol.COOPERATIVE
    assert common_protocol([RangeAssignor(), Cooperative()]) is RebalanceProtocol.EAGER
    with pytest.raises(ConfigurationError, match=r"range \(EAGER\), only-cooperative \(COOPERATIVE\)"):
        common_protocol([RangeAssignor(), OnlyCooperative()])
    assert (int(RebalanceProtocol.EAGER), int(RebalanceProtocol.COOPERATIVE)) == (0, 1)


def test_the_base_class_counts_the_topics_of_all_members() -> None:
    mine = Everything()
    shares = run(mine, {"a": "t u gone", "b": "u", "c": ""}, {"t": 1, "u": 2, "other": 9, "gone": 0})
    assert mine.seen == {"t": 1, "u": 2}
    assert shares == {"a": "tp0 up0 up1", "b": "up0 up1", "c": ""}


def test_built_in_assignors_send_no_user_data_and_assign_only_subscribed_topics() -> None:
    for assignor in resolve(["range", "roundrobin"]):
        assert assignor.subscription_user_data(frozenset({"t"})) is None
        assert run(assignor, {"a": "t", "b": "u"}, {"t": 3, "u": 2}) == {"a": "tp0 tp1 tp2", "b": "up0 up1"}


def test_an_assignor_sees_user_data_of_all_members() -> None:
    class Heaviest(Assignor):
        name = "heaviest"  # type: ignore[assignment]

        def assign(self, cluster, subscriptions):  # type: ignore[no-untyped-def]
            return max(subscriptions, key=lambda m: subscriptions[m].user_data or b"")

    chosen = Heaviest().assign(FakeCluster({}), {"a": Subscription((), b"1"), "b": Subscription((), b"2")})
    assert chosen == "b"  # type: ignore[comparison-overlap]
