"""Settings of coordinators, read from those of their broker."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from pyconsumer.errors import ConfigurationError

__all__ = ["CoordinatorConfig"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorConfig:
    """Base of settings whose fields are whole numbers: Kafka's names, with dots for underscores."""

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Self:
        """Build it from a broker's settings under Kafka's dotted names. Other settings are skipped.

        Raises:
            ConfigurationError: a value is not a whole number, or out of range.
        """
        return cls(**CoordinatorConfig.numbers_of(cls, settings))

    @staticmethod
    def numbers_of(cls: type[CoordinatorConfig], settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings of a class that are whole numbers, by the names of its fields. Errors as above."""
        values: dict[str, Any] = {}
        for item in dataclasses.fields(cls):
            name = item.name.replace("_", ".")
            if name in settings:
                try:
                    values[item.name] = int(settings[name])
                except (TypeError, ValueError):
                    raise ConfigurationError(f"{name} must be a whole number, not {settings[name]!r}") from None
        return values
