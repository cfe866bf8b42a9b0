"""The rules of :mod:`pyconsumer.network.client_requests`."""

from __future__ import annotations

import pytest

from pyconsumer.errors import KafkaConnectionError
from pyconsumer.network.client_requests import CompletedRequests, Request, UnsentRequests
from pyconsumer.network.node import Node
from pyconsumer.protocol.api import ApiKey
from pyconsumer.protocol.messages.heartbeat import HeartbeatRequest


def request(timeout: float = 10.0) -> Request:
    return Request(ApiKey.HEARTBEAT, HeartbeatRequest(), 0.0, timeout, 0, None, True)


NODES = [Node(1, 1), None]


@pytest.mark.parametrize("node", NODES, ids=["one node", "any node"])
def test_a_queue_keeps_its_order_and_drops_completed_requests(node: Node | None) -> None:
    unsent = UnsentRequests(CompletedRequests())
    first, second, urgent = request(), request(), request()
    unsent.enqueue(node, first)
    unsent.enqueue(node, second)
    unsent.enqueue(node, urgent, first=True)
    for expected in (urgent, first, second):
        assert unsent.first(node) is expected
        unsent.remove_first(node)
    assert unsent.first(node) is None
    assert unsent.count(node) == 0


def test_counts_are_by_queue_and_in_total() -> None:
    unsent, nodes = UnsentRequests(CompletedRequests()), [Node(1, 1), Node(2, 2)]
    for node in (nodes[0], nodes[0], nodes[1], None):
        unsent.enqueue(node, request())
    assert [unsent.count(node) for node in (*nodes, None)] == [2, 1, 1]
    assert unsent.total() == 4


class Watched(CompletedRequests):
    """Records its calls, and that a request is recorded before it leaves its queue."""

    def __init__(self) -> None:
        super().__init__()
        self.unsent = UnsentRequests(self)
        self.seen: list[tuple[Request, str]] = []

    def add(self, node: Node | None, request: Request, outcome: object) -> None:
        assert self.unsent.first(node) is request, "still in its queue"
        self.seen.append((request, str(outcome)))


@pytest.mark.parametrize("node", [Node(1, 1), None], ids=["one node", "any node"])
def test_only_the_head_of_a_queue_expires_and_a_request_completes_before_it_is_removed(node: Node | None) -> None:
    completed = Watched()
    unsent = completed.unsent
    early, late, behind = request(1.0), request(5.0), request(2.0)
    for item in (early, late, behind):
        unsent.enqueue(node, item)
    unsent.expire(node, 3.0, lambda found: KafkaConnectionError(f"after {found.timeout:g} s"))
    assert completed.seen == [(early, "after 1 s")]
    assert unsent.first(node) is late
    unsent.fail(node, KafkaConnectionError("lost"))
    assert completed.seen[1:] == [(late, "lost"), (behind, "lost")]
    assert unsent.count(node) == 0


def test_a_queue_that_is_empty_is_dropped() -> None:
    unsent = UnsentRequests(CompletedRequests())
    for node_id in range(100):
        node = Node(node_id, node_id)
        unsent.enqueue(node, request())
        unsent.remove_first(node)
    unsent.enqueue(None, request())
    assert len(unsent.queues) == 1


def test_outcomes_are_delivered_in_order_and_the_second_of_a_request_is_ignored() -> None:
    completed, heard = CompletedRequests(), []
    first, second = request(), request()
    for name, item in (("first", first), ("second", second)):
        item.future.add_callback(lambda future, name=name: heard.append(name))  # type: ignore[misc]
    assert not completed.outcomes
    completed.add(None, first, KafkaConnectionError("lost"))
    completed.add(None, second, KafkaConnectionError("lost"))
    completed.add(None, first, KafkaConnectionError("again"))
    assert (heard, bool(completed.outcomes), completed.take_happened()) == ([], True, True)
    assert completed.fire()
    assert (heard, str(first.future.exception)) == (["first", "second"], "lost")
    assert not completed.fire()
    assert not completed.take_happened()
