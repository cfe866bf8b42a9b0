"""Interceptors of a producer: they see each record before it is sent, and its outcome."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyconsumer.background_log import Log
from pyconsumer.errors import KafkaError
from pyconsumer.structs import RecordMetadata, TopicPartition

__all__ = ["ProducerInterceptors"]

_log = Log("pyconsumer.producer")


class ProducerInterceptors:
    """Calls the interceptors in their configured order. If one raises, the exception is logged.

    Args:
        interceptors: the setting ``interceptors``. Each object has any of the methods.
    """

    def __init__(self, interceptors: Sequence[Any]) -> None:
        self._interceptors = interceptors

    def on_send(self, *record: Any) -> Any:
        """Return the record as the interceptors have changed it. This runs in the thread that calls ``send``."""
        for interceptor in self._interceptors:
            on_send = getattr(interceptor, "on_send", None)
            if on_send is None:
                continue
            try:
                changed = on_send(*record)
            except Exception:
                _log.exception("on_send of interceptor %r raised, and the record is sent unchanged", interceptor)
                continue
            if changed is not None:
                record = tuple(changed)
        return record

    def on_acknowledgement(self, tp: TopicPartition, outcome: RecordMetadata | KafkaError) -> None:
        """Report the outcome of a record to the interceptors. This runs in the producer's own thread."""
        failed = isinstance(outcome, KafkaError)
        metadata = RecordMetadata(tp.topic, tp.partition, -1, -1) if failed else outcome
        for interceptor in self._interceptors:
            on_acknowledgement = getattr(interceptor, "on_acknowledgement", None)
            if on_acknowledgement is None:
                continue
            try:
                on_acknowledgement(metadata, outcome if failed else None)
            except Exception:
                _log.exception("on_acknowledgement of interceptor %r raised", interceptor)
