"""Which requests are served, in which versions, by which handler."""

from collections.abc import Sequence
from typing import Any

from kohort.broker.apis import (
    alter_configs,
    api_versions,
    consumer_groups,
    create_partitions,
    create_topics,
    delete_groups,
    delete_records,
    describe_cluster,
    describe_configs,
    describe_log_dirs,
    describe_producers,
    describe_topic_partitions,
    elect_leaders,
    fetch,
    find_coordinator,
    groups,
    init_producer_id,
    list_config_resources,
    list_offsets,
    metadata,
    offset_for_leader_epoch,
    offsets,
    produce,
    reassignments,
)
from kohort.broker.call import Handler, Route
from kohort.wire.api import APIS
from kohort.wire.codec import decoder, encoder
from kohort.wire.header import flexible_header, flexible_response

Served = Sequence[tuple[int, int, int]]
"""Api key, lowest and highest version, as ApiVersions announces them."""

API_VERSIONS = 18

_HANDLERS: dict[int, tuple[Handler, int]] = {
    0: (produce.handle, 13),
    1: (fetch.handle, 17),
    2: (list_offsets.handle, 10),
    3: (metadata.handle, 13),
    8: (offsets.commit, 10),
    9: (offsets.fetch, 10),
    10: (find_coordinator.handle, 6),
    11: (groups.member, 9),
    12: (groups.heartbeat, 4),
    13: (groups.member, 5),
    14: (groups.member, 5),
    15: (groups.describe, 6),
    16: (groups.list_all, 5),
    API_VERSIONS: (api_versions.handle, 4),
    19: (create_topics.create, 7),
    20: (create_topics.delete, 6),
    21: (delete_records.handle, 2),
    22: (init_producer_id.handle, 5),
    23: (offset_for_leader_epoch.handle, 4),
    32: (describe_configs.handle, 4),
    33: (alter_configs.replace_all, 2),
    35: (describe_log_dirs.handle, 5),
    37: (create_partitions.handle, 3),
    42: (delete_groups.groups, 2),
    43: (elect_leaders.handle, 2),
    44: (alter_configs.incremental, 1),
    45: (reassignments.alter, 1),
    46: (reassignments.list_all, 0),
    47: (delete_groups.offsets, 0),
    60: (describe_cluster.handle, 2),
    61: (describe_producers.handle, 0),
    68: (consumer_groups.heartbeat, 1),
    69: (consumer_groups.describe, 1),
    74: (list_config_resources.handle, 1),
    75: (describe_topic_partitions.handle, 0),
}
"""By api key: who handles it, and the highest version that is served of those that the codec knows."""

_HEARTBEATS = {12, 68}

SERVED: Served = [
    (key, APIS[key].min_version, min(highest, APIS[key].max_version)) for key, (_, highest) in sorted(_HANDLERS.items())
]

_VERSIONS = {key: (low, high) for key, low, high in SERVED}


def _compile(api_key: int, version: int) -> Route:
    api = APIS[api_key]
    handler, _ = _HANDLERS[api_key]
    decode = decoder(api.request, version)
    encode: Any = encoder(api.response, version)
    return Route(
        api_key=api_key,
        version=version,
        decode=decode,
        encode=encode,
        handler=handler,
        flexible_request=flexible_header(api_key, version),
        flexible_answer=flexible_response(api_key, version),
        repeats=api_key in _HEARTBEATS,
    )


routes: dict[tuple[int, int], Route] = {}
"""What was asked for so far; the dispatch looks here first."""


def route(api_key: int, version: int) -> Route | None:
    """How that request is read, handled and answered; None if it is not served. Compiled when first asked for."""
    found = routes.get((api_key, version))
    if found is None:
        low, high = _VERSIONS.get(api_key, (0, -1))
        if low <= version <= high:
            found = routes[api_key, version] = _compile(api_key, version)
    return found
