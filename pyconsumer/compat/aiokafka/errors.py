"""``aiokafka.errors``: the error classes of aiokafka 0.14.0, made from :mod:`pyconsumer.compat.error_table`.

The clients of this layer raise errors of this module that are errors of :mod:`pyconsumer.errors`: ``except`` of either
catches it. ``ConsumerStoppedError`` and ``IllegalOperation`` are no ``KafkaError`` of this module, as in aiokafka.
Names of ours that aiokafka does not have can be imported from here, too.
"""

from __future__ import annotations

from typing import Any, Final

from pyconsumer import errors as _ours
from pyconsumer.compat.error_classes import make_classes as _make_classes
from pyconsumer.compat.error_table import AIOKAFKA as _TABLE

_LOST: Final = (
    "The offsets were not committed: the group has rebalanced, and another member owns the partitions. Calls that read"
    " were further apart than max_poll_interval_ms. Raise it, or read fewer records at a time with max_poll_records."
)
_FENCED: Final = (
    "Another producer uses the same transactional_id, or the transaction took longer than transaction_timeout_ms"
)


def _init_commit_failed(self: Any, *args: Any) -> None:
    self.args = (_LOST, *args)


def _init_fenced(self: Any, msg: str = _FENCED) -> None:
    self.args = (msg,)


_classes: Final = _make_classes(
    _TABLE,
    __name__,
    {
        "CommitFailedError": {"__init__": _init_commit_failed},
        "ProducerFenced": {"__init__": _init_fenced},
        "BrokerResponseError": {"description": ""},
    },
)
globals().update(_classes)

#: The class of each error code.
kafka_errors: Final[dict[int, type[Any]]] = {
    cls.errno: cls
    for cls in _classes.values()
    if issubclass(cls, _classes["BrokerResponseError"]) and hasattr(cls, "errno")
}

__all__ = [*_classes, "for_code", "kafka_errors"]


def for_code(error_code: int) -> type[Any]:
    """Return the error class for a code. It is ``NoError`` for 0, and ``UnknownError`` for an unknown code."""
    return kafka_errors.get(error_code, _classes["UnknownError"])


def __getattr__(name: str) -> Any:
    try:
        return getattr(_ours, name)
    except AttributeError:
        raise AttributeError(f"module {__name__!r} has no error {name!r}") from None


def __dir__() -> list[str]:
    return sorted({*globals(), *dir(_ours)})
