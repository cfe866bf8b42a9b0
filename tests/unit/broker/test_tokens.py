"""Tokens without a network: messages of OAUTHBEARER, claims, and what is never accepted."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from pyconsumer.broker.logins import LoginError, LoginStep, session_ms
from pyconsumer.broker.tokens import OAuthLogin, TokenChecker, TokenError, TokenRules, VerifiedToken

_NOW_S = 1_000_000


def part(value: Any) -> str:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def unsecured(header: Any = None, **claims: Any) -> str:
    return f"{part(header or {'alg': 'none'})}.{part({'sub': 'u', 'exp': _NOW_S + 10} | claims)}."


def checker(**rules: Any) -> TokenChecker:
    return TokenChecker(TokenRules(**{"unsecured": True} | rules), lambda key_id: (), lambda: _NOW_S * 1000)


def test_claims() -> None:
    assert checker().check(unsecured(scope="a b")) == VerifiedToken("u", (_NOW_S + 10) * 1000, ("a", "b"))
    found = checker(user_claim="name", scope_claim="scp").check(unsecured(name=" x ", scp=["r", 1], exp=_NOW_S + 0.5))
    assert found == VerifiedToken("x", _NOW_S * 1000 + 500, ("r",))
    assert checker(skew_s=5).check(unsecured(exp=_NOW_S - 4.9)).user == "u"


@pytest.mark.parametrize(
    ("claims", "text"),
    [
        ({"exp": None}, "no end"),
        ({"exp": True}, "exp is not a time"),
        ({"exp": -1}, "exp is not a time"),
        ({"exp": 1e300}, "exp is not a time"),
        ({"exp": _NOW_S - 31}, "it ended 31 s ago"),
        ({"nbf": _NOW_S + 31}, "it begins in 31 s"),
        ({"iat": _NOW_S + 31, "exp": _NOW_S + 60}, "time of issue"),
        ({"iat": _NOW_S + 20}, "time of issue"),
        ({"sub": ["u"]}, "no user"),
        ({"aud": {"kafka": 1}}, "another audience"),
        ({"iss": "x"}, "another issuer"),
    ],
)
def test_claims_that_are_refused(claims: dict[str, Any], text: str) -> None:
    with pytest.raises(TokenError, match=text):
        checker(audiences=frozenset({"kafka"}), issuer="i").check(unsecured(**{"aud": "kafka", "iss": "i"} | claims))


@pytest.mark.parametrize(
    "token",
    [
        "",
        "a.b",
        "a.b.c.d",
        f"{part(b'[]')}.{part(b'{}')}.",
        f"{part(b'{')}.{part(b'{}')}.",
        f"{part(b'[' * 100_000)}.{part(b'{}')}.",
        f"*.{part(b'{}')}.",
        unsecured({"alg": "none", "crit": ["x"]}),
        unsecured({"alg": "HS256"}),
        unsecured() + part(b"signature"),
        "{}.{}.".format(part({"alg": "none"}), part(b'{"sub": "a", "sub": "b", "exp": 1000005}')),
        "{}.{}.".format(part({"alg": "none"}), part(b'{"sub": "a", "exp": NaN}')),
    ],
    ids=range(12),
)
def test_forms_that_are_refused(token: str) -> None:
    with pytest.raises(TokenError):
        checker().check(token)


def test_unsigned_and_shared_algorithms_are_never_accepted_for_signed_tokens() -> None:
    asked = []
    signed = TokenChecker(TokenRules(), lambda key_id: asked.append(key_id) or (), lambda: _NOW_S * 1000)  # type: ignore[func-returns-value]
    for algorithm in ("none", "None", "HS256", "RS1", "", None, 5, ["RS256"]):
        with pytest.raises(TokenError, match="its algorithm"):
            signed.check(unsecured({"alg": algorithm}) + part(b"x"))
    assert asked == []
    with pytest.raises(TokenError, match="key id is not a string"):
        signed.check(unsecured({"alg": "RS256", "kid": 7}) + part(b"x"))
    with pytest.raises(TokenError, match="there is no key 'k' for RS256"):
        signed.check(unsecured({"alg": "RS256", "kid": "k"}) + part(b"x"))
    with pytest.raises(TokenError, match="longer than"):
        signed.check("a" * 70_000)


def test_a_login_accepts_nothing_after_a_refusal() -> None:
    def check(text: str) -> VerifiedToken:
        if text != "good":
            raise TokenError("it is bad")
        return VerifiedToken("u", 5, ())

    assert OAuthLogin(check).respond(b"n,a=u,\x01auth=Bearer good\x01x=1\x01\x01") == LoginStep(b"", "u", 5)
    login = OAuthLogin(check)
    assert login.respond(b"n,,\x01auth=Bearer bad\x01\x01") == LoginStep(b'{"status":"invalid_token"}', None)
    with pytest.raises(LoginError, match="invalid_token"):
        login.respond(b"n,,\x01auth=Bearer good\x01\x01")
    for message in (
        b"n,,\x01auth=Basic good\x01\x01",
        b"n,,\x01auth=Bearer good\x01auth=Bearer good\x01\x01",
        b"n,,\x01auth=Bearer g\x00od\x01\x01",
        b"n,,\x01" + b"auth=a b\x01" * 50_000,  # in time, although it could be read in many ways
        b"n,,\x01" + b"x=auth=a b\x01" * 9_000,
    ):
        with pytest.raises(LoginError, match="first message"):
            OAuthLogin(check).respond(message)


def test_a_token_that_is_accepted_late_holds_to_the_end_of_the_skew() -> None:
    found = [checker().check(unsecured(exp=_NOW_S + late)).expires_ms for late in (5, 0, -5)]
    assert found == [(_NOW_S + end) * 1000 for end in (5, 30, 25)]


def test_the_shorter_bound_ends_a_session() -> None:
    without, with_end = LoginStep(b"", "u"), LoginStep(b"", "u", 5000)
    assert session_ms(0, without, 1000) is None
    assert session_ms(300, without, 1000) == 300
    assert session_ms(0, with_end, 1000) == 4000
    assert session_ms(300, with_end, 1000) == 300
    assert session_ms(300, with_end, 9000) == 0
