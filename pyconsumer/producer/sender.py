"""The sender's thread: sends batches to leaders, handles responses, retries failed batches.

One thread owns the network client. It sleeps in one place, the client's ``poll``, until a response arrives, a batch
becomes ready or expires, or ``send``, ``flush`` or ``close`` wakes it up.

Locks: the accumulator's lock is held for calls of the accumulator only, never while a request is sent, a callback of
the user's runs, or the thread sleeps. Log lines are passed on by another thread (:mod:`pyconsumer.background_log`):
whoever waits for this one may hold the locks of a log handler.

The action for each response (Java's ``Sender.completeBatch``):

====================================================  =======================================================
response                                               action
====================================================  =======================================================
no error                                               the batch is done
DUPLICATE_SEQUENCE_NUMBER                              done as well: an earlier attempt arrived

MESSAGE_TOO_LARGE, more than one record                split into smaller batches, in order, unless the batch was
                                                       given whole
retriable error, lost connection, timeout              sent again after a backoff, while attempts and time are left

OUT_OF_ORDER_SEQUENCE_NUMBER, UNKNOWN_PRODUCER_ID,     new producer id, new sequence numbers, sent again (KIP-360)
INVALID_PRODUCER_EPOCH
anything else                                          the batch fails with that error
====================================================  =======================================================

With a transactional id, a batch that fails leaves a transaction that can only be aborted. The requests of the
transaction go through the same loop (:mod:`.transaction_manager`). The rest here is about producers without one.

A batch that fails leaves a gap in the sequence numbers of its partition. If it was certainly not written, the next
batch takes its number. Otherwise the number would be a guess, and the producer gets a new id. (Java raises the epoch
instead. With a new id, batches of other partitions that are being repeated keep their old one, and the broker still
recognises them.)
"""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from pyconsumer.background_log import Log, background
from pyconsumer.clock import Clock
from pyconsumer.errors import (
    ConcurrentTransactionsError,
    DuplicateSequenceNumberError,
    Errors,
    IllegalStateError,
    InvalidProducerEpochError,
    KafkaError,
    KafkaStorageError,
    KafkaTimeoutError,
    LeaderNotAvailableError,
    MessageTooLargeError,
    NotEnoughReplicasAfterAppendError,
    OutOfOrderSequenceNumberError,
    ProtocolError,
    RequestCancelledError,
    RequestTimedOutError,
    UnknownProducerIdError,
    UnknownServerError,
    for_code,
)
from pyconsumer.metrics.source import windows_of
from pyconsumer.network.backoff import Backoff
from pyconsumer.producer.accumulator import RecordAccumulator
from pyconsumer.producer.future import mark_sender_thread
from pyconsumer.producer.implementation import BatchBuilder, ProducerBatch
from pyconsumer.producer.metrics import SendCounters
from pyconsumer.producer.transaction_errors import RequestKind
from pyconsumer.producer.transaction_requests import call_for, rejects_topic_id, take_response
from pyconsumer.protocol.api_keys import ApiKey
from pyconsumer.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from pyconsumer.protocol.messages.produce import (
    FIRST_VERSION_WITH_TOPIC_IDS,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from pyconsumer.protocol.primitives import ZERO_UUID
from pyconsumer.protocol.records import iter_records
from pyconsumer.structs import TopicPartition

if TYPE_CHECKING:
    from pyconsumer.network.client import ClientResponse, NetworkClient
    from pyconsumer.network.futures import RequestFuture
    from pyconsumer.network.metadata import Metadata
    from pyconsumer.producer.config import ProducerConfig
    from pyconsumer.producer.pending_request import PendingRequest
    from pyconsumer.producer.transaction_manager import TransactionManager

__all__ = ["Sender"]

_log = Log(__name__)

_NEEDS_NEW_ID = (OutOfOrderSequenceNumberError, UnknownProducerIdError, InvalidProducerEpochError)
# After these errors, and without a response, the batch may be in the log all the same.
_UNCERTAIN = (RequestTimedOutError, NotEnoughReplicasAfterAppendError, UnknownServerError, KafkaStorageError)
#: The reason for a refused producer id (KIP-679). The code alone names the cluster, and what lacks is about topics.
_MISSING_RIGHT = "an idempotent producer needs WRITE on at least one topic, or IDEMPOTENT_WRITE on the cluster"
_LONGEST_SLEEP = 60.0
#: Seconds between two lines that say that a topic's batches are split.
_SPLIT_LINES_S = 60.0
#: Seconds that the end of the interpreter waits for all producers together; less if a record may not take as long.
LONGEST_WAIT_AT_EXIT_S = 5.0
#: The last version of Produce that does not bring its partitions into a transaction (KIP-890).
_LAST_VERSION_THAT_ADDS_NOTHING = 11
#: Longest pause of a batch that was sent before the previous transaction had ended, seconds.
_TRANSACTION_ENDS_S = 0.02


class Sender:
    """The work of the producer's background thread. The module has the rules.

    Args:
        config: the producer's settings.
        client: the network client. As soon as :meth:`run` was entered, only the sender's thread uses it.
        metadata: the metadata that ``client`` keeps up to date.
        accumulator: the waiting records, guarded by ``lock``.
        lock: notified whenever memory is released or a batch has failed.
        clock: the clock of all deadlines.
        transactions: the state of transactions, guarded by ``lock``. None if there is no transactional id.
        on_metadata: called in the sender's thread, without the lock, when metadata has arrived or was denied
            (``Metadata.fatal_error``).

    Attributes:
        wanted_topics: topics whose metadata ``send`` needs. Guarded by ``lock``.
        dropped: how many records had no result when the thread ended, by topic.
        failures: the reasons, in words, why no metadata has arrived since it was last requested.
        failure: the reason why the thread has ended by itself. Otherwise None.
        leaderless: the partitions with a batch to send and without a leader, and since when, in monotonic seconds. Any
            thread may read.
        at_exit: True if the interpreter is ending. Batches then do not linger.
        counters: the counters of batches and topics.
    """

    def __init__(
        self,
        config: ProducerConfig,
        client: NetworkClient,
        metadata: Metadata,
        accumulator: RecordAccumulator,
        lock: threading.Condition,
        clock: Clock,
        *,
        transactions: TransactionManager | None = None,
        on_metadata: Callable[[], None],
    ) -> None:
        self.config = config
        self._client = client
        self._metadata = metadata
        self._accumulator = accumulator
        self._lock = lock
        self._clock = clock
        self._transactions = transactions
        self._holds_flush = False  # while a transaction is being ended
        self._on_metadata = on_metadata
        self._seen_metadata: tuple[int, KafkaError | None] = (-1, None)
        self._backoff = Backoff.ms(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self.leaderless: dict[TopicPartition, float] = {}
        self._watches_nodes = config.partitioner_availability_timeout_ms > 0
        self._waiting_since: dict[int, float] = {}  # nodes that take nothing although batches wait for them
        self._in_flight: dict[int, int] = {}
        self._producer: tuple[int, int] | None = None
        self._producer_request: RequestFuture[ClientResponse] | None = None
        self._producer_failures = 0
        self._producer_error: KafkaError | None = None
        self._producer_retry_at = 0.0
        self._need_new_id = False
        self._turn_failures = 0
        self._last_failure: KafkaError | None = None
        self._force_close = False
        self._warned = False  # somebody has warned of what is lost
        self._lost: dict[str, int] | None = None  # records that failed since finish(), by topic
        self._settling: tuple[TopicPartition, float] | None = None  # the batch whose callbacks run, and since when
        self._split_lines: dict[str, tuple[float, int]] = {}  # by topic: when one was logged, and batches split since
        self.failure: KafkaError | None = None
        self.at_exit = False
        self.wanted_topics: set[str] = set()
        self.dropped: Counter[str] = Counter()
        self.failures = "nothing has failed so far"
        self.turns = 0
        self.counters = SendCounters(windows_of(config), clock.now())

    # ------------------------------------------------------------ the thread

    @background()
    def run(self) -> None:
        """Work until the producer is closed. This is the thread's main function."""
        mark_sender_thread(self._ends_by)
        reason: KafkaError = RequestCancelledError("the producer was closed before the record was sent")
        try:
            while not self._finished():
                self._guarded_turn()
        except BaseException as error:
            # It is not raised: threading.excepthook is code of the application, or writes to standard error.
            _log.exception("%s: the producer's sender thread ends by a failure", self.label)
            reason = self._ends_by(error)
        finally:
            with self._lock:
                left = self._accumulator.drop_all()
                self._accumulator.close()
                if self._transactions is not None:
                    self._transactions.close(reason)
                self._lock.notify_all()
            for batch in left:
                if not batch.result.done:
                    self.dropped[batch.topic_partition.topic] += batch.record_count
                self._settle(batch, -1, -1, reason)
            if self.dropped and not self._warned:
                _log.warning("%s: closed: %s", self.label, self.describe_dropped())
            self._client.close()

    def _ends_by(self, error: BaseException) -> KafkaError:
        """Keep the reason why the thread ends, and return it."""
        if self.failure is None:
            where = "" if self._settling is None else " in a callback of a record"
            self.failure = KafkaError(f"the producer's sender thread has ended by {error!r}{where}")
            self.failure.__cause__ = error
            self._accumulator.close()
        return self.failure

    def describe_dropped(self) -> str:
        """Return a text about the records that were not acknowledged when the producer was closed."""
        counts = " and ".join(f"{_count(count, 'record')} for {topic}" for topic, count in sorted(self.dropped.items()))
        return f"{counts} dropped without an acknowledgement (the broker may have what was on its way)"

    def finish(self) -> None:
        """Let the thread send the buffered records and end.

        This returns at once and takes no lock, because finalizers call it.
        """
        self._lost = {} if self._lost is None else self._lost
        self._accumulator.close()
        self._client.wakeup()

    def begin_exit(self) -> None:
        """From now on send without lingering, because the interpreter is ending. The thread continues."""
        self._lost = {} if self._lost is None else self._lost
        with self._lock:
            self.at_exit = True
            self._accumulator.flush()
        self._client.wakeup()

    def wait_until_sent(self, timeout_s: float) -> None:
        """Wait up to ``timeout_s`` seconds until every record that was given to the producer has its result."""
        until = time.monotonic() + timeout_s
        with self._lock:
            waiting = self._accumulator.incomplete()
        for result in waiting:
            result.wait(max(0.0, until - time.monotonic()))

    @property
    def holds_transaction(self) -> bool:
        """Return whether a transaction is open, which must be aborted at the end."""
        with self._lock:
            return self._transactions is not None and self._transactions.has_open_transaction

    @property
    def exit_timeout(self) -> float:
        """Return how many seconds the end of the interpreter waits for records."""
        return min(LONGEST_WAIT_AT_EXIT_S, self.delivery_timeout)

    def closed_error(self, when: str = "") -> IllegalStateError:
        """Return the error for a call that needs the thread. Its cause is the failure that ended the thread."""
        if self.failure is None:
            return IllegalStateError(f"the producer {'was' if when else 'is'} closed{when}")
        error = IllegalStateError(f"the producer cannot be used any more{when}: {self.failure}")
        error.__cause__ = self.failure
        return error

    def check_callbacks(self) -> None:
        """Raise KafkaTimeoutError if the callbacks of a batch have been running for ``delivery_timeout_ms``."""
        settling = self._settling
        passed = 0.0 if settling is None else self._clock.now() - settling[1]
        if settling is not None and passed >= self.delivery_timeout:
            raise KafkaTimeoutError(
                f"callbacks of records for {settling[0]} have not returned for {passed:.0f} s, and the producer sends"
                " no record until they do. They must not wait for a thread that calls flush or close"
            )

    def give_up(self) -> None:
        """Make the thread end at once. The caller has already warned of lost records. Any thread may call this."""
        self._warned = True
        self.stop_now()
        self._client.wakeup()

    def unacknowledged(self) -> dict[str, int]:
        """Return, by topic, the number of records that are not acknowledged or have failed since :meth:`finish`."""
        with self._lock:
            return self._accumulator.unacknowledged(self._lost or {})

    @property
    def label(self) -> str:
        """The producer's client id, for messages."""
        return self.config.client_id

    @property
    def delivery_timeout(self) -> float:
        """``delivery_timeout_ms`` in seconds."""
        return self.config.delivery_timeout_ms / 1000

    def stop_now(self) -> None:
        """Drop the records that are not sent yet. Any thread may call this. The caller wakes the client."""
        self._force_close = True

    def _finished(self) -> bool:
        with self._lock:
            if self._force_close or not self._accumulator.closing:
                return self._force_close
            transactions = self._transactions
            if transactions is not None and transactions.has_open_transaction:
                if not transactions.is_completing:
                    _log.info("%s: the open transaction is aborted, since the producer is closed", self.label)
                    transactions.abandon()
                return False
            return self._accumulator.is_empty

    def _guarded_turn(self) -> None:
        """Make one turn. After an exception, pause and continue, since every record of the producer needs the thread.

        Requests in flight complete in a later turn, or expire. No cause of such an exception is known now. A malformed
        response once was one, and the producer was dead for the rest of the process.
        """
        try:
            self._run_once()
        except Exception as error:
            if self._client.closed:
                raise
            _log.exception("the producer's sender thread continues after a failure")
            self._last_failure = KafkaError(f"the producer's sender thread failed: {error!r}")
            self._turn_failures += 1
            with self._lock:
                self._lock.wait(self._backoff.delay(self._turn_failures - 1))
        else:
            self._turn_failures = 0

    def _run_once(self) -> None:
        self.turns += 1
        now = self._clock.now()
        with self._lock:
            for topic in self.wanted_topics:
                self._metadata.add_topic(topic)
            self.wanted_topics.clear()
            expired = self._accumulator.expired(now)
            if self.config.partitioner_adaptive_partitioning_enable:
                self._accumulator.count_loads()
        for batch in expired:
            self._expire(batch)
        until = self._send_ready(now)
        if self._transactions is not None:
            until = min(until, self._transact(self._transactions, now))
        with self._lock:
            deadline = self._accumulator.next_deadline()
        if deadline is not None:
            until = min(until, deadline)
        self._client.poll(until)
        if self._metadata.update_requested:
            self.failures = self._client.failures()
        seen = (self._metadata.update_count, self._metadata.fatal_error)
        if seen != self._seen_metadata:
            self._seen_metadata = seen
            self._on_metadata()

    # ------------------------------------------------------------ sending

    def _send_ready(self, now: float) -> float:
        """Send all batches that may be sent now, and return when to check again (monotonic seconds)."""
        until = now + _LONGEST_SLEEP
        with self._lock:
            busy = tuple(self._accumulator.busy_partitions())
        transactions = self._transactions
        if transactions is not None:
            with self._lock:
                busy = tuple(tp for tp in busy if transactions.may_send(tp))
        elif busy and self.config.enable_idempotence and not self._have_producer(now):
            self._explain(busy, self._producer_error)
            return max(now, min(until, self._producer_retry_at)) if self._producer_retry_at > now else until
        if self._watches_nodes:
            self._watch_nodes(busy, now)
        limit = self.config.max_in_flight_requests_per_connection
        by_node: dict[int, list[TopicPartition]] = {}
        leaderless: list[TopicPartition] = []
        since: dict[TopicPartition, float] = {}
        for tp in busy:
            with self._lock:
                ready_at = self._accumulator.ready_at(tp)
            if ready_at is None:
                continue
            if ready_at > now:
                until = min(until, ready_at)
                if tp in self.leaderless:  # it waits for the end of a pause
                    since[tp] = self.leaderless[tp]
                continue
            leader = self._metadata.leader(tp)
            if leader is None or leader.leader < 0:
                self._metadata.add_topic(tp.topic)
                self._metadata.request_update()
                leaderless.append(tp)
                since[tp] = self.leaderless.get(tp, now)
                until = min(until, now + self._backoff.delay(0))
                continue
            if self._in_flight.get(leader.leader, 0) < limit:
                by_node.setdefault(leader.leader, []).append(tp)
        self.leaderless = since
        if leaderless:
            reason = f"no leader is known of it; connections: {self._client.failures()}"
            self._explain(leaderless, LeaderNotAvailableError(reason))
        for node, partitions in by_node.items():
            backoff_until = self._client.backoff_until(node)
            if backoff_until > now:
                until = min(until, backoff_until)
                self._metadata.request_update()
                self._explain(partitions, self._client.node_error(node))
                continue
            self._send_to(node, partitions)
            until = min(until, now) if self._more_for(node, partitions) else until
        return until

    def _watch_nodes(self, busy: Iterable[TopicPartition], now: float) -> None:
        """Note since when batches wait for a node. Sending to it, and an answer of it, begin a new time.

        A batch that waits for more records, or for the end of a pause, does not wait for its node.
        """
        with self._lock:
            due = [tp for tp in busy if self._accumulator.is_due(tp, now)]
        leaders = (self._metadata.leader(tp) for tp in due)
        nodes = {leader.leader for leader in leaders if leader is not None and leader.leader >= 0}
        self._waiting_since = {node: self._waiting_since.get(node, now) for node in nodes}

    def idle_nodes(self, limit: float) -> list[int]:
        """Return the nodes that have taken or answered no batch since a time (monotonic seconds), while batches wait.

        Any thread may call this.
        """
        return [node for node, since in list(self._waiting_since.items()) if since < limit]

    def _explain(self, partitions: Iterable[TopicPartition], error: KafkaError | None) -> None:
        """Remember why the next batch of these partitions cannot be sent."""
        if error is None:
            return
        with self._lock:
            for tp in partitions:
                batch = self._accumulator.first_waiting(tp)
                if batch is not None:
                    batch.result.attempt_failed(error)

    def _more_for(self, node: int, partitions: list[TopicPartition]) -> bool:
        """Return whether another request could be sent at once: some partitions did not fit into the first."""
        if self._in_flight.get(node, 0) >= self.config.max_in_flight_requests_per_connection:
            return False
        with self._lock:
            return any(self._accumulator.ready_at(tp) == 0.0 for tp in partitions)

    def _send_to(self, node: int, partitions: list[TopicPartition]) -> None:
        """Send one Produce request with one batch of each partition, as many as fit."""
        transactions = self._transactions
        producer = self._producer if self.config.enable_idempotence else None
        max_version = None
        taken: list[ProducerBatch] = []
        expected = 0
        with self._lock:
            if transactions is not None:
                producer = transactions.producer
                max_version = None if transactions.is_v2 else _LAST_VERSION_THAT_ADDS_NOTHING
            for tp in partitions:
                next_size = self._accumulator.next_size(tp)
                if taken and expected + next_size > self.config.max_request_size:
                    break
                if self._accumulator.ready_at(tp) is None:
                    continue
                taken.append(self._accumulator.take(tp, producer))
                expected += next_size
            if taken and transactions is not None:
                transactions.on_sent()
        batches: list[ProducerBatch] = []
        for batch in taken:
            try:
                self._accumulator.build(batch, transactional=transactions is not None)
            except Exception as error:  # a bug of ours must not block the partition, or lose the other batches
                self._fail_broken(batch, error)
                continue
            batches.append(batch)
        if not batches:
            return
        names: dict[bytes, str] = {}  # as sent: metadata may have changed when the response comes

        def build(version: int) -> ProduceRequest:
            topics: dict[str, TopicProduceData] = {}
            for batch in batches:
                tp = batch.topic_partition
                topic = topics.get(tp.topic)
                if topic is None:
                    if version >= FIRST_VERSION_WITH_TOPIC_IDS:
                        topic = TopicProduceData(topic_id=self._metadata.topic_id(tp.topic))
                        names[topic.topic_id] = tp.topic
                    else:
                        topic = TopicProduceData(name=tp.topic)
                    topics[tp.topic] = topic
                topic.partition_data.append(PartitionProduceData(tp.partition, batch.data))
            return ProduceRequest(
                transactional_id=None if transactions is None else transactions.transactional_id,
                acks=self.config.acks,
                timeout_ms=self.config.request_timeout_ms,
                topic_data=list(topics.values()),
            )

        known = all(self._metadata.topic_id(batch.topic_partition.topic) != ZERO_UUID for batch in batches)
        self._in_flight[node] = self._in_flight.get(node, 0) + 1
        self._waiting_since.pop(node, None)
        future = self._client.send(
            node,
            ApiKey.PRODUCE,
            build,
            timeout=self.config.request_timeout_ms / 1000,
            max_version=max_version if known else min(max_version or 99, FIRST_VERSION_WITH_TOPIC_IDS - 1),
            expect_response=self.config.acks != 0,
        )
        self.counters.requested(batches, self._clock.now())
        future.add_callback(lambda done: self._on_done(node, batches, names, done))

    def _fail_broken(self, batch: ProducerBatch, cause: Exception) -> None:
        """Fail a batch that could not be built. Its partition continues with the next one."""
        _log.error("%s: a batch of the producer cannot be built", batch.topic_partition, exc_info=cause)
        failure = KafkaError(
            f"the batch of {_count(batch.record_count, 'record')} for {batch.topic_partition} cannot be built and was "
            f"not sent: {cause!r}"
        )
        failure.__cause__ = cause
        self._finish(batch, -1, -1, failure)

    # ------------------------------------------------------------ responses

    def _on_done(
        self, node: int, batches: list[ProducerBatch], names: dict[bytes, str], future: RequestFuture[ClientResponse]
    ) -> None:
        """Handle the end of a Produce request. If the response cannot be handled, the batches fail with the reason."""
        try:
            self._on_response(node, batches, names, future)
        except Exception as error:
            _log.exception("node %d's response to Produce cannot be handled", node)
            failure = ProtocolError(f"node {node}'s response to Produce cannot be handled: {error!r}")
            failure.__cause__ = error
            for batch in batches:
                with self._lock:
                    unhandled = self._accumulator.is_in_flight(batch)
                if unhandled:
                    batch.mark_uncertain()
                    self._finish(batch, -1, -1, failure)

    def _on_response(
        self, node: int, batches: list[ProducerBatch], names: dict[bytes, str], future: RequestFuture[ClientResponse]
    ) -> None:
        self._in_flight[node] -= 1
        self._waiting_since.pop(node, None)
        now = self._clock.now()
        if future.exception is not None:
            for batch in batches:
                batch.mark_uncertain()
                self._on_error(batch, future.exception, now)
            return
        if self.config.acks == 0:
            for batch in batches:
                self._finish(batch, -1, -1, None)
            return
        message = future.value.message
        assert isinstance(message, ProduceResponse)
        self.counters.responded(message.throttle_time_ms, now)
        responses: dict[TopicPartition, PartitionProduceResponse] = {}
        for topic in message.responses:
            name = topic.name or names.get(bytes(topic.topic_id), "")
            for partition in topic.partition_responses:
                responses[TopicPartition(name, partition.index)] = partition
        for batch in batches:
            response = responses.get(batch.topic_partition)
            if response is None:
                batch.mark_uncertain()
                error: KafkaError = ProtocolError(f"the broker's response leaves out {batch.topic_partition}")
                self._on_error(batch, error, now)
            elif response.error_code == Errors.NONE:
                self._finish(batch, response.base_offset, response.log_append_time_ms, None)
            else:
                self._on_error(batch, _error_of(response), now, response.base_offset)

    def _on_error(self, batch: ProducerBatch, error: KafkaError, now: float, base_offset: int = -1) -> None:
        batch.result.attempt_failed(error)
        if error.invalid_metadata:
            self._metadata.request_update()
        if isinstance(error, _UNCERTAIN):
            batch.mark_uncertain()
        if isinstance(error, DuplicateSequenceNumberError):
            self._finish(batch, base_offset, -1, None)
            return
        may_split = batch.record_count > 1 and not batch.result.done and not self._accumulator.is_whole(batch)
        if isinstance(error, MessageTooLargeError) and may_split:
            self._split(batch, now)
            return
        new_id = self._transactions is None and batch.base_sequence >= 0 and isinstance(error, _NEEDS_NEW_ID)
        if (
            (error.retriable or new_id)
            and batch.attempts <= self.config.retries
            and now < batch.created_at + self.config.delivery_timeout_ms / 1000
            and not batch.result.done
        ):
            self.counters.repeated(batch, now)
            if new_id:
                if batch.producer == self._producer:
                    self._need_new_id = True
                with self._lock:
                    self._accumulator.renumber(batch)
            _log.info("%s: attempt %d failed and is repeated: %s", batch.topic_partition, batch.attempts, error)
            pause = self._backoff.delay(batch.attempts - 1)
            if isinstance(error, ConcurrentTransactionsError):
                pause = min(pause, _TRANSACTION_ENDS_S)
            with self._lock:
                self._accumulator.put_back(batch, now + pause)
            return
        self._finish(batch, -1, -1, error)

    def _split(self, batch: ProducerBatch, now: float) -> None:
        self.counters.split(now)
        size = len(batch.data or b"")
        half = max(1, min(size // 2, self.config.batch_size))
        self._report_split(batch, size, half, now)
        builders: list[BatchBuilder] = []
        for record in iter_records(memoryview(batch.data or b"")):
            row = (record.timestamp, record.key, record.value, record.headers)
            if not builders or builders[-1].try_append(*row) is None:
                config = self.config
                builder = BatchBuilder(config.compression_type, size_limit=half, level=config.compression_level)
                builders.append(builder)
                builders[-1].try_append(*row)
        with self._lock:
            self._accumulator.split(batch, builders, half)

    def _report_split(self, batch: ProducerBatch, size_bytes: int, limit_bytes: int, now: float) -> None:
        """Log that a batch is split, once a minute for each topic."""
        tp, count = batch.topic_partition, batch.record_count
        logged_at, more = self._split_lines.get(tp.topic, (-math.inf, 0))
        if now - logged_at < _SPLIT_LINES_S:
            self._split_lines[tp.topic] = logged_at, more + 1
            return
        self._split_lines[tp.topic] = now, 0
        _log.warning(
            "%s: a batch of %d records and %d bytes is too large for the broker (max.message.bytes of the topic). It is"
            " split, and batches of this topic have at most about %d bytes from now on%s",
            tp,
            count,
            size_bytes,
            limit_bytes,
            f". {_count(more, 'more batch', 'more batches')} split since the last such line" if more else "",
        )

    def _expire(self, batch: ProducerBatch) -> None:
        if not batch.expired and not batch.uncertain:
            with self._lock:
                self._accumulator.reuse_sequence(batch)
        cause = batch.result.last_failure or self._last_failure
        reason = f"; the last error was: {cause}" if cause is not None else f"; connections: {self._client.failures()}"
        error = KafkaTimeoutError(
            f"{_count(batch.record_count, 'record')} for {batch.topic_partition} not acknowledged within "
            f"delivery_timeout_ms ({self.config.delivery_timeout_ms} ms); "
            f"sent {_count(batch.attempts, 'time')}{reason}"
        )
        error.__cause__ = cause
        self._finish_result(batch, error)

    def _finish(
        self, batch: ProducerBatch, base_offset: int, log_append_time_ms: int, error: KafkaError | None
    ) -> None:
        with self._lock:
            if error is not None and not batch.uncertain:
                self._accumulator.reuse_sequence(batch)
            self._accumulator.done(batch)
            self._lock.notify_all()
        if error is not None:
            self._finish_result(batch, error)
        else:
            self._settle(batch, base_offset, log_append_time_ms, None)

    def _finish_result(self, batch: ProducerBatch, error: KafkaError) -> None:
        if self._transactions is not None:
            with self._lock:
                self._transactions.on_batch_failed(error, uncertain=batch.uncertain)
        elif batch.uncertain and batch.base_sequence >= 0 and batch.producer == self._producer:
            self._need_new_id = True  # the broker may or may not have it: the next sequence number would be a guess
        if self._settle(batch, -1, -1, error):
            self.counters.gave_up(batch, self._clock.now())
            if self._lost is not None:
                topic = batch.topic_partition.topic
                self._lost[topic] = self._lost.get(topic, 0) + batch.record_count
            with self._lock:
                self._lock.notify_all()

    def _settle(
        self, batch: ProducerBatch, base_offset: int, log_append_time_ms: int, error: KafkaError | None
    ) -> bool:
        """Set a batch's result and run its callbacks, and return False if it had one already."""
        self._settling = batch.topic_partition, self._clock.now()
        first = batch.result.finish(base_offset, log_append_time_ms, error)
        self._settling = None
        with self._lock:
            self._accumulator.settled(batch.result)
        return first

    def _fail_waiting(self, error: KafkaError) -> None:
        with self._lock:
            dropped = self._accumulator.drop_waiting()
            self._lock.notify_all()
        for batch in dropped:
            self._finish_result(batch, error)

    # ------------------------------------------------------------ transactions

    def _transact(self, transactions: TransactionManager, now: float) -> float:
        """Drop batches after an error or an abort, send the next request, and return when to check again."""
        accumulator = self._accumulator
        features = self._client.finalized_feature("transaction.version")
        with self._lock:
            transactions.on_features(*features)
            reason = transactions.drop_reason
            dropped = [] if reason is None else accumulator.drop_waiting(sent_ones=reason[1])
            if transactions.is_completing is not self._holds_flush:
                self._holds_flush = transactions.is_completing
                accumulator.flush(self._holds_flush)
                now_or_later = now  # batches that lingered are ready now
            else:
                now_or_later = now + _LONGEST_SLEEP
            self._lock.notify_all()
        for batch in dropped:
            assert reason is not None
            self._settle(batch, -1, -1, reason[0])
        with self._lock:
            request = transactions.next_request(now, has_incomplete=not accumulator.is_empty)
            wake_at = transactions.wake_at()
        if request is not None:
            self._send_transactional(transactions, request)
        return min(now_or_later, now + _LONGEST_SLEEP if wake_at is None else max(now, wake_at))

    def _send_transactional(self, transactions: TransactionManager, request: PendingRequest) -> None:
        topic_ids = self._topic_ids(request)
        call = call_for(transactions, request, self.config.transaction_timeout_ms, topic_ids)
        timeout = self.config.request_timeout_ms / 1000
        node = transactions.coordinator(request)
        least, most = call.min_version, call.max_version
        if request.kind is RequestKind.FIND_COORDINATOR or node is None:
            future = self._client.send_any(call.api, call.build, timeout=timeout, min_version=least, max_version=most)
        else:
            future = self._client.send(node, call.api, call.build, timeout=timeout, min_version=least, max_version=most)
        future.add_callback(lambda done: self._on_transactional(transactions, request, done, topic_ids))

    def _topic_ids(self, request: PendingRequest) -> dict[str, bytes]:
        """Return the known ids of the topics whose offsets a request commits."""
        if request.kind is not RequestKind.COMMIT_OFFSETS:
            return {}
        topics = {tp.topic for tp in request.details.left}
        return {topic: topic_id for topic in topics if (topic_id := self._metadata.topic_id(topic)) != ZERO_UUID}

    def _on_transactional(
        self,
        transactions: TransactionManager,
        request: PendingRequest,
        future: RequestFuture[ClientResponse],
        topic_ids: Mapping[str, bytes],
    ) -> None:
        now = self._clock.now()
        error = future.exception
        features = self._client.finalized_feature("transaction.version")
        with self._lock:
            transactions.on_features(*features)
            if error is None:
                response = future.value
                try:
                    take_response(transactions, request, response.message, response.api_version, now, topic_ids)
                    if topic_ids and rejects_topic_id(response.message):
                        self._metadata.request_update()  # the topic was made again under its name
                except Exception as cause:
                    _log.exception("node %d's response to %s cannot be handled", response.node_id, request.kind.value)
                    failure = ProtocolError(f"the response to {request.kind.value} cannot be handled: {cause!r}")
                    failure.__cause__ = cause
                    transactions.on_refused(request, failure)
            elif error.retriable:
                _log.info("%s: %s is repeated: %s", self.label, request.kind.value, error)
                self._last_failure = error
                transactions.on_lost(request, error, now)
            else:
                transactions.on_refused(request, error)

    # ------------------------------------------------------------ producer id

    def _have_producer(self, now: float) -> bool:
        """Return whether there is a producer id to send with. Request one if not."""
        if self._producer is not None and not self._need_new_id:
            return True
        if self._producer_request is None and now >= self._producer_retry_at:
            request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=2147483647)
            self._producer_request = self._client.send_any(
                ApiKey.INIT_PRODUCER_ID, request, timeout=self.config.request_timeout_ms / 1000
            )
            self._producer_request.add_callback(self._on_producer_id)
        return False

    def _on_producer_id(self, future: RequestFuture[ClientResponse]) -> None:
        self._producer_request = None
        error = future.exception
        if error is None:
            message = future.value.message
            assert isinstance(message, InitProducerIdResponse)
            if message.error_code == 0 and (message.producer_id < 0 or message.producer_epoch < 0):
                error = ProtocolError(
                    f"the response to InitProducerId names producer id {message.producer_id}, epoch "
                    f"{message.producer_epoch}; both must be 0 or more"
                )
            elif message.error_code == 0:
                self._producer = (message.producer_id, message.producer_epoch)
                self._need_new_id = False
                self._producer_failures = 0
                self._producer_error = None
                _log.debug("producer id %d, epoch %d", *self._producer)
                return
            else:
                missing = message.error_code == Errors.CLUSTER_AUTHORIZATION_FAILED
                error = for_code(message.error_code, _MISSING_RIGHT if missing else None)
        self._producer_error = error
        if not error.retriable:
            self._fail_waiting(error)
        self._producer_failures += 1
        self._producer_retry_at = self._clock.now() + self._backoff.delay(self._producer_failures - 1)
        _log.info("no producer id yet: %s", error)


def _count(number: int, noun: str, nouns: str = "") -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {nouns or f'{noun}s'}"


def _error_of(response: PartitionProduceResponse) -> KafkaError:
    detail = response.error_message or ""
    for record in response.record_errors:
        detail += f"; record {record.batch_index}: {record.batch_index_error_message}"
    return for_code(response.error_code, detail.lstrip("; ") or None)
