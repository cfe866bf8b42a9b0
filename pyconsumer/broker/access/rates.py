"""The rates of clients on one broker, against their quotas (KIP-13, KIP-219, KIP-599, KIP-612).

The module has no clock and no timer. A result is a time in ms for which the client is throttled. The connection waits.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable
from typing import Final, Generic, Protocol, TypeVar

from pyconsumer.broker.access.meters import MOST_MS, Rate, TokenBucket
from pyconsumer.broker.access.quotas import Level, QuotaStore
from pyconsumer.errors import ThrottlingQuotaExceededError
from pyconsumer.quotas import CONSUMER_RATE, MUTATION_RATE, PRODUCER_RATE

__all__ = ["ClientRates", "MutationQuota"]

#: With more entries than this, those of idle clients are forgotten.
_MOST_REMEMBERED: Final = 10_000
_LONGEST_REMEMBERED: Final = 255  # characters of a client id


class _Counter(Protocol):
    def is_idle(self, now: float) -> bool: ...


T = TypeVar("T", bound=_Counter)


class _Known(Generic[T]):
    """The rates by client. Those of idle clients are forgotten when there are many."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._found: dict[Hashable, T] = {}
        self._sweep_at = _MOST_REMEMBERED

    def __len__(self) -> int:
        return len(self._found)

    def find(self, key: Hashable, now: float) -> T:
        found = self._found.get(key)
        if found is None:
            if len(self._found) >= self._sweep_at:
                self._found = {name: one for name, one in self._found.items() if not one.is_idle(now)}
                self._sweep_at = max(_MOST_REMEMBERED, 2 * len(self._found))
            found = self._found[key] = self._make()
        return found


class MutationQuota:
    """The quota of one request that creates or deletes partitions.

    Args:
        strict: True refuses mutations while the quota is exceeded. False accepts and only throttles, which is for
            older versions of a request.
    """

    def __init__(self, bucket: TokenBucket | None, rate: float, now: float, *, strict: bool) -> None:
        self._bucket = bucket
        self._rate = rate
        self._now = now
        self._strict = strict
        self.throttle_ms = 0

    def record(self, partitions: int) -> None:
        """Count partitions that are created or deleted.

        Raises:
            ThrottlingQuotaExceededError: the quota was exceeded before.
        """
        if self._bucket is None:
            return
        if self._strict:
            self.throttle_ms = self._bucket.throttle_ms(self._rate, self._now)
            if self.throttle_ms:
                raise ThrottlingQuotaExceededError("The throttling quota has been exceeded.")
            self._bucket.take(partitions, self._rate, self._now)
        else:
            self._bucket.take(partitions, self._rate, self._now)
            self.throttle_ms = self._bucket.throttle_ms(self._rate, self._now)


class ClientRates:
    """The rates of all clients of a broker, or of the controller.

    Args:
        quotas: the quotas of the cluster.
        setting: returns a setting by its name, such as ``quota.window.num``.

    Attributes:
        quotas: those of the arguments. Unless ``quotas.exist``, nothing has to be counted.
    """

    def __init__(self, quotas: QuotaStore, setting: Callable[[str], int]) -> None:
        windows, window_s = setting("quota.window.num"), setting("quota.window.size.seconds")
        burst_s = setting("controller.quota.window.num") * setting("controller.quota.window.size.seconds")
        self.quotas = quotas
        self._windows = windows
        self._window_s = window_s
        self._levels: dict[tuple[str, str, str], Level | None] = {}
        self._version = -1
        self._rates = _Known(lambda: Rate(windows, window_s))
        self._buckets = _Known(lambda: TokenBucket(burst_s))

    def produced(self, principal: str, client_id: str, size_bytes: int, now: float) -> int:
        """Count a Produce request. Return the time in ms for which its client is throttled."""
        level = self._level(principal, client_id, PRODUCER_RATE)
        if level is None:
            return 0
        rate = self._rates.find((PRODUCER_RATE, level.user, level.client_id), now)
        rate.record(size_bytes, now)
        return rate.throttle_ms(level.limit, now)

    def fetched(self, principal: str, client_id: str, size_bytes: int, now: float) -> int:
        """Count the response to a Fetch. Return the time in ms for which its client is throttled.

        A throttled response is sent empty, so that it is not counted.
        """
        level = self._level(principal, client_id, CONSUMER_RATE)
        if level is None:
            return 0
        size_bytes = min(size_bytes, self._most(level))  # one batch may be larger
        rate = self._rates.find((CONSUMER_RATE, level.user, level.client_id), now)
        rate.record(size_bytes, now)
        throttle_ms = rate.throttle_ms(level.limit, now)
        if throttle_ms:
            rate.record(-size_bytes, now)
        return throttle_ms

    def delivered(self, principal: str, client_id: str, size_bytes: int, now: float) -> int:
        """Count records that are sent, also if their client is above its quota. Return as :meth:`fetched` does."""
        level = self._level(principal, client_id, CONSUMER_RATE)
        if level is None:
            return 0
        rate = self._rates.find((CONSUMER_RATE, level.user, level.client_id), now)
        rate.record(size_bytes, now)
        return rate.throttle_ms(level.limit, now)

    def most_fetched(self, principal: str, client_id: str) -> int | None:
        """Return the most bytes of a response that is not throttled after an idle time. None: there is no quota.

        A larger response would be throttled each time, so that the consumer would never continue.
        """
        level = self._level(principal, client_id, CONSUMER_RATE)
        return None if level is None else self._most(level)

    def _most(self, level: Level) -> int:
        return max(1, int(min(MOST_MS, level.limit * (self._windows - 1) * self._window_s)))

    def mutation(self, principal: str, client_id: str, now: float, *, strict: bool) -> MutationQuota:
        """Return the quota for a request that creates or deletes partitions."""
        level = self._level(principal, client_id, MUTATION_RATE) if self.quotas.exist else None
        if level is None:
            return MutationQuota(None, 0.0, now, strict=strict)
        bucket = self._buckets.find((level.user, level.client_id), now)
        return MutationQuota(bucket, level.limit, now, strict=strict)

    def connected(self, address: str, now: float) -> int:
        """Count a connection. Return the time in ms after which it is to be closed. 0: it is accepted."""
        limit = self.quotas.connection_rate(address)
        if limit is None:
            return 0
        rate = self._rates.find(address, now)
        rate.record(1, now)
        throttle_ms = min(rate.throttle_ms(limit, now), round(self._window_s * 1000))
        if throttle_ms:
            rate.record(-1, now)  # it is not accepted
        return throttle_ms

    def _level(self, principal: str, client_id: str, key: str) -> Level | None:
        if self._version != self.quotas.version or len(self._levels) > _MOST_REMEMBERED:
            self._levels.clear()
            self._version = self.quotas.version
        user = principal.partition(":")[2]
        if len(client_id) > _LONGEST_REMEMBERED:  # clients choose it: only a digest stays
            level = self.quotas.level(user, client_id, key)
            digest = hashlib.sha256(client_id.encode("utf-8", "surrogatepass")).hexdigest()
            return level if level is None or level.client_id is None else level._replace(client_id=f"#{digest}")
        asked = (principal, client_id, key)
        if asked not in self._levels:
            self._levels[asked] = self.quotas.level(user, client_id, key)
        return self._levels[asked]
