"""Brokers and clients of the network tests; all are closed at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from pyconsumer.network.client import NetworkClient
from pyconsumer.network.metadata import Metadata
from tests.unit.network.broker import ScriptedBroker, make_config


@pytest.fixture
def cleanup() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def broker(cleanup: ExitStack) -> ScriptedBroker:
    return cleanup.enter_context(ScriptedBroker())


@pytest.fixture
def make_client(cleanup: ExitStack) -> Callable[..., NetworkClient]:
    """``make_client(*addresses, client options..., config={settings})``: with metadata unless ``metadata=None``."""

    def make(*addresses: str, config: dict[str, Any] | None = None, **options: Any) -> NetworkClient:
        settings = make_config(*addresses, **(config or {}))
        options.setdefault("metadata", Metadata.from_config(settings))
        client = NetworkClient(settings, **options)
        cleanup.callback(client.close)
        return client

    return make
