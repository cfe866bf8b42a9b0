"""Read, write and commit the position, all in one transaction."""

from pyconsumer import KafkaConsumer, KafkaProducer

producer = KafkaProducer({"bootstrap.servers": "localhost:9092"})
for number in range(3):
    producer.send("demo-in", b"%d" % number, partition=0)
producer.close()

consumer = KafkaConsumer(
    {
        "bootstrap.servers": "localhost:9092",
        "group.id": "demo-copiers",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
)
consumer.subscribe(["demo-in"])
producer = KafkaProducer({"bootstrap.servers": "localhost:9092", "transactional.id": "demo-copy"})
producer.init_transactions()
copied = 0
while copied < 3:
    message = next(consumer)
    producer.begin_transaction()
    producer.send("demo-out", message.value * 2)
    producer.send_offsets_to_transaction({message.topic_partition: message.offset + 1}, consumer.group_metadata())
    producer.commit_transaction()
    copied += 1
print("copied", copied)
producer.close()
consumer.close()
