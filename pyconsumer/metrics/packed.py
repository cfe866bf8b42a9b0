"""``PackedCounters``: counters of things of which a client may have many, such as partitions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from struct import Struct
from typing import ClassVar, Final

from pyconsumer.metrics.windows import Counters

__all__ = ["PackedCounters"]

_NOTHING: Final = -math.inf


class PackedCounters(Counters):
    """Counters whose present values follow the windows in the string of bytes. See rule 7 of :mod:`.windows`."""

    TOTALS: ClassVar[tuple[str, ...]] = ()
    _present: ClassVar[Struct]

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        count = len(cls.TOTALS)
        cls._present = Struct(f"={count + len(cls.PEAKS)}d")
        cls._totals = staticmethod(lambda counters: counters.values()[:count])
        cls._peaks = staticmethod(lambda counters: counters.values()[count:])

    def values(self) -> tuple[float, ...]:
        """Return the present totals and peaks, in the order of :attr:`TOTALS` and :attr:`PEAKS`."""
        return self._present.unpack_from(self._history, len(self._history) - self._present.size)

    def put(self, *values: float) -> None:
        """Store other totals and peaks."""
        self._history = self._past(self._history) + self._present.pack(*values)

    def _set_totals(self, totals: Sequence[float]) -> None:
        self.put(*totals, *self._peaks(self))

    def _set_windows(self, windows: bytes) -> None:
        self._history = windows + self._present.pack(*self.values())

    def _begin(self, windows: bytes, totals: Sequence[float]) -> None:
        self._history = windows + self._present.pack(*totals, *[_NOTHING] * len(self.PEAKS))

    def _past(self, history: bytes) -> bytes:
        return history[: -self._present.size]
