"""``replay``: a function for workers that sends dead letters back to the topics that they came from.

The workers send the record that it returns, and commit a letter after the acknowledgement. So no letter is lost, and a
crash may send some again. With ``exactly_once`` it sends none again.
"""

from __future__ import annotations

from typing import Any

from pyconsumer.protocol.records import ConsumerRecord
from pyconsumer.workers.dead_letters import HEADERS
from pyconsumer.workers.results import ProducerRecord

__all__ = ["replay"]


def replay(letter: ConsumerRecord[Any, Any]) -> ProducerRecord:
    """Return the record of a dead letter, for its topic. It is a function for workers.

    Args:
        letter: a record of a topic for dead letters, without deserializers.

    Returns:
        Key, value and timestamp of the letter's record, and its own headers. The producer chooses the partition.

    Raises:
        ValueError: it has no header ``dead-letter.topic``, so it is no dead letter.

    Example::

        with KafkaConsumer("orders.dead", group_id="repair", enable_auto_commit=False, ...) as consumer:
            Workers(consumer, replay, producer=producer).run(until_caught_up=True)
    """
    headers = {name: value for name, value in letter.headers if name in HEADERS}
    topic, timestamp = (headers.get(f"dead-letter.{name}") for name in ("topic", "timestamp"))
    if not topic:
        raise ValueError(f"{letter.topic_partition} offset {letter.offset} is no dead letter: it names no topic")
    since_1970 = int(timestamp) if timestamp else -1
    return ProducerRecord(
        topic.decode(),
        letter.value,
        letter.key,
        [(name, value) for name, value in letter.headers if name not in HEADERS],
        timestamp_ms=since_1970 if since_1970 >= 0 else None,
    )
