"""The sink's exactly-once protocol: tasks leave their transactions open, the driver decides and ends them.

A task sends its rows in a transaction of its own, waits until they are acknowledged, and reports the transaction, still
open. Spark's commit coordinator lets one attempt of each partition report. The driver then makes the decision durable,
in one transaction of its own, and commits the transactions of all that reported. What is decided is finished by whoever
comes next; what is not decided is aborted. The steps of the driver, for batch N:

1. Take over: InitProducerId of ``<prefix>.<query>``. No older driver can decide any more.
2. Read the progress: the decision of the last batch, after all transactions that concern it (KIP-447). If it is N's,
   commit its winners again, which succeeds for those that were, and go to 6. If it is another one's, of a write that
   has a name and a number: commit what is still open of it. Its driver may have died, and nobody else will.
3. Verify that each reported transaction is still open. If one is not, fail: nothing is decided, N can be run again.
4. Decide: one transaction that commits offset N, with the list of the winners, to the query's groups.
5. Commit the winners, each until it is answered. A refusal now is lost data: an error that says so.
6. Clear: fence what else of the query may be open. Nobody could read beyond it until it timed out.

Rules:

* A task reads the progress after InitProducerId and before it sends. So an attempt that step 6 did not see, since it
  began later, finds its batch decided and sends nothing.
* Step 6 fences all of its own run, those without a transaction included, and of other runs only transactions that began
  before the batch's own: a driver that has been replaced without knowing it touches nothing of its successor's.
* What is decided is never fenced, whoever decided it: writes with a name may follow one that died half-way.
* Task ids are used again from batch to batch. Two attempts with one id could exist if Spark ran a stage again, for
  PySpark does not show of which attempt of the stage a task is: so an id whose transaction is open is left alone.
* After a failure before step 4 the run's transactions are fenced. After step 4 nothing is: the next run finishes.
* Nothing but the reports and Kafka carries state: Spark makes a fresh writer for each commit.
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

#: Longest time of each step before the decision, and of clearing.
_STEP_MS: Final = 120_000
#: Longest time for committing what is decided; after it the next run goes on.
_END_MS: Final = 600_000
_CLEAR_MS: Final = 60_000
#: The driver's own transaction takes a moment; one that a dead driver has left open holds up its successor.
_DRIVER_TIMEOUT_MS: Final = 60_000
#: Brokers take 4,096 bytes of metadata by default.
_MOST_METADATA: Final = 4_000
_LEAST_METADATA: Final = 250
_MOST_TURNS: Final = 100
_COMMITTED: Final = ("PrepareCommit", "CompleteCommit", "Dead")

T = TypeVar("T")
Reached = Callable[[str], object]
"""Called with the name of a step that has been reached; for tests, which end the process there."""


class Delivery(NamedTuple):
    """The options of exactly-once writes.

    Attributes:
        prefix: of transactional ids and groups.
        progress: the partition whose committed offset is the query's progress.
        may_begin: a progress that is missing is no error.
        client: ``kafka.*`` options, without the prefix.
    """

    prefix: str
    progress: TopicPartition
    may_begin: bool
    client: Mapping[str, str]


def _run(admin: KafkaAdminClient, steps: Callable[[Calls, float], Steps[T]], timeout_ms: int) -> T:
    return admin._run(lambda until: steps(admin._calls, until), timeout_ms)


# -- tasks


@contextmanager
def task_transaction(
    delivery: Delivery, names: Names, batch: int, partition: int, attempt: int, *, of_checkpoint: bool
) -> Iterator[KafkaProducer | None]:
    """A producer with an open transaction for the rows of a task; None if the batch is decided already.

    The block detaches it. What it leaves open is aborted.

    Args:
        partition, attempt: of the task.
        of_checkpoint: as for :func:`commit_batch`.

    Raises:
        WriteError: the query's progress is missing or unreadable, or the broker refuses the transaction.
    """
    from pyconsumer.producer import KafkaProducer

    with borrow_admin(delivery.client) as admin:
        transactional_id = _free_id(admin, names, partition, attempt)
        settings = producer_settings(delivery.client, transactional_id=transactional_id)
        producer = KafkaProducer(settings)
        with producer:
            producer.init_transactions(_STEP_MS)
            decision = read_decision(admin, delivery, names)
            if of_checkpoint:
                _check_progress(delivery, decision, batch, names)
            if decision is not None and decision.batch >= batch:
                _log.info("batch %d of query %s was decided before; nothing is sent", batch, names.query)
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
    raise WriteError(f"{_MOST_TURNS} transactions of task {partition}, attempt {attempt}, are open")


def _describe(calls: Calls, until: float, ids: Sequence[str]) -> Steps[dict[str, TransactionState]]:
    return transaction_calls.describe(calls, ids, until)


def read_decision(admin: KafkaAdminClient, delivery: Delivery, names: Names) -> Decision | None:
    """Return the decision of the last batch of a query; None if there is none."""

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
                f"the record of batch {first.offset} of query {names.query} is not whole: group {names.group(piece)}"
                " has no part of it. Its offsets may have been deleted"
            )
        texts.append(one.metadata)
    return read_pieces(first.offset, texts, names)


def _check_progress(delivery: Delivery, decision: Decision | None, batch: int, names: Names) -> None:
    """Fail where the checkpoint and the query's progress in Kafka cannot belong together."""
    if decision is None and batch > 0 and not delivery.may_begin:
        raise WriteError(
            f"the progress of query {names.query} is missing at batch {batch}: group {names.group(0)} has no offset of"
            f" {delivery.progress}. Brokers delete it when the query has not run for offsets.retention.minutes (a week"
            " by default); it is also missing if this checkpoint was written with at-least-once, another"
            " transactionalIdPrefix, topic or progressTopic before. Whether the batch was written is not known here:"
            " look at the topic, and set onMissingProgress=begin for one run if it was not"
        )
    if decision is not None and decision.batch > batch:
        raise WriteError(
            f"batch {decision.batch} of query {names.query} was written, but the checkpoint is at batch {batch}: it is"
            " older than the topic, so that rows would be left out or come twice. Restore the newer checkpoint, or"
            " begin with a new one. (Spark's asynchronous progress tracking does that, too: switch it off.)"
        )


# -- the driver


def commit_batch(
    delivery: Delivery, reports: Sequence[TaskReport], *, of_checkpoint: bool = True, reached: Reached = lambda _: None
) -> None:
    """Make a batch visible, once.

    Args:
        reports: of the attempts that Spark has let win; at least one.
        of_checkpoint: the batch's number comes from a checkpoint, so that a smaller one than the last is an error, and
            so is a missing progress. False for numbers that users give.
        reached: called after each step.

    Raises:
        WriteError: it could not be decided, and can be run again; or it is decided, and the message says what to do.
    """
    names, batch = reports[0].names, reports[0].batch
    with borrow_admin(delivery.client) as admin, _driver(delivery, names) as producer:
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
    """The producer of decisions; it has fenced that of an older driver."""
    from pyconsumer.producer import KafkaProducer

    settings = producer_settings(
        delivery.client, transactional_id=names.driver, transaction_timeout_ms=_DRIVER_TIMEOUT_MS
    )
    with KafkaProducer(settings) as producer:
        producer.init_transactions(_STEP_MS)
        yield producer


def _verify(admin: KafkaAdminClient, won: Sequence[DetachedTransaction], batch: int, names: Names) -> int | None:
    """Check that all transactions are open as they were reported; return when the first began, in ms.

    Raises:
        WriteError: one is not. Nothing is decided.
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
            f"batch {batch} of query {names.query} is not written, and can be run again: {len(lost)} of its {len(won)}"
            f" transactions were ended before: {', '.join(lost[:5])}. As a rule they took longer than"
            " kafka.transaction.timeout.ms, or another run of this query is at work"
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
    """Write the decision in one transaction, in smaller pieces if the broker takes less metadata."""
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
            f"batch {decision.batch} of query {names.query} could not be decided: {error}. Run it again"
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
        own: transactions of this run that lost, if the decision is another run's.

    Raises:
        WriteError: some are refused, so that rows are lost; or the brokers do not answer.
    """
    chosen = {one.transactional_id for one in decision.winners}
    refused = _run(
        admin,
        lambda calls, until: transaction_calls.end(
            calls, decision.winners, commit=True, deadline=until, on_done=lambda _: reached("one ended")
        ),
        _END_MS,
    )
    if refused:
        some = "; ".join(f"{name}: {error}" for name, error in list(refused.items())[:5])
        raise WriteError(
            f"batch {decision.batch} of query {names.query} was decided, but {len(refused)} of its {len(chosen)}"
            f" transactions cannot be committed any more, so their rows are missing in the topic: {some}. As a rule"
            " they stayed open for longer than kafka.transaction.timeout.ms while the driver was down. The other"
            f" {len(chosen) - len(refused)} are committed. Write the missing rows again yourself, then set"
            " onMissingProgress=begin and another transactionalIdPrefix to go on"
        )
    losers = [one for one in own if one.transactional_id not in chosen]
    if losers:
        _run(admin, lambda calls, until: transaction_calls.end(calls, losers, commit=False, deadline=until), _STEP_MS)


def _settle(admin: KafkaAdminClient, decision: Decision, names: Names, reached: Reached) -> None:
    """Finish the decision of an earlier write, unless that has been done.

    A stream needs none of this: Spark begins a batch when the one before is finished.

    Raises:
        WriteError: as :func:`_finish`.
    """
    states = _run(admin, functools.partial(_describe, ids=[one.transactional_id for one in decision.winners]), _STEP_MS)
    if any(state.transaction_state not in _COMMITTED for state in states.values()):
        _log.info("batch %d of query %s was decided and not finished; it is now", decision.batch, names.query)
        _finish(admin, decision, (), names, reached)


def _clear(admin: KafkaAdminClient, names: Names, keep: Sequence[DetachedTransaction], since_ms: int) -> None:
    """Fence what may still be open of the query; a failure is logged, as the batch is written.

    Args:
        keep: the winners of the last decision.
        since_ms: transactions of other runs that began later may be those of a successor.
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
            "transactions of query %s that lost may stay open until they time out, or the next batch: %s: %s",
            names.query,
            type(error).__name__,
            error,
        )
    else:
        if count:
            _log.info("%d transactions of query %s that lost were fenced", count, names.query)


def _is_left_over(state: TransactionState, own: bool, since_ms: int) -> bool:
    if state.transaction_state == "Ongoing":
        return own or state.transaction_start_time_ms < since_ms
    fenced = state.transaction_timeout_ms == transaction_calls.FENCED_TIMEOUT_MS
    return own and state.transaction_state == "Empty" and not fenced


def abort_batch(delivery: Delivery, reports: Sequence[TaskReport]) -> None:
    """Abort the transactions of a batch that has failed, unless it is decided: then the next run finishes it.

    Raises:
        KafkaError: they may stay open until the next run, or until they time out.
    """
    names, batch = reports[0].names, reports[0].batch
    with borrow_admin(delivery.client) as admin:
        decision = read_decision(admin, delivery, names)
        if decision is not None and decision.batch >= batch:
            _log.warning("batch %d of query %s is decided; the next run finishes it", batch, names.query)
            return
        _clear(admin, names, () if decision is None else decision.winners, min(one.started_ms for one in reports))
