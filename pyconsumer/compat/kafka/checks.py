"""Checks of arguments whose errors have kafka-python's classes: programs catch them."""

from __future__ import annotations

import re
from typing import Any, Final

__all__ = ["check_topic_name"]

_LONGEST: Final = 249
_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")


def check_topic_name(topic: Any) -> None:
    """Check the name of a topic before anything is sent.

    Args:
        topic: the value that the program gave.

    Raises:
        TypeError: it is no text.
        ValueError: no topic can have this name.
    """
    if not isinstance(topic, str):
        raise TypeError(f"a topic's name must be a str, not {topic!r}")
    if topic in (".", "..") or not _LEGAL.fullmatch(topic) or len(topic) > _LONGEST:
        raise ValueError(
            f"{topic[: _LONGEST + 1]!r} cannot be a topic's name: it must have 1 to {_LONGEST} letters, digits, '.',"
            " '_' and '-', and be neither '.' nor '..'"
        )
