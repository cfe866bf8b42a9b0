"""One token and one thread for all clients with the same login."""

from __future__ import annotations

import gc
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import closing
from typing import Any

import pytest

from pyconsumer.clock import ManualClock
from pyconsumer.errors import AuthenticationError
from pyconsumer.network.oidc import LoginFailed, LoginRefused, Token
from pyconsumer.network.sasl import mechanism_factory
from pyconsumer.network.tokens import SharedLogin, join_login, refresh_after
from pyconsumer.settings.config import ClientConfig
from tests.support.token_server import TokenServer
from tests.unit.network.security import login

LOGIN = login("http://127.0.0.1:1/token")


class Script:
    """A login whose end point answers as a test says, without a thread and without waiting."""

    def __init__(self, *answers: Token | Exception) -> None:
        self.answers = list(answers)
        self.clock = ManualClock(1000.0)
        self.login = SharedLogin(LOGIN, self._fetch, self.clock.now, lambda: 0.0)
        self.login._thread = threading.current_thread()  # the test is the thread
        self.login.join(1)

    def _fetch(self, config: ClientConfig) -> Token:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def ask(self) -> Future[str]:
        found = self.login.token()
        assert isinstance(found, Future)
        return found


@pytest.mark.parametrize(
    ("life_s", "chance", "after_s"),
    [(3600, 0.0, 2880), (3600, 1.0, 3060), (1000, 0.0, 700), (400, 0.0, 100), (361, 0.0, 61), (300, 1.0, 240)],
)
def test_the_time_of_a_renewal_is_that_of_javas_client(life_s: float, chance: float, after_s: float) -> None:
    assert refresh_after(life_s, LOGIN, chance) == pytest.approx(after_s)


def test_tokens_with_a_short_life_are_not_asked_for_without_a_pause() -> None:
    at_once = LOGIN.replace(sasl_login_refresh_buffer_seconds=0, sasl_login_refresh_min_period_seconds=0)
    assert refresh_after(0.001, LOGIN, 0.0) == refresh_after(0.001, at_once, 0.0) == 1.0


def test_one_token_serves_until_it_ends() -> None:
    script = Script(Token("one", 3600), Token("two", 3600))
    first, second = script.ask(), script.ask()
    script.login.attempt()
    assert (first.result(0), second.result(0), script.login.token()) == ("one", "one", "one")
    script.clock.advance(3599)
    assert script.login.token() == "one"
    script.clock.advance(2)
    third = script.ask()
    script.login.attempt()
    assert third.result(0) == "two"


def test_a_failing_renewal_is_a_warning_until_the_token_ends(caplog: pytest.LogCaptureFixture) -> None:
    script = Script(Token("one", 3600), LoginFailed("it is down"), LoginRefused("no"), Token("two", 3600))
    script.ask()
    script.login.attempt()
    script.clock.advance(3000)
    for _ in range(2):
        script.login.attempt()
    assert script.login.token() == "one"
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * 2
    assert "valid for 600 s more: it is down" in caplog.text
    script.login.attempt()
    script.clock.advance(3000)
    assert script.login.token() == "two"


def test_who_waits_gets_the_error_of_a_refusal_at_once_and_of_a_failure_after_some_time() -> None:
    script = Script(LoginRefused("no"), LoginFailed("down"), LoginFailed("still down"), Token("one", 60))
    refused = script.ask()
    script.login.attempt()
    with pytest.raises(AuthenticationError, match="no"):
        refused.result(0)
    waits = script.ask()
    script.login.attempt()
    assert not waits.done()
    script.clock.advance(10)
    script.login.attempt()
    with pytest.raises(AuthenticationError, match="still down"):
        waits.result(0)
    again = script.ask()
    script.login.attempt()
    assert again.result(0) == "one"


def test_without_its_extra_an_assertion_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.serialization", None)
    config = login(
        "http://127.0.0.1:1/token",
        sasl_oauthbearer_client_credentials_client_secret=None,
        sasl_oauthbearer_assertion_private_key_pem="-----BEGIN PRIVATE KEY-----",
        sasl_oauthbearer_assertion_claim_iss="i",
    )
    with closing(join_login(config)) as member, pytest.raises(AuthenticationError, match=r"'pyconsumer\[crypto\]'"):
        result(member.token())
    until(lambda: not threads())


def test_a_fault_does_not_end_the_thread() -> None:
    script = Script(RuntimeError("s3cr3t"), Token("one", 60))
    waits = script.ask()
    script.login.attempt()
    with pytest.raises(AuthenticationError, match="RuntimeError while a token") as caught:
        waits.result(0)
    assert "s3cr3t" not in str(caught.value)


# -- with threads -----------------------------------------------------------------------------------------------------


@pytest.fixture
def provider() -> Iterator[TokenServer]:
    with TokenServer() as server:
        yield server


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "pyconsumer-login"]


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def result(found: Any) -> str:
    text: str = found.result(10) if isinstance(found, Future) else found
    return text


def test_clients_with_one_login_have_one_thread_and_one_token(provider: TokenServer) -> None:
    same, other = login(f"{provider.url}/token"), login(f"{provider.url}/token", sasl_oauthbearer_scope="other")
    first, second, third = join_login(same), join_login(same), join_login(other)
    assert result(first.token()) == result(second.token()) != result(third.token())
    assert provider.given == 2
    assert len(threads()) == 2
    third.close()
    third.close()
    first.close()
    until(lambda: len(threads()) == 1)
    assert result(second.token())
    del second  # a client that is dropped without close
    gc.collect()
    until(lambda: not threads())
    with_new_thread = join_login(same)
    assert result(with_new_thread.token())
    assert provider.given == 3
    with_new_thread.close()
    until(lambda: not threads())


@pytest.mark.slow
def test_tokens_are_renewed_ahead(provider: TokenServer) -> None:
    provider.life_s = 4
    with closing(join_login(login(f"{provider.url}/token", sasl_login_refresh_window_factor=0.5))) as member:
        first = result(member.token())
        until(lambda: provider.given >= 2)
        until(lambda: member.token() != first)
        assert isinstance(member.token(), str)  # nobody waited for it
    until(lambda: not threads())


def test_no_call_waits_for_the_end_point(provider: TokenServer) -> None:
    factory = mechanism_factory(login(f"{provider.url}/token", sasl_oauthbearer_extensions={"cluster": "lkc"}))
    assert factory is not None
    mechanism: Any = factory()
    assert mechanism.first() is None
    until(mechanism.first)
    assert b"\x01cluster=lkc\x01\x01" in mechanism.first()
    factory.close()
    until(lambda: not threads())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_forked_child_begins_its_own_login(provider: TokenServer) -> None:
    config = login(f"{provider.url}/token")
    member = join_login(config)
    result(member.token())
    child = os.fork()
    if not child:
        code = 1
        try:
            own = join_login(config)
            code = 0 if isinstance(own.token(), Future) and result(own.token()) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert provider.given == 2
    member.close()
    until(lambda: not threads())


def test_a_token_in_a_file_is_read_at_each_login(tmp_path: Any) -> None:
    file = tmp_path / "a token"
    file.write_text("one\n")
    member = join_login(login(file.as_uri()))
    assert member.token() == "one"
    file.write_text("two")
    assert member.token() == "two"
    file.write_text("")
    with pytest.raises(AuthenticationError, match="is empty"):
        member.token()
    assert not threads()
