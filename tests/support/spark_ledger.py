"""Ledger of records that were sent while processes were killed, to compare with the final contents."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaError, Producer

from pyconsumer.admin import KafkaAdminClient, OffsetSpec
from pyconsumer.structs import TopicPartition
from tests.support.process import wait_until

__all__ = ["Ledger", "assert_nothing_open"]

RECORDS_A_SECOND = 200


class Ledger:
    """Sends numbered records until it is stopped. Keeps where each one that was acknowledged went.

    Args:
        value: returns the value of a number.
    """

    def __init__(
        self, servers: str, topic: str, partitions: int, value: Callable[[int], bytes] = lambda number: b"%d" % number
    ) -> None:
        self.topic = topic
        self._value = value
        self._partitions = partitions
        self.acknowledged: dict[tuple[int, int], int] = {}
        self.failed: list[str] = []
        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "enable.idempotence": True,
                "delivery.timeout.ms": 300_000,
                "reconnect.backoff.max.ms": 500,
                "log.connection.close": False,
                "logger": _no_logger(),
            }
        )
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ledger")
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stopping.is_set():
            for _ in range(RECORDS_A_SECOND // 10):
                self._producer.produce(
                    self.topic, self._value(number), partition=number % self._partitions, on_delivery=self._note(number)
                )
                number += 1
            self._producer.poll(0)
            self._stopping.wait(0.1)

    def _note(self, number: int) -> Callable[[KafkaError | None, Any], None]:
        def note(error: KafkaError | None, message: Any) -> None:
            if error is not None:
                self.failed.append(str(error))
            else:
                self.acknowledged[message.partition(), message.offset()] = number

        return note

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(30)
        assert self._producer.flush(120) == 0


def _no_logger() -> Any:
    import logging

    logger = logging.getLogger("tests.ledger")
    logger.setLevel(logging.CRITICAL)
    return logger


def assert_nothing_open(admin: KafkaAdminClient, topic: str, partitions: int, prefix: str) -> None:
    """No transaction is open, and the last stable offsets are the ends."""
    listed = admin.list_transactions(states=["Ongoing"])
    assert [one.transactional_id for one in listed if one.transactional_id.startswith(prefix)] == []
    ends = {TopicPartition(topic, partition): OffsetSpec.LATEST for partition in range(partitions)}

    def are_stable() -> bool:
        stable = admin.list_offsets(ends, isolation_level="read_committed")
        every = admin.list_offsets(ends, isolation_level="read_uncommitted")
        return {tp: one and one.offset for tp, one in stable.items()} == {
            tp: one and one.offset for tp, one in every.items()
        }

    wait_until(are_stable, 30, "last stable offsets at the ends")
