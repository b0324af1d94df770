"""ApiVersions: the requests that this broker serves. Unsupported APIs are not advertised."""

import re
from typing import Protocol

from kohort.broker.config import SUPPORTED_FEATURES, Features
from kohort.broker.net import Call, Served
from kohort.coordinator import ClientKind
from kohort.errors import ErrorCode
from kohort.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)


class Dependencies(Protocol):
    """The parts of the broker that this module uses."""

    features: Features
    served: Served


_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?")


def handle(broker: Dependencies, call: Call, request: ApiVersionsRequest) -> None:
    """Return the served versions. KIP-511: from v3, the request names the client's software."""
    if call.version >= 3:
        if not (
            _SOFTWARE.fullmatch(request.client_software_name) and _SOFTWARE.fullmatch(request.client_software_version)
        ):
            call.reply(ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST))
            return
        call.connection.client = ClientKind.of(request.client_software_name, request.client_software_version)
        call.connection.software = request.client_software_name, request.client_software_version
    call.reply(served(broker))


def served(broker: Dependencies, error: ErrorCode = ErrorCode.NONE) -> ApiVersionsResponse:
    """Return the response to a request of any version, including versions that are not served."""
    return ApiVersionsResponse(
        error_code=error,
        api_keys=[ApiVersion(api_key=key, min_version=low, max_version=high) for key, low, high in broker.served],
        supported_features=[
            SupportedFeatureKey(name=name, min_version=lowest, max_version=highest)
            for name, (lowest, highest) in SUPPORTED_FEATURES.items()
        ],
        finalized_features_epoch=broker.features.epoch,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in broker.features.finalized.items()
        ],
    )
