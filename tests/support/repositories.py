"""Tests of other projects: fetched with Git at a commit, and never a part of this repository.

Git's ``url.<base>.insteadOf`` names a copy for machines that do not reach GitHub.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.process import run

__all__ = ["check_out"]


def check_out(repository: str, commit: str, folder: str, to: Path, timeout_s: float = 1200.0) -> None:
    """Put a folder of a repository into an empty one. If the repository cannot be reached, skip the test."""
    git = ["git", "-C", str(to)]
    run([*git, "init", "--quiet"]).check()
    fetched = run([*git, "fetch", "--quiet", "--depth", "1", repository, commit], timeout_s=timeout_s)
    if fetched.returncode:
        pytest.skip(f"{repository} cannot be fetched: {fetched.stderr.strip()[-200:]}")
    run([*git, "checkout", "--quiet", "FETCH_HEAD", "--", folder]).check()
