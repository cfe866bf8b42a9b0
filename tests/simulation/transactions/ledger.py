"""The outcome of each transaction, and the rules for its visibility to ``read_committed`` readers.

1. A transaction is invisible unless its commit was requested, and stays so once its abort was requested.
2. A transaction whose commit succeeded is seen as a whole in the end, once.
3. Any other is seen as a whole or not at all in the end.
4. A record seen at an offset is seen there ever after, and no record appears before it later.
5. In the end the inputs below the committed position were each transformed once, and no others. Within a partition
   their order is kept. A program never reads a position behind one that was committed before it asked.
6. In the end no transaction holds back readers: the last stable offset is the high watermark.
7. Below transaction version 2 all that has a condition: no EndTxn or TxnOffsetCommit arrives after its connection has
broken and it was sent again. The broker would take it for one of the next transaction. So version 2 raises the epoch
with every transaction (KIP-890), and the schedules of versions 0 and 1 lose such requests.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from pyconsumer.structs import TopicPartition

if TYPE_CHECKING:
    from tests.simulation.transactions.program import Program
    from tests.simulation.transactions.world import TransactionWorld


class Fate(Enum):
    """The progress of a transaction, as its program knows it."""

    OPEN = "open"
    COMMIT_ASKED = "commit asked for"
    COMMITTED = "committed"
    ABORT_ASKED = "abort asked for"
    ABORTED = "aborted"


@dataclass(slots=True)
class Transaction:
    """One transaction: its inputs and its outcome."""

    transactional_id: str
    program: str
    inputs: range
    fate: Fate = Fate.OPEN
    commit_asked: bool = False


class Ledger:
    """See the module. Checks report a broken rule to the world, which ends the schedule."""

    def __init__(self, world: TransactionWorld) -> None:
        self._world = world
        self.transactions: list[Transaction] = []
        self.fates: Counter[str] = Counter()
        self._positions: dict[str, int] = {}

    # --- what programs do

    def begin(self, transactional_id: str, program: str, inputs: range) -> int:
        """Note a transaction and return its number."""
        self.transactions.append(Transaction(transactional_id, program, inputs))
        return len(self.transactions) - 1

    def _to(self, number: int, fate: Fate) -> None:
        transaction = self.transactions[number]
        transaction.fate = fate
        self.fates[fate.value] += 1
        self._world.note(transaction.program, f"transaction {number} ({transaction.inputs}): {fate.value}")

    def commit_asked(self, number: int) -> None:
        self.transactions[number].commit_asked = True
        self._to(number, Fate.COMMIT_ASKED)

    def committed(self, number: int) -> None:
        self._to(number, Fate.COMMITTED)
        transaction = self.transactions[number]
        end = transaction.inputs.stop
        self._positions[transaction.transactional_id] = max(self._positions.get(transaction.transactional_id, 0), end)

    def abort_asked(self, number: int) -> None:
        self._to(number, Fate.ABORT_ASKED)

    def aborted(self, number: int) -> None:
        self._to(number, Fate.ABORTED)

    def position_read(self, program: Program, position: int) -> None:
        """A program has read the committed position (rule 5)."""
        known = self._positions.get(program.transactional_id, 0)
        newest = self._world.newest.get(program.transactional_id)
        if position < known and newest is program:
            self._world.fail(f"{program.name} reads position {position}; {known} was committed before")

    # --- what readers see

    def _transaction_of(self, value: bytes) -> tuple[str, int, Transaction]:
        transactional_id, one, number = value.decode().split(":")
        return transactional_id, int(one), self.transactions[int(number)]

    def seen(self, tp: TopicPartition, values: Iterable[bytes]) -> None:
        """A read_committed reader has seen values (rule 1)."""
        for value in values:
            _, _, transaction = self._transaction_of(value)
            if not transaction.commit_asked:
                self._world.fail(f"{value!r} is visible in {tp}, although it is {transaction.fate.value}")
            elif transaction.fate is Fate.ABORTED:
                self._world.fail(f"{value!r} is visible in {tp}, although it was aborted")

    def check(self, final: dict[TopicPartition, Sequence[bytes]], positions: dict[str, int]) -> None:
        """Check the final contents of all partitions and the committed positions (rules 2, 3, 5)."""
        world = self._world
        count: Counter[str] = Counter()
        outputs: dict[str, list[int]] = defaultdict(list, {name: [] for name in positions})
        for tp, values in final.items():
            last: dict[str, int] = {}
            for value in values:
                name, one, _ = self._transaction_of(value)
                count[value.decode().rpartition(":")[2]] += 1
                outputs[name].append(one)
                if one <= last.get(name, -1):
                    world.fail(f"{value!r} follows input {last[name]} in {tp}")
                last[name] = one
        for number, transaction in enumerate(self.transactions):
            found, whole = count[str(number)], len(transaction.inputs)
            if transaction.fate is Fate.COMMITTED and found != whole:
                world.fail(f"transaction {number} was committed; {found} of its {whole} records are visible")
            if found not in (0, whole):
                world.fail(f"{found} of the {whole} records of transaction {number} are visible")
        for name, found_inputs in outputs.items():
            wanted = list(range(positions.get(name, 0)))
            if sorted(found_inputs) != wanted:
                missing, extra = Counter(wanted) - Counter(found_inputs), Counter(found_inputs) - Counter(wanted)
                world.fail(
                    f"{name}: the committed position is {positions.get(name, 0)}; missing outputs: {sorted(missing)};"
                    f" too many: {dict(extra)}"
                )
