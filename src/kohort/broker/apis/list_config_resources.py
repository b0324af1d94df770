"""ListConfigResources (once ListClientMetricsResources): the resources that DescribeConfigs knows (KIP-1142)."""

from typing import Protocol

from kohort.broker.apis.resources import ResourceType
from kohort.broker.config import GroupConfigs, Subscriptions
from kohort.broker.logs import Topics
from kohort.broker.net import Call
from kohort.errors import ErrorCode
from kohort.wire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)


class Dependencies(Protocol):
    """The parts of the broker that this module uses."""

    group_configs: GroupConfigs
    node_id: int
    subscriptions: Subscriptions
    topics: Topics


def handle(broker: Dependencies, call: Call, request: ListConfigResourcesRequest) -> None:
    """List resources of the given types, or of all; v0 lists only client metrics subscriptions."""
    known = set(ResourceType)
    wanted = set(request.resource_types) if call.version >= 1 else {ResourceType.CLIENT_METRICS}
    if not wanted <= known:
        call.reply(ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION))
        return
    wanted = wanted or known
    resources = []
    if ResourceType.TOPIC in wanted:
        resources += [
            ConfigResource(resource_name=name, resource_type=ResourceType.TOPIC) for name in broker.topics.all()
        ]
    if ResourceType.BROKER in wanted:
        resources.append(ConfigResource(resource_name=str(broker.node_id), resource_type=ResourceType.BROKER))
    if ResourceType.GROUP in wanted:
        resources += [
            ConfigResource(resource_name=name, resource_type=ResourceType.GROUP) for name in broker.group_configs.all()
        ]
    if ResourceType.CLIENT_METRICS in wanted:
        resources += [
            ConfigResource(resource_name=name, resource_type=ResourceType.CLIENT_METRICS)
            for name in broker.subscriptions.all()
        ]
    call.reply(ListConfigResourcesResponse(config_resources=resources))
