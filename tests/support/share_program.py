"""A member of a share group in a process of its own, for tests that kill it. It keeps a ledger.

``python -m tests.support.share_program SERVERS GROUP TOPIC LEDGER NAME``. Each line of the ledger is written at once.
So a line survives a kill, and lines of several members are in the order of their writing:

* ``got NAME PARTITION OFFSET COUNT``: a delivery, before anything else is done with the record.
* ``try NAME PARTITION OFFSET KIND COUNT``: an acknowledgement that may take effect from now on.
* ``done NAME PARTITION OFFSET KIND COUNT``: it was confirmed.

Every fifth record is released at its first delivery, and every thirty-first rejected at its second.
"""

from __future__ import annotations

import os
import sys
import time

from pyconsumer import ConsumerRecord, KafkaShareConsumer
from pyconsumer.structs import AcknowledgeType

__all__ = ["kind_of"]


def kind_of(record: ConsumerRecord[bytes, bytes], count: int) -> AcknowledgeType:
    """Return the acknowledgement of a record in its delivery with this number."""
    if record.offset % 5 == 1 and count == 1:
        return AcknowledgeType.RELEASE
    return AcknowledgeType.REJECT if record.offset % 31 == 1 and count > 1 else AcknowledgeType.ACCEPT


def main(servers: str, group: str, topic: str, ledger: str, name: str) -> None:
    file = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def note(lines: list[str]) -> None:
        if lines:
            os.write(file, "".join(f"{line} {time.time():.3f}\n" for line in lines).encode())

    consumer = KafkaShareConsumer[bytes, bytes](
        topic,
        bootstrap_servers=servers,
        group_id=group,
        share_acknowledgement_mode="explicit",
        share_acquire_mode="record_limit",
        max_poll_records=20,
        fetch_max_wait_ms=100,
    )
    while True:
        records = list(consumer.poll(timeout_ms=500).records())
        counts = [consumer.delivery_count(record) for record in records]
        pairs = list(zip(records, counts, strict=True))
        note([f"got {name} {one.partition} {one.offset} {count}" for one, count in pairs])
        chosen = {}
        for record, count in pairs:
            kind = kind_of(record, count)
            consumer.acknowledge(record, kind)
            chosen[record.partition, record.offset] = f"{kind.name} {count}"
        note([f"try {name} {partition} {offset} {text}" for (partition, offset), text in chosen.items()])
        results = consumer.commit()
        confirmed = {tp.partition for tp, error in results.items() if error is None}
        note(
            [
                f"done {name} {partition} {offset} {text}"
                for (partition, offset), text in chosen.items()
                if partition in confirmed
            ]
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
