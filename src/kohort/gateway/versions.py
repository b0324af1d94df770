"""APIs and versions that the gateway announces: those of the upstream broker that it can pass on. Pure."""

from collections.abc import Mapping

from kohort.gateway.endpoints import SHARE_ACKNOWLEDGE, SHARE_FETCH, WALKED
from kohort.wire.api import APIS
from kohort.wire.messages.api_key import ApiKey
from kohort.wire.messages.api_versions import ApiVersion, ApiVersionsResponse

_READ = (
    ApiKey.PRODUCE,
    ApiKey.METADATA,
    ApiKey.FIND_COORDINATOR,
    ApiKey.JOIN_GROUP,
    ApiKey.HEARTBEAT,
    ApiKey.LEAVE_GROUP,
    ApiKey.SYNC_GROUP,
    ApiKey.API_VERSIONS,
    ApiKey.DESCRIBE_CLUSTER,
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
)
"""Requests or responses that the gateway reads, so it must know their versions."""

_OF_SASL = (int(ApiKey.SASL_HANDSHAKE), int(ApiKey.SASL_AUTHENTICATE))
FIRST_SASL_HANDSHAKE = 1
"""After SaslHandshake 0, tokens without a header follow, which cannot be told from requests."""

HIGHEST: Mapping[int, int] = {int(key): APIS[int(key)].max_version for key in _READ} | {
    key: last for key, (_, last) in WALKED.items()
}
LOWEST: Mapping[int, int] = {
    int(ApiKey.SASL_HANDSHAKE): FIRST_SASL_HANDSHAKE,
    SHARE_FETCH: WALKED[SHARE_FETCH][0],
    SHARE_ACKNOWLEDGE: WALKED[SHARE_ACKNOWLEDGE][0],
}


def announce(response: ApiVersionsResponse, *, ends_sasl: bool = False) -> None:
    """Limit the response of an upstream broker to what the gateway passes on. Features stay as they are.

    If SASL ends at the gateway, its requests have the gateway's versions.
    """
    kept = []
    if ends_sasl:
        response.api_keys = [api for api in response.api_keys if api.api_key not in _OF_SASL]
        response.api_keys += [
            ApiVersion(api_key=key, min_version=APIS[key].min_version, max_version=APIS[key].max_version)
            for key in _OF_SASL
        ]
    for api in response.api_keys:
        api.max_version = min(api.max_version, HIGHEST.get(api.api_key, api.max_version))
        api.min_version = max(api.min_version, LOWEST.get(api.api_key, api.min_version))
        if api.min_version <= api.max_version:
            kept.append(api)
    response.api_keys = kept
