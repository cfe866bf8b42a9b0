"""Interceptors (KIP-42): they see records before these are returned, and successful commits."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from pyconsumer.consumer.records import ConsumerRecords
from pyconsumer.structs import OffsetAndMetadata, TopicPartition

__all__ = ["Interceptors"]

_log = logging.getLogger("pyconsumer.consumer")


class Interceptors:
    """Calls each interceptor in the configured order.

    If an interceptor raises, the exception is logged and not raised. The next interceptor gets the result of the
    previous one.

    Args:
        interceptors: objects with ``on_consume(records) -> records``, ``on_commit(offsets)`` and ``close()``. Each of
            these methods may be missing. A class is instantiated.

    Attributes:
        consumes: True if an interceptor has ``on_consume``.
    """

    def __init__(self, interceptors: Sequence[Any] = ()) -> None:
        self._interceptors = [i() if isinstance(i, type) else i for i in interceptors]
        self._consume = [i.on_consume for i in self._interceptors if hasattr(i, "on_consume")]
        self._commit = [i.on_commit for i in self._interceptors if hasattr(i, "on_commit")]
        self.consumes = bool(self._consume)

    def on_consume(self, records: ConsumerRecords[Any, Any]) -> ConsumerRecords[Any, Any]:
        """Pass records through all interceptors, and return the result of the last one."""
        for hook in self._consume:
            try:
                changed = hook(records)
                if changed is not None:
                    records = changed if isinstance(changed, ConsumerRecords) else ConsumerRecords(changed)
            except Exception:
                _log.exception("an interceptor's on_consume failed, so its records are passed on unchanged")
        return records

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Pass the offsets of a commit that the broker has confirmed to all interceptors."""
        for hook in self._commit:
            try:
                hook(dict(offsets))
            except Exception:
                _log.exception("an interceptor's on_commit failed")

    def close(self) -> None:
        """Close all interceptors."""
        for interceptor in self._interceptors:
            close = getattr(interceptor, "close", None)
            if close is None:
                continue
            try:
                close()
            except Exception:
                _log.exception("an interceptor's close failed")
