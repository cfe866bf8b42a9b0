"""``kafka.sasl.oauth``: the base class for ``sasl_oauth_token_provider``."""

from __future__ import annotations

__all__ = ["AbstractTokenProvider"]


class AbstractTokenProvider:
    """Provides tokens for SASL/OAUTHBEARER. Override :meth:`token`. Any object with that method works, too."""

    def token(self) -> str:
        """Return a token that is valid now."""
        raise NotImplementedError

    def extensions(self) -> dict[str, str]:
        """Return SASL extensions to send with the token (KIP-342). By default there are none."""
        return {}
