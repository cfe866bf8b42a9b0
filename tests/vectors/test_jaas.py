"""``sasl.jaas.config``: what Kafka's clients read in it, ours read as well, with the same values."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from pyconsumer.errors import ConfigurationError
from pyconsumer.settings.jaas import parse_jaas, quoted
from tests.support.java import need_jars, tools

_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
_BLANKS = [" ", "\n", "\r", "\t", "\x00", "// x\n", "/* y */"]
_PIECES = [
    *("username", "password", "required", "a", "b", "e", "n", "0", "7", "12"),
    *("=", ";", '"', "'", "\\", "\\\\", '\\"', "\\n", "\\t", "\\101", "\\4777", "\\x"),
    *("\u00e9", "\u65e5", "\x85", "\u00a0"),
    *_BLANKS,
]


def _texts() -> list[str]:
    chance = random.Random(39)

    def odd(most: int, pieces: Sequence[str] = _PIECES) -> str:
        return "".join(chance.choices(pieces, k=chance.randrange(most)))

    made = [f"{_MODULE} required username={quoted(odd(6))} password={quoted(odd(6))};" for _ in range(500)]
    made += [f'{_MODULE} required username="{odd(5)}" password="{odd(5)}";' for _ in range(1000)]
    made += [
        f"{_MODULE} {odd(3, _BLANKS)}required{odd(3)} username='{odd(4)}'{odd(3)} password=\"p\"{odd(4)};"
        for _ in range(1000)
    ]
    return made + [f'{_MODULE} required username="u"{odd(5)} password="p"{odd(3)};{odd(4)}' for _ in range(500)]


def _options(line: str) -> dict[str, str] | None:
    """Return the options in a line of the program's output, or None for a login that is refused."""
    if line == "refused":
        return None
    pairs = (part.split("=") for part in line.split(" ")[1:])
    return {bytes.fromhex(name).decode(): bytes.fromhex(value).decode() for name, value in pairs}


@pytest.mark.kafka
def test_values_are_those_that_kafkas_clients_read(tmp_path: Path) -> None:
    need_jars()
    texts = _texts()
    (tmp_path / "texts").write_text("".join(f"{text.encode().hex()}\n" for text in texts))
    printed = tools().run_source(Path(__file__).with_name("JaasOptions.java"), str(tmp_path / "texts")).stdout
    theirs = list(map(_options, printed.splitlines()))
    assert len(theirs) == len(texts)
    assert None not in theirs[:500], "what quoted() has written"
    taken = [(text, found) for text, found in zip(texts, theirs, strict=True) if found is not None]
    wrong: list[tuple[str, object, object]] = []
    for text, found in taken:
        try:
            ours = parse_jaas(text).options
        except ConfigurationError:
            if {"username", "password"} <= found.keys():
                wrong.append((text, found, "refused"))
        else:
            if ours != found:
                wrong.append((text, found, ours))
    assert not wrong, f"{len(wrong)} of {len(taken)} differ, such as {wrong[:5]}"
    assert 1000 < len(taken) < len(texts) - 100
