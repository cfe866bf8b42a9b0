"""JSON in and out, in a consumer group that commits by hand."""

import json

from pyconsumer.compat.kafka import KafkaConsumer, KafkaProducer
from pyconsumer.compat.kafka.errors import KafkaError
from pyconsumer.compat.kafka.structs import OffsetAndMetadata, TopicPartition

producer = KafkaProducer(
    bootstrap_servers=["localhost:9092"],
    key_serializer=str.encode,
    value_serializer=lambda value: json.dumps(value).encode("utf-8"),
    acks="all",
    retries=5,
)


def sent(metadata):
    print("sent", metadata.partition, metadata.offset)


for number in range(3):
    future = producer.send("demo-orders", key="customer", value={"order": number})
    future.add_callback(sent)
    try:
        future.get(timeout=10)
    except KafkaError as error:
        print("not sent", error)
producer.close(timeout=10)

consumer = KafkaConsumer(
    bootstrap_servers=["localhost:9092"],
    group_id="demo-billing",
    enable_auto_commit=False,
    auto_offset_reset="earliest",
    value_deserializer=lambda data: json.loads(data.decode("utf-8")),
)
consumer.subscribe(["demo-orders"])
seen = 0
while seen < 3:
    for partition, messages in consumer.poll(timeout_ms=1000, max_records=10).items():
        for message in messages:
            print(message.key, message.value)
            seen += 1
        consumer.commit({partition: OffsetAndMetadata(messages[-1].offset + 1, "", -1)})
print("committed", consumer.committed(TopicPartition("demo-orders", 0)))
consumer.close()
