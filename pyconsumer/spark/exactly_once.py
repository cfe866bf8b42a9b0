"""Exactly-once writes: tasks leave transactions open, the driver decides and ends them.

A task sends its rows in a transaction of its own, waits until they are acknowledged, and reports the open transaction
to the driver. Spark's commit coordinator lets one attempt of each partition report: the *winner*. The driver writes the
*decision*, a record of batch and winners, in one transaction of its own, and then commits the winners' transactions. A
batch that is decided is finished by the next run if its driver dies. One that is not decided is aborted.

The driver's steps for batch N:

1. Take over: InitProducerId of ``<prefix>.<query>`` fences any older driver, which cannot decide any more.
2. Read the progress: the last decision, after all transactions that contain it have ended (KIP-447). If it is that of
   N, commit its winners again, which succeeds for those that are committed, and continue with step 6. If it is that of
   another write with a name and a number, commit its winners that are still open: its driver may have died.
3. Verify that each reported transaction is still open. If one is not, fail: N is not decided and can be repeated.
4. Decide: one transaction, which commits offset N, with the list of winners as metadata, to the query's groups.
5. Commit the winners, each until there is a response. If one is refused now, its rows are lost, and the error says so.
6. Clear: fence the query's other transactions. While one is open, ``read_committed`` consumers stop at it until it
   times out.

Rules:

* A task reads the progress after InitProducerId and before it sends. So an attempt that began too late for step 6 sees
  that its batch is decided, and sends no record.
* Step 6 fences all producers of its own run, also those without a transaction. Of other runs it fences only
  transactions that began before those of the batch: a driver that has been replaced without knowing it must not touch
  the transactions of its successor.
* The winners of a decision are never fenced: a write with a name may follow one whose driver died before step 5.
* The transactional ids of tasks are reused from batch to batch. If Spark repeated a stage, two attempts could have the
  same id, because PySpark does not show a task the attempt of its stage. So an id with an open transaction is not used.
* After a failure before step 4 the transactions of the run are fenced. After step 4 they are not: the next run finishes
  the batch.
* All state is in Kafka and in the reports: Spark creates a new writer for each commit.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from pyconsumer.errors import KafkaError, OffsetMetadataTooLargeError
from pyconsumer.spark import transaction_calls
from pyconsumer.spark.client_cache import borrow_admin
from pyconsumer.spark.errors import WriteError
from pyconsumer.spark.sink_config import producer_settings
from pyconsumer.spark.transaction_record import (
    Decision,
    Names,
    TaskReport,
    piece_count,
    pieces_of,
    read_pieces,
    winners,
)
from pyconsumer.structs import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyconsumer.admin import KafkaAdminClient
    from pyconsumer.network.calls import Calls
    from pyconsumer.network.futures import Steps
    from pyconsumer.producer import KafkaProducer
    from pyconsumer.producer.transaction_manager import DetachedTransaction
    from pyconsumer.protocol.messages.describe_transactions import TransactionState

__all__ = ["Delivery", "abort_batch", "commit_batch", "task_transaction"]

_log = logging.getLogger("pyconsumer.spark")

#: Longest time of each step before the decision.
_STEP_MS: Final = 120_000
#: Longest time of step 5; after that, the next run continues it.
_COMMIT_MS: Final = 600_000
#: Longest time of step 6.
_CLEAR_MS: Final = 60_000
#: Timeout of the driver's own transaction, which is short. One that a dead driver has left open delays its successor.
_DRIVER_TIMEOUT_MS: Final = 60_000
#: Characters of metadata; brokers accept 4,096 bytes by default.
_MOST_METADATA: Final = 4_000
_LEAST_METADATA: Final = 250
_MOST_TURNS: Final = 100
_COMMITTED: Final = ("PrepareCommit", "CompleteCommit", "Dead")

T = TypeVar("T")
Reached = Callable[[str], object]
"""Called with the name of a step when it is reached: tests kill the process there."""


class Delivery(NamedTuple):
    """The options of exactly-once writes.

    Attributes:
        prefix: the beginning of the names of transactional ids and groups.
        progress: the partition whose committed offset stores the query's progress.
        may_begin: True if the query may continue when its progress is missing (``onMissingProgress=begin``).
        kafka_options: ``kafka.*`` options, without this prefix.
    """

    prefix: str
    progress: TopicPartition
    may_begin: bool
    kafka_options: Mapping[str, str]


def _run(admin: KafkaAdminClient, steps: Callable[[Calls, float], Steps[T]], timeout_ms: int) -> T:
    from pyconsumer.admin.client import run_steps

    return run_steps(admin, steps, timeout_ms)


# -- tasks


@contextmanager
def task_transaction(
    delivery: Delivery, names: Names, batch: int, partition: int, attempt: int, *, of_checkpoint: bool
) -> Iterator[KafkaProducer | None]:
    """Open a transaction for the rows of a task.

    Yield its producer. If the batch is decided already, yield None.

    If the ``with`` block detaches the transaction from the producer, it stays open. Otherwise it is aborted at the end.

    Args:
        partition, attempt: partition number and attempt number of the task.
        of_checkpoint: see :func:`commit_batch`.

    Raises:
        WriteError: the query's progress is missing or unreadable, or does not match the checkpoint.
        KafkaError: the brokers could not be reached in time, or rejected the transaction.
    """
    from pyconsumer.producer import KafkaProducer

    with borrow_admin(delivery.kafka_options) as admin:
        transactional_id = _free_id(admin, names, partition, attempt)
        settings = producer_settings(delivery.kafka_options, transactional_id=transactional_id)
        producer = KafkaProducer(settings)
        with producer:
            producer.init_transactions(_STEP_MS)
            decision = read_decision(admin, delivery, names)
            if of_checkpoint:
                _check_progress(delivery, decision, batch, names)
            if decision is not None and decision.batch >= batch:
                _log.info("sending no records: batch %d of query %s has been decided before", batch, names.query)
                yield None
                return
            producer.begin_transaction()
            yield producer


def _free_id(admin: KafkaAdminClient, names: Names, partition: int, attempt: int) -> str:
    for turn in range(_MOST_TURNS):
        wanted = names.task(partition, attempt, turn)
        states = _run(admin, functools.partial(_describe, ids=[wanted]), _STEP_MS)
        if wanted not in states or states[wanted].transaction_state != "Ongoing":
            return wanted
    raise WriteError(f"task {partition}, attempt {attempt}, has {_MOST_TURNS} open transactions of earlier attempts")


def _describe(calls: Calls, until: float, ids: Sequence[str]) -> Steps[dict[str, TransactionState]]:
    return transaction_calls.describe(calls, ids, until)


def read_decision(admin: KafkaAdminClient, delivery: Delivery, names: Names) -> Decision | None:
    """Return the last decision of a query, or None if there is none.

    Raises:
        WriteError: the decision is incomplete or unreadable.
        KafkaError: the group's coordinator could not be reached in time, or access was denied.
    """

    def read(piece: int) -> OffsetAndMetadata | None:
        return _run(
            admin,
            lambda calls, until: transaction_calls.stable_offset(calls, names.group(piece), delivery.progress, until),
            _STEP_MS,
        )

    first = read(0)
    if first is None:
        return None
    texts = [first.metadata]
    for piece in range(1, piece_count(first.metadata)):
        one = read(piece)
        if one is None or one.offset != first.offset:
            raise WriteError(
                f"the record of batch {first.offset} of query {names.query} is incomplete: group {names.group(piece)}"
                " lacks its part. The offsets of the group may have been deleted"
            )
        texts.append(one.metadata)
    return read_pieces(first.offset, texts, names)


def _check_progress(delivery: Delivery, decision: Decision | None, batch: int, names: Names) -> None:
    """Check that the query's progress in Kafka matches its checkpoint.

    Raises:
        WriteError: it does not.
    """
    if decision is None and batch > 0 and not delivery.may_begin:
        raise WriteError(
            f"the progress of query {names.query} is missing at batch {batch}: group {names.group(0)} has no committed"
            f" offset of {delivery.progress}. Brokers delete it if the query has not run for offsets.retention.minutes"
            " (a week by default). It is also missing if the query has used this checkpoint with at-least-once, or"
            " with another transactionalIdPrefix, topic or progressTopic. It is unknown whether this batch was"
            " written: look at the topic, and if it was not, set onMissingProgress=begin for one run"
        )
    if decision is not None and decision.batch > batch:
        raise WriteError(
            f"batch {decision.batch} of query {names.query} was written, but the checkpoint is at batch {batch}: it is"
            " older than the topic, so rows would be lost or duplicated. Restore the newer checkpoint, or begin with a"
            " new one. (Spark's asynchronous progress tracking has the same effect: switch it off.)"
        )


# -- the driver


def commit_batch(
    delivery: Delivery, reports: Sequence[TaskReport], *, of_checkpoint: bool = True, reached: Reached = lambda _: None
) -> None:
    """Decide a batch, and commit the transactions of its winning tasks.

    Args:
        reports: the reports of the winning tasks, at least one.
        of_checkpoint: True if the batch's number comes from a checkpoint. Then a number below the last one is an error,
            and so is a missing progress. False for numbers that users give.
        reached: called after each step, for tests.

    Raises:
        WriteError: the message names the case and the remedy. Either the batch was not decided and can be repeated. Or
            it was decided, and rows are lost.
        KafkaError: the brokers could not be reached in time. If you repeat the batch, the sink finds out whether it was
            decided.
    """
    names, batch = reports[0].names, reports[0].batch
    with borrow_admin(delivery.kafka_options) as admin, _driver(delivery, names) as producer:
        reached("taken over")
        decision = read_decision(admin, delivery, names)
        reached("progress read")
        won = winners(reports)
        since = min(report.started_ms for report in reports)
        if decision is not None and decision.batch != batch and not of_checkpoint:
            _settle(admin, decision, names, reached)
        if decision is not None and decision.batch >= batch:
            if of_checkpoint:
                _check_progress(delivery, decision, batch, names)
            if decision.batch == batch:
                _finish(admin, decision, won, names, reached)
            _clear(admin, names, decision.winners, since)
            reached("cleared")
            return
        if of_checkpoint:
            _check_progress(delivery, decision, batch, names)
        since = _verify(admin, won, batch, names) or since
        reached("verified")
        decision = Decision(batch, names.run, won)
        _decide(producer, delivery, decision, names, reached)
        reached("decided")
        _finish(admin, decision, (), names, reached)
        reached("ended")
        _clear(admin, names, won, since)
        reached("cleared")


@contextmanager
def _driver(delivery: Delivery, names: Names) -> Iterator[KafkaProducer]:
    """Yield the producer of decisions, after fencing that of an older driver."""
    from pyconsumer.producer import KafkaProducer

    settings = producer_settings(
        delivery.kafka_options, transactional_id=names.driver, transaction_timeout_ms=_DRIVER_TIMEOUT_MS
    )
    with KafkaProducer(settings) as producer:
        producer.init_transactions(_STEP_MS)
        yield producer


def _verify(admin: KafkaAdminClient, won: Sequence[DetachedTransaction], batch: int, names: Names) -> int | None:
    """Check that all reported transactions are still open, and return when the first began (ms), None without any.

    Raises:
        WriteError: one is not open, and the batch is not decided.
    """
    if not won:
        return None
    states = _run(admin, functools.partial(_describe, ids=[one.transactional_id for one in won]), _STEP_MS)
    lost = []
    for one in won:
        state = states.get(one.transactional_id)
        if (
            state is None
            or state.transaction_state != "Ongoing"
            or (state.producer_id, state.producer_epoch) != (one.producer_id, one.epoch)
        ):
            lost.append(f"{one.transactional_id} ({'unknown' if state is None else state.transaction_state})")
    if lost:
        raise WriteError(
            f"batch {batch} of query {names.query} was not written, and can be repeated: {len(lost)} of its {len(won)}"
            f" transactions have been ended by others: {', '.join(lost[:5])}. Usually they took longer than"
            " kafka.transaction.timeout.ms, or another run of this query is active"
        )
    return min(states[one.transactional_id].transaction_start_time_ms for one in won)


def _decide(
    producer: KafkaProducer,
    delivery: Delivery,
    decision: Decision,
    names: Names,
    reached: Reached,
    most: int = _MOST_METADATA,
) -> None:
    """Write the decision in one transaction, in smaller pieces if the broker accepts less metadata.

    Raises:
        WriteError: the decision was not written, or that is unknown.
    """
    try:
        producer.begin_transaction()
        for number, piece in enumerate(pieces_of(decision, names, most)):
            offset = OffsetAndMetadata(decision.batch, piece)
            producer.send_offsets_to_transaction({delivery.progress: offset}, names.group(number), _STEP_MS)
        reached("deciding")
        producer.commit_transaction(_STEP_MS)
    except OffsetMetadataTooLargeError:
        if most <= _LEAST_METADATA:
            raise
    except KafkaError as error:
        raise WriteError(
            f"batch {decision.batch} of query {names.query} could not be decided, run it again: {error}"
        ) from error
    else:
        return
    with _driver(delivery, names) as another:
        _decide(another, delivery, decision, names, reached, most // 2)


def _finish(
    admin: KafkaAdminClient,
    decision: Decision,
    own: Sequence[DetachedTransaction],
    names: Names,
    reached: Reached,
) -> None:
    """Commit the winners of a decision.

    Args:
        own: if another run has decided, the transactions of this run, which are aborted.

    Raises:
        WriteError: a winner's transaction cannot be committed any more, so its rows are lost.
        KafkaError: the brokers could not be reached in time.
    """
    chosen = {one.transactional_id for one in decision.winners}
    refused = _run(
        admin,
        lambda calls, until: transaction_calls.end(
            calls, decision.winners, commit=True, deadline=until, on_done=lambda _: reached("one ended")
        ),
        _COMMIT_MS,
    )
    if refused:
        some = "; ".join(f"{name}: {error}" for name, error in list(refused.items())[:5])
        raise WriteError(
            f"batch {decision.batch} of query {names.query} was decided, but {len(refused)} of its {len(chosen)}"
            f" transactions cannot be committed any more, so their rows are missing from the topic: {some}. Usually"
            " the driver was down for longer than kafka.transaction.timeout.ms. The other"
            f" {len(chosen) - len(refused)} are committed. Write the missing rows yourself. To continue the query set"
            " onMissingProgress=begin and another transactionalIdPrefix"
        )
    losers = [one for one in own if one.transactional_id not in chosen]
    if losers:
        _run(admin, lambda calls, until: transaction_calls.end(calls, losers, commit=False, deadline=until), _STEP_MS)


def _settle(admin: KafkaAdminClient, decision: Decision, names: Names, reached: Reached) -> None:
    """Finish the decision of an earlier write, if its driver did not.

    A stream does not need this: Spark begins a batch only when the previous one is finished.

    Raises:
        WriteError, KafkaError: as :func:`_finish`.
    """
    states = _run(admin, functools.partial(_describe, ids=[one.transactional_id for one in decision.winners]), _STEP_MS)
    if any(state.transaction_state not in _COMMITTED for state in states.values()):
        _log.info("finishing batch %d of query %s, which was decided but not committed", decision.batch, names.query)
        _finish(admin, decision, (), names, reached)


def _clear(admin: KafkaAdminClient, names: Names, keep: Sequence[DetachedTransaction], since_ms: int) -> None:
    """Fence the query's transactions that are still open. A failure is only logged, because the batch is written.

    Args:
        keep: the winners of the last decision, which are left alone.
        since_ms: transactions of other runs that began later are left alone: they may be those of a successor.
    """
    kept = {one.transactional_id for one in keep}

    def steps(calls: Calls, until: float) -> Steps[int]:
        found = yield from transaction_calls.open_ids(calls, names.of_query, until)
        states = yield from transaction_calls.describe(calls, [one for one in found if one not in kept], until)
        lost = [key for key, state in states.items() if _is_left_over(state, key.startswith(names.of_run), since_ms)]
        refused = yield from transaction_calls.fence(calls, lost, until)
        for key, error in refused.items():
            _log.warning("transaction %s may stay open until it times out: %s", key, error)
        return len(lost)

    try:
        count = _run(admin, steps, _CLEAR_MS)
    except KafkaError as error:
        _log.warning(
            "unused transactions of query %s may stay open until they time out, or until the next batch: %s: %s",
            names.query,
            type(error).__name__,
            error,
        )
    else:
        if count:
            _log.info("fenced %d unused transactions of query %s", count, names.query)


def _is_left_over(state: TransactionState, own: bool, since_ms: int) -> bool:
    if state.transaction_state == "Ongoing":
        return own or state.transaction_start_time_ms < since_ms
    fenced = state.transaction_timeout_ms == transaction_calls.FENCED_TIMEOUT_MS
    return own and state.transaction_state == "Empty" and not fenced


def abort_batch(delivery: Delivery, reports: Sequence[TaskReport]) -> None:
    """Abort the transactions of a batch that has failed.

    If the batch is decided, leave them to the next run, which commits them.

    Raises:
        WriteError: the query's progress is unreadable.
        KafkaError: the brokers could not be reached in time. Transactions may stay open until they time out.
    """
    names, batch = reports[0].names, reports[0].batch
    with borrow_admin(delivery.kafka_options) as admin:
        decision = read_decision(admin, delivery, names)
        if decision is not None and decision.batch >= batch:
            _log.warning("batch %d of query %s is decided, and the next run will finish it", batch, names.query)
            return
        _clear(admin, names, () if decision is None else decision.winners, min(one.started_ms for one in reports))
