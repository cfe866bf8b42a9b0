"""``LogWatch``: a handler that notes each line of a client without its client id and group in attributes and text."""

from __future__ import annotations

import logging
from typing import Final

__all__ = ["LogWatch"]

#: Loggers of clients, with those below them.
_OF_CLIENTS: Final = ("pyconsumer.consumer", "pyconsumer.producer", "pyconsumer.network", "pyconsumer.workers")
#: Modules whose lines may come before there is a client, or belong to several.
_SHARED: Final = frozenset(("arguments", "config", "future", "loop_bridge", "tls", "tokens"))


class LogWatch(logging.Handler):
    """Notes the lines that break the rule.

    Attributes:
        lines: how many lines of clients were seen.
        nameless: those that do not name their client.
    """

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines = 0
        self.nameless: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if not record.name.startswith(_OF_CLIENTS) or record.module in _SHARED:
            return
        self.lines += 1
        text = record.getMessage()
        client_id, group_id = getattr(record, "client_id", None), getattr(record, "group_id", None)
        named = client_id and text.startswith("[") and f"client_id={client_id}" in text  # after group_instance_id
        if not named or (group_id and f", group_id={group_id}] " not in text):
            self.nameless.append(f"{record.name} {record.module}:{record.lineno}: {text}")

    def take(self) -> list[str]:
        """Return the lines that were noted since the last call."""
        found, self.nameless = self.nameless, []
        return found
