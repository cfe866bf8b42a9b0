"""Reset policies: the values of ``auto_offset_reset``. ``SubscriptionState`` and ``offset_fetcher`` apply them."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

__all__ = ["EARLIEST", "EARLIEST_TIMESTAMP", "LATEST", "LATEST_TIMESTAMP", "NONE", "ResetPolicy"]

LATEST_TIMESTAMP: Final = -1
EARLIEST_TIMESTAMP: Final = -2

_DURATION = re.compile(
    r"P(?:(?P<days>\d+)D)?(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d{1,9})?)S)?)?",
    re.IGNORECASE,
)


class ResetPolicy(NamedTuple):
    """``earliest``, ``latest``, ``none`` or ``by_duration`` with a duration in ms (KIP-1106)."""

    name: str
    duration_ms: int = 0

    @classmethod
    def parse(cls, text: str) -> ResetPolicy:
        """Parse a setting's value, such as ``latest`` or ``by_duration:P7DT12H`` (ISO 8601, days to seconds).

        Raises:
            ValueError: the text is not the name of a policy.
        """
        word = text.strip().lower()
        if word in ("earliest", "latest", "none"):
            return cls(word)
        name, _, duration = word.partition(":")
        if name == "by_duration":
            match = _DURATION.fullmatch(duration)
            found = {k: float(v) for k, v in match.groupdict().items() if v is not None} if match else {}
            if not found:
                raise ValueError(f"by_duration needs a duration such as PT1H or P3DT12H, not {duration!r}")
            seconds = (
                found.get("days", 0) * 86400
                + found.get("hours", 0) * 3600
                + found.get("minutes", 0) * 60
                + found.get("seconds", 0)
            )
            return cls("by_duration", round(seconds * 1000))
        raise ValueError(f"it must be earliest, latest, none or by_duration:PnDTnHnMnS, not {text!r}")

    def timestamp(self, wall_ms: int) -> int:
        """Return the timestamp to request with ListOffsets. ``wall_ms`` is the present time, in ms since the epoch."""
        if self.name == "earliest":
            return EARLIEST_TIMESTAMP
        if self.name == "latest":
            return LATEST_TIMESTAMP
        return max(0, wall_ms - self.duration_ms)

    def __str__(self) -> str:
        return f"{self.name}:{self.duration_ms} ms" if self.name == "by_duration" else self.name


EARLIEST: Final = ResetPolicy("earliest")
LATEST: Final = ResetPolicy("latest")
NONE: Final = ResetPolicy("none")
