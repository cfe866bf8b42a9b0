"""The counters of a share consumer."""

from __future__ import annotations

from pyconsumer.consumer.metrics import ConsumerMetrics
from pyconsumer.metrics.windows import Timing, Windows

__all__ = ["ShareMetrics"]


class ShareMetrics(ConsumerMetrics):
    """Counters of a share consumer: those of a consumer, and acknowledgements.

    Attributes:
        acknowledged: acknowledgements of records that were sent and confirmed. The values are their numbers.
        refused: the same for those that failed.
    """

    __slots__ = ("acknowledged", "refused")

    def __init__(self, now: float, windows: Windows | None = None) -> None:
        super().__init__(now, windows)
        self.acknowledged = Timing(self.windows, now)
        self.refused = Timing(self.windows, now)
