"""Partitions by hand: the ends of a log, a seek, an offset by time."""

from confluent_kafka import Consumer, Producer, TopicPartition

producer = Producer({"bootstrap.servers": "localhost:9092"})
for number in range(10):
    producer.produce("demo-readings", b"%d" % number, partition=0, timestamp=1_700_000_000_000 + 1000 * number)
producer.flush()

consumer = Consumer({"bootstrap.servers": "localhost:9092", "group.id": "demo-none", "enable.auto.commit": False})
partition = TopicPartition("demo-readings", 0)
print(consumer.get_watermark_offsets(partition))
consumer.assign([TopicPartition("demo-readings", 0, 8)])
print([message.value() for message in consumer.consume(num_messages=2, timeout=10)])
(found,) = consumer.offsets_for_times([TopicPartition("demo-readings", 0, 1_700_000_000_000 + 4500)])
consumer.seek(found)
print("at", found.offset, consumer.poll(10).value())
consumer.close()
