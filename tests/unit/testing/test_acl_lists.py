"""The list of rules beside a module of tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyconsumer.acls import parse_acl
from pyconsumer.cli.acls import new_rules_from
from pyconsumer.errors import ConfigurationError
from pyconsumer.testing.acl_lists import fill_in, list_of, pattern_in, rules_of, write_list


def test_a_list_has_the_rules_of_each_test(tmp_path: Path) -> None:
    path = list_of(tmp_path / "test_shop.py")
    assert path.name == "test_shop.kafka-acls"
    assert rules_of(path, "test_a") == []
    assert write_list(path, {"test_b": parse_acl("b: READ topic t") * 2, "test_a": []}) == 1
    first = path.read_text()
    path.write_text(first.replace("# test: test_a", "all: READ group g\n# a word\n# test: test_a"))
    assert rules_of(path, "test_b") == parse_acl("all: READ group g") + parse_acl("b: READ topic t")
    assert write_list(path, {"test_a": parse_acl("a: READ,DESCRIBE topic t-*")}) == 1
    assert path.read_text().splitlines()[1:] == [
        "all: READ group g",
        "",
        "# test: test_a",
        "a: READ topic t-*",
        "",
        "# test: test_b",
        "b: READ topic t",
    ]
    assert len(new_rules_from([f"@{path}"])) == 3  # `pyconsumer acls add` reads the same file


def test_a_line_that_is_no_rule(tmp_path: Path) -> None:
    path = tmp_path / "test_shop.kafka-acls"
    path.write_text("# test: test_a\na may READ\n")
    with pytest.raises(ConfigurationError, match="no rule of access"):
        rules_of(path, "test_a")


def test_names_of_a_run_become_prefixes() -> None:
    names = ["test_a-6f00aa11-3", "test_a-6f00aa11-3-dead", "orders", "test_a-99-3"]
    found = [(name, pattern.name) for name, pattern in (pattern_in("6f00aa11", one) for one in names)]
    assert found == [
        ("test_a-", "PREFIXED"),
        ("test_a-", "PREFIXED"),
        ("orders", "LITERAL"),
        ("test_a-99-3", "LITERAL"),
    ]


def test_a_mark_names_what_the_fixtures_have_made() -> None:
    line = fill_in("a: READ topic {kafka_topic}", {"kafka_topic": 'odd "name'})
    assert [acl.name for acl in parse_acl(line)] == ['odd "name']
    assert fill_in("a: READ topic {other}", {"kafka_topic": "t"}) == "a: READ topic {other}"
