"""Protobuf: files of message types, as text, as descriptors, and as classes. No registry, no record of Kafka."""
