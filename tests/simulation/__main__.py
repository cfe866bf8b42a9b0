"""``python -m tests.simulation --protocol eager --seed 17``: replay a schedule, or run many."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence

from tests.simulation.broken import RULES
from tests.simulation.world import PROTOCOLS, BrokenRule, World


def schedule_parser(program: str, description: str | None, rules: Iterable[str]) -> argparse.ArgumentParser:
    """Return a parser of the arguments that both simulations take."""
    parser = argparse.ArgumentParser(prog=program, description=description)
    parser.add_argument("--seed", type=int, default=0, help="the (first) schedule")
    parser.add_argument("--count", type=int, default=1, help="how many schedules, from that seed on")
    parser.add_argument("--break", dest="broken", choices=rules, help="a rule to break on purpose")
    parser.add_argument("--trace", action="store_true", help="print the trace also if nothing is wrong")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run schedules. Return 1 if a rule was broken."""
    parser = schedule_parser("python -m tests.simulation", __doc__, RULES)
    parser.add_argument("--protocol", choices=PROTOCOLS, action="append", help="default: all, one after the other")
    options = parser.parse_args(arguments)
    failures = 0
    for protocol in options.protocol or PROTOCOLS:
        failures += _run(protocol, range(options.seed, options.seed + options.count), options)
    return 1 if failures else 0


def _run(protocol: str, seeds: Sequence[int], options: argparse.Namespace) -> int:
    failed: list[int] = []
    faults: Counter[str] = Counter()
    callbacks: Counter[str] = Counter()
    commits, delays, seconds, recovery, free = 0, 0, 0.0, 0.0, 0.0
    started = time.process_time()
    for seed in seeds:
        world = World(protocol, seed, broken=options.broken)
        try:
            world.play()
        except BrokenRule as error:
            failed.append(seed)
            if len(failed) == 1:
                print(error)
        else:
            if options.trace:
                print("\n".join(world.lines()))
        faults.update(world.faults)
        callbacks.update(world.callbacks)
        commits += world.rules.commits
        delays += world.waiting.delayed
        seconds += world.clock.now() - 1000.0
        recovery = max(recovery, world.recovery)
        free = max(free, world.rules.longest_free)
    used = time.process_time() - started
    waits = f" {delays} assignments with a delay;" if delays else ""
    print(
        f"{protocol}: {len(seeds)} schedules from seed {seeds[0]}, {len(failed)} failed {failed or ''};"
        f" {seconds:.0f} s of group life in {used:.1f} s of CPU, {len(seeds) / used:.1f} schedules/s;"
        f" {commits} commits;{waits} longest without owner {free:.1f} s, longest until settled {recovery:.1f} s"
    )
    print(f"  callbacks: {counts(callbacks)}\n  faults: {counts(faults)}", flush=True)
    return len(failed)


def counts(counter: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counter.items()))


if __name__ == "__main__":
    sys.exit(main())
