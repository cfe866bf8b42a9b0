"""``kafka.record.abc``: names for annotations and ``isinstance``."""

from __future__ import annotations

from abc import ABC

from pyconsumer.protocol.records import ConsumerRecord

__all__ = ["ABCRecord", "ABCRecordBatch", "ABCRecordBatchBuilder", "ABCRecords"]


class ABCRecord(ABC):  # noqa: B024 - a name
    """A record. The records of a consumer are instances of this class."""


class ABCRecordBatchBuilder(ABC):  # noqa: B024 - a name
    """A batch that is being written. This class has no instances."""


class ABCRecordBatch(ABC):  # noqa: B024 - a name
    """A batch that was read. This class has no instances."""


class ABCRecords(ABC):  # noqa: B024 - a name
    """Batches that were read. This class has no instances."""


ABCRecord.register(ConsumerRecord)
