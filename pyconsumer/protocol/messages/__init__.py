"""One module per API, with its request and response. :func:`load` imports each when it is first used."""

from __future__ import annotations

from importlib import import_module
from typing import cast

from pyconsumer.protocol.api_keys import API, ApiKey
from pyconsumer.protocol.schema import Message

__all__ = ["load", "request_type", "response_type"]

_loaded: dict[int, tuple[type[Message], type[Message]]] = {}


def load(api_key: int) -> tuple[type[Message], type[Message]]:
    """Return the request and the response class of an API. Raise ``KeyError`` for an unknown one."""
    pair = _loaded.get(api_key)
    if pair is None:
        info = API[cast(ApiKey, api_key)]
        module = import_module(f"{__name__}.{info.module}")
        pair = (getattr(module, f"{info.name}Request"), getattr(module, f"{info.name}Response"))
        _loaded[api_key] = pair
    return pair


def request_type(api_key: int) -> type[Message]:
    """Return the request class of an API."""
    return load(api_key)[0]


def response_type(api_key: int) -> type[Message]:
    """Return the response class of an API."""
    return load(api_key)[1]
