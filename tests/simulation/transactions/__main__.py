"""``python -m tests.simulation.transactions --version 2 --seed 17``: replay a schedule, or run many."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence

from tests.simulation.__main__ import counts, schedule_parser
from tests.simulation.transactions.broken import RULES
from tests.simulation.transactions.world import TransactionWorld
from tests.simulation.world import BrokenRule


def main(arguments: Sequence[str] | None = None) -> int:
    """Run schedules. Return 1 if a rule was broken."""
    parser = schedule_parser("python -m tests.simulation.transactions", __doc__, RULES)
    parser.add_argument("--version", type=int, choices=(0, 1, 2), action="append", help="transaction version; all")
    options = parser.parse_args(arguments)
    failures = 0
    for version in options.version or (0, 1, 2):
        failures += _run(version, range(options.seed, options.seed + options.count), options)
    return 1 if failures else 0


def _run(version: int, seeds: Sequence[int], options: argparse.Namespace) -> int:
    failed: list[int] = []
    faults: Counter[str] = Counter()
    fates: Counter[str] = Counter()
    seconds = longest = 0.0
    started = time.process_time()
    for seed in seeds:
        world = TransactionWorld(version, seed, broken=options.broken)
        try:
            world.play()
        except BrokenRule as error:
            failed.append(seed)
            if len(failed) == 1:
                print(error)
        else:
            longest = max(longest, world.settled_in)
            if options.trace:
                print(world.describe("nothing is wrong"))
        faults.update(world.faults)
        fates.update(world.ledger.fates)
        seconds += world.clock.now() - 1000.0
    used = time.process_time() - started
    print(
        f"transaction.version {version}: {len(seeds)} schedules from seed {seeds[0]}, {len(failed)} failed"
        f" {failed or ''}; {seconds:.0f} s of life in {used:.1f} s of CPU, {len(seeds) / used:.1f} schedules/s;"
        f" longest until settled {longest:.1f} s"
    )
    print(f"  transactions: {counts(fates)}\n  faults: {counts(faults)}", flush=True)
    return len(failed)


if __name__ == "__main__":
    sys.exit(main())
