"""Request versions: the highest that both sides support and that can express the request."""

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib.metadata import version as version_of
from types import MappingProxyType
from typing import Any, NamedTuple

from kohort.model import NO_TOPIC_ID
from kohort.wire.api import APIS
from kohort.wire.codec import Message
from kohort.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kohort.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from kohort.wire.messages.offset_commit import OffsetCommitRequest
from kohort.wire.messages.offset_fetch import OffsetFetchRequest

NEWEST_SPOKEN: Mapping[int, int] = {key: api.max_version for key, api in APIS.items()}
"""Newest version of each request that this client sends."""

TOPIC_IDS_FROM = 10
"""First version of OffsetCommit and OffsetFetch that has topic IDs instead of names."""

_NEWEST_OF_ONE_PRODUCER = 3
"""Newest version of AddPartitionsToTxn for a producer. KIP-890: later ones are for brokers, with several producers."""


@cache
def api_versions_request() -> ApiVersionsRequest:
    """Return the request that asks for a broker's versions and features, and names this client (KIP-511)."""
    return ApiVersionsRequest(client_software_name="kohort", client_software_version=version_of("kohort"))


def common_versions(offered: Iterable[ApiVersion]) -> dict[int, int]:
    """Return the common version of each API key, omitting requests without one."""
    agreed = {}
    for offer in offered:
        api = APIS.get(offer.api_key)
        if api is None:
            continue
        version = min(offer.max_version, NEWEST_SPOKEN[offer.api_key])
        if version >= max(offer.min_version, api.min_version):
            agreed[offer.api_key] = version
    return agreed


class FinalizedFeatures(NamedTuple):
    """Features that a cluster has finalized, with the epoch in which it did; a later epoch replaces an earlier one."""

    epoch: int = -1
    levels: Mapping[str, int] = MappingProxyType({})
    """Level by name, such as that of transaction.version."""


def finalized_features(response: ApiVersionsResponse) -> FinalizedFeatures:
    """Return the finalized features that a broker reports."""
    levels = {feature.name: feature.max_version_level for feature in response.finalized_features}
    return FinalizedFeatures(response.finalized_features_epoch, levels)


def version_for(request: Message, newest: int) -> int:
    """Return the version in which to send the request.

    If the newest version requires topic IDs that are not known, it is the last version with names.
    """
    if isinstance(request, AddPartitionsToTxnRequest) and not request.transactions:
        return min(newest, _NEWEST_OF_ONE_PRODUCER)
    identified = _IDENTIFIED.get(request.KEY)
    if identified is None or newest < TOPIC_IDS_FROM or identified(request):
        return newest
    return TOPIC_IDS_FROM - 1


def _commit_has_ids(request: OffsetCommitRequest) -> bool:
    return all(topic.topic_id != NO_TOPIC_ID for topic in request.topics)


def _fetch_has_ids(request: OffsetFetchRequest) -> bool:
    """Return whether all topics have IDs.

    A request for all topics (None) would return IDs that may be unknown.
    """
    return all(
        group.topics is not None and all(topic.topic_id != NO_TOPIC_ID for topic in group.topics)
        for group in request.groups
    )


_IDENTIFIED: Mapping[int, Callable[[Any], bool]] = {
    OffsetCommitRequest.KEY: _commit_has_ids,
    OffsetFetchRequest.KEY: _fetch_has_ids,
}
