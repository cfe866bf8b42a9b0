"""``kafka.protocol``: only the values of assignors, in :mod:`pyconsumer.compat.kafka.protocol.consumer.metadata`."""
