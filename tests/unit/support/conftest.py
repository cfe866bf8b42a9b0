"""For tests of the rules in tests/conftest.py."""

from __future__ import annotations

import pytest


@pytest.fixture
def inner(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> pytest.Pytester:
    """A folder for another run of pytest, with this project on its path and only the named plugins."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTHONPATH", str(request.config.rootpath))
    return pytester
