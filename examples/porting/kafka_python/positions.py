"""Partitions by hand: the ends of a log, a seek, an offset by time."""

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

producer = KafkaProducer(bootstrap_servers="localhost:9092")
for number in range(10):
    producer.send("demo-readings", b"%d" % number, partition=0, timestamp_ms=1_700_000_000_000 + 1000 * number)
producer.flush(timeout=10)
producer.close()

partition = TopicPartition("demo-readings", 0)
consumer = KafkaConsumer(bootstrap_servers="localhost:9092", consumer_timeout_ms=2000)
consumer.assign([partition])
print(consumer.beginning_offsets([partition])[partition], consumer.end_offsets([partition])[partition])
consumer.seek(partition, 8)
print([message.value for message in consumer])
found = consumer.offsets_for_times({partition: 1_700_000_000_000 + 4500})[partition]
consumer.seek(partition, found.offset)
print("at", consumer.position(partition), next(consumer).value)
consumer.seek_to_end(partition)
print("end", consumer.position(partition))
consumer.close()
