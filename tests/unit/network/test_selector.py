"""The selector and what wakes it."""

from __future__ import annotations

import collections
import signal
import threading

import pytest

from pyconsumer.network.selector import EVENT_READ, Waker, new_selector


def test_a_selector_can_be_made_though_selectors2_asks_for_a_name_that_python_moved() -> None:
    selector = new_selector()
    try:
        assert not hasattr(collections, "Mapping")
        assert list(selector.select(0)) == []
    finally:
        selector.close()


def test_a_wake_ends_one_wait() -> None:
    selector, waker = new_selector(), Waker()
    try:
        selector.register(waker, EVENT_READ, "wake")
        waker.wake()
        waker.wake()
        assert [key.data for key, _ in selector.select(10)] == ["wake"]
        waker.clear()
        assert list(selector.select(0)) == []
        thread = threading.Thread(target=waker.wake)
        thread.start()
        assert len(list(selector.select(10))) == 1
        thread.join()
    finally:
        selector.close()
        waker.close()
    waker.wake()


@pytest.mark.spec("client:NC-40")
def test_a_wake_works_in_a_signal_handler() -> None:
    selector, waker = new_selector(), Waker()
    before = signal.signal(signal.SIGUSR1, lambda *_: waker.wake())
    try:
        selector.register(waker, EVENT_READ, None)
        signal.raise_signal(signal.SIGUSR1)
        assert len(list(selector.select(10))) == 1
    finally:
        signal.signal(signal.SIGUSR1, before)
        selector.close()
        waker.close()
