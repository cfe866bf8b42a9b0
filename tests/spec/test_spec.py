"""Lists and tests stay in step: sound lists, no test that names an unknown item, no claim that no test shows."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.spec.asserting import silent_tests
from tests.spec.items import NOT_APPLICABLE, Item, problems, read_lists
from tests.spec.naming import Naming, forget_trees, scan

pytestmark = pytest.mark.xdist_group("sources")


@pytest.fixture(scope="module")
def items() -> list[Item]:
    return read_lists()


@pytest.fixture(scope="module", autouse=True)
def _trees_for_this_module_only() -> Iterator[None]:
    """The syntax trees of all tests are a million objects, which would slow down later tests' garbage collections."""
    yield
    forget_trees()


@pytest.fixture(scope="module")
def naming() -> Naming:
    return scan()


def test_the_lists_are_sound(items: list[Item]) -> None:
    """Known statuses, no id twice, whole sentences, references that lead somewhere."""
    assert problems(items) == []


def test_the_lists_are_whole(items: list[Item]) -> None:
    """Items are settled by their status, never by dropping the line."""
    counts = {name: sum(item.list_name == name for item in items) for name in ("client", "broker", "transactions")}
    assert counts == {"client": 763, "broker": 582, "transactions": 739}


def test_marks_are_well_formed_and_name_at_most_five_items(naming: Naming) -> None:
    assert naming.problems == []


def test_every_named_item_exists(items: list[Item], naming: Naming) -> None:
    known = {item.full_id for item in items}
    assert {full_id: naming.places(full_id) for full_id in sorted(naming.named() - known)} == {}


def test_every_item_that_claims_something_is_named_by_a_test_or_says_why_not(items: list[Item], naming: Naming) -> None:
    """So for done, differs and design: each is shown by a test, or says why no test can."""
    named = naming.named()
    assert [item.full_id for item in items if item.needs_test and item.full_id not in named] == []
    assert [item.full_id for item in items if item.no_test is not None and item.full_id in named] == []


def test_what_is_not_applicable_is_named_by_no_test(items: list[Item], naming: Naming) -> None:
    """An item that a test can show does apply."""
    assert [one.full_id for one in items if one.kind == NOT_APPLICABLE and one.full_id in naming.named()] == []


def test_every_test_that_names_an_item_asserts_something() -> None:
    assert silent_tests() == []
