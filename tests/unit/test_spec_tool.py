"""The tools behind the requirement lists, and the one that finds tests without an assertion."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.spec.__main__ import main
from tests.spec.areas import area_of
from tests.spec.items import ListFormatError, count_by_section, problems, read_list, read_lists, resolve
from tests.spec.mutations import UNTRIED, Mutation, draw, problems_of_mutations, read_mutations, write_mutations
from tests.support.asserting import silent_tests


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with three small lists."""
    path = tmp_path / "lists"
    path.mkdir()
    _write(
        path,
        client="# FE: Fetcher\nFE-01\tA fetch is sent.\topen\nFE-02\tA fetch is answered, see broker:JG-01.\tdone\n",
        broker="# JG: JoinGroup\n"
        "JG-01\tA join is answered.\tdiffers: it is not; no test: small\nJG-02\tThe same.\tsame as JG-01\n",
        transactions="# TXA: API\nTXA-01a\tIt starts.\tnot applicable: old\nTXA-02\tIt ends.\tsame as client:FE-01\n",
    )
    return path


def _write(folder: Path, **lists: str) -> None:
    for name, text in lists.items():
        (folder / f"{name}.tsv").write_text(text, encoding="utf-8")


class TestLists:
    def test_sound_lists_have_no_problems_and_keep_section_and_kind(self, folder: Path) -> None:
        items = read_lists(folder)
        assert problems(items) == []
        assert [item.full_id for item in items][:3] == ["client:FE-01", "client:FE-02", "broker:JG-01"]
        assert {item.section for item in items} == {"FE: Fetcher", "JG: JoinGroup", "TXA: API"}
        assert [item.kind for item in items] == ["open", "done", "differs", "same as", "not applicable", "same as"]
        assert items[-1].target == "client:FE-01"

    @pytest.mark.parametrize(
        ("line", "problem"),
        [
            ("FE-03\tA thing.\tfinished", "unknown status"),
            ("FE-03\tA thing.\tdiffers: ", "unknown status"),
            ("FE-03\tA thing.\tdesign", "unknown status"),
            ("FE-03\tA thing.\tnot applicable", "unknown status"),
            ("FE-03\tA thing.\tdone ", "unknown status"),
            ("FE-03\tA thing.\tdiffers: as FE-97", "names client:FE-97"),
            ("FE-03\tA fetch is sent.\tdone", "but client:FE-01 says the same and is open"),
            ("FE-03\tA thing\topen", "not a sentence"),
            ("FE-01\tA thing.\topen", "second line for this id"),
            ("FE-03\tA thing.\tsame as FE-99", "does not exist"),
            ("FE-03\tA thing.\tsame as broker:JG-02", "itself only points at"),
            ("FE-03\tA thing like FE-98.\topen", "names client:FE-98"),
        ],
    )
    def test_each_fault_is_reported_with_its_line(self, folder: Path, line: str, problem: str) -> None:
        with (folder / "client.tsv").open("a", encoding="utf-8") as file:
            file.write(line + "\n")
        (found,) = problems(read_lists(folder))
        assert found.startswith("client.tsv:4: ")
        assert problem in found

    def test_names_such_as_kip_numbers_are_no_references(self, folder: Path) -> None:
        _write(folder, client="FE-01\tKIP-345, UTF-16 and CRC-32 are other names.\topen\n")
        assert problems(read_list(folder / "client.tsv")) == []

    @pytest.mark.parametrize("line", ["FE-01\topen", "FE-1x2\tA.\topen", "", "FE-01\tA.\topen\tmore"])
    def test_a_line_without_an_item_is_rejected(self, folder: Path, line: str) -> None:
        _write(folder, client=line + "\nFE-02\tA.\topen\n")
        with pytest.raises(ListFormatError, match=r"client\.tsv:1"):
            read_list(folder / "client.tsv")

    @pytest.mark.parametrize(
        ("status", "kind", "claims"),
        [
            ("open", "open", False),
            ("done", "done", True),
            ("differs: it is 45 s", "differs", True),
            ("design: no lock, one thread owns it", "design", True),
            ("design: no lock; no test: there is nothing to see", "design", False),
            ("not applicable: old", "not applicable", False),
            ("same as FE-01", "same as", False),
        ],
    )
    def test_done_differs_and_design_claim_something(self, folder: Path, status: str, kind: str, claims: bool) -> None:
        _write(folder, client=f"FE-01\tA.\t{status}\n")
        (item,) = read_list(folder / "client.tsv")
        assert (item.kind, item.claims) == (kind, claims)

    def test_same_as_has_the_status_of_its_target_even_in_a_partial_count(self, folder: Path) -> None:
        items = read_lists(folder)
        assert resolve(items)["transactions:TXA-02"] == "open"
        assert resolve(items)["broker:JG-02"] == "differs"
        part = [item for item in items if item.list_name == "transactions"]
        assert resolve(part, items) == {"transactions:TXA-01a": "not applicable", "transactions:TXA-02": "open"}
        counts = count_by_section(part, resolve(part, items))
        assert counts["transactions", "TXA: API"] == {
            "open": 1,
            "done": 0,
            "design": 0,
            "differs": 0,
            "not applicable": 1,
        }

    @pytest.mark.parametrize("target", ["FE-99", "broker:JG-02"])
    def test_same_as_a_missing_item_or_another_same_as_is_not_counted(self, folder: Path, target: str) -> None:
        with (folder / "client.tsv").open("a", encoding="utf-8") as file:
            file.write(f"FE-03\tA thing.\tsame as {target}\n")
        with pytest.raises(ListFormatError, match=r"client\.tsv:4: FE-03"):
            resolve(read_lists(folder))

    def test_two_items_with_one_sentence_have_one_status(self, folder: Path) -> None:
        with (folder / "client.tsv").open("a", encoding="utf-8") as file:
            file.write("FE-03\tA  JOIN is answered.\tsame as broker:JG-01\n")
        assert problems(read_lists(folder)) == []
        with (folder / "client.tsv").open("a", encoding="utf-8") as file:
            file.write("FE-04\tA join is answered.\tdone\n")
        (found,) = problems(read_lists(folder))
        assert found == "client.tsv:5: FE-04: 'done', but client:FE-03 says the same and is differs"


class TestAsserting:
    """Tests must assert something, themselves or by a helper of the tests."""

    def _silent(self, tmp_path: Path, source: str, helpers: str = "") -> list[str]:
        folder = tmp_path / "tests"
        (folder / "support").mkdir(parents=True)
        (folder / "support" / "waiting.py").write_text(helpers, encoding="utf-8")
        (folder / "test_x.py").write_text("import pytest\n" + source, encoding="utf-8")
        return silent_tests(folder)

    @pytest.mark.parametrize(
        "body",
        [
            "assert 1",
            "with pytest.raises(OSError): ...",
            "with pytest.warns(UserWarning): ...",
            "if 1: raise AssertionError('no')",
            "mock.assert_called_once()",
            "check()",
            "eventually(list)",
            "waiting.eventually(list)",
            "Group().settled()",
        ],
    )
    def test_an_assertion_may_be_in_the_test_or_in_a_helper(self, tmp_path: Path, body: str) -> None:
        source = (
            "from tests.support import waiting\n"
            "from tests.support.waiting import Group, eventually\n"
            "def check(): _check()\n"
            "def _check(): assert True\n"
            f"def test_a():\n    {body}\n"
        )
        helpers = (
            "def eventually(condition):\n    assert condition()\n"
            "class Group:\n    def settled(self): assert True\n    def close(self): ...\n"
        )
        assert self._silent(tmp_path, source, helpers) == []

    @pytest.mark.parametrize("body", ["...", "print('assert')", "silent()", "Group().close()", "unknown()", "'text'"])
    def test_one_without_any_is_found(self, tmp_path: Path, body: str) -> None:
        source = f"from tests.support.waiting import Group, silent\ndef test_a():\n    {body}\ndef test_b(): assert 1\n"
        helpers = (
            "def silent(): ...\n"
            "class Group:\n    def close(self): ...\n"
            "class Other:\n    def close(self): assert True\n"
        )
        (found,) = self._silent(tmp_path, source, helpers)
        assert found == "tests/test_x.py::test_a"

    def test_each_test_of_a_class_asserts(self, tmp_path: Path) -> None:
        source = "class TestX:\n    def test_a(self): self.check()\n    def check(self): assert True\n"
        assert self._silent(tmp_path / "1", source) == []
        (found,) = self._silent(tmp_path / "2", source + "    def test_b(self): ...\n")
        assert found == "tests/test_x.py::TestX::test_b"


class TestMutations:
    def test_lines_are_read_unchanged(self, tmp_path: Path) -> None:
        one = Mutation("client:FE-01", "a.py", "if x:\n    y()", "if x:\n    pass", UNTRIED)
        write_mutations([one], tmp_path / "m.tsv")
        assert read_mutations(tmp_path / "m.tsv") == [one]

    def test_a_text_that_is_not_exactly_once_in_its_file_is_a_problem(self, folder: Path, tmp_path: Path) -> None:
        (tmp_path / "a.py").write_text("x = 1\ny = 1\n", encoding="utf-8")
        items = read_lists(folder)

        def found(full_id: str, path: str, before: str, after: str = "") -> list[str]:
            return problems_of_mutations([Mutation(full_id, path, before, after, UNTRIED)], items, tmp_path)

        assert found("client:FE-01", "a.py", "x = 1", "x = 2") == []
        assert found("client:FE-01", "a.py", " = 1") == ["client:FE-01: ' = 1' stands 2 times in a.py, not once"]
        assert found("client:FE-01", "b.py", "x") == ["client:FE-01: 'x' stands 0 times in b.py, not once"]
        assert found("client:FE-99", "a.py", "x = 1") == ["client:FE-99: no such row"]
        assert found("client:FE-01", "a.py", "x", "x") == ["client:FE-01: a.py stays as it is"]

    def test_a_rule_is_broken_and_mended(self, tmp_path: Path) -> None:
        path = "tests/spec/__main__.py"
        (tmp_path / path).parent.mkdir(parents=True)
        one = Mutation("client:FE-01", path, "sys.exit(main())", "pass", UNTRIED)
        one.undo(tmp_path)
        whole = (tmp_path / path).read_text()
        one.apply(tmp_path)
        assert (tmp_path / path).read_text() == whole.replace("sys.exit(main())", "pass")
        one.undo(tmp_path)
        assert (tmp_path / path).read_text() == whole

    def test_rows_are_drawn_by_a_commit_and_never_twice(self) -> None:
        items = read_lists()
        first = draw("0" * 40, 40, items, [])
        assert first == draw("0" * 40, 40, items, []) != draw("1" * 40, 40, items, [])
        assert all(item.claims for item in first)
        tried = [Mutation(item.full_id, "a.py", "x", "y", UNTRIED) for item in first]
        assert not {item.full_id for item in draw("0" * 40, 40, items, tried)} & {item.full_id for item in first}

    def test_each_row_has_its_area(self) -> None:
        assert area_of("client:HB-04").name == "membership of a consumer"
        with pytest.raises(KeyError):
            area_of("client:XX-01")


class TestCommand:
    def test_it_prints_counts_for_each_section(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main([], folder=folder) == 0
        out = capsys.readouterr().out
        assert "FE: Fetcher" in out
        assert "2 of 6 items are open" in out
        assert "2 say 'same as'" in out
        assert out.index(" design") < out.index(" differs")

    def test_list_prints_open_items_or_those_of_a_status(
        self, folder: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        main(["--list"], folder=folder)
        assert capsys.readouterr().out == (
            "client:FE-01\tA fetch is sent.\ntransactions:TXA-02\tIt ends.\tsame as client:FE-01\n"
        )
        main(["--list", "--status", "differs", "broker:JG"], folder=folder)
        assert capsys.readouterr().out == (
            "broker:JG-01\tA join is answered.\tdiffers: it is not; no test: small\n"
            "broker:JG-02\tThe same.\tsame as JG-01\n"
        )
        main(["--list", "--status", "same as", "broker"], folder=folder)
        assert capsys.readouterr().out == "broker:JG-02\tThe same.\tsame as JG-01\n"

    def test_json_holds_counts_and_the_area_of_each_item(
        self, folder: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        main(["--json", "client"], folder=folder)
        report = json.loads(capsys.readouterr().out)
        assert report["counts"] == {"open": 1, "done": 1, "design": 0, "differs": 0, "not applicable": 0}
        assert report["items"][0]["area"] == "consumer: positions, fetches, polls"

    def test_no_command_sets_a_status(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        before = (folder / "client.tsv").read_bytes()
        with pytest.raises(SystemExit):
            main(["--mark-done"], folder=folder)
        assert "unrecognized arguments: --mark-done" in capsys.readouterr().err
        assert (folder / "client.tsv").read_bytes() == before
