"""Both implementations of the code that appends records."""

from __future__ import annotations

import pytest

from pyconsumer.producer import accumulator, batch, delegate, fast_append, future, implementation, sender
from pyconsumer.protocol.compiled import load_compiled
from pyconsumer.protocol.records import BatchBuilder

_PURE = {
    "Appender": fast_append.Appender,
    "BatchBuilder": BatchBuilder,
    "BatchResult": future.BatchResult,
    "BufferMemory": batch.BufferMemory,
    "FutureRecordMetadata": future.FutureRecordMetadata,
    "ProducerBatch": batch.ProducerBatch,
}


@pytest.fixture(params=["native", "pure"])
def implementation_name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def twin(implementation_name: str) -> dict[str, type]:
    """The classes of one twin, by name."""
    if implementation_name == "pure":
        return dict(_PURE)
    compiled, reason = load_compiled("pyconsumer.producer._native", implementation._REVISION)
    if compiled is None:
        pytest.skip(reason)
    return {name: getattr(compiled, name) for name in _PURE}


@pytest.fixture(name="implementation")
def use_twin(twin: dict[str, type], request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> dict[str, type]:
    """Let producers of this test, and the test's own module, use one twin."""
    for name, kind in twin.items():
        for module in (accumulator, batch, delegate, sender, request.module):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, kind)
    return twin
