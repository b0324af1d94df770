"""UpdateFeatures: change the finalized levels of features (KIP-584). Changes are durable when the answer is sent."""

from typing import Protocol

from kohort.broker.config import Features, FeatureUpdate, UpgradeType
from kohort.broker.logs import DiskErrors, Leadership
from kohort.broker.net import Call
from kohort.errors import ErrorCode, KafkaError
from kohort.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)


class Dependencies(Protocol):
    """The parts of the broker that this module uses."""

    disk_errors: DiskErrors
    features: Features
    leadership: Leadership


_RESULTS_UNTIL = 1
"""Last version whose response has a result for each feature."""


def handle(broker: Dependencies, call: Call, request: UpdateFeaturesRequest) -> None:
    """Update all features of the request, or none if one of them cannot be updated."""
    # As in Kafka, the last update of a feature counts, and below version 1 none may lower a level.
    updates = {update.feature: _update(update) for update in request.feature_updates}
    code, sentence = ErrorCode.NONE, None
    try:
        broker.leadership.catch_up()
        broker.features.update(updates, validate_only=request.validate_only)
    except KafkaError as error:
        code = error.code
        sentence = f"No feature was updated, because one of them cannot be: {error.sentence}"
    except OSError as error:
        broker.disk_errors.note("store the levels of features", error)
        code, sentence = ErrorCode.KAFKA_STORAGE_ERROR, str(error)
    results = []
    if code is ErrorCode.NONE and call.version <= _RESULTS_UNTIL:
        results = [
            UpdatableFeatureResult(feature=update.feature, error_message=ErrorCode.NONE.sentence)
            for update in request.feature_updates
        ]
    call.reply(UpdateFeaturesResponse(error_code=code, error_message=sentence, results=results))


def _update(update: FeatureUpdateKey) -> FeatureUpdate:
    known = update.upgrade_type in set(UpgradeType)
    return FeatureUpdate(update.max_version_level, UpgradeType(update.upgrade_type) if known else None)
