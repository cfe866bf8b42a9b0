"""Addresses without a listener."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from pyconsumer.broker.ports import hold_port

__all__ = ["unused_address"]


@contextlib.contextmanager
def unused_address() -> Iterator[str]:
    """An address without a listener. Its port is bound, so no other process can listen on it."""
    with hold_port("127.0.0.1", 0) as sock:
        yield f"127.0.0.1:{sock.getsockname()[1]}"
