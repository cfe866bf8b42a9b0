"""``aiokafka.helpers``: the TLS context of a client."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from os import PathLike
from typing import Any

__all__ = ["create_ssl_context"]


def create_ssl_context(
    *,
    cafile: str | PathLike[str] | None = None,
    capath: str | PathLike[str] | None = None,
    cadata: Any = None,
    certfile: str | PathLike[str] | None = None,
    keyfile: str | PathLike[str] | None = None,
    password: Callable[[], str | bytes] | str | bytes | None = None,
) -> ssl.SSLContext:
    """Return a TLS context for the setting ``ssl_context``. It checks the broker's certificate and host name.

    Args:
        cafile, capath, cadata: the certificates to trust. By default those of the system.
        certfile, keyfile, password: the client's own certificate, its key, and the key's password.
    """
    context = ssl.create_default_context(cafile=cafile, capath=capath, cadata=cadata)
    if certfile is not None:
        context.load_cert_chain(certfile, keyfile, password)
    return context
