"""Members of share groups whose requests real brokers serve without sockets."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.deferred import run_handler
from pyconsumer.broker.handlers import handler_of
from pyconsumer.broker.security import Session
from pyconsumer.protocol.messages import share_acknowledge, share_fetch
from pyconsumer.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pyconsumer.protocol.messages.share_fetch import AcknowledgementBatch
from pyconsumer.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from pyconsumer.protocol.records import BatchBuilder
from pyconsumer.protocol.schema import Message
from tests.unit.broker.brokers import Brokers

__all__ = ["VERSION", "Acks", "Connection", "acknowledging", "fetching", "heartbeat", "produced"]

VERSION = 2
#: Acknowledgements by topic id and partition: first offset, last offset, types.
Acks = Mapping[tuple[bytes, int], Sequence[tuple[int, int, Sequence[int]]]]


class Connection:
    """A connection to one broker. Its end is noticed by the broker, and ends the requests that wait."""

    def __init__(self, brokers: Brokers, node: int) -> None:
        self.brokers = brokers
        self.node = node
        self.broker = brokers.alive[node]
        self.session = Session()
        self.is_open = True
        self._waiting: list[Any] = []

    def send(self, message: Message, version: int, answer: Callable[[Any], None]) -> None:
        """Send a request. ``answer`` is called with the response, unless the connection ends before."""
        handler = handler_of(message.API_KEY)
        assert handler is not None
        clock = self.brokers.clock
        context = RequestContext(
            message.API_KEY,
            version,
            0,
            "client",
            "/127.0.0.1",
            "PLAINTEXT",
            "User:ANONYMOUS",
            clock.now(),
            clock.wall_ms(),
            self.session,
        )
        work = handler.handle(self.broker, message, context)
        if not inspect.iscoroutine(work):
            answer(work)
            return
        self._waiting.append(work)

        def on_result(response: Any) -> None:
            self._waiting.remove(work)
            if self.is_open:
                answer(response)

        def failed(error: BaseException) -> None:
            raise error

        run_handler(work, on_result, failed)

    def ask(self, message: Message, version: int = VERSION) -> list[Any]:
        """Send a request. The response comes into the list."""
        answers: list[Any] = []
        self.send(message, version, answers.append)
        return answers

    def close(self) -> None:
        """End the connection."""
        if self.is_open:
            self.is_open = False
            for work in self._waiting:
                work.close()
            self.session.connection_ended()


def heartbeat(group: str, member: str, epoch: int, topics: Iterable[str] | None = None) -> ShareGroupHeartbeatRequest:
    names = None if topics is None else list(topics)
    return ShareGroupHeartbeatRequest(
        group_id=group, member_id=member, member_epoch=epoch, subscribed_topic_names=names
    )


def _batches(given: Sequence[tuple[int, int, Sequence[int]]]) -> list[AcknowledgementBatch]:
    return [AcknowledgementBatch(first, last, list(types)) for first, last, types in given]


def fetching(
    group: str,
    member: str,
    epoch: int,
    partitions: Iterable[tuple[bytes, int]] = (),
    *,
    forgotten: Iterable[tuple[bytes, int]] = (),
    acks: Acks | None = None,
    wait_ms: int = 0,
    max_records: int = 500,
    exact: bool = False,
) -> share_fetch.ShareFetchRequest:
    """Return a ShareFetch. Partitions are those that are added to the session."""
    given = acks or {}
    topics: dict[bytes, share_fetch.FetchTopic] = {}
    for topic_id, index in dict.fromkeys((*partitions, *given)):
        topic = topics.setdefault(topic_id, share_fetch.FetchTopic(topic_id=topic_id))
        batches = _batches(given.get((topic_id, index), ()))
        topic.partitions.append(share_fetch.FetchPartition(partition_index=index, acknowledgement_batches=batches))
    return share_fetch.ShareFetchRequest(
        group_id=group,
        member_id=member,
        share_session_epoch=epoch,
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=1 << 20,
        max_records=max_records,
        batch_size=max_records,
        share_acquire_mode=int(exact),
        topics=list(topics.values()),
        forgotten_topics_data=[share_fetch.ForgottenTopic(topic, [index]) for topic, index in forgotten],
    )


def acknowledging(
    group: str, member: str, epoch: int, acks: Acks, *, renews: bool = False
) -> share_acknowledge.ShareAcknowledgeRequest:
    """Return a ShareAcknowledge."""
    topics: dict[bytes, share_acknowledge.AcknowledgeTopic] = {}
    for (topic_id, index), given in acks.items():
        topic = topics.setdefault(topic_id, share_acknowledge.AcknowledgeTopic(topic_id=topic_id))
        topic.partitions.append(share_acknowledge.AcknowledgePartition(index, _batches(given)))
    return share_acknowledge.ShareAcknowledgeRequest(
        group_id=group,
        member_id=member,
        share_session_epoch=epoch,
        is_renew_ack=renews,
        topics=list(topics.values()),
    )


def produced(topic: str, partition: int, values: Iterable[bytes], now_ms: int, acks: int = -1) -> ProduceRequest:
    """Return a Produce request with one batch."""
    builder = BatchBuilder()
    for value in values:
        builder.try_append(now_ms, None, value)
    data = [PartitionProduceData(partition, builder.build())]
    return ProduceRequest(acks=acks, timeout_ms=5000, topic_data=[TopicProduceData(topic, partition_data=data)])
