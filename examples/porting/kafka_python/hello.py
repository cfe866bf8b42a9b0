"""Send three messages, then read them."""

from kafka import KafkaConsumer, KafkaProducer

producer = KafkaProducer(bootstrap_servers="localhost:9092")
for word in (b"first", b"second", b"third"):
    producer.send("demo-hello", word)
producer.flush()
producer.close()

consumer = KafkaConsumer(
    "demo-hello",
    bootstrap_servers="localhost:9092",
    auto_offset_reset="earliest",
    consumer_timeout_ms=2000,
)
for message in consumer:
    print(message.topic, message.partition, message.offset, message.key, message.value)
consumer.close()
