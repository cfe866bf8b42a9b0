"""The rules of :mod:`pyconsumer.network.unsent`."""

from __future__ import annotations

import math

import pytest

from pyconsumer.errors import KafkaConnectionError, KafkaError
from pyconsumer.network.node import Node, Request
from pyconsumer.network.unsent import UnsentRequests
from pyconsumer.protocol.api import ApiKey
from pyconsumer.protocol.messages.heartbeat import HeartbeatRequest


def request(timeout: float = 10.0) -> Request:
    return Request(ApiKey.HEARTBEAT, HeartbeatRequest(), 0.0, timeout, 0, None, True)


NODES = [Node(1, 1), None]


@pytest.mark.parametrize("node", NODES, ids=["one node", "any node"])
def test_a_queue_keeps_its_order_and_is_left_by_what_has_arrived(node: Node | None) -> None:
    unsent = UnsentRequests()
    first, second, urgent = request(), request(), request()
    unsent.enqueue(node, first)
    unsent.enqueue(node, second)
    unsent.enqueue(node, urgent, first=True)
    for expected in (urgent, first, second):
        assert unsent.first(node) is expected
        unsent.remove_first(node)
    assert unsent.first(node) is None
    assert unsent.next_expiry(node) == math.inf


def test_counts_are_by_queue_and_in_total() -> None:
    unsent, nodes = UnsentRequests(), [Node(1, 1), Node(2, 2)]
    for node in (nodes[0], nodes[0], nodes[1], None):
        unsent.enqueue(node, request())
    assert [unsent.count(node) for node in (*nodes, None)] == [2, 1, 1]
    assert unsent.total(nodes) == 4


@pytest.mark.parametrize("node", [Node(1, 1), None], ids=["one node", "any node"])
def test_only_the_head_expires_and_a_request_is_completed_before_it_is_removed(node: Node | None) -> None:
    unsent = UnsentRequests()
    completed: list[tuple[Request, str]] = []

    def complete(owner: Node | None, found: Request, error: KafkaError) -> None:
        assert owner is node
        assert unsent.first(node) is found, "still in its queue"
        completed.append((found, str(error)))

    unsent.complete = complete
    early, late, behind = request(1.0), request(5.0), request(2.0)
    for item in (early, late, behind):
        unsent.enqueue(node, item)
    unsent.expire(node, 3.0, lambda found: KafkaConnectionError(f"after {found.timeout:g} s"))
    assert completed == [(early, "after 1 s")]
    assert unsent.next_expiry(node) == 5.0
    unsent.fail(node, KafkaConnectionError("lost"))
    assert completed[1:] == [(late, "lost"), (behind, "lost")]
    assert unsent.count(node) == 0
