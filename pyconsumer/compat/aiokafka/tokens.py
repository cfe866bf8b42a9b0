"""aiokafka's ``sasl_oauth_token_provider``: a coroutine, run by the program's event loop.

A login happens in the thread of a client: that of the loop, of heartbeats, or of a producer. None of them waits for
the token. The network client is told when it has come.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any, Final

from pyconsumer.errors import IllegalStateError

__all__ = ["AwaitedTokens", "await_tokens", "begin"]

#: A start that waits for a token takes this much longer, so that its error is the one of the login (ms).
_FOR_THE_LOGIN_MS: Final = 1000


class AwaitedTokens:
    """A token provider that gets its tokens from a coroutine of the program.

    Args:
        provider: the program's provider. Its ``token()`` may be a coroutine function or an ordinary function.
        timeout_s: the longest time to wait for a token, in seconds.
    """

    def __init__(self, provider: Any, timeout_s: float) -> None:
        self._provider = provider
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._early: list[Future[str]] = []  # a producer's thread logs in before `start`

    def bind(self) -> None:
        """Let the running loop fetch the tokens from now on. Raises RuntimeError if no loop runs in this thread."""
        loop = asyncio.get_running_loop()
        with self._lock:
            self._loop = loop
            early, self._early = self._early, []
        for asked in early:
            if asked.set_running_or_notify_cancel():
                asyncio.run_coroutine_threadsafe(self._fetch(), loop).add_done_callback(partial(_pass_on, asked))

    def token(self) -> Future[str]:
        """Request a token that is valid now. Any thread may call this, at each login and renewal.

        A token that is requested before ``start`` comes when ``start`` has bound the loop.

        Raises:
            IllegalStateError: the client's loop is closed.
        """
        with self._lock:
            loop = self._loop
            if loop is None:
                asked = Future[str]()
                self._early.append(asked)
                return asked
        if loop.is_closed():
            raise IllegalStateError("the event loop that fetches the tokens is closed")
        return asyncio.run_coroutine_threadsafe(self._fetch(), loop)

    async def _fetch(self) -> str:
        async with asyncio.timeout(self._timeout_s):
            found = self._provider.token() if hasattr(self._provider, "token") else self._provider()
            token: str = await found if inspect.isawaitable(found) else found
            return token

    def extensions(self) -> Mapping[str, str]:
        """Return the SASL extensions of the program's provider (KIP-342)."""
        found: Mapping[str, str] = self._provider.extensions() if hasattr(self._provider, "extensions") else {}
        return found


def _pass_on(asked: Future[str], found: Future[str]) -> None:
    """Give the outcome of a request to the future that was returned before."""
    if found.cancelled():
        asked.set_exception(IllegalStateError("the event loop that fetches the tokens has cancelled the request"))
    elif (error := found.exception()) is not None:
        asked.set_exception(error)
    else:
        asked.set_result(found.result())


def await_tokens(configs: dict[str, Any], request_timeout_ms: float) -> AwaitedTokens | None:
    """Replace the token provider in a client's settings by one that runs on the event loop. Return the new provider.

    Args:
        configs: the settings that the program gave.
        request_timeout_ms: the default of the setting ``request_timeout_ms``.

    Returns:
        None if there is no token provider.
    """
    provider = configs.get("sasl_oauth_token_provider")
    if provider is None or not (callable(provider) or hasattr(provider, "token")):
        return None  # the check of the settings refuses another kind of object
    timeout_ms = configs.get("request_timeout_ms", request_timeout_ms)
    tokens = AwaitedTokens(provider, timeout_ms / 1000)
    with contextlib.suppress(RuntimeError):  # without a running loop, `start` binds it
        tokens.bind()
    configs["sasl_oauth_token_provider"] = tokens
    return tokens


def begin(tokens: AwaitedTokens | None, request_timeout_ms: int) -> int:
    """Bind the tokens of a client that is starting. Return how long it may take to connect, in ms."""
    if tokens is None:
        return request_timeout_ms
    tokens.bind()
    return request_timeout_ms + _FOR_THE_LOGIN_MS
