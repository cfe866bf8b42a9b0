"""Retries of a request, without a socket and on a clock that the tests move."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any

import pytest

from pyconsumer.clock import ManualClock
from pyconsumer.schemas import (
    IncompatibleSchemaError,
    InvalidSchemaError,
    SchemaNotFoundError,
    SchemaRegistryAccessError,
    SchemaRegistryError,
    SchemaRegistryTimeoutError,
    SchemaRegistryUnavailableError,
)
from pyconsumer.schemas.registry.exchange import Attempt, Exchange, HttpRequest, HttpResponse, NoResponse, Pause
from pyconsumer.schemas.registry.settings import RegistrySettings

_GET = HttpRequest("GET", "/subjects")
_OK = HttpResponse(200, {}, b'["a"]')


class _Registry:
    """Answers attempts from a list. Each attempt takes ``takes`` seconds."""

    def __init__(self, *answers: HttpResponse | NoResponse, urls: str = "http://a", takes: float = 0.0, **conf: Any):
        self.clock = ManualClock()
        self.asked: list[tuple[str, float]] = []
        self.pauses: list[float] = []
        self._answers = list(answers)
        self._takes = takes
        settings = RegistrySettings.of({"url": urls, **{name.replace("_", "."): each for name, each in conf.items()}})
        self.exchange = Exchange(settings, self.clock, lambda: 1.0)

    def send(self, request: HttpRequest = _GET, timeout_s: float = 30.0) -> Any:
        steps = self.exchange.send(request, self.clock.now() + timeout_s)
        answer: HttpResponse | NoResponse | None = None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as stop:
                return stop.value
            if isinstance(step, Pause):
                self.pauses.append(step.seconds)
                self.clock.advance(step.seconds)
                answer = None
            else:
                assert isinstance(step, Attempt)
                self.asked.append((step.url, step.timeout_s))
                answer = self._answers.pop(0)
                self.clock.advance(min(self._takes, step.timeout_s))


def _error(status: int, code: int = -1, message: str = "no", **headers: str) -> HttpResponse:
    body = json.dumps({"error_code": code, "message": message}).encode()
    return HttpResponse(status, {name.replace("_", "-"): value for name, value in headers.items()}, body)


def test_a_response_is_returned() -> None:
    registry = _Registry(_OK)
    assert registry.send() == ["a"]
    assert registry.asked == [("http://a", 30.0)]


@pytest.mark.parametrize("answer", [HttpResponse(204, {}, b""), HttpResponse(200, {}, b"")])
def test_an_empty_response_is_none(answer: HttpResponse) -> None:
    assert _Registry(answer).send() is None


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_a_registry_that_is_busy_or_failed_is_asked_again_with_growing_pauses(status: int) -> None:
    registry = _Registry(*[_error(status)] * 3, _OK)
    assert registry.send() == ["a"]
    assert registry.pauses == [1.0, 2.0, 4.0]


def test_the_last_cause_is_the_error_after_all_retries() -> None:
    registry = _Registry(*[_error(503, 50003, "the leader is unknown")] * 4)
    with pytest.raises(SchemaRegistryUnavailableError, match="GET http://a/subjects: the leader is unknown") as caught:
        registry.send()
    assert (caught.value.http_status_code, caught.value.error_code, caught.value.retriable) == (503, 50003, True)
    assert len(registry.asked) == 4


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, SchemaRegistryAccessError),
        (403, SchemaRegistryAccessError),
        (404, SchemaNotFoundError),
        (409, IncompatibleSchemaError),
        (422, InvalidSchemaError),
        (400, SchemaRegistryError),
        (501, SchemaRegistryUnavailableError),
    ],
)
def test_other_errors_are_final(status: int, kind: type[SchemaRegistryError]) -> None:
    registry = _Registry(_error(status, 12345, "because"))
    with pytest.raises(kind, match="because") as caught:
        registry.send()
    assert type(caught.value) is kind
    assert (caught.value.http_status_code, caught.value.error_code, caught.value.error_message) == (
        status,
        12345,
        "because",
    )
    assert len(registry.asked) == 1


def test_addresses_are_tried_one_after_the_other_and_share_the_time() -> None:
    registry = _Registry(NoResponse("Connection refused"), _OK, _OK, urls="http://a,http://b", takes=2.0)
    assert registry.send(timeout_s=10) == ["a"]
    assert registry.asked == [("http://a", 5.0), ("http://b", 8.0)]
    assert registry.pauses == []
    registry.send(timeout_s=10)
    assert registry.asked[2] == ("http://b", 5.0), "the address that answered last comes first"


def test_a_pause_follows_each_round_over_the_addresses() -> None:
    registry = _Registry(*[NoResponse("Connection refused")] * 4, _OK, urls="http://a,http://b")
    assert registry.send() == ["a"]
    assert registry.pauses == [1.0, 2.0]


@pytest.mark.parametrize(
    "text",
    [
        lambda clock: "7",
        lambda clock: format_datetime(datetime.fromtimestamp(clock.wall_ms() / 1000 + 7, UTC), usegmt=True),
    ],
    ids=["seconds", "date"],
)
def test_retry_after_makes_the_pause_longer(text: Callable[[ManualClock], str]) -> None:
    registry = _Registry(_error(429, retry_after=text(ManualClock())), _OK)
    assert registry.send() == ["a"]
    assert registry.pauses == [7.0]


def test_a_retry_after_that_is_no_time_has_no_effect() -> None:
    registry = _Registry(_error(429, retry_after="soon"), _OK)
    registry.send()
    assert registry.pauses == [1.0]


def test_a_pause_beyond_the_deadline_ends_the_call_at_once() -> None:
    registry = _Registry(_error(429, message="slow down", retry_after="60"))
    with pytest.raises(SchemaRegistryUnavailableError, match="slow down"):
        registry.send(timeout_s=30)
    assert registry.pauses == []


@pytest.mark.parametrize(("takes", "kind"), [(4.0, SchemaRegistryUnavailableError), (60.0, SchemaRegistryTimeoutError)])
def test_a_call_takes_no_longer_than_its_time(takes: float, kind: type[SchemaRegistryError]) -> None:
    registry = _Registry(*[NoResponse("no response")] * 10, takes=takes)
    began = registry.clock.now()
    with pytest.raises(kind, match="GET http://a/subjects: no response") as caught:
        registry.send(timeout_s=10)
    assert type(caught.value) is kind
    assert registry.clock.now() - began <= 10
    assert isinstance(SchemaRegistryTimeoutError(-1, -1, ""), TimeoutError)


def test_a_deletion_that_may_have_arrived_is_not_sent_again() -> None:
    registry = _Registry(NoResponse("the connection broke"), _OK)
    with pytest.raises(SchemaRegistryUnavailableError, match="the connection broke"):
        registry.send(HttpRequest("DELETE", "/subjects/a"))
    other = _Registry(NoResponse("Connection refused", sent=False), _OK)
    assert other.send(HttpRequest("DELETE", "/subjects/a")) == ["a"]


def test_a_cause_that_another_attempt_cannot_change_is_final() -> None:
    registry = _Registry(NoResponse("certificate verify failed", sent=False, final=True))
    with pytest.raises(SchemaRegistryUnavailableError, match="certificate verify failed"):
        registry.send()


def test_a_page_of_a_proxy_is_an_error_with_its_beginning() -> None:
    with pytest.raises(SchemaRegistryError, match=r"no JSON: '<html>'. Is the url a registry's\?"):
        _Registry(HttpResponse(200, {}, b"<html>")).send()
    with pytest.raises(SchemaRegistryAccessError, match="<html>denied"):
        _Registry(HttpResponse(403, {}, b"<html>denied")).send()


@pytest.mark.parametrize("status", [200, 500])
def test_json_that_is_nested_too_deep_is_an_error_of_the_registry(status: int) -> None:
    with pytest.raises(SchemaRegistryError, match=r"\[\[\["):
        _Registry(*[HttpResponse(status, {}, b"[" * 100_000)] * 4).send()


def test_a_page_with_status_404_is_no_answer_of_a_registry() -> None:
    for body in (b"<html>", b"{}", b"[]"):
        with pytest.raises(SchemaRegistryUnavailableError):
            _Registry(HttpResponse(404, {}, body)).send()


def test_a_redirect_that_was_not_followed_is_an_error_with_its_address() -> None:
    with pytest.raises(SchemaRegistryError, match="redirects to 'ftp://b', which is not followed"):
        _Registry(HttpResponse(302, {"location": "ftp://b"}, b"")).send()
