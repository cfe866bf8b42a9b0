"""``kafka.record.abc``: names for annotations and ``isinstance``."""

from __future__ import annotations

from abc import ABC

from pyconsumer.protocol.records import ConsumerRecord

__all__ = ["ABCRecord", "ABCRecordBatch", "ABCRecordBatchBuilder", "ABCRecords"]


class ABCRecord(ABC):  # noqa: B024 - a name
    """A record. Those of the consumer are instances."""


class ABCRecordBatchBuilder(ABC):  # noqa: B024 - a name
    """A batch that is being written. There are no instances."""


class ABCRecordBatch(ABC):  # noqa: B024 - a name
    """A batch that was read. There are no instances."""


class ABCRecords(ABC):  # noqa: B024 - a name
    """Batches that were read. There are no instances."""


ABCRecord.register(ConsumerRecord)
