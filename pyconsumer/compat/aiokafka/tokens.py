"""Tokens of a provider whose ``token`` is a coroutine, which runs on the program's event loop.

Rules

1. Each login and each renewal asks for a token. No thread waits for it: the connection looks whether it is there.
2. ``token`` has ``request_timeout_ms``. A longer time is an ``AuthenticationError``. So is an error of the provider,
   which becomes the cause.
3. The loop is that of ``start``. When it has ended, there are no more tokens.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from pyconsumer.errors import AuthenticationError

__all__ = ["AwaitedTokens", "await_tokens"]


class AwaitedTokens:
    """A provider for our clients.

    Args:
        provider: the program's, with ``async def token()`` and perhaps ``extensions()``.
        timeout_ms: longest time that ``token`` may take.
    """

    def __init__(self, provider: Any, timeout_ms: float) -> None:
        self._provider = provider
        self._timeout_ms = timeout_ms
        self._loop: asyncio.AbstractEventLoop | None = None
        with contextlib.suppress(RuntimeError):
            self.bind()

    def bind(self) -> None:
        """Use the running loop from now on."""
        self._loop = asyncio.get_running_loop()

    def token(self) -> Future[str]:
        """Ask for a token, from any thread.

        Raises:
            AuthenticationError: the loop has ended, or the client was not started.
        """
        loop = self._loop
        if loop is None or loop.is_closed():
            why = "the client was not started" if loop is None else "its event loop is closed"
            raise AuthenticationError(f"sasl_oauth_token_provider cannot be asked: {why}", stage="SASL")
        return asyncio.run_coroutine_threadsafe(self._token(), loop)

    async def _token(self) -> str:
        try:
            async with asyncio.timeout(self._timeout_ms / 1000):
                token: str = await self._provider.token()
        except TimeoutError as error:
            raise AuthenticationError(
                f"sasl_oauth_token_provider gave no token within request_timeout_ms ({self._timeout_ms:g} ms)",
                stage="SASL",
            ) from error
        except Exception as error:
            raise AuthenticationError(
                f"sasl_oauth_token_provider raised {type(error).__name__}: {error}", stage="SASL"
            ) from error
        return token

    def extensions(self) -> Mapping[str, str]:
        """Return the SASL extensions of the program's provider (KIP-342)."""
        find = getattr(self._provider, "extensions", None)
        found: Mapping[str, str] = {} if find is None else find()
        return found or {}


def await_tokens(configs: dict[str, Any], default_timeout_ms: float) -> AwaitedTokens | None:
    """Replace a provider whose ``token`` is a coroutine in a client's settings, and return the new one.

    Args:
        configs: the settings, which are changed.
        default_timeout_ms: ``request_timeout_ms`` if the settings have none.
    """
    provider = configs.get("sasl_oauth_token_provider")
    if provider is None or not asyncio.iscoroutinefunction(getattr(provider, "token", None)):
        return None
    tokens = AwaitedTokens(provider, configs.get("request_timeout_ms", default_timeout_ms))
    configs["sasl_oauth_token_provider"] = tokens
    return tokens
