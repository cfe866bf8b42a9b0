"""A page's commands print the output that a reader sees in a terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.typed_pages import Typist

pytestmark = pytest.mark.concurrent

_PAGE = """
Save this as `talk.py`:

```python
for number in range(20_000):
    print("each", "line", "whole", flush=number % 50 == 0)
```
"""


def test_programs_that_run_at_the_same_time_print_whole_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONUNBUFFERED", "1")
    typist = Typist(tmp_path, "localhost:9092")
    typist.do(_PAGE)
    finished = typist.type("python talk.py & python talk.py; wait")
    assert set(finished.stdout.splitlines()) == {"each line whole"}
    assert len(finished.stdout.splitlines()) == 40_000
