"""UpdateFeatures: change the finalized versions of the cluster's features (KIP-584, KIP-778)."""

from __future__ import annotations

from pyconsumer.protocol.api_keys import ApiKey
from pyconsumer.protocol.schema import (
    BOOL,
    INT8,
    INT16,
    INT32,
    STRING,
    Message,
    Struct,
    array,
    field,
    message,
    structure,
)


@structure
class FeatureUpdateKey(Struct):
    feature: str = field(STRING, "0+", default="")
    max_version_level: int = field(INT16, "0+", default=0)
    allow_downgrade: bool = field(BOOL, "0", default=False)
    upgrade_type: int = field(INT8, "1+", default=1)


@message(ApiKey.UPDATE_FEATURES, "request", versions="0-2", flexible="0+")
class UpdateFeaturesRequest(Message):
    timeout_ms: int = field(INT32, "0+", default=60000)
    feature_updates: list[FeatureUpdateKey] = array(FeatureUpdateKey, "0+", factory=list)
    validate_only: bool = field(BOOL, "1+", default=False)


@structure
class UpdatableFeatureResult(Struct):
    feature: str = field(STRING, "0+", default="")
    error_code: int = field(INT16, "0+", default=0)
    error_message: str | None = field(STRING, "0+", nullable="0+", default="")


@message(ApiKey.UPDATE_FEATURES, "response", versions="0-2", flexible="0+")
class UpdateFeaturesResponse(Message):
    throttle_time_ms: int = field(INT32, "0+", default=0)
    error_code: int = field(INT16, "0+", default=0)
    error_message: str | None = field(STRING, "0+", nullable="0+", default="")
    results: list[UpdatableFeatureResult] = array(UpdatableFeatureResult, "0-1", factory=list, ignorable=True)
