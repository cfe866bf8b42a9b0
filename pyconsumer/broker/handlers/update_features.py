"""UpdateFeatures: change the finalized versions of features, such as ``transaction.version`` (KIP-584, KIP-778)."""

from __future__ import annotations

from pyconsumer.broker.broker import Broker
from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.error_responses import code_and_text
from pyconsumer.errors import BrokerResponseError, Errors, InvalidUpdateVersionError
from pyconsumer.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

__all__ = ["handle"]

_UPGRADE, _SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE = 1, 2, 3


async def handle(broker: Broker, request: UpdateFeaturesRequest, context: RequestContext) -> UpdateFeaturesResponse:
    """Change all features of the request, or none."""
    names = [update.feature for update in request.feature_updates]
    try:
        for update in request.feature_updates:
            _check_direction(broker, update, context.api_version)
        levels = {update.feature: update.max_version_level for update in request.feature_updates}
        broker.controller.update_features(levels, validate_only=request.validate_only)
    except (BrokerResponseError, OSError) as error:
        code, text = code_and_text(error)
        return UpdateFeaturesResponse(error_code=code, error_message=text)
    return UpdateFeaturesResponse(
        error_message=None, results=[UpdatableFeatureResult(name, Errors.NONE) for name in names]
    )


def _check_direction(broker: Broker, update: FeatureUpdateKey, version: int) -> None:
    present = broker.controller.features.get(update.feature, 0)
    if version > 0 and update.upgrade_type not in (_UPGRADE, _SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE):
        raise InvalidUpdateVersionError(f"{update.feature}: upgrade type {update.upgrade_type} is unknown")
    is_downgrade_allowed = update.allow_downgrade if version == 0 else update.upgrade_type != _UPGRADE
    if update.max_version_level < present and not is_downgrade_allowed:
        raise InvalidUpdateVersionError(
            f"{update.feature} is at {present}: to set it to {update.max_version_level}, request a downgrade"
        )
