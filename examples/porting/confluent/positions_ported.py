"""Partitions by hand: the ends of a log, a seek, an offset by time."""

from pyconsumer import KafkaConsumer, KafkaProducer, TopicPartition

producer = KafkaProducer({"bootstrap.servers": "localhost:9092"})
for number in range(10):
    producer.send("demo-readings", b"%d" % number, partition=0, timestamp_ms=1_700_000_000_000 + 1000 * number)
producer.close()

consumer = KafkaConsumer({"bootstrap.servers": "localhost:9092", "group.id": "demo-none", "enable.auto.commit": False})
partition = TopicPartition("demo-readings", 0)
print((consumer.beginning_offsets([partition])[partition], consumer.end_offsets([partition])[partition]))
consumer.assign([partition])
consumer.seek(partition, 8)
print([next(consumer).value for _ in range(2)])
found = consumer.offsets_for_times({partition: 1_700_000_000_000 + 4500})[partition]
consumer.seek(partition, found.offset)
print("at", found.offset, next(consumer).value)
consumer.close()
