"""Groups that change under way: from eager to cooperative, why members rejoin, which partitions they lose."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from pyconsumer.protocol.api_keys import ApiKey
from pyconsumer.structs import TopicPartition
from tests.behaviour.group_members import Member, chosen, eventually, fill, join_all, running
from tests.support.cluster import Cluster
from tests.support.proxy import KafkaProxy

pytestmark = pytest.mark.faces

MakeTopic = Callable[..., str]

#: On a machine so busy that heartbeats are late nobody is expelled, which would be another story than the one told.
PATIENT = {"session_timeout_ms": 45_000}

EAGER = ["range"]
BOTH = ["cooperative-sticky", "range"]
COOPERATIVE = ["cooperative-sticky"]


@pytest.mark.slow
def test_from_eager_to_cooperative_in_two_rounds_of_restarts(
    cluster: Cluster, make_topic: MakeTopic, group_id: str
) -> None:
    """KIP-429: first with both assignors, then with the cooperative one alone. Every record is read."""
    topic = make_topic(6)
    written = 0
    read: set[tuple[TopicPartition, int]] = set()
    with running() as start:

        def begin(strategies: list[str]) -> Member:
            return start(cluster, group_id, [topic], partition_assignment_strategy=strategies, **PATIENT)

        members = [begin(EAGER), begin(EAGER)]
        join_all(members, 6)
        for strategies, until_the_last, in_the_end in (
            (BOTH, "range", "cooperative-sticky"),
            (COOPERATIVE, "cooperative-sticky", "cooperative-sticky"),
        ):
            for number in range(len(members)):
                fill(cluster, topic, 12, 6)
                written += 12
                members[number].stop()
                read |= set(members[number].read)
                members[number] = begin(strategies)
                join_all(members, 6)
                last = number == len(members) - 1
                assert chosen(members) == {in_the_end if last else until_the_last}
        assert all(member.error is None for member in members)

        def everything_is_read() -> bool:
            return len(read.union(*(member.read for member in members))) == written

        eventually(everything_is_read, "reading every record")

        before = [member.assignment for member in members]
        calls = [len(member.listener.calls) for member in members]
        third = begin(COOPERATIVE)
        join_all([*members, third], 6)
        for member, had, count in zip(members, before, calls, strict=True):
            revoked = [partitions for what, partitions in member.listener.calls[count:] if what == "revoked"]
            assert [len(partitions) for partitions in revoked] == [1], "it gives up what moves, and nothing else"
            assert member.assignment == had - set(revoked[0])


@pytest.mark.concurrent
def test_a_cooperative_newcomer_costs_two_generations(
    cluster: Cluster, proxy: KafkaProxy, make_topic: MakeTopic, group_id: str
) -> None:
    topic = make_topic(4)

    def lookups() -> list[Any]:
        return [e.message for api in (ApiKey.OFFSET_FETCH, ApiKey.LIST_OFFSETS) for e in proxy.events(api, "request")]

    with running() as start:
        a = start(proxy.bootstrap_servers, group_id, [topic], partition_assignment_strategy=COOPERATIVE, **PATIENT)
        join_all([a], 4)
        fill(cluster, topic, 4, 4)
        eventually(lambda: len(a.read) == 4, "reading")
        generation, looked_up, joined = a.generation, lookups(), len(proxy.events(ApiKey.JOIN_GROUP, "request"))
        b = start(cluster, group_id, [topic], partition_assignment_strategy=COOPERATIVE, **PATIENT)
        join_all([a, b], 4)
        assert a.generation == generation + 2, (
            "the first one takes two partitions from a, the second one gives them to b"
        )
        # Nothing is free in the first one; b may even miss it, if a has given up what moves before b has synced.
        assert [len(partitions) for partitions in b.listener.of("assigned")][-2:] in ([0, 2], [2])
        assert b.listener.of("revoked") == []
        assert len(proxy.events(ApiKey.JOIN_GROUP, "request")) == joined + 2, "told once, and once for what it gave up"
        fill(cluster, topic, 4, 4)
        eventually(lambda: len(a.read) + len(b.read) == 8, "reading on, each record once")
        assert lookups() == looked_up, "a went on from its own positions"


@pytest.mark.slow
@pytest.mark.concurrent
@pytest.mark.parametrize("strategy", [EAGER, COOPERATIVE], ids="-".join)
def test_lost_partitions_are_reported_as_lost_and_not_as_revoked(
    cluster: Cluster, make_topic: MakeTopic, group_id: str, strategy: list[str]
) -> None:
    """It did not poll for too long: others have its partitions by the time it hears of it."""
    topic = make_topic(4)
    with running() as start:
        a = start(
            cluster,
            group_id,
            [topic],
            partition_assignment_strategy=strategy,
            max_poll_interval_ms=1500,
            **PATIENT,
        )
        join_all([a], 4)
        b = start(cluster, group_id, [topic], partition_assignment_strategy=strategy, **PATIENT)
        join_all([a, b], 4)
        a.stall()
        mine = a.do(lambda consumer: sorted(consumer.assignment()))
        calls = len(a.listener.calls)
        eventually(lambda: len(b.assignment) == 4, "the other one taking over")
        assert len(a.listener.calls) == calls, "no callback outside of poll"
        a.go_on()
        join_all([a, b], 4)
        assert a.listener.calls[calls] == ("lost", mine)
        assert [what for what, _ in a.listener.calls[calls:]][:2] == ["lost", "assigned"]


@pytest.mark.concurrent
def test_members_say_why_they_join_and_leave(
    cluster: Cluster, proxy: KafkaProxy, make_topic: MakeTopic, group_id: str
) -> None:
    """KIP-800: for the broker's log."""
    topic, other = make_topic(4), make_topic(1)

    def joins() -> list[str | None]:
        return [event.message.reason for event in proxy.events(ApiKey.JOIN_GROUP, "request")]

    with running() as start:
        a = start(proxy.bootstrap_servers, group_id, [topic], partition_assignment_strategy=COOPERATIVE, **PATIENT)
        join_all([a], 4)
        assert set(joins()) == {""}, "there is no reason to tell of a first join"
        a.do(lambda consumer: consumer.enforce_rebalance("x" * 300))
        eventually(lambda: "x" * 255 in joins(), "joining for the application's reason, cut to what brokers keep")
        join_all([a], 4)
        b = start(cluster, group_id, [topic], partition_assignment_strategy=COOPERATIVE, **PATIENT)
        join_all([a, b], 4)
        eventually(lambda: joins()[-2:] == ["group is already rebalancing", "need to revoke partitions and re-join"])
        a.do(lambda consumer: consumer.subscribe([topic, other], listener=a.listener))
        join_all([a, b], 5)
        assert "the subscription has changed" in joins()
        b.stop()
        join_all([a], 5)
        a.do(lambda consumer: consumer.unsubscribe())
        a.stall()

        def leaves() -> list[list[str | None]]:
            return [[m.reason for m in event.message.members] for event in proxy.events(ApiKey.LEAVE_GROUP, "request")]

        eventually(lambda: leaves() == [["the consumer unsubscribed from all topics"]], "leaving")
        c = start(proxy.bootstrap_servers, group_id, [topic], **PATIENT)
        join_all([c], 4)
        c.stop()
        assert leaves()[1:] == [["the consumer is being closed"]]


@pytest.mark.concurrent
def test_a_slow_member_with_much_buffered_takes_part_in_a_rebalance_at_once(
    cluster: Cluster, make_topic: MakeTopic, group_id: str
) -> None:
    """KIP-429: it keeps on reading while it joins, but the group does not wait until all it has fetched is read."""
    topic = make_topic(2)
    records = 6000
    fill(cluster, topic, records, 2)

    def work(*_: object) -> None:
        time.sleep(0.02)

    slow = {"partition_assignment_strategy": COOPERATIVE, "max_poll_records": 1, "on_records": work}
    with running() as start:
        first = start(cluster, group_id, [topic], **slow, **PATIENT)
        eventually(lambda: bool(first.read), "the first record")
        second = start(cluster, group_id, [topic], **slow, **PATIENT)
        owners = join_all([first, second], 2)
        assert len(set(owners.values())) == 2
        assert len(first.read) < records / 2 - 1, "what it had fetched at the beginning was not all"
