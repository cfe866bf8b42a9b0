"""ApiVersions: what this broker serves, also sent to clients that ask in a version from the future (KIP-511)."""

from __future__ import annotations

import re

from pyconsumer.broker.broker import Broker
from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.controller import SUPPORTED_FEATURES
from pyconsumer.broker.handlers import SERVED
from pyconsumer.errors import InvalidRequestError, UnsupportedVersionError
from pyconsumer.protocol.api_keys import API, ApiKey
from pyconsumer.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

__all__ = ["handle", "unsupported_version_answer"]

_READS_ZERO = 4

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")

#: Kafka 4 says that Produce begins with version 0, which it does not serve, because librdkafka takes a greater number
#: for a broker that cannot compress (KAFKA-18659). So do we.
_LEAST = {ApiKey.PRODUCE: 0}
_ALL = [ApiVersion(int(key), _LEAST.get(key, API[key].min_version), API[key].max_version) for key in sorted(SERVED)]


async def handle(broker: Broker, request: ApiVersionsRequest, context: RequestContext) -> ApiVersionsResponse:
    """Answer with the APIs that are served and the features; INVALID_REQUEST for a client with a wrong name."""
    if context.api_version >= 3:
        names = (request.client_software_name, request.client_software_version)
        if not all(_SOFTWARE.fullmatch(name) for name in names):
            return ApiVersionsResponse(error_code=InvalidRequestError.errno)
        context.session.note_software(" ".join(names))
    controller = broker.controller
    # Older clients cannot read a feature whose lowest version is 0 (KAFKA-17492).
    least = 0 if context.api_version >= _READS_ZERO else 1
    return ApiVersionsResponse(
        api_keys=_ALL,
        supported_features=[
            SupportedFeatureKey(name, max(low, least), high) for name, (low, high) in SUPPORTED_FEATURES.items()
        ],
        finalized_features_epoch=controller.features_epoch,
        finalized_features=[
            FinalizedFeatureKey(name, level, level) for name, level in controller.features.items() if level
        ],
    )


def unsupported_version_answer() -> ApiVersionsResponse:
    """The answer, in version 0, to a version that is not known: which ones of ApiVersions are."""
    only = [entry for entry in _ALL if entry.api_key == ApiKey.API_VERSIONS]
    return ApiVersionsResponse(error_code=UnsupportedVersionError.errno, api_keys=only)
