"""The registry's clients of a process of Spark, and the schemas that they have fetched.

A client and the schemas by id are kept as long as the process, so that each schema is fetched once. A worker process
runs many tasks. Everything is safe after a fork.

State: the clients by their options.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyconsumer.errors import ConfigurationError
from pyconsumer.spark.value_options import registry_settings

if TYPE_CHECKING:
    from pyconsumer.schemas import SchemaRegistryClient
    from pyconsumer.schemas.loading import Loader

__all__ = ["kept_client", "kept_writers"]

_Key = tuple[tuple[str, str], ...]


def kept_client(registry: Mapping[str, str]) -> SchemaRegistryClient:
    """Return the client for these options.

    Raises:
        ConfigurationError: a setting is wrong, a secret is not on this machine, or the client's library is missing.
    """
    return _client(tuple(sorted(registry.items())))


@functools.lru_cache(maxsize=16)
def _client(key: _Key) -> SchemaRegistryClient:
    try:
        from pyconsumer.schemas import SchemaRegistryClient
    except ImportError as error:
        raise ConfigurationError(
            f"typed columns need {error.name} on the driver and on the executors: pip install 'pyconsumer[schemas]'"
        ) from None
    return SchemaRegistryClient(registry_settings(dict(key)))


def kept_writers(registry: Mapping[str, str]) -> Loader[Any]:
    """Return the schemas of Avro by id or GUID. They are fetched on demand, each once.

    Raises:
        ConfigurationError: see :func:`kept_client`.
    """
    return _writers(tuple(sorted(registry.items())))


@functools.lru_cache(maxsize=16)
def _writers(key: _Key) -> Loader[Any]:
    client = _client(key)
    from pyconsumer.schemas import AvroDeserializer
    from pyconsumer.schemas.loading import Loader

    return Loader(AvroDeserializer(client).load_writer)
