"""The registry's clients of a process of Spark, and the schemas that they have fetched.

A client and the schemas by id are kept as long as the process, so that each schema is fetched once. A worker process
runs many tasks. Everything is safe after a fork.

State: the clients by their options.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING, Any

from pyconsumer.errors import ConfigurationError
from pyconsumer.protocol.shipped import need_library
from pyconsumer.spark.value_options import registry_settings

if TYPE_CHECKING:
    from pyconsumer.schemas import SchemaRegistryClient
    from pyconsumer.schemas.loading import Loader

__all__ = ["kept_client", "kept_loader"]

_Key = tuple[tuple[str, str], ...]


def kept_client(registry: Mapping[str, str]) -> SchemaRegistryClient:
    """Return the client for these options.

    Raises:
        ConfigurationError: a setting is wrong, a secret is not on this machine, or the client's library is missing.
    """
    return _client(tuple(sorted(registry.items())))


@functools.lru_cache(maxsize=16)
def _client(key: _Key) -> SchemaRegistryClient:
    need_library("urllib3")
    try:
        from pyconsumer.schemas import SchemaRegistryClient
    except ImportError as error:
        raise ConfigurationError(
            f"typed columns need {error.name}, here or on the driver: pip install 'pyconsumer[schemas]'"
        ) from None
    return SchemaRegistryClient(registry_settings(dict(key)))


def kept_loader(registry: Mapping[str, str], make: Callable[..., Callable[[Any], Any]], *args: Hashable) -> Loader[Any]:
    """Return what is known of schemas, by id or GUID. Each is fetched on demand, and once.

    Args:
        registry: the options of the registry.
        make: a function of a module. It returns the function that loads a schema, for a client and ``args``.
        args: for ``make``.

    Raises:
        ConfigurationError: see :func:`kept_client`.
    """
    return _loader(tuple(sorted(registry.items())), make, args)


@functools.lru_cache(maxsize=64)
def _loader(key: _Key, make: Callable[..., Callable[[Any], Any]], args: tuple[Hashable, ...]) -> Loader[Any]:
    client = _client(key)
    from pyconsumer.schemas.loading import Loader

    return Loader(make(client, *args))
