"""Records that cannot be read go to a topic for dead letters, with the reason, and the others are processed.

Run it as it stands (it starts an embedded broker), or with ``-b HOST:PORT`` on a cluster.
"""

import argparse
import json
from contextlib import ExitStack
from itertools import islice

from pyconsumer import KafkaConsumer, KafkaProducer
from pyconsumer.admin import KafkaAdminClient, NewTopic
from pyconsumer.broker import EmbeddedCluster
from pyconsumer.errors import RecordDeserializationError

TOPIC, DEAD = "readings-json", "readings-json-dead"


class DeadLetters:
    """A sink for ``on_record_error``: sends the record as it came, and its place and the fault in headers."""

    def __init__(self, producer: KafkaProducer, topic: str) -> None:
        self.producer = producer
        self.topic = topic

    def send(self, error: RecordDeserializationError) -> None:
        headers = [
            *error.headers,
            ("dead-letter.source", f"{error.topic_partition}@{error.offset}".encode()),
            ("dead-letter.error", str(error.__cause__).encode()),
        ]
        # Wait for it: the consumer skips the record when this returns. An exception comes out of the consumer's call,
        # and the record is read again.
        self.producer.send(self.topic, error.value, key=error.key, headers=headers).get(timeout=30)


def main(servers: str) -> None:
    with KafkaAdminClient(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(TOPIC, 1), NewTopic(DEAD, 1)])
    with KafkaProducer(bootstrap_servers=servers) as producer:
        for text in ('{"celsius": 20}', '{"celsius": 21', '{"celsius": 22}', "off", '{"celsius": 24}'):
            producer.send(TOPIC, text)
        producer.flush()

        options = {"bootstrap_servers": servers, "auto_offset_reset": "earliest"}
        with KafkaConsumer(
            TOPIC,
            group_id="thermometer",
            value_deserializer=json.loads,
            on_record_error=DeadLetters(producer, DEAD),
            **options,
        ) as consumer:
            print("read", [record.value["celsius"] for record in islice(consumer, 3)])

        with KafkaConsumer(DEAD, group_id="repair", **options) as consumer:
            for record in islice(consumer, 2):
                reasons = {name: (value or b"").decode() for name, value in record.headers}
                print(f"{record.value} of {reasons['dead-letter.source']}: {reasons['dead-letter.error']}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-b", "--bootstrap-servers", help="a cluster that is there already")
    address = parser.parse_args().bootstrap_servers
    with ExitStack() as stack:
        at_once = {"group.initial.rebalance.delay.ms": 0}  # Kafka's default waits 3 s for more members
        main(address or stack.enter_context(EmbeddedCluster(config=at_once)).bootstrap_servers)
