"""Chooses the compiled code that appends records, or its twin in Python.

``PYCONSUMER_PURE=1`` chooses the twins. Both write the same bytes and raise the same errors: the tests run on both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyconsumer.protocol.compiled import load_compiled

__all__ = [
    "Appender",
    "BatchBuilder",
    "BatchResult",
    "BufferMemory",
    "FutureRecordMetadata",
    "ProducerBatch",
    "untracked",
]

#: Of ``native/_native.pyx``: a build of another source is not used.
_REVISION: Final = 9

_native, _ = load_compiled("pyconsumer.producer._native", _REVISION)

if TYPE_CHECKING or _native is None:
    from pyconsumer.producer.batch import BufferMemory, ProducerBatch
    from pyconsumer.producer.fast_append import Appender
    from pyconsumer.producer.future import BatchResult, FutureRecordMetadata, untracked
    from pyconsumer.protocol.records import BatchBuilder
else:
    Appender = _native.Appender
    BatchBuilder = _native.BatchBuilder
    BatchResult = _native.BatchResult
    BufferMemory = _native.BufferMemory
    FutureRecordMetadata = _native.FutureRecordMetadata
    ProducerBatch = _native.ProducerBatch
    untracked = _native.untracked
