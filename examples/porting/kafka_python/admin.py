"""Make a topic, change it, describe it, delete it."""

from kafka import KafkaAdminClient
from kafka.admin import ConfigResource, ConfigResourceType, NewPartitions, NewTopic
from kafka.errors import TopicAlreadyExistsError

admin = KafkaAdminClient(bootstrap_servers="localhost:9092", client_id="demo")
topic = NewTopic("demo-events", num_partitions=2, replication_factor=1, topic_configs={"retention.ms": "86400000"})
admin.create_topics(new_topics=[topic], validate_only=False)
try:
    admin.create_topics([topic])
except TopicAlreadyExistsError:
    print("it is there")
admin.create_partitions({"demo-events": NewPartitions(total_count=3)})
print("demo-events" in admin.list_topics())
described = admin.describe_topics(["demo-events"])[0]
print(described["name"], [partition["partition_index"] for partition in described["partitions"]])
resource = ConfigResource(ConfigResourceType.TOPIC, "demo-events", {"retention.ms": "3600000"})
admin.alter_configs([resource])
configs = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, "demo-events")])
print(configs["topic"]["demo-events"]["retention.ms"]["value"])
print(len(admin.describe_cluster()["brokers"]) > 0)
admin.delete_topics(["demo-events"])
print("demo-events" in admin.list_topics())
admin.close()
