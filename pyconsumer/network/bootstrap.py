"""Log lines and errors while no bootstrap server responds. A core: no I/O, no clock.

Rules
1. A client waits as long as it takes for a cluster, which may start after it. While no broker responds, it logs one
   line as soon as each address has failed once (or after 5 s). It logs the line again after 10 s, 20 s, 40 s and so on,
   at most 5 minutes apart. The line names the causes. The response that ends the wait is logged, too.
2. With ``bootstrap_timeout_ms`` it is an error if no broker has responded within that time, and again each time that
   it passes once more. The first response ends that: metadata of a cluster that is lost later may still be right.
3. With ``bootstrap_resolve_timeout_ms`` it is an error, reported once, if no name has been looked up within that time
   (KIP-909). The client keeps trying. The first name that is found ends that.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from pyconsumer.background_log import Log
from pyconsumer.errors import BootstrapResolutionError, NoBrokersAvailableError

__all__ = ["BootstrapWatch"]

_log = Log("pyconsumer.network")

_FIRST_REPORT_S = 5.0
_FIRST_PAUSE_S = 10.0
_LONGEST_PAUSE_S = 300.0


class BootstrapWatch:
    """Watches whether any broker responds. See the rules of the module.

    Args:
        servers: the bootstrap addresses, as the user gave them.
        timeout: ``bootstrap_timeout_ms`` in seconds. None for no limit.
        resolve_timeout: ``bootstrap_resolve_timeout_ms`` in seconds. None for no limit.
    """

    def __init__(self, servers: str, timeout: float | None = None, resolve_timeout: float | None = None) -> None:
        self._servers = servers
        self._timeout = timeout
        self._resolve_timeout = resolve_timeout  # None also once a name was found or the error was reported
        self._since: float | None = None
        self._begun: float | None = None  # of the period that the timeout limits
        self._report_at = math.inf
        self._pause = 0.0

    def waiting(
        self, now: float, *, first: bool, all_failed: bool, causes: Callable[[], str], resolved: bool = True
    ) -> NoBrokersAvailableError | None:
        """Return the error to raise if no broker has responded in time. Until then, write a log line when one is due.

        Args:
            now: monotonic seconds.
            first: True if no broker has ever responded to this client.
            all_failed: True if an attempt to connect has failed for each address.
            causes: returns a description of the failures, for the message.
            resolved: True if the name of a broker has been looked up.

        Returns:
            The error if the time is up (rules 2 and 3), otherwise None.
        """
        if resolved:
            self._resolve_timeout = None
        if self._since is None:
            self._since = now
            self._begun = now
            self._pause = 0.0
            self._report_at = now + _FIRST_REPORT_S
        if now >= self._report_at or (all_failed and not self._pause):
            waited = f"for {now - self._since:.0f} s" if self._pause else "yet"
            _log.warning(
                "no broker at %s has responded %s, trying again: %s",
                *(self._servers, waited, causes()),
            )
            self._pause = min(self._pause * 2 or _FIRST_PAUSE_S, _LONGEST_PAUSE_S)
            self._report_at = now + self._pause
        if self._resolve_timeout is not None and now >= self._since + self._resolve_timeout:
            limit, self._resolve_timeout = self._resolve_timeout, None
            return BootstrapResolutionError(
                f"no name of {self._servers} could be looked up within {round(limit, 3):g} s"
                f" (bootstrap_resolve_timeout_ms): {causes()}",
                stage="DNS",
            )
        if first and self._timeout is not None and self._begun is not None and now >= self._begun + self._timeout:
            self._begun = now
            return NoBrokersAvailableError(
                f"no broker at {self._servers} has responded within {round(self._timeout, 3):g} s"
                f" (bootstrap_timeout_ms): {causes()}",
                stage="TCP",
            )
        return None

    def due_at(self, *, first: bool) -> float:
        """Return when to call :meth:`waiting` again, in monotonic seconds."""
        if self._since is None or self._begun is None:
            return math.inf
        limit = self._begun + self._timeout if first and self._timeout is not None else math.inf
        resolve = math.inf if self._resolve_timeout is None else self._since + self._resolve_timeout
        return min(self._report_at, limit, resolve)

    def responded(self, now: float) -> None:
        """Record that a broker has responded."""
        if self._since is not None and self._pause:
            _log.warning("a broker has responded after %.1f s", now - self._since)
        self._since = self._begun = None
        self._report_at = math.inf
