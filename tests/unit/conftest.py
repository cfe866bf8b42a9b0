"""Fixtures of several folders of unit tests."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def another_package_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Work in a folder with another ``pyconsumer``, which cannot be imported."""
    (tmp_path / "pyconsumer").mkdir()
    (tmp_path / "pyconsumer" / "__init__.py").write_text("raise ImportError('another package of this name')")
    monkeypatch.chdir(tmp_path)
