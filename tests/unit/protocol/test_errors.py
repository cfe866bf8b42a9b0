"""The messages of broker errors, which users read when a broker sends only a code."""

from __future__ import annotations

import re

from pyconsumer.errors import BY_CODE, for_code


def test_a_code_without_a_message_is_explained_in_a_sentence() -> None:
    def words(text: str) -> str:
        return re.sub("[^a-z]", "", text.lower())

    for cls in BY_CODE.values():
        text = str(for_code(cls.errno))
        prefix = f"{cls.code_name} (error code {cls.errno}): "
        assert text.startswith(prefix)
        message = text[len(prefix) :]
        assert re.fullmatch(r"[A-Z][^\n]*\.", message), text
        assert "  " not in message  # a docstring of two lines is one line here
        assert not words(cls.code_name).startswith(words(message)), "the message only repeats the name of the code"
