"""The settings of an admin client for type checkers.

Made of the table of settings by ``python -m tests.support.make_typed_settings``: change the table, not this module.
"""

from __future__ import annotations

from pyconsumer.settings.typed_settings import ClientSettings

__all__ = ["AdminSettings"]


class AdminSettings(ClientSettings, total=False):
    """Keyword arguments of an admin client."""

    retries: int | float
    """Most retries of a request. The timeout of the call limits them as well."""
