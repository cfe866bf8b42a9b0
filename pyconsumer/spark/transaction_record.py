"""The data of the exactly-once protocol: names, reports of tasks, the decision.

A decision is a committed offset: the batch's number, with the winners as its metadata. A broker limits metadata
(``offset.metadata.max.bytes``, 4,096 by default), so a long list is split into pieces, each committed to a group of its
own. Each piece contains the number of pieces and the run of the winners. Another program may have committed to the same
group, so everything is checked when it is read. Immutable values, and functions without state.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from pyconsumer.producer.transaction_manager import DetachedTransaction
from pyconsumer.spark.errors import WriteError

__all__ = ["Decision", "Names", "TaskReport", "piece_count", "pieces_of", "read_pieces"]

_FORMAT: Final = "pyconsumer-1"
_MOST_PIECES: Final = 10_000


@dataclass(frozen=True)
class Names:
    """The names of the transactional ids and groups of one query.

    Attributes:
        prefix: the beginning of all these names. It is an option.
        query: the id of the query. It lasts as long as the query's checkpoint. For a batch write it is the write's
            name.
        run: a new id each time the query is started.
    """

    prefix: str
    query: str
    run: str

    @property
    def driver(self) -> str:
        """The transactional id of the driver. It is the same in all runs."""
        return f"{self.prefix}.{self.query}"

    @property
    def of_query(self) -> str:
        """The prefix of the transactional ids of the query's tasks."""
        return f"{self.prefix}.{self.query}."

    @property
    def of_run(self) -> str:
        """The prefix of the transactional ids of this run's tasks."""
        return f"{self.prefix}.{self.query}.{self.run}."

    def task(self, partition: int, attempt: int, turn: int = 0) -> str:
        """Return a transactional id for a task.

        Another ``turn`` gives another id, for the case that the last id has an open transaction.
        """
        return f"{self.of_run}{partition}.{attempt}" + (f".{turn}" if turn else "")

    def group(self, piece: int) -> str:
        """Return the group to which a piece of the decision is committed."""
        return f"{self.prefix}.{self.query}.{piece}"


class TaskReport(NamedTuple):
    """A task's report to the driver.

    Attributes:
        batch: the number of the batch.
        transaction: the open transaction with the task's rows. None if there are no rows, or if the batch was decided
            before.
        started_ms: when the task started, on its machine's clock.
    """

    names: Names
    batch: int
    transaction: DetachedTransaction | None
    started_ms: int


class Decision(NamedTuple):
    """The decision about a batch: its number, and the transactions that have its rows. All are of one run."""

    batch: int
    run: str
    winners: tuple[DetachedTransaction, ...]


def pieces_of(decision: Decision, names: Names, most: int) -> list[str]:
    """Return the metadata of a decision in pieces.

    Each piece has at most ``most`` characters, but at least one winner.
    """
    start = len(names.of_run)
    words = [
        f"{one.transactional_id[start:]}:{one.producer_id}:{one.epoch}:{2 if one.is_v2 else 1}"
        for one in decision.winners
    ]
    room = most - len(f"{_FORMAT} {_MOST_PIECES} {decision.run}")
    pieces: list[list[str]] = [[]]
    used = 0
    for word in words:
        if pieces[-1] and used + 1 + len(word) > room:
            pieces.append([])
            used = 0
        pieces[-1].append(word)
        used += 1 + len(word)
    return [" ".join([_FORMAT, str(len(pieces)), decision.run, *piece]) for piece in pieces]


def piece_count(text: str) -> int:
    """Return the total number of pieces. Each piece contains this number.

    Raises:
        WriteError: the text is not a piece of a decision.
    """
    return _parsed(text)[0]


def read_pieces(batch: int, texts: Sequence[str], names: Names) -> Decision:
    """Return the decision that these pieces form together.

    Raises:
        WriteError: the pieces do not belong to one decision, or are unreadable.
    """
    parsed = [_parsed(text) for text in texts]
    if any(piece[:2] != parsed[0][:2] for piece in parsed) or parsed[0][0] != len(texts):
        raise _unreadable(f"its {len(texts)} pieces belong to different batches or runs")
    run = parsed[0][1]
    begin = f"{names.of_query}{run}."
    return Decision(batch, run, tuple(_winner(begin, word) for _, _, words in parsed for word in words))


def _parsed(text: str) -> tuple[int, str, list[str]]:
    form, *rest = text.split(" ")
    if form != _FORMAT or len(rest) < 2 or not rest[0].isdecimal() or not 1 <= int(rest[0]) <= _MOST_PIECES:
        raise _unreadable(f"it begins with {text[:60]!r}")
    return int(rest[0]), rest[1], rest[2:]


def _winner(begin: str, word: str) -> DetachedTransaction:
    parts = word.split(":")
    try:
        suffix, producer_id, epoch, version = parts
        return DetachedTransaction(begin + suffix, int(producer_id), int(epoch), {"1": False, "2": True}[version])
    except (ValueError, KeyError):
        raise _unreadable(f"{word[:60]!r} is not a transaction") from None


def _unreadable(why: str) -> WriteError:
    return WriteError(
        f"the record of the query's progress cannot be read: {why}. It was written by a newer pyconsumer or by another"
        " program; if the group belongs to another program, choose another transactionalIdPrefix"
    )


def winners(reports: Iterable[TaskReport]) -> tuple[DetachedTransaction, ...]:
    """Return the transactions of those tasks that had rows."""
    return tuple(report.transaction for report in reports if report.transaction is not None)
