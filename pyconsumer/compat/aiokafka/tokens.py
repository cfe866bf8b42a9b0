"""aiokafka's ``sasl_oauth_token_provider``: a coroutine, run by the program's event loop.

A login happens in the thread of a client: that of the loop, of heartbeats, or of a producer. None of them waits for
the token. The network client is told when it has come.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Mapping
from concurrent.futures import Future
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
        self._loop: asyncio.AbstractEventLoop | None = None

    def bind(self) -> None:
        """Let the running loop fetch the tokens from now on."""
        self._loop = asyncio.get_running_loop()

    def token(self) -> Future[str]:
        """Request a token that is valid now. Any thread may call this, at each login and renewal.

        Raises:
            IllegalStateError: the client was not started, or its loop is closed.
        """
        if self._loop is None:
            try:
                self.bind()
            except RuntimeError:
                raise IllegalStateError("start() must come first: its event loop fetches the token") from None
        loop = self._loop
        assert loop is not None
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
    configs["sasl_oauth_token_provider"] = tokens
    return tokens


def begin(tokens: AwaitedTokens | None, request_timeout_ms: int) -> int:
    """Bind the tokens of a client that is starting. Return how long it may take to connect, in ms."""
    if tokens is None:
        return request_timeout_ms
    tokens.bind()
    return request_timeout_ms + _FOR_THE_LOGIN_MS
