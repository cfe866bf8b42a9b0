"""A member of ``pyconsumer.compat.aiokafka`` with slow handlers, which a test kills at any moment.

``python -m tests.support.aiokafka_member SETTINGS TOPIC COMMITS SEED`` prints a JSON list for each step, before the
next one begins: ``["ready"]``, ``["begin", partition, [offsets]]``, ``["done", partition, [offsets]]`` when it has
worked on these records, ``["committed", partition, offset]``, and ``["assigned", generation, [partitions]]`` when
the group has assigned all of these partitions. ``COMMITS`` is ``auto`` or ``manual``.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
from typing import Any

from pyconsumer.compat.aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from pyconsumer.errors import CommitFailedError, IllegalStateError, RebalanceInProgressError

LONGEST_WORK_S = 0.4


def tell(*step: object) -> None:
    """Print a step at once."""
    os.write(1, json.dumps(step).encode() + b"\n")


class Listener(ConsumerRebalanceListener):
    """Tells of each assignment."""

    def __init__(self, consumer: AIOKafkaConsumer) -> None:
        self._consumer = consumer

    def on_partitions_revoked(self, revoked: object) -> None:
        """Do nothing."""

    def on_partitions_assigned(self, assigned: object) -> None:
        partitions = sorted(tp.partition for tp in self._consumer.assignment())
        tell("assigned", self._consumer._coordinator.generation, partitions)


async def work(consumer: AIOKafkaConsumer, records: dict[TopicPartition, list[Any]], *, manual: bool) -> None:
    """Work on records that were read together, slowly."""
    offsets = {tp: [record.offset for record in some] for tp, some in records.items()}
    for tp, some in offsets.items():
        tell("begin", tp.partition, some)
    await asyncio.sleep(random.uniform(0.0, LONGEST_WORK_S))
    for tp, some in offsets.items():
        tell("done", tp.partition, some)
    if not manual:
        return
    for tp, some in offsets.items():
        try:
            await consumer.commit({tp: some[-1] + 1})
        except (CommitFailedError, RebalanceInProgressError, IllegalStateError):
            continue  # it has another owner
        tell("committed", tp.partition, some[-1] + 1)


async def main() -> None:
    settings, topic, commits, seed = json.loads(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4]
    random.seed(seed)
    consumer = AIOKafkaConsumer(enable_auto_commit=commits == "auto", auto_commit_interval_ms=200, **settings)
    consumer.subscribe([topic], listener=Listener(consumer))
    await consumer.start()
    tell("ready")
    while True:
        if random.random() < 0.5:
            record = await consumer.getone()
            found = {TopicPartition(topic, record.partition): [record]}
        else:
            found = await consumer.getmany(timeout_ms=200, max_records=20)
        await work(consumer, found, manual=commits == "manual")


if __name__ == "__main__":
    asyncio.run(main())
