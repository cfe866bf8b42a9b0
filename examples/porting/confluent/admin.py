"""Make a topic, describe it, delete it."""

from confluent_kafka.admin import AdminClient, NewTopic

admin = AdminClient({"bootstrap.servers": "localhost:9092"})
futures = admin.create_topics([NewTopic("demo-events", num_partitions=3, replication_factor=1)])
for topic, future in futures.items():
    try:
        future.result()
        print(topic, "created")
    except Exception as error:
        print(topic, error)
metadata = admin.list_topics(timeout=10)
print(sorted(metadata.topics["demo-events"].partitions))
for topic, future in admin.delete_topics(["demo-events"], operation_timeout=30).items():
    future.result()
    print(topic, "deleted")
