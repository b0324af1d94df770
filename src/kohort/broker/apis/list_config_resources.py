"""ListConfigResources (once ListClientMetricsResources): what DescribeConfigs can be asked about (KIP-1142)."""

from typing import TYPE_CHECKING

from kohort.broker.apis.resources import ResourceType
from kohort.broker.call import Call
from kohort.errors import ErrorCode
from kohort.wire.list_config_resources import ConfigResource, ListConfigResourcesRequest, ListConfigResourcesResponse

if TYPE_CHECKING:
    from kohort.broker.server import Broker


def handle(broker: "Broker", call: Call, request: ListConfigResourcesRequest) -> None:
    """No types given means all. Metrics subscriptions have no configs here; they are all that v0 lists."""
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
    call.reply(ListConfigResourcesResponse(config_resources=resources))
