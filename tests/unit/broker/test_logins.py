"""The broker's side of SCRAM against the client's, and messages that no honest client sends."""

from __future__ import annotations

import base64
import hmac

import pytest

from pyconsumer.broker.logins import (
    LoginError,
    Logins,
    LoginStep,
    PlainUsers,
    ScramCredential,
    ScramLogin,
    SlowStep,
    run_at_once,
)
from pyconsumer.errors import AuthenticationError
from pyconsumer.network.sasl import Scram
from pyconsumer.scram import ScramMechanism

SECRET = b"the secret of a cluster"
MECHANISMS = pytest.mark.parametrize("mechanism", list(ScramMechanism))


def login(mechanism: ScramMechanism, *, user: str = "alice", password: str = "secret", secret: bytes = SECRET):
    known = {(user, mechanism): ScramCredential.of_password(mechanism, password, b"salt" * 5)}
    return ScramLogin(mechanism, lambda name, kind: known.get((name, kind)), secret)


def first_answer(server: ScramLogin, user: str, mechanism: ScramMechanism = ScramMechanism.SCRAM_SHA_256) -> dict:
    answer = server.respond(Scram(mechanism.label, user, "x").first()).answer.decode()
    return dict(part.split("=", 1) for part in answer.split(","))


@MECHANISMS
@pytest.mark.parametrize("user", ["alice", "a=b,c"])
def test_who_knows_the_password_is_let_in_and_sees_that_the_broker_knows_it(
    mechanism: ScramMechanism, user: str
) -> None:
    client, server = Scram(mechanism.label, user, "secret"), login(mechanism, user=user)
    middle = server.respond(client.first())
    assert middle.user is None
    proof = client.respond(middle.answer)
    assert proof is not None
    end = server.respond(proof)
    assert end.user == user
    assert client.respond(end.answer) is None


@MECHANISMS
@pytest.mark.parametrize(("user", "password"), [("alice", "wrong"), ("bob", "secret")])
def test_a_wrong_user_and_a_wrong_password_fail_at_the_same_message_with_the_same_text(
    mechanism: ScramMechanism, user: str, password: str
) -> None:
    client, server = Scram(mechanism.label, user, password), login(mechanism)
    proof = client.respond(server.respond(client.first()).answer)
    assert proof is not None
    with pytest.raises(LoginError, match=f"^Authentication failed during .* SASL mechanism {mechanism.label}$"):
        server.respond(proof)


def test_an_unknown_user_has_one_salt_that_only_the_cluster_knows() -> None:
    first, again, other, elsewhere = (
        first_answer(login(ScramMechanism.SCRAM_SHA_256, secret=secret), user)
        for user, secret in (("bob", SECRET), ("bob", SECRET), ("eve", SECRET), ("bob", b"another"))
    )
    known = first_answer(login(ScramMechanism.SCRAM_SHA_256), "alice")
    assert first["s"] == again["s"]
    assert len({first["s"], other["s"], elsewhere["s"]}) == 3
    assert first["i"] == known["i"]
    assert first["r"] != again["r"]
    assert len(base64.b64decode(first["s"])) == 24


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"n,,n=alice",
        b"p=tls-unique,,n=alice,r=abc",
        b"n,,n=,r=abc",
        b"n,,n=al=ice,r=abc",
        b"y,,n=alice,r=abc",
        "n,,n=Jörg,r=abc".encode(),
        b"n,,m=x,n=alice,r=abc",
        b"n,,n=alice,r=\xff",
        b"n,a=bob,n=alice,r=abc",
        b"n,,n=alice,r=" + b"x" * 10_000,
        b"\0alice\0secret",
    ],
)
def test_a_first_message_that_is_none(message: bytes) -> None:
    with pytest.raises(LoginError):
        login(ScramMechanism.SCRAM_SHA_256).respond(message)


def test_an_authorization_id_may_repeat_the_name() -> None:
    assert login(ScramMechanism.SCRAM_SHA_256).respond(b"n,a=alice,n=alice,r=abc").answer.startswith(b"r=abc")


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("r=", "r=x"),  # another nonce
        lambda text: text.replace("c=biws", "c=eSws"),  # another header than in the first message
        lambda text: text.replace("c=biws", "c=???"),
        lambda text: text.split(",p=")[0],
        lambda text: text.split(",p=")[0] + ",p=AAAA",
        lambda text: text.split(",p=")[0] + ",p=!!!!",
        lambda text: text[:-8] + "AAAAAAA=",
        lambda text: "e=other-error",
    ],
)
def test_a_changed_final_message_is_refused(change) -> None:
    client, server = Scram("SCRAM-SHA-256", "alice", "secret"), login(ScramMechanism.SCRAM_SHA_256)
    proof = client.respond(server.respond(client.first()).answer)
    assert proof is not None
    with pytest.raises(LoginError):
        server.respond(change(proof.decode()).encode())


def test_a_broker_that_does_not_know_the_password_is_noticed() -> None:
    client, server = Scram("SCRAM-SHA-256", "alice", "secret"), login(ScramMechanism.SCRAM_SHA_256)
    client.respond(server.respond(client.first()).answer)
    with pytest.raises(AuthenticationError, match="did not prove"):
        client.respond(b"v=" + base64.b64encode(bytes(32)))


def test_a_credential_has_no_password_and_shows_no_key() -> None:
    found = ScramCredential.of_password(ScramMechanism.SCRAM_SHA_512, "secret")
    assert ScramCredential.from_json(found.to_json()) == found
    assert repr(found) == "ScramCredential(iterations=4096)"
    assert found.fits(ScramMechanism.SCRAM_SHA_512, "secret")
    assert not found.fits(ScramMechanism.SCRAM_SHA_512, "other")


def test_each_name_takes_the_same_steps_with_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    compare = hmac.compare_digest

    def compared(one: bytes, other: bytes) -> bool:
        steps.append(f"compare {len(one)} {len(other)}")
        return compare(one, other)

    def changed(name: str, password: bytes) -> None:
        steps.append("changed")

    monkeypatch.setattr("pyconsumer.broker.logins.hmac.compare_digest", compared)
    users = PlainUsers({"alice": "secret"}, changed)
    assert users.authenticate(b"\0alice\0secret") == LoginStep(b"", "alice")
    for message in (b"\0alice\0wrong", b"\0nobody\0secret"):
        with pytest.raises(LoginError, match="Invalid username or password"):
            users.authenticate(message)
    assert steps == ["compare 32 32", "changed"] * 3


def test_a_slow_check_is_left_to_another_thread() -> None:
    users = PlainUsers({"alice": "old"}, lambda name, password: lambda: password == b"new")
    good, bad = (users.authenticate(b"\0alice\0" + password) for password in (b"new", b"old"))
    assert isinstance(good, SlowStep)
    assert isinstance(bad, SlowStep)
    assert run_at_once(good.run, lambda: True).value == LoginStep(b"", "alice")
    assert isinstance(run_at_once(bad.run, lambda: True).value, LoginError)


def test_logins_of_a_listener() -> None:
    logins = Logins(PlainUsers({"alice": "secret"}), lambda name, mechanism: None, SECRET)
    assert logins.begin("PLAIN").respond(b"\0alice\0secret").user == "alice"
    assert logins.begin("SCRAM-SHA-512").respond(b"n,,n=alice,r=abc").user is None
    with pytest.raises(KeyError):
        logins.begin("GSSAPI")
