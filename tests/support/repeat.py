"""Runs the tests marked ``concurrent`` many times in a row and stops at the first failure.

``python -m tests.support.repeat [--times 20] [--log FILE] [pytest's arguments]``
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

__all__ = ["main"]

_MOST_SECONDS = 240.0  # all of them together; more would keep people from repeating them


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.support.repeat", description=__doc__)
    parser.add_argument("--times", type=int, default=20, help="how often (20)")
    parser.add_argument("--log", type=Path, help="append one line for each run to this file")
    chosen, others = parser.parse_known_args(arguments)
    command = [sys.executable, "-m", "pytest", "-q", "-m", "concurrent", "-p", "no:cacheprovider", *others]
    slowest = 0.0
    for number in range(1, chosen.times + 1):
        start = time.monotonic()
        finished = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        seconds = time.monotonic() - start
        slowest = max(slowest, seconds)
        summary = finished.stdout.rstrip().rpartition("\n")[2]
        line = f"run {number} of {chosen.times}: {summary}"
        print(line, flush=True)
        if chosen.log:
            with chosen.log.open("a", encoding="utf-8") as log:
                log.write(line + "\n")
        if finished.returncode != 0:
            print(finished.stdout)
            return finished.returncode
    if slowest > _MOST_SECONDS:
        print(f"the slowest run took {slowest:.0f} s; {_MOST_SECONDS:.0f} s are the bound")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
