"""Programs in JavaScript, whose packages npm fetches into the cache."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.support.java import cache_folder
from tests.support.process import run

__all__ = ["npm_folder"]


def npm_folder(source: Path, name: str) -> Path:
    """Return the folder of this name in the cache, with a copy of the source and the packages that it needs."""
    npm = shutil.which("npm")
    assert npm is not None, "there is no npm"
    folder = cache_folder() / name
    shutil.copytree(source, folder, dirs_exist_ok=True)
    run([npm, "install", "--silent", "--no-package-lock"], cwd=folder, timeout_s=300).check()
    return folder
