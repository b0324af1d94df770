"""The configs of groups (KIP-848): what they may be, and who says what counts."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Mapping

from kohort.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kohort.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kohort.wire.messages.list_config_resources import ListConfigResourcesRequest
from tests.interop.conversation.stage import Stage, scene

consumer = functools.partial(scene, part="consumer")

_GROUP = 32
_SET, _DELETE, _APPEND, _SUBTRACT = range(4)
_SESSION, _INTERVAL, _ASSIGNMENT = (
    "consumer.session.timeout.ms",
    "consumer.heartbeat.interval.ms",
    "consumer.assignment.interval.ms",
)


@consumer
async def configs_of_a_group(s: Stage) -> None:
    """Bounds are the broker's; the part's settings say which."""
    changes: dict[str, list[tuple[str, int, str | None]]] = {
        "a session": [(_SESSION, _SET, "40000")],
        "two of them": [(_INTERVAL, _SET, "600"), (_ASSIGNMENT, _SET, "15000")],
        "a session too short": [(_SESSION, _SET, "999")],
        "a session too long": [(_SESSION, _SET, "60001")],
        "an interval too short": [(_INTERVAL, _SET, "499")],
        "an interval too long": [(_INTERVAL, _SET, "15001")],
        "an assignment interval too long": [(_ASSIGNMENT, _SET, "15001")],
        "an assignment interval below 0": [(_ASSIGNMENT, _SET, "-1")],
        "no number": [(_SESSION, _SET, "long")],
        "an empty value": [(_SESSION, _SET, "")],
        "null": [(_SESSION, _SET, None)],
        "a session no longer than the interval": [(_SESSION, _SET, "5000"), (_INTERVAL, _SET, "5000")],
        "an unknown name": [("consumer.nonsense", _SET, "1")],
        "a broker's name": [("group.consumer.session.timeout.ms", _SET, "50000")],
        "append to a number": [(_SESSION, _APPEND, "50000")],
        "twice in one": [(_SESSION, _SET, "50000"), (_SESSION, _SET, "51000")],
        "delete one": [(_SESSION, _DELETE, None)],
        "delete what is not set": [(_SESSION, _DELETE, None)],
    }
    await _describe(s, "before")
    for what, operations in changes.items():
        await _alter(s, what, operations)
    await _describe(s, "after", {_SESSION: "45000", _INTERVAL: "600", _ASSIGNMENT: "15000"})
    await _alter(s, "checked only", [(_SESSION, _SET, "50000")], validate_only=True)
    await _listed(s, "listed", there=True)
    await _alter(s, "the rest", [(_INTERVAL, _DELETE, None), (_ASSIGNMENT, _DELETE, None)])
    await _listed(s, "listed no more", there=False)


async def _listed(s: Stage, what: str, *, there: bool) -> None:
    """Groups that have configs: Kafka's brokers apply a change a little later."""
    request = ListConfigResourcesRequest(resource_types=[_GROUP])
    for _ in range(100):
        told = await s.admin.quietly(request, 1)
        if (s.group in {resource.resource_name for resource in told.config_resources}) is there:
            break
        await asyncio.sleep(0.02)
    await s.admin.ask(what, request, 1)


async def _alter(
    s: Stage, what: str, operations: list[tuple[str, int, str | None]], *, validate_only: bool = False
) -> None:
    configs = [AlterableConfig(name=name, config_operation=op, value=value) for name, op, value in operations]
    resource = AlterConfigsResource(resource_type=_GROUP, resource_name=s.group, configs=configs)
    await s.admin.ask(what, IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only), 1)


async def _describe(s: Stage, what: str, heard_of: Mapping[str, str] | None = None) -> None:
    asked = DescribeConfigsResource(resource_type=_GROUP, resource_name=s.group)
    request = DescribeConfigsRequest(resources=[asked], include_synonyms=True)
    await s.configs_are(request, heard_of or {})
    await s.admin.ask(what, request, 4)
