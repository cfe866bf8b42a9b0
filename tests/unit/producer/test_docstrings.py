"""The examples in the docstrings of ``KafkaProducer``: each public call has one, and they run on a mock."""

from __future__ import annotations

import doctest
import inspect

import pytest

from pyconsumer import KafkaProducer, TopicPartition
from pyconsumer.testing import MockProducer

_CALLS = sorted(name for name, _ in inspect.getmembers(KafkaProducer) if not name.startswith("_"))


def _transactional(*, initialized: bool) -> MockProducer:
    producer: MockProducer = MockProducer(transactional_id="orders-0")
    if initialized:
        producer.init_transactions()
    return producer


@pytest.mark.parametrize("name", _CALLS)
def test_each_public_call_has_an_example_that_runs(name: str) -> None:
    text = inspect.getdoc(inspect.getattr_static(KafkaProducer, name)) or ""
    assert "Example:" in text
    if name == "from_file":  # it needs a file and a cluster
        return
    if name == "send_arrow":
        pytest.importorskip("pyarrow")
    names = {
        "producer": MockProducer(),
        "transactional_producer": _transactional(initialized=name != "init_transactions"),
        "TopicPartition": TopicPartition,
    }
    examples = doctest.DocTestParser().get_doctest(text, names, name, None, None)
    assert examples.examples
    lines: list[str] = []
    assert doctest.DocTestRunner(verbose=False).run(examples, out=lines.append).failed == 0, "".join(lines)
