"""Read, write and commit the position, all in one transaction."""

from confluent_kafka import Consumer, Producer

producer = Producer({"bootstrap.servers": "localhost:9092"})
for number in range(3):
    producer.produce("demo-in", b"%d" % number, partition=0)
producer.flush()

consumer = Consumer(
    {
        "bootstrap.servers": "localhost:9092",
        "group.id": "demo-copiers",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
)
consumer.subscribe(["demo-in"])
producer = Producer({"bootstrap.servers": "localhost:9092", "transactional.id": "demo-copy"})
producer.init_transactions()
copied = 0
while copied < 3:
    message = consumer.poll(1.0)
    if message is None:
        continue
    producer.begin_transaction()
    producer.produce("demo-out", message.value() * 2)
    producer.send_offsets_to_transaction(consumer.position(consumer.assignment()), consumer.consumer_group_metadata())
    producer.commit_transaction()
    copied += 1
print("copied", copied)
consumer.close()
