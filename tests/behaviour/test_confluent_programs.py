"""Programs for confluent-kafka: the imports of its schemas change alone, and its clients stay around ours.

``tox -e suites`` has confluent-kafka's own examples.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator

import pytest

from pyconsumer.broker import EmbeddedCluster
from tests.support.confluent_programs import PROGRAMS, ported

pytestmark = pytest.mark.embedded_only(reason="the registry is part of the embedded cluster")
pytest.importorskip("confluent_kafka.schema_registry", reason="needs confluent-kafka, which pyconsumer[peers] installs")

_CLASSES = {f"{form}{part}" for form in ("Avro", "JSON", "Protobuf") for part in ("Serializer(", "Deserializer(")}


@pytest.fixture(scope="module")
def addresses() -> Iterator[tuple[str, str]]:
    config = {"group.initial.rebalance.delay.ms": 0}
    with EmbeddedCluster(data_dir=":memory:", schema_registry=True, config=config) as cluster:
        assert cluster.schema_registry_url is not None
        yield cluster.bootstrap_servers, cluster.schema_registry_url


def printed(text: str, addresses: tuple[str, str], prefix: str) -> list[str]:
    """Run a program on its own topics and groups, and return its lines without their names."""
    broker, registry = addresses
    text = text.replace("localhost:9092", broker).replace("http://localhost:8081", registry).replace("demo-", prefix)
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(text, f"{prefix}program", "exec"), {"__name__": "__main__"})
    return output.getvalue().replace(prefix, "demo-").splitlines()


def test_the_programs_use_all_classes() -> None:
    assert {name for name in _CLASSES if any(name in text for text in PROGRAMS.values())} == _CLASSES
    assert {name for name in _CLASSES if f"Async{name}" in PROGRAMS["event_loop"]} == _CLASSES


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_prints_the_same_with_ours(addresses: tuple[str, str], name: str) -> None:
    text = PROGRAMS[name]
    changed = ported(text)
    assert "from confluent_kafka.s" not in changed
    theirs = printed(text, addresses, f"theirs-{name}-")
    assert len(theirs) >= 3
    assert printed(changed, addresses, f"ours-{name}-") == theirs
