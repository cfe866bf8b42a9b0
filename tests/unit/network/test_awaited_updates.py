"""Waits for an update of metadata, while a request that was sent before is in flight: its response lacks the topic."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, cast

import pytest

from pyconsumer.clock import ManualClock
from pyconsumer.consumer.all_partitions import AllPartitions
from pyconsumer.consumer.context import ConsumerContext
from pyconsumer.consumer.subscription_state import SubscriptionState
from pyconsumer.consumer.topic_metadata_fetcher import TopicMetadataFetcher
from pyconsumer.network.backoff import Backoff
from pyconsumer.network.calls import Calls, await_update
from pyconsumer.network.client import NetworkClient
from pyconsumer.network.futures import RequestFuture, Steps, drive
from pyconsumer.network.metadata import Metadata, MetadataQuery
from pyconsumer.protocol.messages.metadata import MetadataRequest
from pyconsumer.structs import TopicPartition
from tests.support.fake_network import FakeNetwork, metadata_response

TOPICS = ("known", "new")
NEW = TopicPartition("new", 0)
_DEADLINE_S = 60.0


def id_of(name: str) -> bytes:
    return name.encode().ljust(16)


class Cluster(FakeNetwork):
    """A broker with both topics, and a client that asks for metadata as a real one does, one request at a time.

    When it is made, the client knows the topic ``known``, and a request for it is in flight.
    """

    def __init__(self) -> None:
        super().__init__(ManualClock(10.0))
        self.metadata = Metadata(backoff=Backoff(0.1, 1.0, random=lambda: 0.5))
        self.queries: list[MetadataRequest] = []
        self._flying: MetadataQuery | None = None
        self.metadata.set_topics({"known"})
        self.turn()
        self.turn()
        self.metadata.request_update()
        self.clock.advance(1.0)
        self.turn()
        assert self._flying is not None
        self.queries.clear()
        self.calls = Calls(
            cast(NetworkClient, self), self.metadata, self.clock, request_timeout=30.0, backoff=Backoff(0.1, 1.0)
        )

    def turn(self) -> None:
        """Answer the request in flight. If there is none, send one that is due."""
        now = self.clock.now()
        if self._flying is not None:
            query, self._flying = self._flying, None
            asked = query.request.topics
            keys = None if asked is None else {one.name or one.topic_id for one in asked}
            found = {name: {0: (1, 1)} for name in TOPICS if keys is None or keys & {name, id_of(name)}}
            self.metadata.update(metadata_response(found, topic_id=id_of), 12, now, query)
        elif self.metadata.next_update_at(now) <= now:
            self._flying = self.metadata.query(now)
            self.queries.append(self._flying.request)

    def wait_for(self, steps: Steps[Any]) -> Any:
        return drive(steps, _DEADLINE_S, self._poll, self.clock.now)

    def _poll(self, until: float, _: RequestFuture[Any] | None) -> None:
        self.clock.advance_to(min(until, self.clock.now() + 0.05))
        self.turn()


def plainly(cluster: Cluster) -> None:
    cluster.metadata.add_topic("new")
    cluster.wait_for(await_update(cluster.metadata, cluster.clock, deadline=_DEADLINE_S))


def by_leaders(cluster: Cluster) -> None:
    cluster.wait_for(cluster.calls.find_leaders({NEW}, _DEADLINE_S))


def by_a_leader_that_must_exist(cluster: Cluster) -> None:
    assert cluster.wait_for(cluster.calls.leader(NEW, must_exist=True)(_DEADLINE_S)) == 1


def by_partitions_of_a_topic(cluster: Cluster) -> None:
    config: Any = None
    subscriptions: Any = None
    client = cast(Any, cluster)
    fetcher = TopicMetadataFetcher(ConsumerContext(config, client, cluster.metadata, subscriptions, cluster.clock))
    assert cluster.wait_for(fetcher.partitions_for("new", _DEADLINE_S)) == {0}


def by_an_update_of_all(cluster: Cluster) -> None:
    config: Any = None
    subscriptions: Any = None
    client = cast(Any, cluster)
    cluster.metadata.set_topics(TOPICS)
    fetcher = TopicMetadataFetcher(ConsumerContext(config, client, cluster.metadata, subscriptions, cluster.clock))
    cluster.wait_for(fetcher.update(_DEADLINE_S))


def by_a_pattern_without_a_group(cluster: Cluster) -> None:
    config: Any = None
    subscriptions = SubscriptionState()
    client = cast(Any, cluster)
    everything = AllPartitions(ConsumerContext(config, client, cluster.metadata, subscriptions, cluster.clock))
    subscriptions.subscribe_pattern(re.compile("new"))
    cluster.metadata.set_all_topics()
    everything.on_subscription_change()
    while not everything.is_due:
        cluster.clock.advance(0.05)
        cluster.turn()
    list(everything.poll())
    assert subscriptions.assignment() == {NEW}, "by the first look, so it begins by auto_offset_reset"


def by_its_name_while_ids_are_followed(cluster: Cluster) -> None:
    cluster.metadata.set_topic_ids([b"i" * 16])  # of a topic that is not there any more
    by_leaders(cluster)


WAYS = [
    plainly,
    by_leaders,
    by_a_leader_that_must_exist,
    by_partitions_of_a_topic,
    by_an_update_of_all,
    by_a_pattern_without_a_group,
    by_its_name_while_ids_are_followed,
]


@pytest.mark.parametrize("way", WAYS)
def test_a_response_to_an_older_request_ends_no_wait_for_a_topic(way: Callable[[Cluster], None]) -> None:
    cluster = Cluster()
    way(cluster)
    assert cluster.metadata.partition(NEW) is not None
    assert len(cluster.queries) <= 2


def test_a_known_leader_costs_no_request() -> None:
    cluster = Cluster()
    known = TopicPartition("known", 0)
    cluster.wait_for(cluster.calls.find_leaders({known}, _DEADLINE_S))
    assert cluster.wait_for(cluster.calls.leader(known)(_DEADLINE_S)) == 1
    assert cluster.queries == []
