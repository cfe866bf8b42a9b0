"""Send three messages, then read them."""

from confluent_kafka import Consumer, Producer


def delivered(error, message):
    print("failed" if error else "delivered", message.offset())


producer = Producer({"bootstrap.servers": "localhost:9092"})
for word in ("first", "second", "third"):
    producer.poll(0)
    producer.produce("demo-hello", word.encode("utf-8"), callback=delivered)
producer.flush()

consumer = Consumer(
    {"bootstrap.servers": "localhost:9092", "group.id": "demo-readers", "auto.offset.reset": "earliest"}
)
consumer.subscribe(["demo-hello"])
seen = 0
while seen < 3:
    message = consumer.poll(1.0)
    if message is None:
        continue
    if message.error():
        print(message.error())
        continue
    print(message.value().decode("utf-8"))
    seen += 1
consumer.close()
