"""Groups of every client move between the group protocols while they run (KIP-848), under each migration policy.

Two members of one protocol are replaced, one after the other, by members of the other one, while a producer writes. No
partition ever has two owners, each has one again after each step, no record is lost, no commit goes back. Where the
broker's policy forbids the change, the newcomer gets an error and the group does not notice. It changes when empty.

Some plays are in the suite. ``PYCONSUMER_MIGRATION_MATRIX=1`` plays all of them: {upgrade, downgrade} x {ours, Java,
confluent-kafka, franz-go} x {four policies} x {eager, cooperative classic members}, on both brokers.
"""

from __future__ import annotations

import itertools
import os
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import pytest

from pyconsumer import KafkaAdminClient
from tests.support.cluster import Cluster
from tests.support.go import franz_program
from tests.support.live_group import LiveGroup, LiveMember

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

WHOLE = bool(os.environ.get("PYCONSUMER_MIGRATION_MATRIX"))
WAYS = ("upgrade", "downgrade")
CLIENTS = ("ours", "java", "confluent", "franz")
POLICIES = ("bidirectional", "upgrade", "downgrade", "disabled")
STRATEGIES = {"range": "eager", "cooperative-sticky": "cooperative"}
PARTITIONS = 6
#: So many plays at a time: they wait more than they work.
AT_ONCE = 4


class Play(NamedTuple):
    """One cell of the matrix."""

    way: str
    client: str
    policy: str
    strategy: str

    @property
    def protocols(self) -> tuple[str, str]:
        return ("classic", "consumer") if self.way == "upgrade" else ("consumer", "classic")

    @property
    def mixes(self) -> bool:
        """Whether members of both protocols can be in the group at one time."""
        return self.policy in ("bidirectional", "upgrade") if self.way == "upgrade" else self.policy != "disabled"

    @property
    def ends_as(self) -> str:
        """The group's type in the end."""
        stays = self.way == "downgrade" and self.policy == "upgrade"
        return "consumer" if stays else self.protocols[1]

    def run(self, cluster: Cluster) -> str:
        name = f"{self.way}-{self.client}-{self.policy}-{self.strategy}-{uuid.uuid4().hex[:6]}"
        cluster.create_topic(name, PARTITIONS)
        if self.client == "confluent":
            # librdkafka gives up a heartbeat after an interval, and does not ask again for what its response assigned.
            cluster.set_group(name, {"consumer.heartbeat.interval.ms": "1000"})
        options: dict[str, Any] = {"strategy": self.strategy, "per_second": 100, "session_ms": 10_000}
        with LiveGroup(cluster, name, name, PARTITIONS, **options) as group:
            before, _ = self.protocols
            old = [self._join(group, before) for _ in range(2)]
            group.settle()
            note = ""
            if not self.mixes:
                note = "refused, "
                self._is_turned_away(group, self._join(group, self.protocols[1]))
                self._swap_all(group, old)
            elif not self._swap(group, old[0]):
                note = "refused for its user data, "
                self._swap_all(group, old)
            elif not self._swap(group, old[1]):
                note = "partitions without an owner until a member joins, "
            with KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
                (kind,) = {one.group_type for one in admin.list_groups() if one.group_id == name}
            assert kind == self.ends_as
            group.drain()
            group.check()
            ledger = group.ledger
            assert not (twice := ledger.owned_twice()), twice
            assert not (again := ledger.rewinds()), again
            return (
                f"{cluster.kind}, {self.way}, {self.client}, {self.policy}, {STRATEGIES[self.strategy]}: {note}"
                f"{len(ledger.acknowledged)} records, longest without an owner {ledger.longest_without_owner():.1f} s"
            )

    def _join(self, group: LiveGroup, protocol: str) -> LiveMember:
        member: LiveMember = group.join(self.client, protocol=protocol)  # type: ignore[arg-type]
        return member

    def _swap(self, group: LiveGroup, member: LiveMember) -> bool:
        """Replace a member by one of the other protocol. False if that went as in the exceptions of some."""
        newcomer = self._join(group, self.protocols[1])
        if self.has_user_data:
            group.ledger.wait(lambda: group.settled or newcomer.seen.errors, 60, "it is in, or told why not")
            if newcomer.seen.errors:
                self._is_turned_away(group, newcomer)
                return False
        group.settle()
        group.progress(20)
        member.leave()
        return self._settle_alone(group)

    @property
    def has_user_data(self) -> bool:
        """librdkafka's assignor sends each member's user data back in its assignment: that is not to be converted.

        It has some from the second rebalance on. Apache Kafka refuses it likewise.
        """
        return (self.way, self.client, self.strategy) == ("upgrade", "confluent", "cooperative-sticky")

    def _settle_alone(self, group: LiveGroup) -> bool:
        """Wait until the rest shares everything.

        Apache Kafka 4.3.1 computes no new target for classic members that are left alone in a consumer group soon after
        the last computation: partitions stay without an owner until somebody joins. On our broker that would count.
        """
        left_alone = self.ends_as == "consumer" and self.way == "downgrade" and len(group.alive) == 2
        if group.cluster.embedded or not left_alone:
            group.settle()
        else:
            try:
                group.settle(20)
            except AssertionError:
                self._join(group, self.protocols[1])
                group.settle()
                return False
        group.progress(20)
        return True

    def _is_turned_away(self, group: LiveGroup, newcomer: LiveMember) -> None:
        group.ledger.wait(lambda: newcomer.seen.errors, 60, f"{newcomer.name} is turned away")
        assert not newcomer.seen.calls
        newcomer.forget()
        calls = [member.seen.changes for member in group.alive]
        group.progress(50)
        assert calls == [member.seen.changes for member in group.alive], "the others hear nothing of it"

    def _swap_all(self, group: LiveGroup, old: list[LiveMember]) -> None:
        for member in old:
            member.leave()
        group.ledger.wait(lambda: all(member.seen.left for member in old), 60, "the group is empty")
        self._join(group, self.protocols[1])
        group.settle()
        group.progress(20)


def playing(plays: list[Play], cluster: Cluster) -> None:
    """Play them on a cluster, and report each."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        done = {play: pool.submit(play.run, cluster) for play in plays}
    failed = {play: future.exception() for play, future in done.items() if future.exception() is not None}
    for play, future in done.items():
        print(f"FAILED {play}" if play in failed else future.result(), flush=True)
    for problem in failed.values():
        assert problem is not None
        raise problem


def without_go(plays: list[Play]) -> list[Play]:
    """Leave out franz-go where there is no Go, or it cannot fetch its modules."""
    try:
        found = franz_program("members")
    except AssertionError:
        found = None
    return plays if found is not None else [play for play in plays if play.client != "franz"]


if WHOLE:

    @pytest.mark.timeout(3600)
    @pytest.mark.parametrize("policy", POLICIES)
    def test_the_whole_matrix(cluster_kind: str, new_cluster: Callable[..., Cluster], policy: str) -> None:
        cluster = new_cluster(cluster_kind, config={"group.consumer.migration.policy": policy})
        cells = itertools.product(CLIENTS, WAYS, STRATEGIES)
        playing(without_go([Play(way, client, policy, strategy) for client, way, strategy in cells]), cluster)

else:

    @pytest.mark.timeout(600)
    def test_groups_move_to_the_other_protocol_while_they_run(cluster: Cluster) -> None:
        plays = [
            Play("upgrade", "ours", "bidirectional", "cooperative-sticky"),
            Play("downgrade", "ours", "bidirectional", "range"),
            Play("downgrade", "java", "bidirectional", "cooperative-sticky"),
            Play("upgrade", "confluent", "bidirectional", "range"),
            Play("upgrade", "franz", "bidirectional", "cooperative-sticky"),
        ]
        playing(without_go(plays) if cluster.embedded else plays[:2], cluster)

    @pytest.mark.timeout(600)
    @pytest.mark.embedded_only("raw messages show on both brokers what each policy answers; here members hear of it")
    def test_groups_that_may_not_move_are_not_disturbed(cluster_kind: str, new_cluster: Callable[..., Cluster]) -> None:
        cluster = new_cluster(cluster_kind, config={"group.consumer.migration.policy": "disabled"})
        playing([Play(way, "ours", "disabled", "cooperative-sticky") for way in WAYS], cluster)
