"""Brokers and clients of the network tests. All are closed at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, TypeVar

import pytest

from pyconsumer.consumer.network_client import ConsumerNetworkClient
from pyconsumer.network.client import NetworkClient
from pyconsumer.network.metadata import Metadata
from tests.unit.network.broker import ScriptedBroker, make_config

Client = TypeVar("Client", bound=NetworkClient)


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
    return _maker(NetworkClient, cleanup)


@pytest.fixture
def make_consumer_client(cleanup: ExitStack) -> Callable[..., ConsumerNetworkClient]:
    """Makes the client of a consumer, as ``make_client`` makes that of the others."""
    return _maker(ConsumerNetworkClient, cleanup)


def _maker(kind: Callable[..., Client], cleanup: ExitStack) -> Callable[..., Client]:
    def make(*addresses: str, config: dict[str, Any] | None = None, **options: Any) -> Client:
        settings = make_config(*addresses, **(config or {}))
        options.setdefault("metadata", Metadata.from_config(settings))
        client = kind(settings, **options)
        cleanup.callback(client.close)
        return client

    return make
