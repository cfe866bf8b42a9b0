"""Ctrl-C at each step of a change of metadata: the client has a broker to ask, and asks for what it has not applied."""

from __future__ import annotations

from pathlib import Path

import pytest

import pyconsumer.network
from pyconsumer.network.backoff import Backoff
from pyconsumer.network.metadata import Metadata
from pyconsumer.settings.config import Address
from tests.support.fake_network import metadata_response
from tests.support.interrupts import InterruptAt, places

HERE = str(Path(pyconsumer.network.__file__).parent)
NOW = 100.0


def wanting_t() -> Metadata:
    metadata = Metadata(bootstrap=[Address("h", 1), Address("h", 2)], backoff=Backoff(0.0, 0.0))
    metadata.set_topics({"t"})
    return metadata


def test_a_response_that_was_not_applied_is_asked_for_again() -> None:
    response = metadata_response({"t": {0: (1, 3), 1: (1, 3)}})

    def run(interrupt: InterruptAt) -> Metadata:
        metadata = wanting_t()
        query = metadata.query(NOW)
        with interrupt():
            metadata.update(response, 12, NOW, query)
        return metadata

    assert run(InterruptAt()).next_update_at(NOW + 1) > NOW + 1
    steps = places(run, under=HERE)
    assert len(steps) > 100
    for step in steps:
        metadata = wanting_t()
        query = metadata.query(NOW)
        interrupt = InterruptAt(step, under=HERE)
        with pytest.raises(KeyboardInterrupt), interrupt():
            metadata.update(response, 12, NOW, query)
        if metadata.next_update_at(NOW + 1) > NOW + 1:
            assert metadata.partition_count("t") == 2, interrupt.where
            assert not metadata.is_bootstrap, interrupt.where
            assert metadata.update_count == 1, interrupt.where
        metadata.update(response, 12, NOW, metadata.query(NOW))
        assert metadata.partition_count("t") == 2
        assert metadata.next_update_at(NOW + 1) > NOW + 1


def test_a_client_that_starts_over_has_addresses_to_connect_to() -> None:
    def known() -> Metadata:
        metadata = wanting_t()
        metadata.update(metadata_response({"t": {0: (1, 3)}}), 12, NOW)
        return metadata

    def run(interrupt: InterruptAt) -> None:
        metadata = known()
        with interrupt():
            metadata.rebootstrap(NOW)

    for step in places(run, under=HERE):
        metadata = known()
        interrupt = InterruptAt(step, under=HERE)
        with pytest.raises(KeyboardInterrupt), interrupt():
            metadata.rebootstrap(NOW)
        assert metadata.brokers(), interrupt.where
