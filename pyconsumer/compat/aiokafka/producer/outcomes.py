"""The futures of sent records, which the sender's thread completes by one call into the loop for each batch.

State: the futures of each batch whose result is not there yet. Only the thread of the loop touches it.

Rules

1. A record costs one future of the loop. It has no task and no coroutine, and its metadata is made when its batch is
   done.
2. The futures of a batch are completed in the order of ``send``, in the order of the batches. Waits of ``flush`` that
   began later end later.
3. A future that the program has cancelled stays so. Its record is sent all the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from pyconsumer.compat.aiokafka.structs import RecordMetadata
from pyconsumer.producer.implementation import BatchResult, FutureRecordMetadata
from pyconsumer.producer.loop_bridge import call_in_loop

__all__ = ["Outcomes"]

Outcome = asyncio.Future[RecordMetadata | None]


class Outcomes:
    """The futures of one producer.

    Args:
        crossed: translates an error for the program.
        wanted: False with ``acks=0``: the results are None.
    """

    def __init__(self, crossed: Callable[[Exception], Exception], *, wanted: bool) -> None:
        self._crossed = crossed
        self._wanted = wanted
        self._whole: set[BatchResult] = set()  # batches that the program has made itself
        self._waiting: dict[BatchResult, list[Any]] = {}  # futures, each followed by the one of our producer

    def future(
        self, sent: FutureRecordMetadata, loop: asyncio.AbstractEventLoop, *, whole_batch: bool = False
    ) -> Outcome:
        """Return the future of a record.

        Args:
            sent: the future of our producer.
            loop: the running loop.
            whole_batch: True for a batch of its own. Its timestamp is -1, unless the broker has set it.
        """
        future: Outcome = asyncio.Future(loop=loop)
        result = sent.place[0]
        if whole_batch:
            self._whole.add(result)
        waiting = self._waiting.get(result)
        if waiting is None:
            self._waiting[result] = [future, sent]
            result.on_done(partial(call_in_loop, loop, partial(self._complete, result)))
        else:
            waiting += future, sent
        return future

    def _complete(self, result: BatchResult) -> None:
        found = iter(self._waiting.pop(result))
        whole_batch = result in self._whole
        self._whole.discard(result)
        for future, sent in zip(found, found, strict=True):
            if future.done():  # cancelled
                continue
            error = sent.exception
            if error is None:
                future.set_result(_metadata(sent, whole_batch=whole_batch) if self._wanted else None)
            else:
                future.set_exception(self._crossed(error))

    async def settled(self) -> None:
        """Wait until the futures that exist now are done."""
        last = [waiting[-2] for waiting in self._waiting.values()]
        if last:
            await asyncio.wait(last)


def _metadata(sent: FutureRecordMetadata, *, whole_batch: bool) -> RecordMetadata:
    found = sent.value
    assert found is not None
    topic, partition, offset, timestamp, *_ = found
    by_broker = sent.place[0].log_append_time_ms >= 0
    if whole_batch and not by_broker:
        timestamp = -1
    return RecordMetadata(topic, partition, found.topic_partition, offset, timestamp, int(by_broker))
