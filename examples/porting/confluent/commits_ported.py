"""Commit each message when it has been processed."""

from pyconsumer import KafkaConsumer, KafkaProducer, TopicPartition

producer = KafkaProducer({"bootstrap.servers": "localhost:9092"})
for number in range(3):
    producer.send("demo-orders", key="customer", value=f"order {number}")
producer.close()

consumer = KafkaConsumer(
    {
        "bootstrap.servers": "localhost:9092",
        "group.id": "demo-billing",
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
    }
)
consumer.subscribe(["demo-orders"])
seen = 0
while seen < 3:
    message = next(consumer)
    print(message.key, message.value)
    consumer.commit()
    seen += 1
found = consumer.committed(TopicPartition("demo-orders", 0))
print("committed", found)
consumer.close()
