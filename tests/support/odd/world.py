"""Common parts of the tables of odd requests: topics and connections, and answers in words."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from pyconsumer.errors import Errors
from pyconsumer.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pyconsumer.protocol.messages.find_coordinator import FindCoordinatorRequest
from pyconsumer.protocol.messages.init_producer_id import InitProducerIdRequest
from pyconsumer.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from pyconsumer.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from pyconsumer.protocol.messages.offset_fetch import OffsetFetchRequest
from pyconsumer.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pyconsumer.protocol.primitives import WireType
from pyconsumer.protocol.records import scan
from pyconsumer.protocol.schema import Message
from tests.support.odd.batches import now_ms
from tests.support.process import wait_until
from tests.support.raw_client import RawClient

__all__ = ["CLOSED", "NO_ANSWER", "Case", "World", "asking", "name_of", "unanswered"]

#: A function that sends an input and returns the answer in words.
Case = Callable[["World"], str]

CLOSED = "closes the connection"
NO_ANSWER = "no answer"
_PARTITIONS = 16
_READY_S = 60.0
_LONG_AFTER = 10**9
_HAS_TEXTS = 8  # the version of Produce from which a refusal has a text


def _plain(value: Any) -> str:
    return "bytes" if isinstance(value, bytes | memoryview) and value else repr(value)


def asking(make: Callable[[World], Message], version: int | None = None, *show: str) -> Case:
    """Return the case of one request. The answer is all its error codes."""
    return lambda world: world.asked(make(world), version, *show)


def unanswered(make: Callable[[World], Message], version: int) -> Case:
    """Return the case of a request that Apache Kafka does not answer."""

    def case(world: World) -> str:
        world.client.send(make(world), version)
        if not world.client.answered(within_s=1.0):
            return NO_ANSWER
        return ", ".join(world.seen(world.client.receive()[1])) or "nothing"

    return case


def name_of(code: int) -> str:
    """Return the name of an error code."""
    return Errors(code).name


class World:
    """A broker under odd requests: one connection at a time, and an empty partition for each input.

    Args:
        address: ``host:port`` of the only broker.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self.run = uuid.uuid4().hex[:8]
        self.client = RawClient(address, timeout_s=_READY_S)
        self.refusals: list[tuple[int, str | None]] = []
        self._numbers = itertools.count(1)
        self._free: dict[tuple[tuple[str, object], ...], list[tuple[str, int]]] = {}
        self._wait_for_coordinators()

    def close(self) -> None:
        self.client.close()

    def _wait_for_coordinators(self) -> None:
        """Wait until groups and transactions are served. The first who asks for them has the topics made."""
        for key_type in (0, 1):
            request = FindCoordinatorRequest(key="odd", key_type=key_type)
            wait_until(lambda: self.client.request(request, 3).error_code == 0, _READY_S, "coordinators")  # noqa: B023
        request = InitProducerIdRequest(transactional_id="odd", transaction_timeout_ms=60_000)
        wait_until(lambda: self.client.request(request, 4).error_code == 0, _READY_S, "transactions are served")
        fetched = OffsetFetchRequest(group_id="odd", topics=None)
        wait_until(lambda: self.client.request(fetched, 7).error_code == 0, _READY_S, "groups are served")

    def ask(self, case: Case) -> str:
        """Return the answer to an input. The next one has a new connection."""
        self.client.close()
        self.client = RawClient(self.address, timeout_s=_READY_S)
        self.refusals.clear()
        try:
            return case(self)
        except ConnectionError:
            return CLOSED

    # --- names

    def fresh(self, kind: str = "x") -> str:
        """Return an unused name."""
        return f"odd-{kind}-{self.run}-{next(self._numbers)}"

    def topic(self, partitions: int = 1, config: Mapping[str, object] | None = None) -> str:
        """Return the name of a new topic whose partitions are served."""
        name = self.fresh("t")
        with RawClient(self.address, timeout_s=_READY_S) as client:
            client.create_topic(name, partitions, config=config)
            wanted = [ListOffsetsPartition(index, timestamp=-1) for index in range(partitions)]
            request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name, wanted)])
            wait_until(
                lambda: not any(part.error_code for part in client.request(request, 7).topics[0].partitions),
                _READY_S,
                "leaders",
            )
        return name

    def partition(self, config: Mapping[str, object] | None = None) -> tuple[str, int]:
        """Return an empty partition as name and number."""
        key = tuple(sorted((config or {}).items()))
        free = self._free.setdefault(key, [])
        if not free:
            name = self.topic(_PARTITIONS, config)
            free += [(name, index) for index in range(_PARTITIONS)]
        return free.pop()

    def id_of(self, name: str) -> bytes:
        """Return a topic's id."""
        return bytes(self.client.request(MetadataRequest([MetadataRequestTopic(name=name)])).topics[0].topic_id)

    def seen(self, part: Any, show: tuple[str, ...] = ()) -> list[str]:
        """Return in words all error codes of a response, each with the fields beside it that are to be shown."""
        found = []
        spec = {each.name: each for each in part.FIELDS}
        if "error_code" in spec:
            code = part.error_code
            if code:
                self.refusals.append((code, getattr(part, "error_message", None)))
            more = [f"{name}={_plain(getattr(part, name))}" for name in show if name in spec]
            found.append(" ".join((name_of(code), *more)))
        for name, each in spec.items():
            value = getattr(part, name)
            if isinstance(value, list) and not isinstance(each.type, WireType):
                found += sorted(text for item in value for text in self.seen(item, show))
        return found

    def asked(self, request: Message, version: int | None = None, *show: str) -> str:
        """Send a request and return its answer in words."""
        return ", ".join(self.seen(self.client.request(request, version), show)) or "nothing"

    # --- produce

    def produce(
        self,
        records: bytes | None,
        *,
        at: tuple[str, int] | None = None,
        config: Mapping[str, object] | None = None,
        **request: Any,
    ) -> str:
        """Send a Produce request for an empty partition, and return its answer and the stored batches in words."""
        name, index = self.partition(config) if at is None else at
        began = now_ms()
        code, offset, text = self.send_batch(records, (name, index), **request)
        if text == NO_ANSWER:
            return text
        if code:
            return name_of(code) + text
        return f"NONE at {offset}{text}, {self.stored((name, index), offset, began)}"

    def send_batch(
        self,
        records: bytes | None,
        at: tuple[str, int],
        *,
        version: int = 9,
        acks: int = -1,
        timeout_ms: int = 10_000,
        transactional_id: str | None = None,
    ) -> tuple[int, int, str]:
        """Send a Produce request and return the code, the base offset, and the records that the answer names."""
        data = TopicProduceData(at[0], partition_data=[PartitionProduceData(at[1], records)])
        request = ProduceRequest(transactional_id=transactional_id, acks=acks, timeout_ms=timeout_ms, topic_data=[data])
        self.client.send(request, version)
        if records is None and not self.client.answered(within_s=1.0):
            return -1, -1, NO_ANSWER
        (part,) = self.client.receive()[1].responses[0].partition_responses
        listed = ", ".join(str(each.batch_index) for each in part.record_errors)
        if part.error_code and version >= _HAS_TEXTS:
            self.refusals.append((part.error_code, part.error_message))
        return part.error_code, part.base_offset, f" of records {listed}" if listed else ""

    def fetched(self, at: tuple[str, int], offset: int = 0) -> bytes:
        """Return the bytes of a partition's log."""
        wanted = FetchPartition(at[1], fetch_offset=offset, partition_max_bytes=1 << 20)
        request = FetchRequest(max_wait_ms=0, topics=[FetchTopic(at[0], partitions=[wanted])])
        return bytes(self.client.request(request, 11).responses[0].partitions[0].records or b"")

    def stored(self, at: tuple[str, int], offset: int, began: int) -> str:
        """Return in words the header of the batch at an offset."""
        data = self.fetched(at, offset)
        info = scan(data)[0]
        if info.attributes & 0x08:
            times = "appended" if info.max_timestamp >= began else "appended in the past"
        else:
            after = info.max_timestamp - info.first_timestamp
            times = f"max timestamp {after:+d}" if after < _LONG_AFTER else "max timestamp far behind the first"
        return f"stored with attributes {info.attributes:#x}, {info.record_count} records, {times}"
