"""Two messages together or not at all."""

from pyconsumer.compat.kafka import KafkaConsumer, KafkaProducer

producer = KafkaProducer(bootstrap_servers="localhost:9092", transactional_id="demo-transfer")
producer.init_transactions()
producer.begin_transaction()
producer.send("demo-accounts", b"-10")
producer.send("demo-accounts", b"lost")
producer.abort_transaction()
producer.begin_transaction()
producer.send("demo-accounts", b"-10")
producer.send("demo-accounts", b"+10")
producer.commit_transaction()
producer.close()

consumer = KafkaConsumer(
    "demo-accounts",
    bootstrap_servers="localhost:9092",
    auto_offset_reset="earliest",
    isolation_level="read_committed",
    consumer_timeout_ms=2000,
)
print([message.value for message in consumer])
consumer.close()
