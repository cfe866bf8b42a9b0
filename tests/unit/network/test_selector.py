"""The selector and its wakeup."""

from __future__ import annotations

import collections
import selectors
import signal
import sys
import threading
import types

import pytest

from pyconsumer.network.selector import EVENT_READ, Waker, is_monkey_patched, new_selector


def patch(monkeypatch: pytest.MonkeyPatch, module: str, question: str, patched: set[str]) -> None:
    """Make a module report which modules it has replaced."""
    stand_in = types.ModuleType(module)
    vars(stand_in)[question] = patched.__contains__
    monkeypatch.setitem(sys.modules, module, stand_in)


PATCHERS = [("gevent.monkey", "is_module_patched"), ("eventlet.patcher", "is_monkey_patched")]


def test_the_standard_library_serves() -> None:
    selector = new_selector()
    try:
        assert type(selector) is selectors.DefaultSelector
    finally:
        selector.close()


@pytest.mark.parametrize(("module", "question"), PATCHERS)
@pytest.mark.parametrize("patched", [{"select"}, {"socket"}, {"select", "socket", "thread"}])
def test_a_patched_runtime_has_its_own_selector(
    monkeypatch: pytest.MonkeyPatch, module: str, question: str, patched: set[str]
) -> None:
    patch(monkeypatch, module, question, patched)
    selector = new_selector()
    try:
        assert type(selector).__module__ == "selectors2"
    finally:
        selector.close()


@pytest.mark.parametrize(("module", "question"), PATCHERS)
def test_an_imported_module_that_has_not_patched_is_ignored(
    monkeypatch: pytest.MonkeyPatch, module: str, question: str
) -> None:
    patch(monkeypatch, module, question, {"thread"})
    assert not is_monkey_patched()
    monkeypatch.setitem(sys.modules, module, types.ModuleType(module))  # half imported
    assert not is_monkey_patched()


def test_a_selector_can_be_created_although_selectors2_uses_a_moved_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    patch(monkeypatch, "gevent.monkey", "is_module_patched", {"select"})
    monkeypatch.delitem(sys.modules, "selectors2", raising=False)
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
