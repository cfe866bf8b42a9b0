"""The seeds of a run's random schedules."""

from __future__ import annotations

import os
import random

SCHEDULES = 20

#: Schedules of each protocol.
COUNT = int(os.environ.get("PYCONSUMER_SIM_SEEDS") or SCHEDULES)
#: Of members that are driven between their reads, whose rebalances are counted.
COUNT_APART = int(os.environ.get("PYCONSUMER_SIM_SEEDS") or 2 * SCHEDULES)
_FIRST = os.environ.get("PYCONSUMER_SIM_FIRST") or "1"
FIRST = random.SystemRandom().randrange(10**6) * 100_000 if _FIRST == "random" else int(_FIRST)
