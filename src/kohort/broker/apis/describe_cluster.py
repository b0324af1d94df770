"""DescribeCluster: the brokers and the controller (KIP-700, KIP-919)."""

from typing import Protocol

from kohort.broker.apis.current_leader import at_listener
from kohort.broker.apis.operations import CLUSTER_OPERATIONS
from kohort.broker.logs import Leadership
from kohort.broker.net import Call
from kohort.errors import ErrorCode
from kohort.wire.codec import NOT_ASKED
from kohort.wire.messages.describe_cluster import DescribeClusterBroker, DescribeClusterRequest, DescribeClusterResponse


class Dependencies(Protocol):
    """The parts of the broker that this module uses."""

    cluster_id: str
    leadership: Leadership


_BROKERS, _CONTROLLERS = 1, 2


def handle(broker: Dependencies, call: Call, request: DescribeClusterRequest) -> None:
    """Return the live brokers; none is ever shown as fenced."""
    if request.endpoint_type != _BROKERS:
        call.reply(_refused(request))
        return
    asked = request.include_cluster_authorized_operations
    call.reply(
        DescribeClusterResponse(
            cluster_id=broker.cluster_id,
            controller_id=broker.leadership.controller_id,
            brokers=[
                DescribeClusterBroker(broker_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
                for node in at_listener(broker.leadership.nodes, call.connection.listener)
            ],
            cluster_authorized_operations=CLUSTER_OPERATIONS if asked else NOT_ASKED,
        )
    )


def _refused(request: DescribeClusterRequest) -> DescribeClusterResponse:
    if request.endpoint_type == _CONTROLLERS:
        code, message = ErrorCode.MISMATCHED_ENDPOINT_TYPE, "This is a broker's address, not a controller's."
    else:
        code, message = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"Endpoint type {request.endpoint_type} is unknown."
    return DescribeClusterResponse(error_code=code, error_message=message, endpoint_type=_BROKERS)
