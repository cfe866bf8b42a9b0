"""``kafka.sasl``: the base class of token providers."""
