"""``kafka.net.sasl``: only :mod:`pyconsumer.compat.kafka.net.sasl.oauth`."""
