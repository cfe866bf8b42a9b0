"""Finding a group's coordinator and talking to it: addresses, connections, names, threads."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable
from typing import Any

import pytest

from pyconsumer.consumer.consumer import KafkaConsumer
from pyconsumer.protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.behaviour.group_members import coordinator_of, eventually, fill, join_all, running
from tests.support.cluster import Cluster
from tests.support.raw_client import RawClient

pytestmark = pytest.mark.concurrent

MakeTopic = Callable[..., str]

#: What changes the state of a membership, or reads more than one part of it.
CORE_CALLS = [
    "on_subscription",
    "on_metadata",
    "request_rejoin",
    "next_action",
    "on_prepared",
    "begin_join",
    "on_join_response",
    "on_assigned",
    "on_sync_response",
    "on_step_failed",
    "on_completed",
    "on_commit_refused",
    "on_poll",
    "leave",
    "close",
    "on_coordinator_found",
    "on_coordinator_not_found",
    "on_coordinator_lost",
    "next_background",
    "on_heartbeat_response",
    "on_heartbeat_failed",
    "on_leave_done",
]


def test_clients_of_a_listener_get_its_address(cluster: Cluster, group_id: str) -> None:
    trusting = ssl.create_default_context(cafile=str(cluster.certificates.ca_pem))
    request = FindCoordinatorRequest(coordinator_keys=[group_id])
    found = {}
    for listener, tls in (("PLAINTEXT", None), ("SSL", trusting)):
        address = cluster.bootstrap_servers if tls is None else cluster.address(listener)
        with RawClient(address, tls=tls) as client:

            def is_there(client: RawClient = client) -> Any:
                (answer,) = client.request(request).coordinators
                return answer if answer.error_code == 0 else None

            found[listener] = eventually(is_there, "finding the coordinator")
        assert str(found[listener].port) == address.rpartition(":")[2]
    assert found["PLAINTEXT"].node_id == found["SSL"].node_id
    assert found["PLAINTEXT"].port != found["SSL"].port


def test_a_member_is_connected_with_its_coordinator_which_calls_it_by_its_client_id(
    cluster: Cluster, topic: str, group_id: str
) -> None:
    with running() as start, RawClient(cluster.bootstrap_servers) as raw:
        plain = start(cluster, group_id, [topic], client_id="the-client")
        named = start(cluster, group_id, [topic], client_id="another", group_instance_id="the-place")
        eventually(lambda: plain.member_id and named.member_id and plain.generation == named.generation, "joining")
        assert plain.member_id.startswith("the-client-")
        assert len(plain.member_id) == len("the-client-") + 36
        assert named.member_id.startswith("the-place-")
        address = raw.coordinator(group_id)
        for member in (plain, named):

            def state(consumer: KafkaConsumer) -> tuple[str, str]:
                known = coordinator_of(consumer)._core.coordinator
                assert known is not None
                state = consumer._network.connection_state(known.node_id, "coordinator")
                return f"{known.host}:{known.port}", state

            assert member.do(state) == (address, "ready")


def test_two_threads_share_a_membership_under_one_lock_and_never_block_each_other(
    cluster: Cluster, make_topic: MakeTopic, group_id: str
) -> None:
    """Heartbeats every 10 ms, polls, commits, rebalances, a coordinator that is lost again and again."""
    topic = make_topic(4)
    fill(cluster, topic, 200, 4)
    unlocked: list[str] = []
    callers: dict[str, set[threading.Thread]] = {}

    def watch(consumer: KafkaConsumer) -> None:
        coordinator = coordinator_of(consumer)
        lock, core = coordinator._lock, coordinator._core
        for name in CORE_CALLS:
            real = getattr(core, name)

            def checked(*arguments: Any, name: str = name, real: Callable[..., Any] = real, **more: Any) -> Any:
                if not lock._is_owned():  # type: ignore[attr-defined]
                    unlocked.append(name)
                callers.setdefault(name, set()).add(threading.current_thread())
                return real(*arguments, **more)

            setattr(core, name, checked)

    with running() as start:
        settings = {"heartbeat_interval_ms": 10, "max_poll_records": 5, "auto_commit_interval_ms": 20}
        members = [start(cluster, group_id, [topic], **settings) for _ in range(2)]
        for member in members:
            member.do(watch)
        join_all(members, 4)
        for number in range(3):
            member = members[number % 2]
            member.do(lambda consumer: consumer.commit_async())
            member.do(lambda consumer: consumer.enforce_rebalance("stress"))
            core, lock = coordinator_of(member.consumer)._core, coordinator_of(member.consumer)._lock
            with lock:  # from a third thread, as if an answer had said so
                if core.coordinator is not None:
                    core.on_coordinator_lost(core.coordinator.node_id, "stress", core.heartbeat_timers.last_poll)
            join_all(members, 4)
        beats = [coordinator_of(member.consumer).metrics.heartbeats.count for member in members]
        eventually(
            lambda: all(
                coordinator_of(member.consumer).metrics.heartbeats.count > before + 10
                for member, before in zip(members, beats, strict=True)
            ),
            "heartbeats go on",
        )
        eventually(lambda: sum(len(member.read) for member in members) >= 200, "reading goes on")
    assert unlocked == []
    assert all(thread.name.startswith("pyconsumer-heartbeat") for thread in callers["next_background"])
    assert len(callers["next_background"]) == len(callers["on_poll"]) == 2
    assert not callers["next_background"] & callers["on_poll"]
