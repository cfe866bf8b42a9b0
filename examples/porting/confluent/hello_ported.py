"""Send three messages, then read them."""

from pyconsumer import KafkaConsumer, KafkaProducer


def delivered(metadata):
    print("delivered", metadata.offset)


producer = KafkaProducer({"bootstrap.servers": "localhost:9092"})
for word in ("first", "second", "third"):
    producer.send("demo-hello", word.encode("utf-8")).add_both(delivered)
producer.flush()
producer.close()

consumer = KafkaConsumer(
    {"bootstrap.servers": "localhost:9092", "group.id": "demo-readers", "auto.offset.reset": "earliest"}
)
consumer.subscribe(["demo-hello"])
seen = 0
while seen < 3:
    message = next(consumer)
    print(message.value.decode("utf-8"))
    seen += 1
consumer.close()
