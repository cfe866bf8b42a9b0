"""A request to a registry, with its retries. No I/O and no clock's wait: steps for a driver.

A call is a generator. It yields an :class:`Attempt`, and gets an :class:`HttpResponse` or a :class:`NoResponse`. It
yields a :class:`Pause`, and goes on after that time. It yields a :class:`Join`, and goes on when that flight has ended,
at its deadline, or at that of the flight.

Rules

1. Addresses are tried one after the other, beginning with the last that answered. Each has its share of the time left.
2. Another attempt follows if there was no response, or with one of the statuses 408, 429, 500, 502, 503 and 504.
3. A deletion that may have reached the registry is not sent again: the answer to the second one would be an error.
4. After each round over the addresses a pause follows, a random time up to a limit that doubles. ``Retry-After`` makes
   it longer. If the pause would end after the deadline, the call fails at once, with the last cause.
5. No call takes longer than its time, retries included.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, Final, NamedTuple, TypeVar

from pyconsumer.clock import Clock
from pyconsumer.schemas.errors import (
    SchemaRegistryAccessError,
    SchemaRegistryError,
    SchemaRegistryTimeoutError,
    SchemaRegistryUnavailableError,
    error_of_response,
)
from pyconsumer.schemas.registry.cache import Flight
from pyconsumer.schemas.registry.settings import RegistrySettings

__all__ = ["Attempt", "Exchange", "HttpRequest", "HttpResponse", "Join", "NoResponse", "Pause", "Step", "Steps"]

_RETRIABLE: Final = frozenset(
    {
        HTTPStatus.REQUEST_TIMEOUT,
        HTTPStatus.TOO_MANY_REQUESTS,
        HTTPStatus.INTERNAL_SERVER_ERROR,
        HTTPStatus.BAD_GATEWAY,
        HTTPStatus.SERVICE_UNAVAILABLE,
        HTTPStatus.GATEWAY_TIMEOUT,
    }
)
_LONGEST_RETRY_AFTER_S: Final = 3600.0

T = TypeVar("T")


class HttpRequest(NamedTuple):
    """A request, without the address.

    Attributes:
        path: quoted, beginning with a slash.
        query: names and values, not quoted.
        body: JSON, or None.
    """

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None

    def at(self, url: str) -> str:
        """Return the method and the full address, for messages."""
        return f"{self.method} {url}{self.path}"


class HttpResponse(NamedTuple):
    """A response. Names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class NoResponse(NamedTuple):
    """An attempt without a response.

    Attributes:
        reason: the cause, for a message.
        sent: False if the request cannot have reached the registry.
        final: True if another attempt cannot help.
        refused: True if the client was refused by an authorization server.
    """

    reason: str
    sent: bool = True
    final: bool = False
    refused: bool = False


class Attempt(NamedTuple):
    """Send a request to an address, and wait at most ``timeout_s``."""

    url: str
    request: HttpRequest
    timeout_s: float


class Pause(NamedTuple):
    """Wait."""

    seconds: float


class Join(NamedTuple):
    """Wait for a call of another caller."""

    flight: Flight
    seconds: float


Step = Attempt | Pause | Join
Steps = Generator[Step, "HttpResponse | NoResponse | None", T]


class Exchange:
    """Sends requests. See the rules at the top of the module.

    Args:
        settings: addresses and retries.
        clock: the source of time.
        random: a number from 0 to 1, for the pauses.
    """

    def __init__(self, settings: RegistrySettings, clock: Clock, random: Callable[[], float]) -> None:
        self._settings = settings
        self._clock = clock
        self._random = random
        self._first = 0  # the address that answered last

    def send(self, request: HttpRequest, deadline: float) -> Steps[Any]:
        """Send a request and return the JSON of the response, None if it is empty.

        Args:
            request: the request.
            deadline: monotonic seconds.

        Raises:
            SchemaRegistryError: by the response, or because there is none.
        """
        urls = self._settings.urls
        first, count, tried = self._first, len(urls), 0
        while True:
            at = (first + tried) % count
            left = deadline - self._clock.now()
            if left <= 0:
                raise SchemaRegistryTimeoutError(-1, -1, "the time for the call is over", request=request.at(urls[at]))
            answer = yield Attempt(urls[at], request, left / (count - tried % count))
            assert answer is not None
            tried += 1
            wait, error = 0.0, self._error_of(answer, request, urls[at])
            if error is None:
                self._first = at
                return _json_of(answer, request, urls[at])
            if isinstance(answer, HttpResponse):
                if answer.status not in _RETRIABLE:
                    self._first = at
                    raise error
                wait = self._retry_after(answer)
            elif answer.final:
                raise error
            if self._clock.now() >= deadline:
                reason = error.error_message or f"HTTP status {error.http_status_code}"
                raise SchemaRegistryTimeoutError(-1, -1, reason, request=error.request)
            if isinstance(answer, NoResponse) and answer.sent and request.method == "DELETE":
                raise error
            if tried == count * (self._settings.max_retries + 1):
                raise error
            if tried % count == 0:
                wait = max(wait, self._backoff(tried // count - 1))
                if wait >= deadline - self._clock.now():
                    raise error
                yield Pause(wait)

    def _backoff(self, rounds: int) -> float:
        settings = self._settings
        return self._random() * min(settings.retry_max_wait_s, settings.retry_wait_s * float(2 ** min(rounds, 30)))

    def _retry_after(self, response: HttpResponse) -> float:
        text = response.headers.get("retry-after", "").strip()
        if not text:
            return 0.0
        try:
            seconds = float(text) if text.isdigit() else parsedate_to_datetime(text).timestamp() - self._wall_s()
        except (ValueError, TypeError, OverflowError):
            return 0.0
        return min(max(seconds, 0.0), _LONGEST_RETRY_AFTER_S)

    def _wall_s(self) -> float:
        return self._clock.wall_ms() / 1000

    @staticmethod
    def _error_of(answer: HttpResponse | NoResponse, request: HttpRequest, url: str) -> SchemaRegistryError | None:
        place = request.at(url)
        if isinstance(answer, NoResponse):
            kind = SchemaRegistryAccessError if answer.refused else SchemaRegistryUnavailableError
            return kind(-1, -1, answer.reason, request=place)
        if 200 <= answer.status < 300:
            return None
        code, message = -1, ""
        try:
            found = json.loads(answer.body)
        except (ValueError, RecursionError):  # a page of a proxy, for example
            message = answer.body[:200].decode("utf-8", "replace")
        else:
            if isinstance(found, dict):
                code, message = found.get("error_code", -1), found.get("message") or found.get("detail") or ""
        code = code if type(code) is int else -1
        if 300 <= answer.status < 400:
            message = f"it redirects to {answer.headers.get('location', 'no address')!r}, which is not followed"
        return error_of_response(answer.status, code, str(message), place)


def _json_of(answer: HttpResponse | NoResponse, request: HttpRequest, url: str) -> Any:
    assert isinstance(answer, HttpResponse)
    if answer.status == 204 or not answer.body:
        return None
    try:
        return json.loads(answer.body)
    except (ValueError, RecursionError):
        start = answer.body[:100].decode("utf-8", "replace")
        raise SchemaRegistryError(
            answer.status, -1, f"the response is no JSON: {start!r}. Is the url a registry's?", request=request.at(url)
        ) from None
