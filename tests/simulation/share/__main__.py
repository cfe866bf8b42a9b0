"""``python -m tests.simulation.share --seed 17``: replay a schedule of share consumers, or run many."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Sequence

from tests.simulation.__main__ import counts, schedule_parser
from tests.simulation.share.broken import RULES
from tests.simulation.share.consumers import ConsumersWorld, play_consumers
from tests.simulation.world import BrokenRule


def main(arguments: Sequence[str] | None = None) -> int:
    """Run schedules. Return 1 if a rule was broken."""
    options = schedule_parser("python -m tests.simulation.share", __doc__, RULES).parse_args(arguments)
    seeds = range(options.seed, options.seed + options.count)
    failed: list[int] = []
    faults: Counter[str] = Counter()
    outcomes: Counter[str] = Counter()
    records = deliveries = 0
    started = time.process_time()
    for seed in seeds:
        world: ConsumersWorld | None = None
        try:
            world = play_consumers(seed, broken=options.broken)
        except BrokenRule as error:
            failed.append(seed)
            if len(failed) == 1:
                print(error)
            continue
        if options.trace:
            print("\n".join(world.trace))
        faults.update(world.faults)
        outcomes.update(world.outcomes)
        records += len(world.stored)
        deliveries += sum(world.deliveries.values())
    used = time.process_time() - started
    print(
        f"share consumers: {len(seeds)} schedules from seed {seeds[0]}, {len(failed)} failed {failed or ''};"
        f" {records} records, {deliveries} deliveries; {used:.1f} s of CPU, {len(seeds) / used:.1f} schedules/s"
    )
    print(f"  acknowledgements: {counts(outcomes)}\n  faults: {counts(faults)}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
