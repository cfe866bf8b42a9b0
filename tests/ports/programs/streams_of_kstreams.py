"""A stream of kstreams on aiokafka: ``streams_of_kstreams.py ADDRESS SCENE PREFIX``.

kstreams compares the annotations of a handler with its classes, so they may not be texts.
"""

import asyncio
import json
import logging
import sys
from typing import Any

from kstreams import BatchEvent, ConsumerRecord, Stream, TopicPartition, create_engine
from kstreams.backends.kafka import Kafka

_, address, wanted, prefix = sys.argv
logging.disable(logging.WARNING)
TOPIC = f"{prefix}-in"


def show(name: str, value: Any) -> None:
    print(json.dumps([wanted, name, value]), flush=True)


async def program() -> None:
    engine = create_engine(title="program", backend=Kafka(bootstrap_servers=[address]))
    seen: list[Any] = []
    complete = asyncio.Event()

    @engine.stream(TOPIC, group_id=f"{prefix}-g", auto_offset_reset="earliest", enable_auto_commit=False)
    async def handle(record: ConsumerRecord, stream: Stream) -> None:
        names = [[name, value.decode()] for name, value in record.headers]
        seen.append([record.value.decode(), record.key, record.offset, names])
        await stream.commit({TopicPartition(record.topic, record.partition): record.offset + 1})
        if len(seen) == 5:
            complete.set()

    await engine.start()
    for n in range(3):
        sent = await engine.send(TOPIC, value=b"one by one %d" % n, key="k", headers={"a": "b"})
        show("sent", [sent.partition, sent.offset])
    events = [BatchEvent(value=b"in a batch", key="k"), BatchEvent(value=b"in a batch, too", key="k")]
    found = await engine.send_many(TOPIC, batch_events=events)
    show("batches", [[each.partition, each.offset] for each in found])
    await asyncio.wait_for(complete.wait(), 120)
    show("committed", await handle.consumer.committed(TopicPartition(TOPIC, 0)))
    await engine.stop()
    show("seen", seen)


asyncio.run(program())
print(json.dumps([wanted, "done"]), flush=True)
