"""The exactly-once sink: the record of a decision, and the driver's steps against a cluster in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from pyconsumer.errors import InvalidProducerEpochError, KafkaError, KafkaTimeoutError, OffsetMetadataTooLargeError
from pyconsumer.producer.transaction_manager import DetachedTransaction
from pyconsumer.protocol.messages.describe_transactions import TransactionState
from pyconsumer.spark import exactly_once
from pyconsumer.spark.errors import WriteError
from pyconsumer.spark.exactly_once import Delivery, abort_batch, commit_batch
from pyconsumer.spark.transaction_record import (
    Decision,
    Names,
    TaskReport,
    piece_count,
    pieces_of,
    read_pieces,
)
from pyconsumer.structs import OffsetAndMetadata, TopicPartition

NAMES = Names("p", "query", "run")
OLDER = Names("p", "query", "older")
DELIVERY = Delivery("p", TopicPartition("t", 0), False, {})


def opened(names: Names, partition: int, *, epoch: int = 3) -> DetachedTransaction:
    return DetachedTransaction(names.task(partition, 0), 1000 + partition, epoch, True)


# -- names and records


def test_names() -> None:
    assert NAMES.driver == "p.query"
    assert NAMES.task(3, 1) == "p.query.run.3.1"
    assert NAMES.task(3, 1, 2) == "p.query.run.3.1.2"
    assert NAMES.group(0) == "p.query.0"


@pytest.mark.parametrize("count", [0, 1, 7, 500])
def test_a_decision_is_decoded_as_encoded(count: int) -> None:
    won = tuple(
        DetachedTransaction(NAMES.task(number, number % 3), 2**62 + number, 32000, number % 2 == 0)
        for number in range(count)
    )
    pieces = pieces_of(Decision(9, "run", won), NAMES, 400)
    assert all(len(piece) <= 400 for piece in pieces)
    assert (len(pieces) > 1) is (count > 10)
    assert piece_count(pieces[0]) == len(pieces)
    assert read_pieces(9, pieces, Names("p", "query", "another")) == Decision(9, "run", won)


@pytest.mark.parametrize(
    "texts",
    [
        [""],
        ["somebody else's"],
        ["pyconsumer-1 0 run"],
        ["pyconsumer-1 x run"],
        ["pyconsumer-1 2 run"],
        ["pyconsumer-1 1"],
        ["pyconsumer-2 1 run"],
        ["pyconsumer-1 1 run 0.0:1:2"],
        ["pyconsumer-1 1 run 0.0:1:x:2"],
        ["pyconsumer-1 1 run 0.0:1:2:3"],
        ["pyconsumer-1 2 run", "pyconsumer-1 2 other"],
    ],
)
def test_a_foreign_record_is_rejected(texts: list[str]) -> None:
    with pytest.raises(WriteError, match="cannot be read"):
        read_pieces(1, texts, NAMES)


# -- the driver


class FakeCluster:
    """The coordinator's side: open transactions, committed offsets of groups, and a log of requests.

    Attributes:
        states: of transactional ids.
        offsets: of groups.
        refusals: of EndTxn, by transactional id.
        most: bytes of metadata that it takes.
    """

    def __init__(self) -> None:
        self.states: dict[str, TransactionState] = {}
        self.offsets: dict[str, OffsetAndMetadata] = {}
        self.log: list[str] = []
        self.refusals: dict[str, KafkaError] = {}
        self.most = 4096

    def open(self, one: DetachedTransaction, *, started: int = 100, state: str = "Ongoing", timeout: int = 900) -> None:
        self.states[one.transactional_id] = TransactionState(
            transactional_id=one.transactional_id,
            transaction_state=state,
            producer_id=one.producer_id,
            producer_epoch=one.epoch,
            transaction_start_time_ms=started,
            transaction_timeout_ms=timeout,
        )

    def state(self, one: DetachedTransaction) -> str:
        return str(self.states[one.transactional_id].transaction_state)

    # what the requests do

    def describe(self, calls: Any, ids: list[str], deadline: float) -> Iterator[Any]:
        return {key: self.states[key] for key in ids if key in self.states}
        yield

    def end(self, calls: Any, ended: Any, *, commit: bool, deadline: float, on_done: Any = None) -> Iterator[Any]:
        refused = {}
        for one in ended:
            if one.transactional_id in self.refusals:
                refused[one.transactional_id] = self.refusals[one.transactional_id]
                continue
            self.log.append(f"{'commit' if commit else 'abort'} {one.transactional_id}")
            self.states[one.transactional_id].transaction_state = "CompleteCommit" if commit else "CompleteAbort"
            if on_done is not None:
                on_done(one.transactional_id)
        return refused
        yield

    def fence(self, calls: Any, ids: list[str], deadline: float) -> Iterator[Any]:
        for key in ids:
            self.log.append(f"fence {key}")
            self.states[key].transaction_state = "Empty"
            self.states[key].transaction_timeout_ms = 1
        return {}
        yield

    def open_ids(self, calls: Any, beginning: str, deadline: float) -> Iterator[Any]:
        return [key for key, state in self.states.items() if state.transaction_state in ("Empty", "Ongoing")]
        yield

    def stable_offset(self, calls: Any, group: str, tp: TopicPartition, deadline: float) -> Iterator[Any]:
        return self.offsets.get(group)
        yield

    @contextmanager
    def driver(self, delivery: Delivery, names: Names) -> Iterator[Any]:
        self.log.append("take over")
        pending: dict[str, OffsetAndMetadata] = {}

        def send(offsets: dict[TopicPartition, OffsetAndMetadata], group: str, timeout: int) -> None:
            for one in offsets.values():
                if len(one.metadata) > self.most:
                    raise OffsetMetadataTooLargeError("too long")
                pending[group] = one

        def commit(timeout: int) -> None:
            self.log.append("decide")
            self.offsets.update(pending)

        yield SimpleNamespace(
            begin_transaction=pending.clear, send_offsets_to_transaction=send, commit_transaction=commit
        )


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    fake = FakeCluster()
    calls = SimpleNamespace(
        describe=fake.describe,
        end=fake.end,
        fence=fake.fence,
        open_ids=fake.open_ids,
        stable_offset=fake.stable_offset,
        FENCED_TIMEOUT_MS=1,
    )

    def run(admin: Any, steps: Callable[..., Iterator[Any]], timeout_ms: int) -> Any:
        try:
            next(steps(None, 0.0))
        except StopIteration as stop:
            return stop.value
        raise AssertionError("nothing waits here")

    @contextmanager
    def borrowed(options: Any) -> Iterator[Any]:
        yield None

    monkeypatch.setattr(exactly_once, "transaction_calls", calls)
    monkeypatch.setattr(exactly_once, "_run", run)
    monkeypatch.setattr(exactly_once, "borrow_admin", borrowed)
    monkeypatch.setattr(exactly_once, "_driver", fake.driver)
    return fake


def reports(cluster: FakeCluster, *partitions: int, names: Names = NAMES, batch: int = 0) -> list[TaskReport]:
    """Tasks that have sent, and one without rows."""
    found = [TaskReport(names, batch, None, 50)]
    for partition in partitions:
        one = opened(names, partition)
        cluster.open(one)
        found.append(TaskReport(names, batch, one, 60))
    return found


def test_a_batch_is_decided_before_it_is_committed(cluster: FakeCluster) -> None:
    commit_batch(DELIVERY, reports(cluster, 0, 1))
    assert cluster.log == ["take over", "decide", "commit p.query.run.0.0", "commit p.query.run.1.0"]
    assert read_pieces(0, [cluster.offsets["p.query.0"].metadata], NAMES).winners == (
        opened(NAMES, 0),
        opened(NAMES, 1),
    )
    commit_batch(DELIVERY, reports(cluster, batch=1))  # no rows: only the progress moves
    assert cluster.offsets["p.query.0"].offset == 1


STEPS = ("taken over", "progress read", "verified", "deciding", "decided", "one ended", "ended", "cleared")


class Died(BaseException):
    pass


@pytest.mark.parametrize("step", STEPS)
def test_a_driver_that_dies_after_a_step_is_followed_by_another_run(cluster: FakeCluster, step: str) -> None:
    def die(reached: str) -> None:
        if reached == step:
            raise Died

    old = reports(cluster, 0, 1, 2, names=OLDER)
    loser = opened(OLDER, 7)
    cluster.open(loser)
    with pytest.raises(Died):
        commit_batch(DELIVERY, old, reached=die)
    decided = "decide" in cluster.log
    assert decided is (STEPS.index(step) >= STEPS.index("decided"))
    cluster.log.clear()
    new = [TaskReport(NAMES, 0, None, 200)] if decided else reports(cluster, 0, 1)
    if not decided:
        for report in new[1:]:
            assert report.transaction is not None
            cluster.open(report.transaction, started=200)
    commit_batch(DELIVERY, new)
    committed = {key for key, state in cluster.states.items() if state.transaction_state == "CompleteCommit"}
    expected = old if decided else new
    assert committed == {one.transaction.transactional_id for one in expected if one.transaction is not None}
    assert [state for state in cluster.states.values() if state.transaction_state == "Ongoing"] == []


def test_only_an_undecided_batch_is_aborted(cluster: FakeCluster) -> None:
    won = reports(cluster, 0)
    abort_batch(DELIVERY, won)
    assert cluster.state(opened(NAMES, 0)) == "Empty"

    def die(reached: str) -> None:
        if reached == "decided":
            raise Died

    cluster.open(opened(NAMES, 0))
    with pytest.raises(Died):
        commit_batch(DELIVERY, won, reached=die)
    abort_batch(DELIVERY, won)
    assert cluster.state(opened(NAMES, 0)) == "Ongoing"


def test_tasks_that_rewrite_a_decided_batch_lose(cluster: FakeCluster) -> None:
    commit_batch(DELIVERY, reports(cluster, 0, names=OLDER))
    cluster.log.clear()
    commit_batch(DELIVERY, reports(cluster, 0, 1))
    assert cluster.log == [
        "take over",
        "commit p.query.older.0.0",
        "abort p.query.run.0.0",
        "abort p.query.run.1.0",
    ]


@pytest.mark.parametrize("number", [8, 6], ids=["the next one", "an old one"])
@pytest.mark.parametrize("step", ["decided", "one ended", "ended", "cleared"])
def test_a_named_write_completes_the_last_one(cluster: FakeCluster, step: str, number: int) -> None:
    def die(reached: str) -> None:
        if reached == step:
            raise Died

    with pytest.raises(Died):
        commit_batch(DELIVERY, reports(cluster, 0, 1, names=OLDER, batch=7), of_checkpoint=False, reached=die)
    cluster.log.clear()
    mine = reports(cluster, 2, batch=number) if number > 7 else [TaskReport(NAMES, number, None, 200)]
    abort_batch(DELIVERY, mine)  # one that failed touches nothing of it
    mine = reports(cluster, 2, batch=number) if number > 7 else mine
    commit_batch(DELIVERY, mine, of_checkpoint=False)
    assert {cluster.state(opened(OLDER, partition)) for partition in (0, 1)} == {"CompleteCommit"}
    assert "fence p.query.older" not in "\n".join(cluster.log)
    assert ("commit p.query.older.0.0" in cluster.log) is (step in ("decided", "one ended"))
    assert cluster.offsets["p.query.0"].offset == max(number, 7)


def test_a_named_write_reports_lost_rows_of_the_last_one(cluster: FakeCluster) -> None:
    commit_batch(DELIVERY, reports(cluster, 0, 1, names=OLDER, batch=7), of_checkpoint=False)
    lost = opened(OLDER, 1)
    cluster.open(lost, state="CompleteAbort")
    cluster.refusals[lost.transactional_id] = InvalidProducerEpochError("too late")
    mine = reports(cluster, 0, batch=8)
    with pytest.raises(WriteError, match=r"batch 7 .* 1 of its 2 transactions cannot be committed"):
        commit_batch(DELIVERY, mine, of_checkpoint=False)
    assert cluster.state(opened(NAMES, 0)) == "Ongoing"


def test_losers_are_fenced_but_not_those_of_a_successor(cluster: FakeCluster) -> None:
    newer = Names("p", "query", "newer")
    mine = reports(cluster, 0)
    cluster.open(opened(NAMES, 1))  # a speculative attempt
    cluster.open(opened(NAMES, 2), state="Empty")  # one that has not sent anything yet
    cluster.open(opened(NAMES, 3), state="Empty", timeout=1)  # one that was fenced before
    cluster.open(opened(OLDER, 1), started=99)
    cluster.open(opened(OLDER, 2), state="Empty")
    cluster.open(opened(newer, 1), started=101)
    commit_batch(DELIVERY, mine)
    assert {line for line in cluster.log if line.startswith("fence")} == {
        "fence p.query.run.1.0",
        "fence p.query.run.2.0",
        "fence p.query.older.1.0",
    }


@pytest.mark.parametrize("change", ["gone", "ended", "epoch", "producer"])
def test_a_transaction_that_was_ended_before_stops_the_decision(cluster: FakeCluster, change: str) -> None:
    mine = reports(cluster, 0, 1)
    state = cluster.states["p.query.run.1.0"]
    if change == "gone":
        del cluster.states["p.query.run.1.0"]
    elif change == "ended":
        state.transaction_state = "CompleteAbort"
    elif change == "epoch":
        state.producer_epoch += 1
    else:
        state.producer_id += 1
    with pytest.raises(WriteError, match=r"batch 0 of query query was not written.*1 of its 2.*p\.query\.run\.1\.0"):
        commit_batch(DELIVERY, mine)
    assert cluster.offsets == {}


def test_a_decided_transaction_that_is_rejected_is_reported_by_each_run(cluster: FakeCluster) -> None:
    mine = reports(cluster, 0, 1)
    cluster.refusals["p.query.run.1.0"] = InvalidProducerEpochError()
    for _ in range(2):  # and again by each run that comes after
        with pytest.raises(WriteError, match=r"batch 0 .* was decided, but 1 of its 2 .*rows are missing"):
            commit_batch(DELIVERY, mine)


def test_a_progress_that_contradicts_the_checkpoint(cluster: FakeCluster) -> None:
    with pytest.raises(WriteError, match=r"missing at batch 5.*offsets\.retention\.minutes.*onMissingProgress=begin"):
        commit_batch(DELIVERY, reports(cluster, 0, batch=5))
    commit_batch(DELIVERY._replace(may_begin=True), reports(cluster, 0, batch=5))
    commit_batch(DELIVERY, reports(cluster, 0, batch=7))
    with pytest.raises(WriteError, match="batch 7 of query query was written, but the checkpoint is at batch 6"):
        commit_batch(DELIVERY, reports(cluster, 0, batch=6))
    cluster.log.clear()
    commit_batch(
        DELIVERY, reports(cluster, 1, batch=6), of_checkpoint=False
    )  # a number that a user gave: written before
    assert "decide" not in cluster.log
    assert cluster.state(opened(NAMES, 1)) == "Empty"


def test_a_broker_that_takes_less_metadata(cluster: FakeCluster) -> None:
    cluster.most = 600
    commit_batch(DELIVERY, reports(cluster, *range(100)))
    assert len(cluster.offsets) == 3
    assert all(len(one.metadata) <= 600 for one in cluster.offsets.values())
    assert len([line for line in cluster.log if line.startswith("commit")]) == 100
    decision = exactly_once.read_decision(None, DELIVERY, NAMES)  # type: ignore[arg-type]
    assert decision is not None
    assert len(decision.winners) == 100
    del cluster.offsets["p.query.2"]
    with pytest.raises(WriteError, match=r"incomplete: group p\.query\.2"):
        exactly_once.read_decision(None, DELIVERY, NAMES)  # type: ignore[arg-type]


def test_clearing_that_fails_does_not_fail_the_batch(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> Iterator[Any]:
        raise KafkaTimeoutError("no answer")
        yield

    monkeypatch.setattr(exactly_once.transaction_calls, "open_ids", fail)
    commit_batch(DELIVERY, reports(cluster, 0))
    assert "may stay open until they time out, or until the next batch" in caplog.text


def test_a_transactional_id_with_an_open_transaction_is_left_alone(cluster: FakeCluster) -> None:
    """The id may belong to an attempt of the same number in another attempt of the stage."""
    cluster.open(opened(NAMES, 0))
    assert exactly_once._free_id(None, NAMES, 0, 0) == "p.query.run.0.0.1"  # type: ignore[arg-type]
    cluster.open(opened(NAMES, 0), state="CompleteCommit")
    assert exactly_once._free_id(None, NAMES, 0, 0) == "p.query.run.0.0"  # type: ignore[arg-type]
