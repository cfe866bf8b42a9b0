"""Runs the tests marked ``concurrent`` many times in a row and stops at the first failure.

``python -m tests.support.repeat [--times 20] [--beside 1] [--log FILE] [pytest's arguments]``

With ``--beside 2`` two runs are active at any time, each by itself: the tests then also have to bear a busy machine.
"""

from __future__ import annotations

import argparse
import itertools
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

__all__ = ["main"]

_MOST_SECONDS = 240.0  # all of them together; more would keep people from repeating them


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.support.repeat", description=__doc__)
    parser.add_argument("--times", type=int, default=20, help="how often (20)")
    parser.add_argument("--beside", type=int, default=1, help="how many runs at a time (1)")
    parser.add_argument("--log", type=Path, help="append one line for each run to this file")
    chosen, others = parser.parse_known_args(arguments)
    command = [sys.executable, "-m", "pytest", "-q", "-m", "concurrent", "-p", "no:cacheprovider", *others]
    numbers = itertools.count(1)
    one_at_a_time = threading.Lock()  # who says something
    failed = threading.Event()
    slowest = 0.0

    def runs() -> None:
        nonlocal slowest
        while not failed.is_set():
            with one_at_a_time:
                number = next(numbers)
            if number > chosen.times:
                return
            start = time.monotonic()
            finished = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
            seconds = time.monotonic() - start
            line = f"run {number} of {chosen.times}: {finished.stdout.rstrip().rpartition(chr(10))[2]}"
            with one_at_a_time:
                slowest = max(slowest, seconds)
                print(line, flush=True)
                if chosen.log:
                    with chosen.log.open("a", encoding="utf-8") as log:
                        log.write(line + "\n")
                if finished.returncode != 0:
                    print(finished.stdout, flush=True)
                    failed.set()

    with ThreadPoolExecutor(chosen.beside) as pool:
        for done in [pool.submit(runs) for _ in range(chosen.beside)]:
            done.result()
    if failed.is_set():
        return 1
    if chosen.beside == 1 and slowest > _MOST_SECONDS:
        print(f"the slowest run took {slowest:.0f} s; {_MOST_SECONDS:.0f} s are the bound")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
