"""The client and its group on each line of the log: in the text, and as ``client_id`` and ``group_id`` of the record.

Each record of the loggers in :data:`LOGGERS` gets both attributes, for JSON loggers and formats such as
``%(client_id)s``. Its text begins with both in brackets, for plain formats. They are found when a line is logged: on
the stack is a method of the client, or of a part of it, whose settings name it. So calls that log nothing pay nothing.
Both are None for a line that belongs to no client.
"""

from __future__ import annotations

import logging
import sys
from types import FrameType
from typing import Final

from pyconsumer.errors import KafkaError

__all__ = ["LOGGERS", "client_of", "escaped", "install", "label_of", "shown_error"]

#: The loggers of clients.
LOGGERS: Final = (
    "pyconsumer.aio.driver",
    "pyconsumer.assignors",
    "pyconsumer.compat.aiokafka",
    "pyconsumer.compat.kafka.producer.kafka",
    "pyconsumer.compat.kafka.settings",
    "pyconsumer.config",
    "pyconsumer.consumer",
    "pyconsumer.consumer.all_partitions",
    "pyconsumer.consumer.coordinator",
    "pyconsumer.exactly_once",
    "pyconsumer.metrics.prometheus",
    "pyconsumer.metrics.source",
    "pyconsumer.network",
    "pyconsumer.network.connection",
    "pyconsumer.network.tls",
    "pyconsumer.network.tokens",
    "pyconsumer.opentelemetry",
    "pyconsumer.producer",
    "pyconsumer.producer.future",
    "pyconsumer.producer.loop_bridge",
    "pyconsumer.producer.producer",
    "pyconsumer.producer.sender",
    "pyconsumer.producer.transaction_manager",
    "pyconsumer.records",
    "pyconsumer.schemas.registry.http",
    "pyconsumer.workers",
)

Names = tuple[str | None, str | None]
_NO_CLIENT: Final[Names] = (None, None)
_MOST_FRAMES: Final = 60
_LONGEST_TEXT: Final = 500  # characters of an error
#: ``inspect.CO_OPTIMIZED``: the code of a function. ``inspect`` takes long to import.
_OPTIMIZED: Final = 1
#: Attributes of clients and their parts that have their settings.
_SETTINGS: Final = ("config", "settings")


def client_of(frame: FrameType | None) -> Names:
    """Return the client id and the group of the client whose code is on the stack, from a frame outwards."""
    client_id: str | None = None
    for _ in range(_MOST_FRAMES):
        if frame is None:
            break
        if str(frame.f_globals.get("__name__", "")).startswith("pyconsumer."):
            for names in _names_in(frame):
                if names[1] is not None:
                    return names
                client_id = client_id or names[0]
        frame = frame.f_back
    return client_id, None


def label_of(client_id: str | None, group_id: str | None) -> str:
    """Return the text with which the lines of a client begin. Empty for a line that belongs to no client."""
    if not client_id:
        return ""
    label = f"[client_id={client_id}, group_id={group_id}] " if group_id else f"[client_id={client_id}] "
    return escaped(label)


def shown_error(error: BaseException | None) -> str | None:
    """Return an error as text. Of an error that is not ours only the type: its text may hold data of the user."""
    if error is None:
        return None
    name = type(error).__name__
    return f"{name}: {error}"[:_LONGEST_TEXT] if isinstance(error, KafkaError) else name


def escaped(label: str) -> str:
    """Return a text in which control characters are escaped, so that it stays on one line of the log."""
    return label if label.isprintable() else "".join(one if one.isprintable() else repr(one)[1:-1] for one in label)


def _names_in(frame: FrameType) -> list[Names]:
    names = frame.f_locals
    owner = names.get("self")
    settings_of_call = [names.get(name) for name in _SETTINGS]  # where an object is being made, it has none yet
    if sys.version_info < (3, 13) and frame.f_code.co_flags & _OPTIMIZED:
        names.clear()  # before 3.13 the frame keeps this copy, and with it each object that the function has dropped
    is_ours = owner is not None and type(owner).__module__.startswith("pyconsumer.")
    found: list[Names] = []
    for settings in [*([getattr(owner, name, None) for name in _SETTINGS] if is_ours else []), *settings_of_call]:
        client_id = getattr(settings, "client_id", None)
        if isinstance(client_id, str):
            group_id = getattr(settings, "group_id", None)
            found.append((client_id, group_id if isinstance(group_id, str) else None))
    return found


class _ClientFields(logging.Filter):
    """Adds the names of the client to each record and its text. Refuses none."""

    def filter(self, record: logging.LogRecord) -> bool:
        if not hasattr(record, "client_id"):  # a line of the log thread has them
            try:
                names = client_of(sys._getframe(1))
            except Exception:
                names = _NO_CLIENT
            vars(record).update(client_id=names[0], group_id=names[1])
        label = label_of(*_names_on(record))
        text = record.msg
        # A line of a member has its own label, and one that comes through a queue of the application has it already.
        if label and isinstance(text, str) and not text.startswith("["):
            vars(record).update(msg=(label.replace("%", "%%") if record.args else label) + text)
        return True


def _names_on(record: logging.LogRecord) -> Names:
    return getattr(record, "client_id", None), getattr(record, "group_id", None)


def install() -> None:
    """Let the records of :data:`LOGGERS` have both attributes."""
    fields = _ClientFields()
    for name in LOGGERS:
        logging.getLogger(name).addFilter(fields)
