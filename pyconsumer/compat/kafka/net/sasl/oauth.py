"""``kafka.net.sasl.oauth``: the same as in :mod:`pyconsumer.compat.kafka.sasl.oauth`."""

from __future__ import annotations

from pyconsumer.compat.kafka.sasl.oauth import AbstractTokenProvider

__all__ = ["AbstractTokenProvider"]
