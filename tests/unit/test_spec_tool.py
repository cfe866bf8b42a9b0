"""The tool behind the requirement lists: reading, checking, finding ids in tests, and following a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.spec.__main__ import main
from tests.spec.items import LISTS, ListFormatError, mark_done, problems, read_list, read_lists
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
        broker="# JG: JoinGroup\nJG-01\tA join is answered.\tdiffers: it is not\nJG-02\tThe same.\tsame as JG-01\n",
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
            ("FE-03\tA thing.\tnot applicable", "unknown status"),
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

    def test_mark_done_sets_open_items_only_and_leaves_the_rest_of_the_file_alone(self, folder: Path) -> None:
        before = (folder / "client.tsv").read_text(encoding="utf-8")
        others = [(folder / f"{name}.tsv").read_bytes() for name in LISTS[1:]]
        assert mark_done(["client:FE-01", "client:FE-02", "broker:JG-01"], folder) == ["client:FE-01"]
        assert (folder / "client.tsv").read_text(encoding="utf-8") == before.replace("\topen", "\tdone")
        assert [(folder / f"{name}.tsv").read_bytes() for name in LISTS[1:]] == others


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
        assert "1 of 6 items are open; tests name 1 of them" in out

    def test_list_prints_open_items_or_those_of_a_status(
        self, folder: Path, tests: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        main(["--list"], folder=folder, tests=tests)
        assert capsys.readouterr().out == "client:FE-01\tA fetch is sent.\n"
        main(["--list", "--status", "differs", "broker:JG"], folder=folder, tests=tests)
        assert capsys.readouterr().out == "broker:JG-01\tA join is answered.\tdiffers: it is not\n"

    def test_json_holds_counts_and_the_tests_of_each_item(
        self, folder: Path, tests: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        main(["--json", "client"], folder=folder, tests=tests)
        report = json.loads(capsys.readouterr().out)
        assert report["counts"] == {"open": 1, "done": 1, "differs": 0, "same as": 0, "not applicable": 0}
        assert report["items"][0]["tests"] == ["tests/test_x.py:2"]

    def test_mark_done_writes_what_tests_name(
        self, folder: Path, tests: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["--mark-done"], folder=folder, tests=tests) == 0
        assert "1 items set to done" in capsys.readouterr().out
        assert read_list(folder / "client.tsv")[0].status == "done"


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
