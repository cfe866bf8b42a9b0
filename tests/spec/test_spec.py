"""The lists are sound and complete, each row has an area, broken rules fit the sources, and the page is current."""

from __future__ import annotations

import pytest

from tests.spec.areas import problems_of_areas
from tests.spec.items import Item, problems, read_lists
from tests.spec.mutations import MISSED, UNTRIED, problems_of_mutations, read_mutations
from tests.spec.page import PAGE, page


@pytest.fixture(scope="module")
def items() -> list[Item]:
    return read_lists()


def test_the_lists_are_sound(items: list[Item]) -> None:
    """Known statuses, no id twice, whole sentences, references to existing items."""
    assert problems(items) == []


def test_the_lists_are_whole(items: list[Item]) -> None:
    """Items are settled by their status, never by dropping the line."""
    counts = {name: sum(item.list_name == name for item in items) for name in ("client", "broker", "transactions")}
    assert counts == {"client": 763, "broker": 582, "transactions": 739}


def test_every_row_belongs_to_one_area_whose_tests_exist(items: list[Item]) -> None:
    assert problems_of_areas(items) == []


def test_every_broken_rule_can_still_be_broken(items: list[Item]) -> None:
    """A line of mutations.tsv without a matching source must be written again, and tried again."""
    assert problems_of_mutations(read_mutations(), items) == []


def test_every_broken_rule_was_tried_and_noticed() -> None:
    assert [one for one in read_mutations() if one.noticed_by in (MISSED, UNTRIED)] == []


def test_the_page_is_current(items: list[Item]) -> None:
    assert PAGE.read_text(encoding="utf-8") == page(items, read_mutations()), "run python -m tests.spec --page"
