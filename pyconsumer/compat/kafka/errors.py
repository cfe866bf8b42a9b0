"""``kafka.errors``: the error classes of kafka-python 3.0.12, made from :mod:`pyconsumer.compat.error_table`.

The clients of this layer raise errors of this module that are errors of :mod:`pyconsumer.errors`: ``except`` of either
catches it. Names of ours that kafka-python does not have can be imported from here, too. A few errors never occur. They
exist so that programs that name them still run.
"""

from __future__ import annotations

from typing import Any, Final

from pyconsumer import errors as _ours
from pyconsumer.compat.error_classes import make_classes as _make_classes
from pyconsumer.compat.error_table import KAFKA as _TABLE

_LOST: Final = "The offsets were not committed: the group has rebalanced, and another member owns the partitions."


def _same(self: Any, other: Any) -> bool:
    return bool(self.__class__ == other.__class__ and self.args == other.args)


def _hash(self: Any) -> int:
    return hash((type(self), len(self.args)))  # the arguments may be of any type


def _init_commit_failed(self: Any, *args: Any) -> None:
    Exception.__init__(self, *(args or (_LOST,)))
    self.args = args or (_LOST,)


def _init_log_truncation(self: Any, divergent_offsets: Any, *args: Any) -> None:
    self.divergent_offsets = divergent_offsets
    self.args = args or (f"These partitions were truncated: {divergent_offsets}",)


_classes: Final = _make_classes(
    _TABLE,
    __name__,
    {
        "KafkaError": {"__eq__": _same, "__hash__": _hash},
        "CommitFailedError": {"__init__": _init_commit_failed},
        "LogTruncationError": {"__init__": _init_log_truncation},
        "TransactionAbortedError": {"message": "The batch was not sent: its transaction was aborted"},
        "BrokerResponseError": {"errno": None, "message": None, "description": None},
    },
)
globals().update(_classes)

#: The class of each error code.
kafka_errors: Final[dict[int | None, type[Any]]] = {
    cls.errno: cls
    for _, cls in sorted(_classes.items())
    if issubclass(cls, _classes["BrokerResponseError"]) and cls is not _classes["BrokerResponseError"]
}

__all__ = [*_classes, "for_code", "kafka_errors"]


def for_code(error_code: int) -> type[Any]:
    """Return the error class for a code.

    It is ``NoError`` for 0, and a subclass of ``UnknownError`` for an unknown code.
    """
    found = kafka_errors.get(error_code)
    if found is None:
        found = type("UnrecognizedBrokerError", (_classes["UnknownError"],), {"errno": error_code})
    return found


def __getattr__(name: str) -> Any:
    try:
        return getattr(_ours, name)
    except AttributeError:
        raise AttributeError(f"module {__name__!r} has no error {name!r}") from None


def __dir__() -> list[str]:
    return sorted({*globals(), *dir(_ours)})
