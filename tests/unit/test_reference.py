"""The reference of settings matches the code."""

from __future__ import annotations

from tests.support.make_reference import PATH, reference


def test_the_page_of_settings_is_current() -> None:
    assert PATH.read_text(encoding="utf-8") == reference(), "run python -m tests.support.make_reference"
