"""The admin client's settings."""

from __future__ import annotations

import math
from typing import Final

from pyconsumer.settings.config import CLIENT_HINTS, CLIENT_SETTINGS, ClientConfig, Integer, Setting, Settings

__all__ = ["ADMIN_SETTINGS", "AdminConfig"]


class AdminConfig(ClientConfig):
    """The settings of an admin client."""

    retries: int


ADMIN_SETTINGS: Final = Settings(
    "admin client",
    (
        *CLIENT_SETTINGS,
        Setting(
            "retries",
            2147483647,
            Integer(0),
            "Most retries of a request. The timeout of the call limits them as well.",
            blanks=(math.inf,),
        ),
    ),
    AdminConfig,
    hints=CLIENT_HINTS,
)
"""Settings of :class:`pyconsumer.KafkaAdminClient`."""
