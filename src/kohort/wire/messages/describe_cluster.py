"""DescribeCluster: describe the brokers and the controller (KIP-700)."""

from kohort.wire.codec import (
    NOT_ASKED,
    Bool,
    Int8,
    Int16,
    Int32,
    Message,
    NullableString,
    String,
    Struct,
    array,
    message,
    since,
    struct,
)


@message(key=60, versions=(0, 2), flexible=0)
class DescribeClusterRequest(Message):
    """Describe the brokers (endpoint type 1) or the controllers (2, KIP-919)."""

    include_cluster_authorized_operations: Bool = False
    endpoint_type: Int8 = since(1, default=1)
    include_fenced_brokers: Bool = since(2)


@struct
class DescribeClusterBroker(Struct):
    """Address of a broker."""

    broker_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: NullableString = None
    is_fenced: Bool = since(2)


@message(key=60, versions=(0, 2), flexible=0)
class DescribeClusterResponse(Message):
    """Description of the cluster."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
    endpoint_type: Int8 = since(1, default=1)
    cluster_id: String = ""
    controller_id: Int32 = -1
    brokers: list[DescribeClusterBroker] = array()
    cluster_authorized_operations: Int32 = NOT_ASKED
