"""The tool behind the requirement lists: reading, checking, finding ids in tests, and following a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.spec.__main__ import main
from tests.spec.asserting import silent_tests
from tests.spec.items import ListFormatError, count_by_section, problems, read_list, read_lists, resolve
from tests.spec.naming import Naming, scan, scan_module

pytest_plugins = ["pytester"]


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


def _naming(source: str) -> Naming:
    naming = Naming()
    scan_module(source, "tests/test_x.py", naming)
    return naming


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
            ("FE-03\tA thing.\tdiffers: it is not; no test:", "belongs behind"),
            ("FE-03\tA thing.\tnot applicable: old; no test: old", "belongs behind"),
            ("FE-03\tA thing.\tdiffers: as FE-97", "names client:FE-97"),
            ("FE-03\tA fetch is sent.\tdone", "but client:FE-01 says the same and is open"),
            ("FE-03\tA thing\topen", "not a sentence"),
            ("FE-01\tA thing.\topen", "second line for this id"),
            ("FE-03\tA thing.\tsame as FE-99", "does not exist"),
            ("FE-03\tA thing.\tsame as broker:JG-02", "itself only points at"),
            ("FE-03\tA thing like FE-98.\topen", "names client:FE-98"),
        ],
    )
    def test_each_fault_is_told_with_its_line(self, folder: Path, line: str, problem: str) -> None:
        with (folder / "client.tsv").open("a", encoding="utf-8") as file:
            file.write(line + "\n")
        (found,) = problems(read_lists(folder))
        assert found.startswith("client.tsv:4: ")
        assert problem in found

    def test_names_such_as_kip_numbers_are_no_references(self, folder: Path) -> None:
        _write(folder, client="FE-01\tKIP-345, UTF-16 and CRC-32 are other names.\topen\n")
        assert problems(read_list(folder / "client.tsv")) == []

    @pytest.mark.parametrize("line", ["FE-01\topen", "FE-1x2\tA.\topen", "", "FE-01\tA.\topen\tmore"])
    def test_a_line_that_is_no_item_is_refused(self, folder: Path, line: str) -> None:
        _write(folder, client=line + "\nFE-02\tA.\topen\n")
        with pytest.raises(ListFormatError, match=r"client\.tsv:1"):
            read_list(folder / "client.tsv")

    @pytest.mark.parametrize(
        ("status", "kind", "needs_test", "no_test"),
        [
            ("open", "open", False, None),
            ("done", "done", True, None),
            ("differs: it is 45 s", "differs", True, None),
            ("design: no lock, one thread owns it", "design", True, None),
            ("design: no lock; no test: there is nothing to see", "design", False, "there is nothing to see"),
            ("differs: gone; no test: gone", "differs", False, "gone"),
            ("not applicable: old", "not applicable", False, None),
            ("same as FE-01", "same as", False, None),
        ],
    )
    def test_done_differs_and_design_need_a_test_unless_a_reason_is_given(
        self, folder: Path, status: str, kind: str, needs_test: bool, no_test: str | None
    ) -> None:
        _write(folder, client=f"FE-01\tA.\t{status}\n")
        (item,) = read_list(folder / "client.tsv")
        assert (item.kind, item.needs_test, item.no_test) == (kind, needs_test, no_test)

    def test_same_as_takes_over_the_status_of_its_target_even_when_only_part_is_counted(self, folder: Path) -> None:
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


class TestNaming:
    def test_marks_and_literals_are_found_with_their_place(self) -> None:
        naming = _naming(
            "import pytest\n"
            "@pytest.mark.spec('client:FE-01', 'broker:JG-01')\n"
            "def test_a(): '''client:FE-09 is only talk.'''\n"
            "@pytest.mark.parametrize('x', [pytest.param(1, marks=pytest.mark.spec('client:FE-02')), 'client:FE-99'])\n"
            "def test_b(x): ...\n"
        )
        assert naming.marked == {
            "client:FE-01": ["tests/test_x.py:2"],
            "broker:JG-01": ["tests/test_x.py:2"],
            "client:FE-02": ["tests/test_x.py:4"],
        }
        assert naming.literal == {"client:FE-99": ["tests/test_x.py:4"]}
        assert naming.problems == []

    @pytest.mark.parametrize("argument", ["FE-01", "clients:FE-01", "client:FE-01 ", "client: FE-01"])
    def test_a_mark_without_a_well_formed_id_is_a_problem(self, argument: str) -> None:
        (problem,) = _naming(f"import pytest\n@pytest.mark.spec({argument!r})\ndef test_a(): ...\n").problems
        assert problem.startswith("tests/test_x.py:2: ")

    def test_a_test_may_name_five_items_and_not_six_with_those_of_its_class_and_module(self) -> None:
        source = (
            "import pytest\n"
            "pytestmark = [pytest.mark.spec('client:FE-01')]\n"
            "@pytest.mark.spec('client:FE-02')\n"
            "class TestX:\n"
            "    @pytest.mark.spec('client:FE-03', 'client:FE-04', 'client:FE-05'{more})\n"
            "    async def test_a(self): ...\n"
        )
        assert _naming(source.replace("{more}", "")).problems == []
        (problem,) = _naming(source.replace("{more}", ", 'client:FE-06'")).problems
        assert "test_a names 6 items" in problem

    def test_a_table_may_name_any_number_but_no_case_more_than_five(self) -> None:
        ids = ", ".join(f"'client:FE-{number:02}'" for number in range(1, 7))
        table = f"import pytest\n@pytest.mark.parametrize('x', [{ids}])\ndef test_a(x): ...\n"
        assert _naming(table).problems == []
        case = table.replace(f"[{ids}]", f"[pytest.param(1, marks=pytest.mark.spec({ids}))]")
        (problem,) = _naming(case).problems
        assert "one case of test_a names 6 items" in problem

    def test_scan_leaves_out_what_only_talks_about_ids(self, tmp_path: Path) -> None:
        for name in ("unit", "spec"):
            (tmp_path / "tests" / name).mkdir(parents=True)
            (tmp_path / "tests" / name / "test_x.py").write_text(f"A = 'client:FE-0{len(name)}'\n", encoding="utf-8")
        assert scan(tmp_path / "tests", left_out=["spec"]).named() == {"client:FE-04"}
        assert scan(tmp_path / "tests", left_out=["unit/test_x.py", "spec"]).named() == set()


class TestAsserting:
    """Named tests have to assert something: themselves, or by a helper of the tests."""

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
            f"@pytest.mark.spec('client:FE-01')\ndef test_a():\n    {body}\n"
        )
        helpers = (
            "def eventually(condition):\n    assert condition()\n"
            "class Group:\n    def settled(self): assert True\n    def close(self): ...\n"
        )
        assert self._silent(tmp_path, source, helpers) == []

    @pytest.mark.parametrize(
        "body", ["...", "print('assert')", "silent()", "Group().close()", "unknown()", "'client:FE-02'"]
    )
    def test_a_named_test_without_any_is_found(self, tmp_path: Path, body: str) -> None:
        source = (
            "from tests.support.waiting import Group, silent\n"
            f"@pytest.mark.spec('client:FE-01')\ndef test_a():\n    {body}\n"
            "def test_b(): ...\n"
        )
        helpers = (
            "def silent(): ...\n"
            "class Group:\n    def close(self): ...\n"
            "class Other:\n    def close(self): assert True\n"
        )
        (found,) = self._silent(tmp_path, source, helpers)
        assert found.startswith("tests/test_x.py:4: test_a names client:FE-0")

    def test_each_test_of_a_marked_class_asserts(self, tmp_path: Path) -> None:
        source = (
            "@pytest.mark.spec('client:FE-01')\nclass TestX:\n"
            "    def test_a(self): self.check()\n    def check(self): assert True\n"
        )
        assert self._silent(tmp_path / "1", source) == []
        (found,) = self._silent(tmp_path / "2", source + "    def test_b(self): ...\n")
        assert "TestX.test_b" in found

    def test_a_table_is_used_by_a_test_that_asserts(self, tmp_path: Path) -> None:
        table = "ROWS = ['client:FE-01']\nTABLE = [*ROWS]\n"
        user = "@pytest.mark.parametrize('x', TABLE)\ndef test_a(x): {}\n"
        assert self._silent(tmp_path / "1", table + user.format("assert x")) == []
        for number, source in enumerate((table, table + user.format("..."), table + "def test_b(): assert 1\n")):
            (found,) = self._silent(tmp_path / f"2{number}", source)
            assert found == "tests/test_x.py:2: no test that asserts something uses client:FE-01"


class TestCommand:
    @pytest.fixture
    def tests(self, tmp_path: Path) -> Path:
        path = tmp_path / "tests"
        path.mkdir()
        (path / "test_x.py").write_text("import pytest\nA = pytest.mark.spec('client:FE-01')\n", encoding="utf-8")
        return path

    def test_it_prints_counts_for_each_section(
        self, folder: Path, tests: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main([], folder=folder, tests=tests) == 0
        out = capsys.readouterr().out
        assert "FE: Fetcher" in out
        assert "2 of 6 items are open; tests name 1 of them" in out
        assert "2 say 'same as'" in out
        assert out.index(" design") < out.index(" differs")

    def test_list_prints_open_items_or_those_of_a_status(
        self, folder: Path, tests: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        main(["--list"], folder=folder, tests=tests)
        assert capsys.readouterr().out == (
            "client:FE-01\tA fetch is sent.\ntransactions:TXA-02\tIt ends.\tsame as client:FE-01\n"
        )
        main(["--list", "--status", "differs", "broker:JG"], folder=folder, tests=tests)
        assert capsys.readouterr().out == (
            "broker:JG-01\tA join is answered.\tdiffers: it is not; no test: small\n"
            "broker:JG-02\tThe same.\tsame as JG-01\n"
        )
        main(["--list", "--status", "same as", "broker"], folder=folder, tests=tests)
        assert capsys.readouterr().out == "broker:JG-02\tThe same.\tsame as JG-01\n"

    def test_json_holds_counts_and_the_tests_of_each_item(
        self, folder: Path, tests: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        main(["--json", "client"], folder=folder, tests=tests)
        report = json.loads(capsys.readouterr().out)
        assert report["counts"] == {"open": 1, "done": 1, "design": 0, "differs": 0, "not applicable": 0}
        assert report["items"][0]["tests"] == ["tests/test_x.py:2"]

    def test_no_command_sets_a_status(self, folder: Path, tests: Path, capsys: pytest.CaptureFixture[str]) -> None:
        before = (folder / "client.tsv").read_bytes()
        with pytest.raises(SystemExit):
            main(["--mark-done"], folder=folder, tests=tests)
        assert "unrecognized arguments: --mark-done" in capsys.readouterr().err
        assert (folder / "client.tsv").read_bytes() == before


class TestPlugin:
    @pytest.fixture(autouse=True)
    def project(self, pytester: pytest.Pytester, folder: Path) -> None:
        """A small project with the real plugin, which follows the lists of `folder`; FE-01 is open, FE-02 done."""
        pytester.makeini(
            "[pytest]\ntestpaths = checks\nasyncio_default_fixture_loop_scope = function\nmarkers = spec(*ids): items\n"
        )
        pytester.makeconftest(
            "from pathlib import Path\n"
            "from tests.spec.plugin import SpecFollower, pytest_addoption, pytest_collection_modifyitems\n"
            "def pytest_configure(config):\n"
            f"    follower = SpecFollower(config, lists=Path({str(folder)!r}), tests=config.rootpath / 'checks')\n"
            "    config.pluginmanager.register(follower)\n"
        )

    def _run(self, pytester: pytest.Pytester, source: str, *arguments: str) -> pytest.RunResult:
        pytester.path.joinpath("checks").mkdir()
        pytester.path.joinpath("checks", "test_it.py").write_text("import pytest\n" + source, encoding="utf-8")
        return pytester.runpytest_inprocess("-p", "no:cacheprovider", *arguments)

    @pytest.mark.parametrize(
        "source",
        [
            "@pytest.mark.spec('client:FE-02')\ndef test_a(): ...\n",
            "@pytest.mark.parametrize('x', [('a', {'id': 'client:FE-02'})])\ndef test_a(x): ...\n",
            "CASE = pytest.param(1, marks=pytest.mark.spec('client:FE-02'))\n"  # noqa: ISC004
            "@pytest.mark.parametrize('x', [CASE])\ndef test_a(x): ...\n",
            "TABLE = ['client:FE-02']\ndef test_a(): ...\n",
        ],
        ids=["mark", "parameter", "marked case", "literal"],
    )
    def test_a_passing_test_shows_what_it_names(self, pytester: pytest.Pytester, source: str) -> None:
        result = self._run(pytester, source)
        assert result.ret == 0
        result.assert_outcomes(passed=1)

    @pytest.mark.parametrize(
        "source",
        [
            "def test_a(): ...\n",
            "@pytest.mark.spec('client:FE-02')\n@pytest.mark.skip\ndef test_a(): ...\n",
            "@pytest.mark.spec('client:FE-02')\n@pytest.mark.xfail\ndef test_a(): assert False\n",
            "@pytest.mark.parametrize('x', ['client:FE-01', 'client:FE-02'])\n"  # noqa: ISC004
            "def test_a(x):\n    if x == 'client:FE-02': pytest.skip()\n",
        ],
        ids=["unnamed", "skipped", "expected to fail", "skipped case"],
    )
    def test_a_full_run_fails_when_no_passing_test_names_a_done_item(
        self, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, source: str
    ) -> None:
        monkeypatch.setenv("CI", "true")  # where nothing excuses a skip
        result = self._run(pytester, source)
        assert result.ret == pytest.ExitCode.TESTS_FAILED
        result.stdout.fnmatch_lines(["*no passing test named*", "client:FE-02"])

    @pytest.mark.parametrize("status", ["differs: it is not", "design: one thread owns it"])
    def test_what_differs_needs_a_passing_test_as_well(
        self, pytester: pytest.Pytester, folder: Path, status: str
    ) -> None:
        _write(folder, broker=f"JG-01\tA join.\t{status}\nJG-02\tB.\t{status}; no test: none\n")
        result = self._run(pytester, "@pytest.mark.spec('client:FE-02')\ndef test_a(): ...\n")
        assert result.ret == pytest.ExitCode.TESTS_FAILED
        result.stdout.fnmatch_lines(["*no passing test named*", "broker:JG-01"])

    def test_without_ci_a_skipped_test_excuses_what_it_names(
        self, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("CI", raising=False)
        source = "@pytest.mark.spec('client:FE-02')\n@pytest.mark.skip\ndef test_a(): ...\n"
        assert self._run(pytester, source).ret == 0

    @pytest.mark.parametrize(
        "arguments",
        [["-k", "test_a"], ["-m", "not slow"], ["checks/test_it.py"], ["--spec-check", "never"], ["--collect-only"]],
        ids=" ".join,
    )
    def test_a_partial_run_is_not_checked(self, pytester: pytest.Pytester, arguments: list[str]) -> None:
        assert self._run(pytester, "def test_a(): ...\n", *arguments).ret == 0

    def test_the_check_can_be_forced(self, pytester: pytest.Pytester) -> None:
        result = self._run(pytester, "def test_a(): ...\n", "-k", "test_a", "--spec-check", "always")
        assert result.ret == pytest.ExitCode.TESTS_FAILED

    def test_a_failing_teardown_shows_nothing(self, pytester: pytest.Pytester) -> None:
        source = (
            "@pytest.fixture\ndef broken():\n    yield\n    raise OSError\n"
            "@pytest.mark.spec('client:FE-02')\ndef test_a(broken): ...\n"
        )
        self._run(pytester, source).stdout.fnmatch_lines(["*no passing test named*"])
