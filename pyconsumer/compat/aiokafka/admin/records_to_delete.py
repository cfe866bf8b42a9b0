"""``aiokafka.admin.records_to_delete``."""

from __future__ import annotations

__all__ = ["RecordsToDelete"]


class RecordsToDelete:
    """The records to delete from a partition: all records before an offset. -1 deletes all."""

    def __init__(self, before_offset: int) -> None:
        self.before_offset = before_offset
