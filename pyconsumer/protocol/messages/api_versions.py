"""ApiVersions: the versions that a broker supports (KIP-35, KIP-511, KIP-1242).

The response header is always version 0.
"""

from __future__ import annotations

from pyconsumer.protocol.api_keys import ApiKey
from pyconsumer.protocol.schema import (
    BOOL,
    INT16,
    INT32,
    INT64,
    STRING,
    Message,
    Struct,
    array,
    field,
    message,
    structure,
)


@message(ApiKey.API_VERSIONS, "request", versions="0-5", flexible="3+")
class ApiVersionsRequest(Message):
    client_software_name: str = field(STRING, "3+", default="", ignorable=True)
    client_software_version: str = field(STRING, "3+", default="", ignorable=True)
    cluster_id: str | None = field(STRING, "5+", nullable="5+", default=None, ignorable=True)
    node_id: int = field(INT32, "5+", default=-1, ignorable=True)


@structure
class ApiVersion(Struct):
    api_key: int = field(INT16, "0+", default=0)
    min_version: int = field(INT16, "0+", default=0)
    max_version: int = field(INT16, "0+", default=0)


@structure
class SupportedFeatureKey(Struct):
    name: str = field(STRING, "3+", default="")
    min_version: int = field(INT16, "3+", default=0)
    max_version: int = field(INT16, "3+", default=0)


@structure
class FinalizedFeatureKey(Struct):
    name: str = field(STRING, "3+", default="")
    max_version_level: int = field(INT16, "3+", default=0)
    min_version_level: int = field(INT16, "3+", default=0)


@message(ApiKey.API_VERSIONS, "response", versions="0-5", flexible="3+")
class ApiVersionsResponse(Message):
    error_code: int = field(INT16, "0+", default=0)
    api_keys: list[ApiVersion] = array(ApiVersion, "0+", factory=list)
    throttle_time_ms: int = field(INT32, "1+", default=0, ignorable=True)
    supported_features: list[SupportedFeatureKey] = array(
        SupportedFeatureKey, "3+", factory=list, tag=0, ignorable=True
    )
    finalized_features_epoch: int = field(INT64, "3+", default=-1, tag=1, ignorable=True)
    finalized_features: list[FinalizedFeatureKey] = array(
        FinalizedFeatureKey, "3+", factory=list, tag=2, ignorable=True
    )
    zk_migration_ready: bool = field(BOOL, "3+", default=False, tag=3, ignorable=True)
