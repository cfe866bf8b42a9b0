"""``aiokafka.abc``: base classes of objects that a program passes to clients."""

from __future__ import annotations

from abc import ABC, abstractmethod

from pyconsumer.consumer.interface import ConsumerRebalanceListener

__all__ = ["AbstractTokenProvider", "ConsumerRebalanceListener"]


class AbstractTokenProvider(ABC):
    """Base class for ``sasl_oauth_token_provider``."""

    @abstractmethod
    async def token(self) -> str:
        """Return a token that is valid now. This is called at each login."""

    def extensions(self) -> dict[str, str]:
        """Return SASL extensions to send with the token (KIP-342). By default there are none."""
        return {}
