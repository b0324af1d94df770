"""ApiVersions: the requests that this broker serves. Unsupported APIs are not advertised."""

import re
from typing import Protocol

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

    served: Served
    transaction_version: int


_TRANSACTIONS, _LATEST = "transaction.version", 2
_FEATURES_EPOCH = 0
"""Clients keep the features with the highest epoch. They never change while a broker runs."""

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
        supported_features=[SupportedFeatureKey(name=_TRANSACTIONS, max_version=_LATEST)],
        finalized_features_epoch=_FEATURES_EPOCH,
        finalized_features=[_finalized(broker.transaction_version)] if broker.transaction_version else [],
    )


def _finalized(level: int) -> FinalizedFeatureKey:
    return FinalizedFeatureKey(name=_TRANSACTIONS, max_version_level=level, min_version_level=level)
