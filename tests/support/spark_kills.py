"""A sink like ours whose processes end where a plan says: ``format("pyconsumer-killed")`` with the option killPlan.

As a program, a driver to kill: streaming queries of one topic, into Parquet files, into a topic exactly once, and into
another topic by writes of ``foreachBatch`` that have a name. Or, of typed values, those of ``TYPED_QUERIES``.
``python -m tests.support.spark_kills FOLDER SERVERS MASTER available|running OPTIONS``. Without a ``killPlan`` in
the sink's options, the sink is ours as it is. With speculation on, and tasks that dawdle after they have sent their
rows (option killSlow, a probability), so that several attempts of one task have open transactions. It prints
``started QUERY`` when a run of a query begins, ``failed QUERY ERROR`` when it ends with an error, and then starts it
again, and ``batch QUERY N``. With ``available`` it ends when all is read.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import CaseInsensitiveDict

from pyconsumer.spark import split_batches, transaction_calls
from pyconsumer.spark.sink import BatchWriter, RecordsWritten, StreamWriter
from pyconsumer.spark.source import KafkaDataSource

__all__ = [
    "NUMBERS",
    "QUERIES",
    "STEPS",
    "TYPED_QUERIES",
    "KilledSource",
    "killed_as_ours",
    "main",
    "plan_kill",
    "typed_writer",
]

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


#: The queries of a driver, by where they write.
QUERIES = ("files", "topic", "named")
#: Those with typed values: structs in their format exactly once, and the good rows in a topic or in files, the bad ones
#: in a topic of dead letters.
TYPED_QUERIES = ("structs", "letters", "table")
#: In the source of these: nothing but the number itself. By formats.
NUMBERS = {
    "avro": '{"type": "record", "name": "N", "fields": [{"name": "number", "type": "long"}]}',
    "json": '{"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}',
    "protobuf": 'syntax = "proto3"; message N { int64 number = 1; }',
}


def plan_kill(plan: Path, step: str) -> None:
    """Let the next process that reaches a step end there."""
    fresh = plan.with_suffix(".new")
    fresh.write_text(step)
    fresh.rename(plan)


class _Killed:
    """The additions to a writer."""

    plan: Path
    slow: float

    def reached(self, step: str) -> None:
        """End the process if the plan says so. Each plan counts once."""
        try:
            wanted = self.plan.read_text()
            if wanted == "one ended":
                transaction_calls.MAX_IN_FLIGHT = 1  # so that the others are still open
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
            if random.random() < self.slow and TaskContext.get().attemptNumber() == 0:
                time.sleep(1)


class _KilledStreamWriter(_Killed, StreamWriter):
    pass


class _KilledBatchWriter(_Killed, BatchWriter):
    pass


class KilledSource(KafkaDataSource):
    """The data source. Its sink takes ``killPlan``, a file that holds a step."""

    @classmethod
    def name(cls) -> str:
        return "pyconsumer-killed"

    def schema(self) -> Any:
        return self._plain().schema()

    def reader(self, schema: Any) -> Any:
        return self._plain().reader(schema)

    def streamReader(self, schema: Any) -> Any:  # noqa: N802
        return self._plain().streamReader(schema)

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:  # noqa: N802
        return self._killed(_KilledStreamWriter, self._plain().streamWriter(schema, overwrite))

    def writer(self, schema: Any, overwrite: bool) -> Any:
        return self._killed(_KilledBatchWriter, self._plain().writer(schema, overwrite))

    def _plain(self) -> KafkaDataSource:
        given = {name: value for name, value in self.options.items() if name.lower() not in ("killplan", "killslow")}
        return KafkaDataSource(CaseInsensitiveDict(given))

    def _killed(self, kind: type[Any], of: Any) -> Any:
        made = kind(of.options, of.columns, of.written)
        made.plan, made.slow = Path(self.options["killPlan"]), float(self.options.get("killSlow", "0"))
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return _made, (dict(self.options),)


def killed_as_ours(plan: Path) -> type[KilledSource]:
    """Return such a data source under our own name, for code that chooses the format itself. It has this plan."""

    class Killed(KilledSource):
        @classmethod
        def name(cls) -> str:
            return KafkaDataSource.name()

        def __init__(self, options: Any) -> None:
            super().__init__(CaseInsensitiveDict({**options, "killPlan": str(plan)}))

    return Killed


def _made(options: dict[str, str]) -> KilledSource:
    return KilledSource(CaseInsensitiveDict(options))


def main(arguments: list[str]) -> int:
    from tests.support.spark import start_spark

    folder, servers, master, mode, text = Path(arguments[0]), *arguments[1:]
    options = json.loads(text)
    spark = start_spark(
        folder / f"spark-{os.getpid()}",
        connector=False,
        master=master,
        spark__speculation=True,
        spark__speculation__interval="50ms",
        spark__speculation__quantile=0.1,
        spark__speculation__multiplier=1.2,
        spark__speculation__minTaskRuntime="10ms",
        **options.get("session", {}),
    )
    names = options.get("queries", QUERIES)
    if "killPlan" in options["sink"]:
        spark.dataSource.register(KilledSource)
    if "letters" in names and "killPlan" in options["sink"]:
        spark.dataSource.register(killed_as_ours(Path(options["sink"]["killPlan"])))
    outs = {name: _writer(spark, folder, servers, mode, options, name) for name in names}
    running = {name: _started(name, out) for name, out in outs.items()}
    seen = dict.fromkeys(names, -1)
    while running:
        for name, query in list(running.items()):
            active = query.isActive
            progress = query.lastProgress
            if progress is not None and progress.batchId > seen[name]:
                seen[name] = progress.batchId
                print("batch", name, seen[name], flush=True)
            if active:
                continue
            error = query.exception()
            if error is None:
                del running[name]
            else:
                print("failed", name, str(error)[:2000].replace("\n", " "), flush=True)
                running[name] = _started(name, outs[name])
        time.sleep(0.05)
    spark.stop()
    return 0


def _started(name: str, out: Any) -> Any:
    query = out.start()
    print("started", name, flush=True)
    return query


def typed_writer(frame: Any, servers: str, options: dict[str, Any], folder: Path, name: str) -> Any:
    """Return the DataStreamWriter of one of ``TYPED_QUERIES``, without checkpoint and trigger.

    Args:
        frame: a stream of typed values, with ``decodeError`` and the bytes.
        options: ``topics`` by the names of queries, and ``<query>-dead``, and the options of the ``sink``.
        folder: for files.
    """
    sink, topics = {"kafka.bootstrap.servers": servers, **options["sink"]}, options["topics"]
    if name == "structs":
        out = frame.filter("decodeError IS NULL").select("value").writeStream.format("pyconsumer-killed")
        return out.options(**sink, **options["written"], topic=topics[name])
    own = {name: sink[name] for name in ("kafka.bootstrap.servers", "transactionalIdPrefix") if name in sink}

    def table(rows: Any, number: int) -> None:
        rows.select("value.number").write.mode("overwrite").parquet(str(folder / "output" / f"batch={number}"))

    good = table if name == "table" else topics[name]
    return frame.writeStream.foreachBatch(split_batches(good, topics[f"{name}-dead"], app_id=name, options=own))


def _writer(spark: Any, folder: Path, servers: str, mode: str, options: dict[str, dict[str, Any]], name: str) -> Any:
    """Return a function that starts one of the queries."""
    from tests.support.spark_topics import reader

    frame = reader(spark, servers, options["source"], stream=True).load()
    if name in TYPED_QUERIES:
        return _triggered(typed_writer(frame, servers, options, folder, name), folder, mode, name)
    columns = ("partition", "offset", "value") if name == "files" else ("key", "value")
    out = frame.select(*columns).writeStream
    exactly = {"kafka.bootstrap.servers": servers, "topic": options["topics"].get(name), **options["sink"]}

    def write(batch: Any, number: int) -> None:
        named = exactly | {"txnAppId": "named", "txnVersion": number}
        batch.write.format("pyconsumer-killed").options(**named).mode("append").save()

    if name == "files":
        out = out.format("parquet").option("path", str(folder / "output"))
    elif name == "topic":
        out = out.format("pyconsumer-killed").options(**exactly)
    else:
        out = out.foreachBatch(write)
    return _triggered(out, folder, mode, name)


def _triggered(out: Any, folder: Path, mode: str, name: str) -> Any:
    out = out.option("checkpointLocation", str(folder / f"checkpoint-{name}"))
    return out.trigger(**({"availableNow": True} if mode == "available" else {"processingTime": "100 milliseconds"}))


if __name__ == "__main__":
    from tests.support.spark_kills import main as importable  # so that workers find the classes by their module

    sys.exit(importable(sys.argv[1:]))
