"""Costs of one ``KafkaConsumer.poll()`` when records are buffered. Run as a child process by the benchmarks.

``poll(max_records=1)`` and ``poll(max_records=500)`` are timed by turns, only while both are served from the buffer.
The difference of their medians is 499 records, so the price of the call itself follows.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from typing import Any

_SKIPPED = 20  # polls at the start, while the pipeline fills


def main(arguments: dict[str, Any]) -> dict[str, Any]:
    from pyconsumer import KafkaConsumer, TopicPartition

    topic, partitions, records = arguments["topic"], arguments["partitions"], arguments["records"]
    one: list[float] = []
    many: list[float] = []
    left = records
    with KafkaConsumer(bootstrap_servers=arguments["servers"], auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, number) for number in range(partitions)])
        poll, clock = consumer.poll, time.perf_counter
        while left > 0:
            for size, times in ((1, one), (500, many)):
                start = clock()
                found = poll(timeout_ms=10_000, max_records=size)
                taken = clock() - start
                count = found.count()
                if not count:
                    raise TimeoutError(f"no record within 10 s, {left} are left")
                left -= count
                if count == size:
                    times.append(taken)
                found.clear()  # not while the next poll is timed
    small, large = statistics.median(one[_SKIPPED:]), statistics.median(many[_SKIPPED:])
    record = (large - small) / 499
    return {
        "polls": len(one) + len(many),
        "poll_1_us": small * 1e6,
        "poll_500_us": large * 1e6,
        "record_us": record * 1e6,
        "call_us": (small - record) * 1e6,
    }


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
