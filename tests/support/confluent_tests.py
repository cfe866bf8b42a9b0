"""The integration tests of confluent-kafka-python, with the embedded broker in place of Apache Kafka."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Final

import tests.ports.originals as originals
from tests.support.process import Finished, run
from tests.support.repositories import check_out

__all__ = ["run_confluents_tests"]

_REPOSITORY: Final = "https://github.com/confluentinc/confluent-kafka-python"
_COMMIT: Final = "8b1c7a613434eee3d0e1287d624d7af04932f410"  # 2.15


def run_confluents_tests(folder: Path, *files: str, timeout_s: float) -> Finished:
    """Fetch the tests into an empty folder, and run files of ``tests/integration``, by default all."""
    check_out(_REPOSITORY, _COMMIT, "tests", folder)
    shutil.copy(Path(originals.__file__).with_name("conftest_of_confluent.py"), folder / "tests" / "conftest.py")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--timeout=120"]
    return run([*command, *(f"tests/integration/{file}" for file in files or ("",))], cwd=folder, timeout_s=timeout_s)
