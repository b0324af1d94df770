"""ApiVersions: what this broker serves; nothing is announced that does not work."""

import re
from typing import TYPE_CHECKING

from kohort.broker.call import Call
from kohort.coordinator import ClientKind
from kohort.errors import ErrorCode
from kohort.wire.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse

if TYPE_CHECKING:
    from kohort.broker.server import Broker

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?")


def handle(broker: "Broker", call: Call, request: ApiVersionsRequest) -> None:
    """The served versions. KIP-511: from v3 a client says what software it is."""
    if call.version >= 3:
        if not (
            _SOFTWARE.fullmatch(request.client_software_name) and _SOFTWARE.fullmatch(request.client_software_version)
        ):
            call.reply(ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST))
            return
        call.connection.client = ClientKind.of(request.client_software_name, request.client_software_version)
    call.reply(served(broker))


def served(broker: "Broker", error: ErrorCode = ErrorCode.NONE) -> ApiVersionsResponse:
    """The answer to any version of the request, an unserved one included."""
    return ApiVersionsResponse(
        error_code=error,
        api_keys=[ApiVersion(api_key=key, min_version=low, max_version=high) for key, low, high in broker.served],
    )
