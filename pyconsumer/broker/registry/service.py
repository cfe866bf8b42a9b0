"""The registry as a service of the cluster: it reads the topic, makes a call, and writes the call's records.

Rules

1. The topic is the only memory. Before each call the new records are read, whoever wrote them. So a registry that was
   killed goes on where its topic ends, and another registry on the same topic is followed.
2. A call that may write waits for those before it. It reads, decides and writes without another one in between.
3. An answer to a write is sent when all in-sync replicas have its records, and they are applied.
4. The topic is created by the first write: one partition, compacted.
"""

from __future__ import annotations

import base64
import hmac
import json
from collections.abc import Mapping
from typing import Final, NamedTuple

from pyconsumer.background_log import Log
from pyconsumer.broker.broker import Broker
from pyconsumer.broker.controller import Controller
from pyconsumer.broker.deferred import Deferred, wait_for
from pyconsumer.broker.internal_topic import InternalTopicLog
from pyconsumer.broker.partition import Partition
from pyconsumer.broker.registry import routes
from pyconsumer.broker.registry.errors import RegistryError, RegistryErrors
from pyconsumer.broker.registry.operations import Operations, Result
from pyconsumer.broker.registry.records import TOPIC, Record, decode
from pyconsumer.broker.registry.state import State
from pyconsumer.errors import KafkaError, error_name
from pyconsumer.protocol.records import iter_records, scan

__all__ = ["Answer", "RegistryService"]

_log = Log(__name__)

_PIECE_BYTES: Final = 1 << 20
_WRITE_TIMEOUT_MS: Final = 10_000
_MOST_REPLICAS: Final = 3
_WRITES: Final = frozenset({"POST", "PUT", "DELETE"})


class Answer(NamedTuple):
    """A response: status and body."""

    status: int
    body: bytes


class RegistryService:
    """See the rules at the top of the module.

    Args:
        controller: knows the topic ``_schemas``, in which the registry keeps its schemas.
        brokers: the live brokers by node id, one of which leads the topic's partition.
        users: passwords by name. Empty: no login.
    """

    def __init__(self, controller: Controller, brokers: Mapping[int, Broker], users: Mapping[str, str]) -> None:
        self._controller = controller
        self._brokers = brokers
        self._users = users
        self._state = State()
        self._operations = Operations(self._state)
        self._topic_id: bytes | None = None
        self._offset = 0
        self._writing: Deferred[None] | None = None

    def permits(self, authorization: str | None) -> bool:
        """Return whether the header of a request has the name and the password of a user."""
        if not self._users:
            return True
        scheme, _, credentials = (authorization or "").partition(" ")
        if scheme.lower() != "basic":
            return False
        try:
            name, _, password = base64.b64decode(credentials, validate=True).decode().partition(":")
        except ValueError:
            return False
        wanted = self._users.get(name)
        return wanted is not None and hmac.compare_digest(wanted.encode(), password.encode())

    async def call(self, method: str, target: str, body: bytes) -> Answer:
        """Make a call and return the response. Errors become responses, too."""
        try:
            make = routes.find(method, target, body)
            if method not in _WRITES:
                self._read()
                result = make(self._operations)
            else:
                result = await self._alone(make)
            return Answer(200, routes.encode(result.body))
        except RegistryError as error:
            return error_answer(error.status, int(error.code), error.message)
        except (KafkaError, OSError) as error:
            return error_answer(500, RegistryErrors.STORE, f"Error in the backend data store: {error}")
        except Exception:
            _log.exception("a call of the schema registry failed: %s %s", method, target)
            return error_answer(500, 500, "Internal Server Error")

    async def _alone(self, make: routes.Operation) -> Result:
        while self._writing is not None:
            await wait_for(self._writing)
        turn = self._writing = Deferred[None]()
        try:
            self._read()
            result = make(self._operations)
            if result.records:
                await self._write([record.encode() for record in result.records])
                self._read()
            return result
        finally:
            self._writing = None
            turn.set(None)

    # --- the topic

    def _leader(self) -> tuple[Broker, Partition] | None:
        """Return the leader of the topic's partition. None if there is no topic.

        Raises:
            RegistryError: it has no leader at the moment.
        """
        topic = self._controller.topics.get(TOPIC)
        if topic is None:
            return None
        broker = self._brokers.get(topic.partitions[0].leader)
        if broker is None:
            raise RegistryError(RegistryErrors.STORE, f"the topic {TOPIC} has no leader at the moment")
        return broker, broker.partition(TOPIC, 0)

    def _read(self) -> None:
        """Apply the records that are new."""
        found = self._leader()
        if found is None:
            if self._topic_id is not None:
                self._begin_again(None)
            return
        partition = found[1]
        if partition.topic_id != self._topic_id or self._offset > partition.log.log_end_offset:
            self._begin_again(partition.topic_id)
        while self._offset < partition.high_watermark:
            data = partition.log.read(self._offset, _PIECE_BYTES, partition.high_watermark, at_least_one=True)
            view, before = memoryview(data), self._offset
            for info in scan(view):
                if not info.is_control:
                    for record in iter_records(view[info.position : info.end_position]):
                        if record.offset >= before:
                            self._apply(record.offset, record.key, record.value)
                self._offset = max(self._offset, info.last_offset + 1)
            if self._offset == before:
                break  # compaction has removed the rest of the segment

    def _begin_again(self, topic_id: bytes | None) -> None:
        self._topic_id, self._offset = topic_id, 0
        self._state = State()
        self._operations = Operations(self._state)

    def _apply(self, offset: int, key: bytes | None, value: bytes | None) -> None:
        record: Record | None = decode(key, value)
        try:
            if record is not None:
                self._state.apply(record)
                return
        except (KeyError, TypeError, ValueError):
            pass
        _log.warning("%s: the record at offset %d is none of a schema registry", TOPIC, offset)

    async def _write(self, records: list[tuple[bytes, bytes | None]]) -> None:
        found = self._leader()
        if found is None:
            replicas = min(_MOST_REPLICAS, len(self._brokers))
            self._controller.create_topic(TOPIC, 1, replicas, {"cleanup.policy": "compact"})
            found = self._leader()
        if found is None:
            raise RegistryError(RegistryErrors.STORE, f"the topic {TOPIC} cannot be created")
        broker, _ = found
        log = InternalTopicLog(broker, TOPIC, codec=0, timeout_ms=_WRITE_TIMEOUT_MS, load_bytes=_PIECE_BYTES)
        result = await wait_for(log.append(0, records, broker.clock.wall_ms()))
        if result.error_code:
            raise RegistryError(
                RegistryErrors.STORE, f"the record cannot be written to {TOPIC}: {error_name(result.error_code)}"
            )


def error_answer(status: int, code: int, message: str) -> Answer:
    """Return the response of an error."""
    text = json.dumps({"error_code": code, "message": message}, separators=(",", ":"), ensure_ascii=False)
    return Answer(status, text.encode())
