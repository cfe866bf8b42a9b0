"""The rules for valid topic names."""

from __future__ import annotations

import re
from typing import Final

from pyconsumer.errors import InvalidTopicError

__all__ = ["CLUSTER_METADATA", "check_topic_name", "plain_name"]

_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]+")
_MAX_LENGTH: Final = 249
_SHOWN_LENGTH: Final = 60  # of an illegal name, which may have any length
CLUSTER_METADATA: Final = "__cluster_metadata"


def check_topic_name(name: str) -> None:
    """Raise ``InvalidTopicError`` if ``name`` is not valid for a topic."""
    if not name:
        problem = "it is empty"
    elif name in (".", ".."):
        problem = "it cannot be '.' or '..'"
    elif len(name) > _MAX_LENGTH:
        problem = f"it is longer than {_MAX_LENGTH} characters ({len(name)})"
    elif not _LEGAL_NAME.fullmatch(name):
        problem = "it may hold only ASCII letters and digits, '.', '_' and '-'"
    else:
        return
    shown = repr(name) if len(name) <= _MAX_LENGTH else f"{name[:_SHOWN_LENGTH]!r}..."
    raise InvalidTopicError(f"the topic name {shown} is not legal: {problem}")


def plain_name(name: str) -> str:
    """Return a topic's name in the form for metrics, with '.' replaced by '_'. No two topics may have the same form."""
    return name.replace(".", "_")
