"""Clients can't be pickled or copied, and the error names the alternative."""

from __future__ import annotations

import asyncio
import copy
import pickle
from typing import Any

import pytest

from pyconsumer import KafkaAdminClient, KafkaConsumer, KafkaProducer
from pyconsumer.aio import AsyncKafkaAdminClient, AsyncKafkaConsumer, AsyncKafkaProducer


@pytest.mark.parametrize("copies", [pickle.dumps, copy.copy, copy.deepcopy])
@pytest.mark.parametrize(
    "kind",
    [
        KafkaConsumer,
        KafkaProducer,
        KafkaAdminClient,
        AsyncKafkaConsumer,
        AsyncKafkaProducer,
        AsyncKafkaAdminClient,
    ],
)
def test_a_client_is_not_copied(kind: Any, copies: Any) -> None:
    async def program() -> None:
        client = kind(bootstrap_servers="127.0.0.1:1")
        try:
            with pytest.raises(
                TypeError,
                match=f"^{kind.__name__} cannot be pickled or copied, as it has connections and threads of its own:"
                " pass its settings, and make one in each process$",
            ):
                copies(client)
        finally:
            closing = client.close(**({} if "Admin" in kind.__name__ else {"timeout_ms": 0}))
            if closing is not None:
                await closing

    asyncio.run(program())
