"""The first message of a login by SCRAM: the broker takes those that Kafka's own class takes, with the same name."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from pyconsumer.admin import ScramMechanism
from pyconsumer.broker.logins import LoginError, ScramLogin
from tests.support.java import need_jars, tools

_LISTED = [
    "n,,n=alice,r=abc",
    "y,,n=alice,r=abc",
    "p=tls-unique,,n=alice,r=abc",
    "n,a=alice,n=alice,r=abc",
    "n,a=bob,n=alice,r=abc",
    "n,a=a=2Cb,n=a=2Cb,r=abc",
    "n,a=a=2cb,n=a,r=abc",
    "n,,n=J\u00f6rg,r=abc",
    "n,,n=a=2Cb=3Dc,r=abc",
    "n,,n=a=3dc,r=abc",
    "n,,n=,r=abc",
    "n,,n=a b\tc\n,r=abc",
    "n,,n=a\0b,r=abc",
    "n,,n=a,r=",
    "n,,n=a,r=a b",
    "n,,n=a,r=\u00f6",
    "n,,n=a,r=abc,tokenauth=true",
    "n,,n=a,r=abc,t=true,u=1",
    "n,,n=a,r=abc,t1=true",
    "n,,n=a,r=abc,t=",
    "n,,n=a,r=abc,",
    "n,,n=a,r=abc\n",
    "",
]
_PIECES = ["n", "y", ",", ",,", "n=", "r=", "a=", "=2C", "=3D", "=", "alice", "b", "\u00e9", " ", "x=1", "\x01", "\x7f"]


def _messages() -> list[bytes]:
    chance = random.Random(39)
    made = ["".join(chance.choices(_PIECES, k=chance.randrange(1, 9))) for _ in range(1000)]
    made += [
        f"n,,n={''.join(chance.choices(_PIECES, k=3))},r={''.join(chance.choices(_PIECES, k=2))}" for _ in range(2000)
    ]
    return [text.encode() for text in [*_LISTED, *made]]


def _answer(message: bytes) -> str:
    names = []

    def find(name: str, _: ScramMechanism) -> None:
        names.append(name)

    try:
        ScramLogin(ScramMechanism.SCRAM_SHA_256, find, b"of the cluster").respond(message)
    except LoginError:
        return "refused"
    return names[0].encode().hex()


@pytest.mark.kafka
def test_first_messages_are_those_that_kafkas_class_takes(tmp_path: Path) -> None:
    need_jars()
    messages = _messages()
    (tmp_path / "messages").write_text("".join(f"{message.hex()}\n" for message in messages))
    source = Path(__file__).with_name("ScramFirst.java")
    theirs = tools().run_source(source, str(tmp_path / "messages")).stdout.splitlines()
    assert len(theirs) == len(messages)
    wrong = [
        (message, mine, other)
        for message, other in zip(messages, theirs, strict=True)
        if (mine := _answer(message)) != other
    ]
    assert not wrong, f"{len(wrong)} of {len(messages)} differ, such as {wrong[:5]}"
    assert 20 < sum(other != "refused" for other in theirs) < len(theirs) - 20
