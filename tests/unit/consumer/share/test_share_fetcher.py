"""``ShareFetcher`` without a network: the responses of a broker, and what becomes of acknowledgements."""

from __future__ import annotations

from typing import Any

import pytest

from pyconsumer.consumer.share.acknowledgements import Delivery, Piece, Source
from pyconsumer.consumer.share.config import SHARE_CONSUMER_SETTINGS
from pyconsumer.consumer.share.context import ShareContext
from pyconsumer.consumer.share.fetcher import ShareFetcher
from pyconsumer.consumer.share.metrics import ShareMetrics
from pyconsumer.consumer.share.session import Queued, Ticket
from pyconsumer.errors import (
    Errors,
    InvalidRecordStateError,
    KafkaConnectionError,
    KafkaError,
    NotLeaderOrFollowerError,
    ShareSessionNotFoundError,
)
from pyconsumer.network.client_requests import ClientResponse
from pyconsumer.network.futures import RequestFuture
from pyconsumer.protocol.messages import share_acknowledge, share_fetch
from pyconsumer.protocol.messages.share_acknowledge import ShareAcknowledgeResponse
from pyconsumer.protocol.messages.share_fetch import ShareFetchRequest, ShareFetchResponse
from pyconsumer.protocol.records import BatchBuilder
from pyconsumer.structs import AcknowledgeType, PartitionMetadata, TopicPartition

_ID = b"i" * 16
_TP = TopicPartition("t", 0)
_SOURCE = Source(1, _ID, _TP)
_ASSIGNMENT = {_TP: _ID}


class _Client:
    """Keeps requests until the test responds."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, Any, RequestFuture[Any]]] = []

    def send(self, node: int, api: object, request: Any, **options: object) -> RequestFuture[Any]:
        future: RequestFuture[Any] = RequestFuture()
        self.sent.append((node, request, future))
        return future

    def respond(self, message: Any) -> None:
        self.sent.pop(0)[2].complete(ClientResponse(message, 2, 1, 0.0, 0.0))

    def fail(self, error: KafkaError) -> None:
        self.sent.pop(0)[2].fail(error)


class _Metadata:
    """One topic with one partition."""

    def __init__(self) -> None:
        self.node = 1
        self.updates = self.update_count = self.leaders_version = 0

    def leader(self, tp: TopicPartition) -> PartitionMetadata:
        return PartitionMetadata(tp.topic, tp.partition, self.node, 3, (), (), (), 0)

    def topic_id(self, topic: str) -> bytes:
        return _ID

    def topic_name(self, topic_id: bytes) -> str:
        return "t"

    def request_update(self) -> int:
        self.updates += 1
        return 0

    def update_leaders(self, leaders: Any, brokers: Any) -> set[TopicPartition]:
        ((self.node, _),) = leaders.values()
        self.leaders_version += 1
        return set(leaders)


class _Clock:
    time = 100.0

    def now(self) -> float:
        return self.time


class World:
    def __init__(self, **settings: object) -> None:
        self.client, self.metadata, self.clock = _Client(), _Metadata(), _Clock()
        config = SHARE_CONSUMER_SETTINGS.build({"bootstrap_servers": "b:1", "group_id": "g", **settings})
        context: Any = ShareContext(config, self.client, self.metadata, self.clock)  # type: ignore[arg-type]
        self.outcomes: list[tuple[list[tuple[int, int]], KafkaError | None]] = []
        self.fetcher = ShareFetcher(context, lambda: "m", ShareMetrics(0.0), self._on_outcome)

    def _on_outcome(self, queued: Queued, error: KafkaError | None) -> None:
        self.outcomes.append(([(piece.first, piece.last) for piece in queued.pieces], error))

    def fetch(self) -> ShareFetchRequest:
        assert self.fetcher.send_fetches(_ASSIGNMENT)
        return self.client.sent[-1][1]  # type: ignore[no-any-return]

    def open(self) -> None:
        """Open the session, and acquire records 0 to 9."""
        builder = BatchBuilder("none")
        for _ in range(10):
            builder.try_append(1, None, b"v")
        self.fetch()
        self.client.respond(fetched(records=builder.build(0), acquired_records=[share_fetch.AcquiredRecords(0, 9, 1)]))

    def acknowledge(self, *pieces: Piece) -> Ticket:
        ticket = Ticket()
        self.fetcher.acknowledge(Queued(_SOURCE, list(pieces), ticket))
        return ticket


def accepted(first: int, last: int, locked_until: float = 1e9) -> Piece:
    return Piece(first, last, AcknowledgeType.ACCEPT, locked_until)


def fetched(**fields: Any) -> ShareFetchResponse:
    part = share_fetch.PartitionData(partition_index=0, **fields)
    return ShareFetchResponse(
        acquisition_lock_timeout_ms=5000, responses=[share_fetch.ShareFetchableTopicResponse(_ID, [part])]
    )


def confirmed(code: int = 0) -> ShareAcknowledgeResponse:
    part = share_acknowledge.PartitionData(partition_index=0, error_code=code)
    return ShareAcknowledgeResponse(responses=[share_acknowledge.ShareAcknowledgeTopicResponse(_ID, [part])])


def test_after_a_full_response_a_fetch_asks_for_fewer_bytes() -> None:
    world = World(max_poll_records=10)
    builder = BatchBuilder("none")
    for _ in range(10):
        builder.try_append(1, None, b"v")
    records = builder.build(0)
    asked = []
    for acquired in ((0, 9), (0, 9), (0, 8)):
        asked.append(world.fetch().max_bytes)
        ranges = [share_fetch.AcquiredRecords(*acquired, 1)]
        world.client.respond(fetched(records=records, acquired_records=ranges))
    asked.append(world.fetch().max_bytes)
    assert asked == [52_428_800, 4 * len(records), 4 * len(records), 52_428_800]


def test_the_first_request_opens_a_session_and_the_next_one_carries_acknowledgements() -> None:
    world = World()
    first = world.fetch()
    assert (first.share_session_epoch, first.member_id, first.max_records) == (0, "m", 500)
    assert not world.fetcher.send_fetches({_TP: _ID})  # one request at a time
    world.client.respond(fetched())
    ticket = world.acknowledge(accepted(3, 5))
    second = world.fetch()
    assert second.share_session_epoch == 1
    (topic,) = second.topics
    assert topic.partitions[0].acknowledgement_batches == [share_fetch.AcknowledgementBatch(3, 5, [1])]
    world.client.respond(fetched())
    assert ticket.results == {_TP: None}
    assert world.fetch().topics == []


@pytest.mark.parametrize(
    "code", [Errors.SHARE_SESSION_NOT_FOUND, Errors.INVALID_SHARE_SESSION_EPOCH, Errors.SHARE_SESSION_LIMIT_REACHED]
)
def test_a_lost_session_drops_its_records_and_is_opened_again(code: int) -> None:
    world = World()
    world.open()
    assert len(world.fetcher.buffer) == 1
    world.fetcher.again.append(Delivery(_SOURCE, (), [(0, 0)], (), 1e9))
    ticket = world.acknowledge(accepted(0, 4))
    world.fetch()
    world.client.respond(ShareFetchResponse(error_code=code))
    (error,) = ticket.results.values()
    assert error is not None
    assert error.errno == code  # type: ignore[attr-defined]
    assert not world.fetcher.buffer
    assert not world.fetcher.again
    assert world.fetcher.take_error() is None  # no poll raises it
    late = world.acknowledge(accepted(5, 9))  # of the lost session
    assert isinstance(late.results[_TP], ShareSessionNotFoundError)
    world.clock.time += 10
    again = world.fetch()
    assert again.share_session_epoch == 0
    assert len(again.topics) == 1


def test_a_lost_connection_fails_the_acknowledgements() -> None:
    world = World()
    world.open()
    ticket = world.acknowledge(accepted(0, 9))
    world.fetch()
    world.client.fail(KafkaConnectionError("gone"))
    assert isinstance(ticket.results[_TP], KafkaConnectionError)
    assert world.metadata.updates == 1
    world.clock.time += 10
    assert world.fetch().share_session_epoch == 0


def test_only_expired_locks_fail_and_the_others_are_sent_again() -> None:
    world = World()
    world.open()
    ticket = world.acknowledge(accepted(0, 4, locked_until=99.0), accepted(5, 9))
    world.fetcher.send_acknowledgements()
    world.client.respond(confirmed(Errors.INVALID_RECORD_STATE))
    assert [spans for spans, _ in world.outcomes] == [[(0, 4)]]
    assert isinstance(world.outcomes[0][1], InvalidRecordStateError)
    assert ticket.pending == 1
    world.fetcher.send_acknowledgements()
    (topic,) = world.client.sent[0][1].topics
    assert topic.partitions[0].acknowledgement_batches == [share_fetch.AcknowledgementBatch(5, 9, [1])]
    world.client.respond(confirmed())
    assert world.outcomes[1] == ([(5, 9)], None)
    assert ticket.pending == 0
    assert isinstance(ticket.results[_TP], InvalidRecordStateError)


def test_records_of_another_poll_whose_lock_is_alive_are_sent_again() -> None:
    world = World()
    world.open()
    late = world.acknowledge(accepted(0, 4, locked_until=99.0))
    ticket = world.acknowledge(accepted(5, 9))
    world.fetcher.send_acknowledgements()
    world.client.respond(confirmed(Errors.INVALID_RECORD_STATE))
    assert isinstance(late.results[_TP], InvalidRecordStateError)
    assert (late.pending, ticket.pending) == (0, 1)
    world.fetcher.send_acknowledgements()
    world.client.respond(confirmed(Errors.INVALID_RECORD_STATE))  # though none has expired
    assert isinstance(ticket.results[_TP], InvalidRecordStateError)
    assert [spans for spans, _ in world.outcomes] == [[(0, 4)], [(5, 9)]]
    assert not world.fetcher.has_queued


def test_a_leader_that_has_moved_is_followed() -> None:
    world = World()
    world.open()
    ticket = world.acknowledge(accepted(0, 9))
    world.fetch()
    world.client.respond(
        fetched(
            error_code=Errors.NOT_LEADER_OR_FOLLOWER,
            acknowledge_error_code=Errors.NOT_LEADER_OR_FOLLOWER,
            current_leader=share_fetch.LeaderIdAndEpoch(2, 4),
        )
    )
    assert isinstance(ticket.results[_TP], NotLeaderOrFollowerError)
    assert world.fetcher.take_error() is None
    world.clock.time += 10
    assert world.fetch().share_session_epoch == 0  # a session with another broker
    assert world.client.sent[-1][0] == 2


def test_an_unknown_error_of_a_partition_is_logged_and_the_partition_is_fetched_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World()
    world.fetch()
    world.client.respond(fetched(error_code=Errors.UNKNOWN_SERVER_ERROR, error_message="not begun"))
    assert world.fetcher.take_error() is None
    assert [record.levelname for record in caplog.records if "not begun" in record.message] == ["WARNING"]
    assert world.fetcher.next_due_at(world.clock.time) > world.clock.time
    world.clock.time += 10
    assert world.fetch().share_session_epoch == 1
    world.client.respond(fetched(error_code=Errors.TOPIC_AUTHORIZATION_FAILED))
    assert world.fetcher.take_error() is not None  # which no time cures


def test_an_acknowledgement_of_a_partition_that_is_not_read_leaves_alone() -> None:
    world = World()
    world.open()
    world.acknowledge(accepted(0, 9))
    assert world.fetcher.send_fetches({})
    (_, request, _) = world.client.sent[0]
    assert request.topics[0].partitions[0].acknowledgement_batches == [share_fetch.AcknowledgementBatch(0, 9, [1])]
    assert not isinstance(request, ShareFetchRequest)


def test_with_record_limit_a_broker_that_has_failed_holds_up_no_other() -> None:
    world = World(share_acquire_mode="record_limit")
    leaders = {TopicPartition("t", number): number + 1 for number in range(2)}
    world.metadata.leader = lambda tp: PartitionMetadata(tp.topic, tp.partition, leaders[tp], 3, (), (), (), 0)  # type: ignore[method-assign]
    assignment = dict.fromkeys(leaders, _ID)
    asked = []
    for fails in (True, False, False):
        assert world.fetcher.send_fetches(assignment)
        asked.append(world.client.sent[0][0])
        if fails:
            world.client.fail(KafkaConnectionError("gone"))
        else:
            world.client.respond(ShareFetchResponse())
    assert asked == [1, 2, 2]
    world.clock.time += 10
    assert world.fetcher.send_fetches(assignment)
    assert world.client.sent[0][0] == 1


def test_a_partition_that_the_response_leaves_out_was_not_acknowledged() -> None:
    world = World()
    world.open()
    ticket = world.acknowledge(accepted(0, 9))
    world.fetcher.send_acknowledgements()
    world.client.respond(ShareAcknowledgeResponse())
    assert isinstance(ticket.results[_TP], InvalidRecordStateError)


def test_an_error_of_the_whole_group_is_raised_by_a_poll() -> None:
    world = World()
    world.fetch()
    world.client.respond(ShareFetchResponse(error_code=Errors.GROUP_AUTHORIZATION_FAILED, error_message="no"))
    error = world.fetcher.take_error()
    assert error is not None
    assert "no" in str(error)


def test_a_renewed_lock_is_counted_from_the_request() -> None:
    world = World()
    world.open()
    (fetch,) = world.fetcher.buffer
    delivery = fetch.take(10, None)
    assert delivery is not None
    world.clock.time = 103.0
    world.fetcher.acknowledge(Queued(_SOURCE, delivery.renewal()))
    assert world.fetcher.send_acknowledgements()
    world.clock.time = 107.0  # the consumer's thread was busy, and the response waited in the socket
    world.client.respond(confirmed())
    assert (delivery.is_renewing, delivery.locked_until) == (False, 103.0 + 5.0)


def test_a_commit_waits_for_what_an_earlier_commit_has_left_behind() -> None:
    world = World()
    world.open()
    early = world.acknowledge(accepted(0, 0))
    assert world.fetcher.send_acknowledgements()
    world.acknowledge(accepted(1, 1))
    ticket = Ticket()
    world.fetcher.adopt(ticket)
    assert ticket.pending == 2  # one is in flight, one waits
    world.client.respond(confirmed(Errors.INVALID_REQUEST))
    assert world.fetcher.send_acknowledgements()
    world.client.respond(confirmed())
    assert (ticket.pending, early.pending) == (0, 1)
    assert ticket.results[_TP] is not None
