"""ApiVersions: the APIs, versions and features that this broker serves (KIP-35, KIP-511, KIP-584, KIP-1242)."""

from __future__ import annotations

import re

from pyconsumer.broker.broker import Broker
from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.controller import SUPPORTED_FEATURES
from pyconsumer.broker.handlers import SERVED
from pyconsumer.errors import Errors, InvalidRequestError, UnsupportedVersionError
from pyconsumer.protocol.api_keys import API, ApiKey
from pyconsumer.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

__all__ = ["handle", "unsupported_version_response"]

_READS_ZERO = 4  # the version from which clients can read a feature whose lowest version is 0

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")

#: As in Kafka 4, the listed versions of Produce begin with 0, although it is not served. With a greater number,
#: librdkafka assumes that the broker does not support compression (KAFKA-18659).
_LISTED_MIN = {ApiKey.PRODUCE: 0}
_ALL = [
    ApiVersion(int(key), _LISTED_MIN.get(key, API[key].min_version), API[key].max_version) for key in sorted(SERVED)
]


async def handle(broker: Broker, request: ApiVersionsRequest, context: RequestContext) -> ApiVersionsResponse:
    """Return the supported APIs and features. If the name of the client software is invalid, return INVALID_REQUEST.

    INVALID_REQUEST is also returned if only one of cluster id and node id is given. If they belong to another broker,
    the result is REBOOTSTRAP_REQUIRED.
    """
    if context.api_version >= 3:
        names = (request.client_software_name, request.client_software_version)
        if not all(_SOFTWARE.fullmatch(name) for name in names):
            return ApiVersionsResponse(error_code=InvalidRequestError.errno)
        context.session.note_software(" ".join(names))
    controller = broker.controller
    if (request.cluster_id is None) != (request.node_id == -1):
        return ApiVersionsResponse(error_code=Errors.INVALID_REQUEST)
    expected = (request.cluster_id, request.node_id)
    if request.cluster_id is not None and expected != (controller.cluster_id, broker.node_id):
        return ApiVersionsResponse(error_code=Errors.REBOOTSTRAP_REQUIRED)
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


def unsupported_version_response() -> ApiVersionsResponse:
    """Return the response to a newer version of ApiVersions: the supported versions, in version 0 (KIP-511)."""
    only = [entry for entry in _ALL if entry.api_key == ApiKey.API_VERSIONS]
    return ApiVersionsResponse(error_code=UnsupportedVersionError.errno, api_keys=only)
