"""The interface, the blocking and the asyncio class of a client, and its mocks, have the same public names."""

from __future__ import annotations

from typing import Final

import pytest

from pyconsumer import Consumer, KafkaAdminClient, KafkaConsumer, KafkaProducer, Producer
from pyconsumer.aio import (
    AsyncConsumer,
    AsyncKafkaAdminClient,
    AsyncKafkaConsumer,
    AsyncKafkaProducer,
    AsyncProducer,
)
from pyconsumer.testing import AsyncMockConsumer, AsyncMockProducer, MockConsumer, MockProducer

_CONSUMERS = (Consumer, KafkaConsumer, AsyncConsumer, AsyncKafkaConsumer, MockConsumer, AsyncMockConsumer)
_PRODUCERS = (Producer, KafkaProducer, AsyncProducer, AsyncKafkaProducer, MockProducer, AsyncMockProducer)
_ADMIN_CLIENTS = (KafkaAdminClient, AsyncKafkaAdminClient)

_CREATES: Final = "creates a client from files; an interface and a mock have no settings"
_CLUSTER: Final = "the test takes the part of the cluster"
_STEPS: Final = "the mock for asyncio runs the same call"
_STATE: Final = "state of the mock that a test reads"

#: Public names that only some classes have: class, names, reason.
_OWN: list[tuple[type, str, str]] = [
    (KafkaConsumer, "from_file", _CREATES),
    (AsyncKafkaConsumer, "from_file", _CREATES),
    (KafkaProducer, "from_file", _CREATES),
    (AsyncKafkaProducer, "from_file", _CREATES),
    (MockConsumer, "add_record add_records update_beginning_offsets update_end_offsets update_partitions", _CLUSTER),
    (MockConsumer, "rebalance lose fail_next set_poll_error schedule_poll_task", _CLUSTER),
    (MockConsumer, "poll_steps rebalance_steps lose_steps unsubscribe_steps close_steps leave", _STEPS),
    (AsyncMockConsumer, "rebalance lose", _CLUSTER),
    (AsyncMockConsumer, "closed", _STATE),
    (MockProducer, "complete_next error_next fail_next fence clear", _CLUSTER),
    (MockProducer, "history uncommitted offsets_history sent_offsets pending in_transaction", _STATE),
    (AsyncMockProducer, "closed", _STATE),
    *((each, "send_and_wait", "awaits two things in one call") for each in _PRODUCERS if "Async" in each.__name__),
]


def public_names(client: type) -> set[str]:
    return {name for name in dir(client) if not name.startswith("_")}


@pytest.mark.parametrize("clients", [_CONSUMERS, _PRODUCERS, _ADMIN_CLIENTS], ids=["consumer", "producer", "admin"])
def test_all_classes_of_a_client_have_the_same_public_names(clients: tuple[type, ...]) -> None:
    every = set().union(*map(public_names, clients))
    shared = every - {name for client, names, _ in _OWN if client in clients for name in names.split()}
    for client in clients:
        own = {name for other, names, _ in _OWN if other is client for name in names.split()}
        assert public_names(client) == shared | own, client.__name__
