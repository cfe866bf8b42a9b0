"""Idle clients are kept for the next task of the same process only, until its end."""

from __future__ import annotations

import os
import sys
from unittest.mock import MagicMock

import pytest

from pyconsumer.spark import client_cache
from tests.support.process import run


def test_an_idle_producer_is_reused_but_not_in_a_forked_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_cache, "_idle_producers", client_cache.deque())
    monkeypatch.setattr("pyconsumer.producer.KafkaProducer", lambda settings: MagicMock())
    options = {"bootstrap.servers": "localhost:9092"}
    with client_cache.borrow_producer(options) as first:
        pass
    with client_cache.borrow_producer(options) as again:
        assert again is first
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with client_cache.borrow_producer(options) as other:
        assert other is not first
    first.close.assert_not_called()


_DRIVER = """
import gc
from pyconsumer.metrics.source import open_sources
from pyconsumer.spark.client_cache import borrow, borrow_admin, borrow_producer

options = {"bootstrap.servers": "127.0.0.1:1"}
with borrow(options), borrow_admin(options), borrow_producer(options):
    pass
gc.collect()
print([source.domain for source in open_sources()])
"""


def test_the_end_of_a_process_closes_the_idle_clients_without_a_warning() -> None:
    """As ``lag`` of a driver leaves one: the program cannot close it."""
    finished = run([sys.executable, "-W", "always", "-c", _DRIVER], timeout_s=200).check()
    assert finished.stdout == "['admin-client', 'producer']\n"
    assert "ResourceWarning" not in finished.stderr
