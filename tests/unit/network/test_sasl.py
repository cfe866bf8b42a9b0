"""SASL mechanisms, with the examples of their RFCs."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from pyconsumer.errors import AuthenticationError
from pyconsumer.network.sasl import OAuthBearer, Plain, Scram, mechanism_factory
from tests.unit.network.broker import make_config


def test_plain_is_one_message() -> None:
    plain = Plain("tim", "tanstaaftanstaaf")
    assert plain.first() == b"\0tim\0tanstaaftanstaaf"
    assert plain.respond(b"") is None


def make_scram() -> Scram:
    return Scram("SCRAM-SHA-256", "user", "pencil", nonce="rOprNGfwEbeRWgbNEkqO")


SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"


def test_scram_follows_the_example_of_rfc_7677() -> None:
    scram = make_scram()
    assert scram.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert scram.respond(SERVER_FIRST) == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert scram.respond(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=") is None
    assert scram.respond(b"") is None


def test_scram_512_is_another_hash() -> None:
    scram = Scram("SCRAM-SHA-512", "a=b,c", "secret")
    first = scram.first().decode()
    assert first.startswith("n,,n=a=3Db=2Cc,r=")
    nonce = first.rpartition("r=")[2]
    final = scram.respond(f"r={nonce}more,s={base64.b64encode(b'salt').decode()},i=8192".encode())
    assert final is not None
    assert len(base64.b64decode(final.rpartition(b"p=")[2])) == 64
    assert Scram("SCRAM-SHA-256", "u", "p").first() != Scram("SCRAM-SHA-256", "u", "p").first()


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (b"nonsense", "is malformed"),
        (b"r=rOprNGfwEbeRWgbNEkqOx,s=!!,i=4096", "is malformed"),
        (b"r=other,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "does not continue ours"),
        (b"r=rOprNGfwEbeRWgbNEkqO,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "does not continue ours"),
        (b"r=rOprNGfwEbeRWgbNEkqOx,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=1", "iterations"),
        (b"r=rOprNGfwEbeRWgbNEkqOx,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=999999999", "iterations"),
        (b"r=rOprNGfwEbeRWgbNEkqOx,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=2147483648", "iterations"),
        (b"r=rOprNGfwEbeRWgbNEkqOx,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=1000001", "4096 to 1000000 are accepted"),
    ],
)
def test_scram_rejects_an_invalid_first_message(message: bytes, why: str) -> None:
    with pytest.raises(AuthenticationError, match=why):
        make_scram().respond(message)


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (b"e=other-error", "refused: other-error"),
        (b"v=AAAA", "did not prove that it knows the password"),
        (b"nonsense", "did not prove that it knows the password"),
        (b"v=%%%", "did not prove that it knows the password"),
    ],
)
def test_scram_requires_a_proof_of_the_broker(message: bytes, why: str) -> None:
    scram = make_scram()
    scram.respond(SERVER_FIRST)
    with pytest.raises(AuthenticationError, match=why):
        scram.respond(message)


class Provider:
    def token(self) -> str:
        return "abc.def.ghi"

    def extensions(self) -> dict[str, str]:
        return {"traceId": "123"}


def test_oauthbearer_sends_the_token_with_extensions() -> None:
    assert OAuthBearer(Provider()).first() == b"n,,\x01auth=Bearer abc.def.ghi\x01traceId=123\x01\x01"
    assert OAuthBearer(lambda: "t").first() == b"n,,\x01auth=Bearer t\x01\x01"


def test_oauthbearer_lets_the_broker_explain_its_error() -> None:
    assert OAuthBearer(Provider()).respond(b'{"status":"invalid_token"}') == b"\x01"
    assert OAuthBearer(Provider()).respond(b"") is None


def test_oauthbearer_without_a_token_is_an_error() -> None:
    with pytest.raises(AuthenticationError, match="no token"):
        OAuthBearer(lambda: "").first()


@pytest.mark.parametrize(
    ("mechanism", "options"),
    [
        ("PLAIN", {"sasl_plain_username": "u", "sasl_plain_password": "p"}),
        ("SCRAM-SHA-256", {"sasl_plain_username": "u", "sasl_plain_password": "p"}),
        ("SCRAM-SHA-512", {"sasl_plain_username": "u", "sasl_plain_password": "p"}),
        ("OAUTHBEARER", {"sasl_oauth_token_provider": Provider()}),
    ],
)
def test_the_settings_choose_the_mechanism(mechanism: str, options: dict[str, Any]) -> None:
    config = make_config(security_protocol="SASL_PLAINTEXT", sasl_mechanism=mechanism, **options)
    factory = mechanism_factory(config)
    assert factory is not None
    assert factory().name == mechanism
    assert factory() is not factory()


def test_no_sasl_no_mechanism() -> None:
    assert mechanism_factory(make_config()) is None
