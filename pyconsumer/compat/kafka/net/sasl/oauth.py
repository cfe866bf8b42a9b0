"""``kafka.net.sasl.oauth``: the base class of ``compat/kafka/sasl/oauth``, under the same name."""

from __future__ import annotations

from pyconsumer.compat.kafka.sasl.oauth import AbstractTokenProvider

__all__ = ["AbstractTokenProvider"]
