"""``kafka.protocol.consumer``: the values of assignors."""
