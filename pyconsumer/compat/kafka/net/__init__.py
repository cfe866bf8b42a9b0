"""``kafka.net``: only :mod:`pyconsumer.compat.kafka.net.sasl.oauth`."""
