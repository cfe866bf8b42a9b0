"""A sink like ours whose processes end where a plan says: ``format("pyconsumer-killed")`` with the option killPlan."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import CaseInsensitiveDict

from pyconsumer.spark import transaction_calls
from pyconsumer.spark.sink import BatchWriter, RecordsWritten, SinkOptions, StreamWriter, sink_columns
from pyconsumer.spark.source import KafkaDataSource

__all__ = ["STEPS", "KilledSource", "plan_kill"]

#: Where a process may end, in order: of a task, then of the driver.
STEPS = (
    "sending",
    "sent",
    "taken over",
    "progress read",
    "verified",
    "deciding",
    "decided",
    "one ended",
    "ended",
    "cleared",
)


def plan_kill(plan: Path, step: str, batch: int = 0) -> None:
    """Let the next process that reaches a step end there."""
    plan.write_text(step)


class _Killed:
    """The additions to a writer."""

    plan: Path

    def reached(self, step: str) -> None:
        """End the process if the plan says so; each plan counts once."""
        try:
            wanted = self.plan.read_text()
            if wanted == "one ended":
                transaction_calls.AT_A_TIME = 1  # so that the others are still open
            if wanted != step:
                return
            self.plan.unlink()
        except FileNotFoundError:
            return
        os.kill(os.getpid(), signal.SIGKILL)

    def write(self, iterator: Iterator[Any]) -> RecordsWritten:
        written: RecordsWritten = super().write(self._watched(iterator))  # type: ignore[misc]
        if written.records:
            self.reached("sent")
        return written

    def _watched(self, iterator: Iterator[Any]) -> Iterator[Any]:
        seen = False
        for batch in iterator:
            yield batch
            seen = seen or batch.num_rows > 0
        if seen:
            self.reached("sending")


class _KilledStreamWriter(_Killed, StreamWriter):
    pass


class _KilledBatchWriter(_Killed, BatchWriter):
    pass


class KilledSource(KafkaDataSource):
    """The data source; its sink takes ``killPlan``, a file that holds a step."""

    @classmethod
    def name(cls) -> str:
        return "pyconsumer-killed"

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:  # noqa: N802
        return self._killed(_KilledStreamWriter, schema)

    def writer(self, schema: Any, overwrite: bool) -> Any:
        return self._killed(_KilledBatchWriter, schema)

    def _killed(self, kind: type[Any], schema: Any) -> Any:
        given = dict(self.options)
        plan = Path(given.pop("killplan"))
        options = SinkOptions.parse(given)
        made = kind(options, sink_columns(schema, options.topic, timestamps=options.timestamps))
        made.plan = plan
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return _made, (dict(self.options),)


def _made(options: dict[str, str]) -> KilledSource:
    return KilledSource(CaseInsensitiveDict(options))
