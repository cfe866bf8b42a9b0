"""The program that :mod:`tests.benchmarks.schemas` runs for each way."""

from __future__ import annotations

import json
import sys

from tests.benchmarks.schemas import measure

if __name__ == "__main__":
    print(json.dumps(measure(json.loads(sys.argv[1]))))
