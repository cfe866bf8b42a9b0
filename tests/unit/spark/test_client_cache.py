"""Idle producers are kept for the next task of the same process only."""

from __future__ import annotations

import os
from unittest.mock import MagicMock

import pytest

from pyconsumer.spark import client_cache


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
