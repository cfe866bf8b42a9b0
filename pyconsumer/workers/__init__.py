"""Many records at once: in threads, processes or tasks, in order by key, with retries and dead letters.

See ``docs/work.md``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyconsumer.lazy_names import lazy_names

if TYPE_CHECKING:
    from pyconsumer.workers.asynchronous import AsyncWorkers as AsyncWorkers
    from pyconsumer.workers.blocking import Workers as Workers
    from pyconsumer.workers.common import OldestRecord as OldestRecord
    from pyconsumer.workers.common import WorkersStatus as WorkersStatus
    from pyconsumer.workers.dead_letters import DeadLetters as DeadLetters
    from pyconsumer.workers.process_pool import WorkerDiedError as WorkerDiedError
    from pyconsumer.workers.replaying import replay as replay
    from pyconsumer.workers.results import ProducerRecord as ProducerRecord
    from pyconsumer.workers.settings import Batch as Batch
    from pyconsumer.workers.settings import Retry as Retry

_HOMES = {
    "AsyncWorkers": "pyconsumer.workers.asynchronous",
    "Batch": "pyconsumer.workers.settings",
    "DeadLetters": "pyconsumer.workers.dead_letters",
    "OldestRecord": "pyconsumer.workers.common",
    "ProducerRecord": "pyconsumer.workers.results",
    "Retry": "pyconsumer.workers.settings",
    "WorkerDiedError": "pyconsumer.workers.process_pool",
    "Workers": "pyconsumer.workers.blocking",
    "WorkersStatus": "pyconsumer.workers.common",
    "replay": "pyconsumer.workers.replaying",
}

__all__ = [
    "AsyncWorkers",
    "Batch",
    "DeadLetters",
    "OldestRecord",
    "ProducerRecord",
    "Retry",
    "WorkerDiedError",
    "Workers",
    "WorkersStatus",
    "replay",
]

__getattr__, __dir__ = lazy_names(globals(), _HOMES)
