"""Make a topic, describe it, delete it."""

from pyconsumer import KafkaAdminClient
from pyconsumer.admin import NewTopic

admin = KafkaAdminClient({"bootstrap.servers": "localhost:9092"})
outcome = admin.create_topics([NewTopic("demo-events", num_partitions=3, replication_factor=1)], raise_errors=False)
for topic, error in outcome.items():
    print(topic, error or "created")
(described,) = admin.describe_topics(["demo-events"])
print([partition.partition for partition in described.partitions])
for topic in admin.delete_topics(["demo-events"]):
    print(topic, "deleted")
admin.close()
