"""``aiokafka.producer.message_accumulator``: the name that kstreams and FastKafka have in annotations."""

from __future__ import annotations

from pyconsumer.compat.aiokafka.batch import BatchBuilder

__all__ = ["BatchBuilder"]
