"""``examples/porting``: programs of other clients and ours beside them print the same, and few lines change."""

from __future__ import annotations

import difflib
import re
import runpy
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyconsumer import KafkaAdminClient
from pyconsumer.admin import NewTopic
from tests.support.cluster import Cluster

EXAMPLES = Path(__file__).parents[2] / "examples" / "porting"
PACKAGES = {"kafka_python": "kafka", "aiokafka": "aiokafka", "confluent": "confluent_kafka"}
_PROGRAMS = sorted(path for path in EXAMPLES.glob("*/*.py") if not path.stem.endswith("_ported"))
_IDS = [f"{path.parent.name}-{path.stem}" for path in _PROGRAMS]
#: Changed lines of each program at most, those of imports not counted.
_MOST_CHANGES = {"kafka_python": 0, "aiokafka": 0, "confluent": 14}

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def ported(program: Path) -> Path:
    return program.with_name(f"{program.stem}_ported.py")


def changed_lines(program: Path) -> tuple[int, int]:
    """Return how many lines of a program were changed or removed for ours: of imports, and others."""
    ours = ported(program).read_text(encoding="utf-8").splitlines()
    differences = difflib.ndiff(program.read_text(encoding="utf-8").splitlines(), ours)
    gone = [line[2:] for line in differences if line.startswith("- ")]
    imports = [line for line in gone if re.match(r"(from|import) ", line)]
    return len(imports), len(gone) - len(imports)


@pytest.fixture
def _topics(embedded: Cluster, group_id: str) -> Iterator[None]:
    """Make the topics that programs write to by partition, with one partition."""
    names = ("hello", "orders", "readings", "accounts", "batches", "watched", "in", "out")
    with KafkaAdminClient(bootstrap_servers=embedded.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(f"{group_id}{side}-{name}", 1, 1) for side in "ab" for name in names])
        yield
        admin.delete_topics([f"{group_id}{side}-{name}" for side in "ab" for name in names])


@pytest.mark.slow
@pytest.mark.usefixtures("_topics")
@pytest.mark.parametrize("program", _PROGRAMS, ids=_IDS)
def test_both_sides_print_the_same(
    program: Path, embedded: Cluster, group_id: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip(PACKAGES[program.parent.name], reason="needs other clients, which pyconsumer[peers] installs")
    shown = []
    for side, path in (("a", program), ("b", ported(program))):
        text = path.read_text(encoding="utf-8").replace("localhost:9092", embedded.bootstrap_servers)
        copy = tmp_path / path.name
        copy.write_text(text.replace("demo-", f"{group_id}{side}-"), encoding="utf-8")
        runpy.run_path(str(copy))
        shown.append(capsys.readouterr().out.replace(f"{group_id}{side}-", "demo-"))
    assert shown[0] == shown[1]
    assert len(shown[0].splitlines()) >= 1


def test_how_many_lines_change() -> None:
    """Print the count for each program (``pytest -s``). The first programs need the import alone."""
    assert len(_PROGRAMS) == 15
    for program in _PROGRAMS:
        imports, others = changed_lines(program)
        total = len(program.read_text(encoding="utf-8").splitlines())
        print(
            f"{program.parent.name:13} {program.stem:12} {total:3} lines, changed: {imports} imports, {others} others"
        )
        assert others <= _MOST_CHANGES[program.parent.name], program
        assert imports >= 1
