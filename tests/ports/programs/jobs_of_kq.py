"""A job queue of kq: ``jobs_of_kq.py ADDRESS SCENE PREFIX``."""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

import kafka
from kafka import KafkaConsumer, KafkaProducer
from kq import Job, Queue, Worker

_, address, wanted, prefix = sys.argv
logging.disable(logging.CRITICAL)
seen: list[Any] = []


def show(name: str, value: Any) -> None:
    print(json.dumps([wanted, name, value]), flush=True)


def note(status: str, message: Any, job: Job | None, result: Any, error: Exception | None, trace: str | None) -> None:
    seen.append([status, message.topic == prefix, message.partition, message.offset, result, repr(error)])


def divide(a: int, b: int) -> float:
    return a / b


producer = KafkaProducer(bootstrap_servers=address)
queue = Queue(topic=prefix, producer=producer)
show("queue", repr(queue).replace(address, "ADDRESS").replace(prefix, "TOPIC"))
queue.enqueue(divide, 6, 3)
queue.enqueue(divide, 1, 0)
queue.using(timeout=5, partition=0).enqueue(divide, 9, 3)
producer.send(prefix, b"no job")
producer.flush()

consumer = KafkaConsumer(bootstrap_servers=address, group_id=f"{prefix}-g", auto_offset_reset="earliest")
worker = Worker(topic=prefix, consumer=consumer, callback=note)
show("worker", repr(worker).replace(address, "ADDRESS").replace(prefix, "TOPIC"))
show("done", worker.start(max_messages=4))
show("seen", seen)
found = consumer.committed(kafka.TopicPartition(prefix, 0))
show("committed", found)
consumer.close()
producer.close()
print(json.dumps([wanted, "done"]), flush=True)
