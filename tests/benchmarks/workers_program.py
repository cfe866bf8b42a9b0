"""The program that :mod:`tests.benchmarks.workers` runs for each way. Worker processes import it again."""

from __future__ import annotations

import json
import sys

from tests.benchmarks.workers import measure

if __name__ == "__main__":
    print(json.dumps(measure(json.loads(sys.argv[1]))))
