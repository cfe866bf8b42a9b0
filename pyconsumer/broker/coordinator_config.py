"""Base class of the coordinators' settings, which are read from the broker's settings."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from pyconsumer.errors import ConfigurationError

__all__ = ["CoordinatorConfig"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorConfig:
    """Base class of settings whose values are whole numbers. A field's name is Kafka's, with underscores for dots."""

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Self:
        """Create the object from a broker's settings, which have Kafka's dotted names. Other settings are ignored.

        Raises:
            ConfigurationError: a value is not a whole number, or it is out of range.
        """
        return cls(**CoordinatorConfig.numbers_of(cls, settings))

    @staticmethod
    def numbers_of(cls: type[CoordinatorConfig], settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return those settings that are whole-number fields of this class, by field name.

        Errors are those of :meth:`from_settings`.
        """
        values: dict[str, Any] = {}
        for item in dataclasses.fields(cls):
            name = item.name.replace("_", ".")
            if name in settings:
                try:
                    values[item.name] = int(settings[name])
                except (TypeError, ValueError):
                    raise ConfigurationError(f"{name} must be a whole number, not {settings[name]!r}") from None
        return values
