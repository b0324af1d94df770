"""Which version of each request goes to a broker: the highest that both sides know."""

from collections.abc import Iterable, Mapping

from kohort.wire.api import APIS
from kohort.wire.api_versions import ApiVersion
from kohort.wire.offset_commit import OffsetCommitRequest
from kohort.wire.offset_fetch import OffsetFetchRequest

_BY_NAME = {
    # From version 10 on topics go by id; groups here know them by name.
    OffsetCommitRequest.KEY: 9,
    OffsetFetchRequest.KEY: 9,
}

NEWEST_SPOKEN: Mapping[int, int] = {
    key: min(api.max_version, _BY_NAME.get(key, api.max_version)) for key, api in APIS.items()
}
"""The newest version of each request that this client sends."""


def common_versions(offered: Iterable[ApiVersion]) -> dict[int, int]:
    """By api key; a request that the two sides have no version of in common is left out."""
    agreed = {}
    for one in offered:
        api = APIS.get(one.api_key)
        if api is None:
            continue
        version = min(one.max_version, NEWEST_SPOKEN[one.api_key])
        if version >= max(one.min_version, api.min_version):
            agreed[one.api_key] = version
    return agreed
