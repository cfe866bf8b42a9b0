"""Arguments and outcomes of admin calls for several things."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, TypeVar

from pyconsumer.errors import KafkaError

if TYPE_CHECKING:
    from pyconsumer.network.futures import Steps

__all__ = ["names_of", "raising", "results_of"]

K = TypeVar("K")
R = TypeVar("R")


def names_of(names: Iterable[str]) -> list[str]:
    """Return names as a list. Raises ``TypeError`` for a string, whose letters would be taken for names."""
    if isinstance(names, str):
        raise TypeError(f"a list of names is needed, not the string {names!r}")
    return list(names)


def results_of(found: Mapping[str, R | KafkaError]) -> dict[str, R]:
    """Return the results of a call for several things, or raise the first error in them."""
    results: dict[str, R] = {}
    for name, result in found.items():
        if isinstance(result, KafkaError):
            raise result
        results[name] = result
    return results


def raising(steps: Steps[dict[K, KafkaError | None]], wanted: bool) -> Steps[dict[K, KafkaError | None]]:
    """Return the result of a call for several things. If ``wanted``, raise the first error in it."""
    result = yield from steps
    for error in result.values():
        if wanted and error is not None:
            raise error
    return result
