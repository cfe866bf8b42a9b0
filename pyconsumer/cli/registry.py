"""The options of commands that use a Schema Registry, and its client. ``pyconsumer.schemas`` is imported on demand."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import click

from pyconsumer.cli.options import files_and_pairs
from pyconsumer.errors import ConfigurationError
from pyconsumer.settings.properties import read_properties

if TYPE_CHECKING:
    from pyconsumer.schemas import SchemaRegistryClient

__all__ = ["DEFAULT_REGISTRY", "registry_client", "with_registry"]

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_REGISTRY: Final = "http://localhost:8081"
_PREFIX: Final = "schema.registry."
_SECRETS: Final = (
    "basic.auth.user.info",
    "bearer.auth.token",
    "bearer.auth.client.secret",
    "ssl.key.password",
)
_NUMBERS: Final = (
    "timeout",
    "max.retries",
    "retries.wait.ms",
    "retries.max.wait.ms",
    "cache.capacity",
    "cache.latest.ttl.sec",
    "max.response.bytes",
)


def with_registry(function: F) -> F:
    """Add ``--schema-registry`` and ``--registry-config`` to a command. The command gets ``registry``, a dictionary."""

    @functools.wraps(function)
    def run(
        *arguments: Any, registry_url: str | None, registry_config: tuple[list[str], dict[str, str]], **options: Any
    ) -> Any:
        return function(*arguments, registry=_settings(registry_url, *registry_config), **options)

    decorated: Any = click.option(
        "--registry-config",
        metavar="FILE|KEY=VALUE",
        multiple=True,
        callback=files_and_pairs,
        help="A properties file with settings of the registry's client, with or without the prefix schema.registry., or"
        " one setting, such as ssl.ca.location=ca.pem. May be repeated. Put passwords into a file.",
    )(run)
    decorated = click.option(
        "--schema-registry",
        "registry_url",
        metavar="URL[,...]",
        envvar="PYCONSUMER_SCHEMA_REGISTRY",
        show_envvar=True,
        help=f"Addresses of the Schema Registry.  [default: url of --registry-config, or {DEFAULT_REGISTRY}]",
    )(decorated)
    return cast(F, decorated)


def _settings(url: str | None, files: list[str], pairs: Mapping[str, str]) -> dict[str, Any]:
    for name in sorted(pairs.keys() & {*_SECRETS, *[_PREFIX + secret for secret in _SECRETS]}):
        click.echo(
            f"Warning: every user of this machine can see {name} in the list of processes. Put it into a file"
            " (--registry-config FILE)",
            err=True,
        )
    found: dict[str, Any] = {"url": DEFAULT_REGISTRY}
    for path in files:
        for name, (text, _line) in read_properties(os.fspath(path)).items():
            found[name.removeprefix(_PREFIX)] = text
    found |= {name.removeprefix(_PREFIX): text for name, text in pairs.items()}
    if url is not None:
        found["url"] = url
    return {name: _value(name, text) for name, text in found.items()}


def _value(name: str, text: str) -> Any:
    """Return the value of a setting: a number, a flag or text."""
    if name == "ssl.ca.location" and text.lower() == "false":
        return False
    if name not in _NUMBERS:
        return text
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        raise ConfigurationError(f"{name} is a number, not {text!r}") from None


def registry_client(registry: Mapping[str, Any], timeout_ms: int | None = None) -> SchemaRegistryClient:
    """Return a client of the registry.

    Args:
        registry: the settings from :func:`with_registry`.
        timeout_ms: the longest time of a call, unless ``timeout`` is set.

    Raises:
        ConfigurationError: a setting is unknown or wrong.
        click.ClickException: the extra ``schemas`` is not installed.
    """
    settings = dict(registry)
    if timeout_ms is not None:
        settings.setdefault("timeout", timeout_ms / 1000)
    try:
        from pyconsumer.schemas import SchemaRegistryClient
    except ImportError as error:
        raise click.ClickException(f"a Schema Registry needs {error.name}: pip install pyconsumer[schemas]") from None
    return SchemaRegistryClient(settings)
