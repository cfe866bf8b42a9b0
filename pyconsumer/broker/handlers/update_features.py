"""UpdateFeatures: change the finalized versions of features, such as ``transaction.version`` (KIP-584, KIP-778)."""

from __future__ import annotations

from pyconsumer.broker.broker import Broker
from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.error_responses import code_and_text
from pyconsumer.errors import BrokerResponseError, Errors, InvalidRequestError, InvalidUpdateVersionError
from pyconsumer.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

__all__ = ["handle"]

_ONE_ERROR = 2  # the version from which there is one error code instead of one for each feature
_UPGRADE = 1


async def handle(broker: Broker, request: UpdateFeaturesRequest, context: RequestContext) -> UpdateFeaturesResponse:
    """Change all features of the request, or none."""
    names = [update.feature for update in request.feature_updates]
    try:
        if len(set(names)) != len(names):
            raise InvalidRequestError("a feature is in the request twice")
        for update in request.feature_updates:
            _check_direction(broker, update, context.api_version)
        levels = {update.feature: update.max_version_level for update in request.feature_updates}
        broker.controller.update_features(levels, validate_only=request.validate_only)
    except (BrokerResponseError, OSError) as error:
        code, text = code_and_text(error)
        if context.api_version >= _ONE_ERROR:
            return UpdateFeaturesResponse(error_code=code, error_message=text)
        return UpdateFeaturesResponse(results=[UpdatableFeatureResult(name, code, text) for name in names])
    return UpdateFeaturesResponse(
        error_message=None, results=[UpdatableFeatureResult(name, Errors.NONE) for name in names]
    )


def _check_direction(broker: Broker, update: FeatureUpdateKey, version: int) -> None:
    present = broker.controller.features.get(update.feature, 0)
    is_downgrade_allowed = update.allow_downgrade if version == 0 else update.upgrade_type != _UPGRADE
    if update.max_version_level < present and not is_downgrade_allowed:
        raise InvalidUpdateVersionError(
            f"{update.feature} is at {present}: to set it to {update.max_version_level}, request a downgrade"
        )
