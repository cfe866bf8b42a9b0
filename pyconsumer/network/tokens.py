"""Keeps the token of a login fresh, for all clients of the process that have the same login.

Rules
1. Clients with equal settings of the login share one token and one thread. The thread begins when the first token is
   asked for, and ends with the last client.
2. No client waits here: one that needs a token which is not there gets a future. Event loops are not blocked.
3. A token is fetched again when a part of its life is over, as Java's client does (``sasl_login_refresh_*``).
4. A renewal that fails is a warning, as long as the old token is valid. It is tried again after a growing pause.
5. Where no token is valid, attempts go on for ``sasl_login_retry_backoff_max_ms``. Then those who wait get the error.
   A refusal is their error at once. The next one who asks begins anew.
6. A forked child has neither the thread nor the token: a client that it makes begins its own login.
7. Leaving takes no lock, since finalizers of clients do it.
"""

from __future__ import annotations

import os
import queue
import random
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from pyconsumer.background_log import Log, background
from pyconsumer.errors import AuthenticationError
from pyconsumer.network.backoff import Backoff
from pyconsumer.network.oidc import LoginFailed, LoginRefused, Token, fetch_token, read_token, shown_address
from pyconsumer.settings.config import ClientConfig

__all__ = ["Member", "SharedLogin", "join_login", "refresh_after"]

_log = Log(__name__)
_LEAST_S: Final = 1.0
_LOCAL: Final = ("localhost", "127.0.0.1", "::1")


def refresh_after(life_s: float, config: ClientConfig, chance: float) -> float:
    """Return the seconds after which a new token is fetched (``ExpiringCredentialRefreshingLogin.refreshMs`` of Java).

    It is at least a second, so that tokens with a short life are not asked for without a pause.

    Args:
        life_s: the life of the token, in seconds.
        config: the settings of the login.
        chance: a random number between 0 and 1.
    """
    buffer_s, least_s = config.sasl_login_refresh_buffer_seconds, config.sasl_login_refresh_min_period_seconds
    if life_s < buffer_s + least_s:
        return max(life_s * config.sasl_login_refresh_window_factor, _LEAST_S)
    factor = config.sasl_login_refresh_window_factor + config.sasl_login_refresh_window_jitter * chance
    return max(min(life_s * factor, life_s - buffer_s), least_s, _LEAST_S)


class SharedLogin:
    """The token of one login, and the thread that fetches it.

    Args:
        config: the settings of a client with this login.
        fetch, now, chance: replacements in tests.
    """

    def __init__(
        self,
        config: ClientConfig,
        fetch: Callable[[ClientConfig], Token] = fetch_token,
        now: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._config = config
        self._fetch = fetch
        self._now = now
        self._chance = chance
        self._backoff = Backoff.ms(config.sasl_login_retry_backoff_ms, config.sasl_login_retry_backoff_max_ms)
        self._lock = threading.Lock()
        self._waiting: list[Future[str]] = []
        self._token: str | None = None
        self._valid_until = 0.0
        self._due = 0.0  # when the next attempt is made
        self._trying_since = 0.0
        self._failures = 0
        self._members: set[int] = set()
        self._wakes: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self.ended = False

    def join(self, member: int) -> bool:
        """Add a client, and return True. If the login has ended already, return False."""
        with self._lock:
            if self.ended:
                return False
            self._members.add(member)
            return True

    def leave(self, member: int) -> None:
        """Remove a client. The thread ends with the last one. This takes no lock (rule 7)."""
        self._members.discard(member)
        self._wakes.put(None)

    def token(self) -> str | Future[str]:
        """Return the token if it is valid now, or a future of one."""
        with self._lock:
            if self._token is not None and self._now() < self._valid_until:
                return self._token
            found: Future[str] = Future()
            if not self._waiting:
                self._trying_since, self._failures, self._due = self._now(), 0, 0.0
            self._waiting.append(found)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="pyconsumer-login", daemon=True)
                self._thread.start()
        self._wakes.put(None)
        return found

    def _run(self) -> None:
        with background():
            while not self._ends():
                if self._now() >= self._due:
                    self.attempt()
                else:
                    try:
                        self._wakes.get(timeout=self._pause())
                    except queue.Empty:
                        pass

    def _pause(self) -> float | None:
        left = self._due - self._now()
        return None if left == float("inf") else min(max(left, 0.0), 3600.0)

    def _ends(self) -> bool:
        with self._lock:
            if self._members:
                return False
            self.ended, self._token = True, None
            waiting, self._waiting = self._waiting, []
        for future in waiting:
            future.cancel()
        return True

    def attempt(self) -> None:
        """Fetch a token, and tell those who wait. The thread calls this when it is time."""
        try:
            token = self._fetch(self._config)
        except LoginFailed as error:
            self._failed(error)
        except Exception as error:  # a fault of ours must not end the thread: all clients would hang
            self._failed(LoginRefused(f"{type(error).__name__} while a token was fetched"))
        else:
            now = self._now()
            with self._lock:
                self._token, self._valid_until, self._failures = token.text, now + token.life_s, 0
                self._due = now + refresh_after(token.life_s, self._config, self._chance())
                waiting, self._waiting = self._waiting, []
            for future in waiting:
                if future.set_running_or_notify_cancel():
                    future.set_result(token.text)

    def _failed(self, error: LoginFailed) -> None:
        now = self._now()
        waiting: list[Future[str]] = []
        with self._lock:
            self._waiting = [future for future in self._waiting if not future.cancelled()]
            left = self._valid_until - now if self._token is not None else 0.0
            self._due = now + self._backoff.delay(self._failures)
            self._failures += 1
            late = now - self._trying_since >= self._config.sasl_login_retry_backoff_max_ms / 1000
            if left <= 0 and (late or not self._waiting or isinstance(error, LoginRefused)):
                self._due, self._token = float("inf"), None  # until somebody asks
                waiting, self._waiting = self._waiting, []
        if left > 0:
            _log.warning("the token could not be renewed; the current one is valid for %d s more: %s", left, error)
        elif not waiting:
            _log.warning("no token could be fetched: %s", error)
        for future in waiting:
            if future.set_running_or_notify_cancel():
                future.set_exception(AuthenticationError(str(error), stage="SASL"))


class Member:
    """One client's part in a login: a provider of tokens for :class:`~pyconsumer.network.sasl.OAuthBearer`."""

    def __init__(self, login: SharedLogin) -> None:
        self._login = login
        self._leave = weakref.finalize(self, login.leave, id(self))

    def token(self) -> str | Future[str]:
        """Return the token, or a future of it."""
        return self._login.token()

    def close(self) -> None:
        """Leave the login. A second call has no effect."""
        self._leave()


class _FileTokens:
    """Tokens of a file, which another program keeps fresh. It is read at each login."""

    def __init__(self, path: str) -> None:
        self._path = path

    def token(self) -> str:
        try:
            return read_token(self._path)
        except LoginFailed as error:
            raise AuthenticationError(str(error), stage="SASL") from None

    def close(self) -> None:
        """Do nothing: nothing is shared."""


class _Logins:
    """The logins of this process, by their settings."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin anew, as a forked child does."""
        self._lock = threading.Lock()
        self._logins: weakref.WeakValueDictionary[tuple[Any, ...], SharedLogin] = weakref.WeakValueDictionary()

    def join(self, config: ClientConfig) -> Member:
        key = _key(config)
        with self._lock:
            while True:
                login = self._logins.get(key)
                if login is None or login.ended:
                    login = self._logins[key] = SharedLogin(config)
                    _warn_of_plain(config.sasl_oauthbearer_token_endpoint_url or "")
                member = Member(login)
                if login.join(id(member)):
                    return member
                self._logins.pop(key, None)


def _key(config: ClientConfig) -> tuple[Any, ...]:
    names = (setting.name for setting in config.settings)
    mine = (name for name in names if name.startswith(("sasl_oauthbearer_", "sasl_login_")))
    return tuple(getattr(config, name) for name in mine if name != "sasl_oauthbearer_extensions")


def _warn_of_plain(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme == "http" and parts.hostname not in _LOCAL:
        _log.warning("the token end point %s is not encrypted: anyone between can read the login", shown_address(url))


_logins: Final = _Logins()


def join_login(config: ClientConfig) -> Member | _FileTokens:
    """Return the provider of tokens for a client with these settings. Close it with the client."""
    url = config.sasl_oauthbearer_token_endpoint_url or ""
    parts = urlsplit(url)
    if parts.scheme == "file":
        return _FileTokens(unquote(parts.path))
    return _logins.join(config)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_logins.forget)
