"""Finding the coordinator: one lookup for each thread, backoffs, terms."""

from __future__ import annotations

import math

import pytest

from pyconsumer.consumer.coordinator.coordinator_discovery import BACKGROUND, USER, CoordinatorDiscovery
from pyconsumer.errors import CoordinatorNotAvailableError, GroupAuthorizationFailedError
from pyconsumer.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from pyconsumer.protocol.requests.find_coordinator import find_coordinator_request, read_coordinator
from pyconsumer.structs import BrokerMetadata
from tests.unit.consumer.coordinator.script import BACKOFF, NODE, OTHER


def test_one_lookup_at_a_time_and_a_new_one_after_its_end() -> None:
    discovery = CoordinatorDiscovery(BACKOFF)
    assert discovery.start(USER, 0.0)
    assert not discovery.start(USER, 0.0)
    assert discovery.due_at(USER) == math.inf
    discovery.failed(USER, CoordinatorNotAvailableError(), 0.0)
    assert not discovery.start(USER, 0.05)
    assert discovery.due_at(USER) == 0.1
    assert discovery.start(USER, 0.1)
    assert discovery.found(USER, NODE)
    assert discovery.node == NODE
    assert not discovery.start(USER, 1.0)


def test_pauses_between_failed_searches_grow() -> None:
    discovery = CoordinatorDiscovery(BACKOFF)
    now, pauses = 0.0, []
    for _ in range(6):
        assert discovery.start(USER, now)
        discovery.failed(USER, CoordinatorNotAvailableError(), now)
        pauses.append(round(discovery.due_at(USER) - now, 3))
        now = discovery.due_at(USER)
    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]


def test_each_thread_has_its_own_lookup() -> None:
    """The user's thread may ignore its lookup for minutes while it processes records."""
    discovery = CoordinatorDiscovery(BACKOFF)
    assert discovery.start(USER, 0.0)
    assert discovery.start(BACKGROUND, 0.0)
    assert discovery.found(BACKGROUND, NODE)
    assert not discovery.found(USER, NODE)


def test_the_first_loss_is_followed_by_a_search_at_once_the_next_ones_by_pauses() -> None:
    discovery = CoordinatorDiscovery(BACKOFF)
    discovery.found(USER, NODE)
    dues = []
    for _ in range(4):
        assert discovery.lost(1, 5.0)
        dues.append(round(discovery.due_at(USER) - 5.0, 3))
        discovery.found(USER, NODE)
    assert dues == [0.0, 0.1, 0.2, 0.4]
    discovery.responded()
    assert discovery.lost(1, 9.0)
    assert discovery.start(USER, 9.0)


def test_a_node_that_is_found_and_lost_without_a_response_does_not_end_the_search() -> None:
    discovery = CoordinatorDiscovery(BACKOFF)
    assert discovery.start(USER, 3.0)
    assert (discovery.is_sought(3.0), discovery.is_sought(34.0)) == (True, False)
    discovery.found(USER, NODE)
    assert (discovery.missing_since, discovery.unanswered_since) == (None, 3.0)
    discovery.lost(1, 5.0)
    assert (discovery.missing_since, discovery.unanswered_since) == (3.0, None)
    assert discovery.start(USER, 6.0)
    discovery.failed(USER, CoordinatorNotAvailableError(), 6.0)
    assert discovery.missing_since == 3.0
    assert (discovery.is_sought(6.05), discovery.is_sought(6.5)) == (True, False)
    discovery.found(USER, NODE)
    discovery.responded()
    assert (discovery.missing_since, discovery.unanswered_since) == (None, None)


def test_only_the_coordinator_can_be_lost() -> None:
    discovery = CoordinatorDiscovery(BACKOFF)
    assert not discovery.lost(1, 0.0)
    discovery.found(USER, OTHER)
    assert not discovery.lost(1, 0.0)
    assert discovery.term == 0
    assert discovery.lost(2, 0.0)
    assert (discovery.node, discovery.term) == (None, 1)


def test_the_request_names_the_group_in_every_version() -> None:
    assert find_coordinator_request("groupId", 1).encode(1).hex() == "000767726f7570496400"
    for version in range(FindCoordinatorRequest.MIN_VERSION, FindCoordinatorRequest.MAX_VERSION + 1):
        read = FindCoordinatorRequest.decode(find_coordinator_request("g", version).encode(version), version)
        assert ([read.key] if version < 4 else read.coordinator_keys) == ["g"]
        assert read.key_type == 0


@pytest.mark.parametrize("version", range(7))
def test_the_response_names_the_node_in_every_version(version: int) -> None:
    if version < 4:
        response = FindCoordinatorResponse(node_id=1, host="one", port=9092)
    else:
        mine = Coordinator(key="g", node_id=1, host="one", port=9092)
        response = FindCoordinatorResponse(coordinators=[Coordinator(key="x", node_id=7), mine])
    assert read_coordinator("g", version, response) == BrokerMetadata(1, "one", 9092)


@pytest.mark.parametrize(
    ("version", "encoded"),
    [
        (0, "0000 00000001 0003 6f6e65 00002384"),
        (1, "00000005 0000 0002 6e6f 00000001 0003 6f6e65 00002384"),
        (2, "00000005 0000 0002 6e6f 00000001 0003 6f6e65 00002384"),
    ],
)
def test_the_bytes_of_the_old_responses(version: int, encoded: str) -> None:
    response = FindCoordinatorResponse(throttle_time_ms=5, error_message="no", node_id=1, host="one", port=9092)
    assert response.encode(version) == bytes.fromhex(encoded)


@pytest.mark.parametrize("version", [3, 6])
def test_errors_of_the_response_are_raised(version: int) -> None:
    def answer(code: int) -> FindCoordinatorResponse:
        if version < 4:
            return FindCoordinatorResponse(error_code=code, error_message="because")
        return FindCoordinatorResponse(coordinators=[Coordinator(key="g", error_code=code, error_message="because")])

    with pytest.raises(GroupAuthorizationFailedError, match="group g: because"):
        read_coordinator("g", version, answer(30))
    with pytest.raises(CoordinatorNotAvailableError) as caught:
        read_coordinator("g", version, answer(15))
    assert caught.value.retriable


def test_a_response_for_other_groups_is_invalid() -> None:
    with pytest.raises(CoordinatorNotAvailableError):
        read_coordinator("g", 4, FindCoordinatorResponse(coordinators=[Coordinator(key="x", node_id=1)]))
