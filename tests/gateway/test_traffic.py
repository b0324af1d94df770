"""Requests and responses that the gateway reads: whose addresses it replaces, and what it announces."""

from struct import pack
from typing import TypeVar

import pytest

from kohort.errors import ErrorCode
from kohort.gateway.addresses import Address, Addresses
from kohort.gateway.framing import BadStream, Fate
from kohort.gateway.traffic import Traffic
from kohort.wire.api import request_header, response_header
from kohort.wire.codec import Message, decode, encode
from kohort.wire.messages.api_key import ApiKey
from kohort.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse, FinalizedFeatureKey
from kohort.wire.messages.current_leader import NodeEndpoint
from kohort.wire.messages.describe_cluster import DescribeClusterBroker, DescribeClusterRequest, DescribeClusterResponse
from kohort.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from kohort.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kohort.wire.messages.produce import PartitionProduceResponse, ProduceRequest, ProduceResponse, TopicProduceResponse

M = TypeVar("M", bound=Message)


def gateway_address(node_id: int) -> Address:
    return Address("gateway", 9000 + node_id)


def asked(traffic: Traffic, request: Message, version: int, correlation: int = 7) -> Fate:
    frame = request_header(request.KEY, version, correlation, "client") + encode(request, version)
    return traffic.decide_request(memoryview(frame), len(frame))


def answered(traffic: Traffic, response: Message, version: int, correlation: int = 7) -> bytes:
    """Return the response that the client gets, without its size."""
    frame = response_header(response.KEY, version, correlation) + encode(response, version)
    if traffic.decide_response(memoryview(frame), len(frame)) is Fate.PASS:
        return frame
    changed = traffic.response(frame)
    assert changed[:4] == pack(">i", len(changed) - 4)
    return changed[4:]


def read(kind: type[M], version: int, frame: bytes) -> M:
    return decode(kind, version, frame[len(response_header(kind.KEY, version, 7)) :])


@pytest.fixture
def traffic() -> Traffic:
    return Traffic(Addresses(gateway_address))


@pytest.mark.parametrize("version", [0, 8, 9, 13])
def test_metadata_names_the_gateway(traffic: Traffic, version: int) -> None:
    assert asked(traffic, MetadataRequest(topics=[]), version) is Fate.PASS
    upstream = MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=0, host="a", port=9092),
            MetadataResponseBroker(node_id=2, host="b", port=9092),
        ]
    )
    got = read(MetadataResponse, version, answered(traffic, upstream, version))
    assert [(broker.node_id, broker.host, broker.port) for broker in got.brokers] == [
        (0, "gateway", 9000),
        (2, "gateway", 9002),
    ]


def without_address(node_id: int) -> Address | None:
    """Addresses of a gateway on which the port of broker 2 is taken."""
    return None if node_id == 2 else gateway_address(node_id)


def test_a_broker_without_an_address_leads_no_partition() -> None:
    traffic = Traffic(Addresses(without_address))
    asked(traffic, MetadataRequest(topics=None), 12)
    places = [MetadataResponseBroker(node_id=node_id, host="a", port=9092) for node_id in (1, 2, 3)]
    partitions = [MetadataResponsePartition(partition_index=leader, leader_id=leader) for leader in (1, 2, 3)]
    partitions += [
        MetadataResponsePartition(partition_index=4, leader_id=-1, error_code=ErrorCode.LEADER_NOT_AVAILABLE)
    ]
    upstream = MetadataResponse(brokers=places, topics=[MetadataResponseTopic(name="t", partitions=partitions)])
    got = read(MetadataResponse, 12, answered(traffic, upstream, 12))
    assert [(broker.node_id, broker.port) for broker in got.brokers] == [(1, 9001), (3, 9003)]
    assert [(one.leader_id, one.error_code) for one in got.topics[0].partitions] == [
        (1, 0),
        (-1, ErrorCode.LEADER_NOT_AVAILABLE),
        (3, 0),
        (-1, ErrorCode.LEADER_NOT_AVAILABLE),
    ]


def test_a_broker_without_an_address_is_no_coordinator() -> None:
    traffic = Traffic(Addresses(without_address))
    asked(traffic, FindCoordinatorRequest(key="g"), 3)
    one = read(FindCoordinatorResponse, 3, answered(traffic, FindCoordinatorResponse(node_id=2, host="b", port=9), 3))
    assert (one.error_code, one.node_id, one.host, one.port) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1, "", -1)
    asked(traffic, FindCoordinatorRequest(coordinator_keys=["g", "h"]), 4)
    both = [Coordinator(key="g", node_id=2, host="b", port=9), Coordinator(key="h", node_id=1, host="a", port=9)]
    got = read(FindCoordinatorResponse, 4, answered(traffic, FindCoordinatorResponse(coordinators=both), 4))
    assert [(each.error_code, each.node_id, each.host, each.port) for each in got.coordinators] == [
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1, "", -1),
        (ErrorCode.NONE, 1, "gateway", 9001),
    ]


def test_a_broker_without_an_address_is_not_described_and_no_new_leader() -> None:
    traffic = Traffic(Addresses(without_address))
    asked(traffic, DescribeClusterRequest(), 1)
    brokers = [DescribeClusterBroker(broker_id=node_id, host="a", port=9092) for node_id in (1, 2)]
    described = DescribeClusterResponse(endpoint_type=1, brokers=brokers)
    got = read(DescribeClusterResponse, 1, answered(traffic, described, 1))
    assert [broker.broker_id for broker in got.brokers] == [1]
    asked(traffic, ProduceRequest(acks=-1), 10)
    leaders = [NodeEndpoint(node_id=node_id, host="a", port=9092) for node_id in (2, 3)]
    produced = read(ProduceResponse, 10, answered(traffic, ProduceResponse(node_endpoints=leaders), 10))
    assert [(leader.node_id, leader.port) for leader in produced.node_endpoints] == [(3, 9003)]


@pytest.mark.parametrize("version", [0, 3])
def test_one_coordinator_is_at_the_gateway(traffic: Traffic, version: int) -> None:
    asked(traffic, FindCoordinatorRequest(key="g"), version)
    upstream = FindCoordinatorResponse(node_id=2, host="b", port=9092)
    got = read(FindCoordinatorResponse, version, answered(traffic, upstream, version))
    assert (got.node_id, got.host, got.port) == (2, "gateway", 9002)


def test_coordinators_are_at_the_gateway_and_errors_stay(traffic: Traffic) -> None:
    asked(traffic, FindCoordinatorRequest(coordinator_keys=["g", "h"]), 4)
    unknown = Coordinator(key="h", node_id=-1, port=-1, error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    upstream = FindCoordinatorResponse(coordinators=[Coordinator(key="g", node_id=2, host="b", port=9092), unknown])
    got = read(FindCoordinatorResponse, 4, answered(traffic, upstream, 4))
    assert (got.coordinators[0].host, got.coordinators[0].port) == ("gateway", 9002)
    assert got.coordinators[1] == unknown


@pytest.mark.parametrize(("endpoint_type", "host"), [(1, "gateway"), (2, "a")])
def test_brokers_of_the_cluster_are_at_the_gateway_and_controllers_are_not(
    traffic: Traffic, endpoint_type: int, host: str
) -> None:
    asked(traffic, DescribeClusterRequest(), 1)
    upstream = DescribeClusterResponse(
        endpoint_type=endpoint_type, brokers=[DescribeClusterBroker(broker_id=1, host="a", port=9092)]
    )
    got = read(DescribeClusterResponse, 1, answered(traffic, upstream, 1))
    assert got.brokers[0].host == host


@pytest.mark.parametrize("client_id", ["", "c" * 300])
@pytest.mark.parametrize("transactional_id", [None, "t" * 200])
def test_new_leaders_in_a_produce_response_are_at_the_gateway(
    traffic: Traffic, client_id: str, transactional_id: str | None
) -> None:
    request = ProduceRequest(transactional_id=transactional_id, acks=-1)
    frame = request_header(ApiKey.PRODUCE, 10, 7, client_id) + encode(request, 10)
    shortest = next(
        size for size in range(len(frame) + 1) if traffic.decide_request(memoryview(frame)[:size], 10_000) is Fate.PASS
    )
    assert shortest < len(frame)
    moved = TopicProduceResponse(name="t", partition_responses=[PartitionProduceResponse(error_code=6)])
    upstream = ProduceResponse(responses=[moved], node_endpoints=[NodeEndpoint(node_id=3, host="c", port=9216)])
    got = read(ProduceResponse, 10, answered(traffic, upstream, 10))
    assert (got.node_endpoints[0].host, got.node_endpoints[0].port) == ("gateway", 9003)


def test_a_produce_response_without_addresses_stays_as_it_is(traffic: Traffic) -> None:
    asked(traffic, ProduceRequest(acks=1), 12)
    upstream = ProduceResponse(
        responses=[TopicProduceResponse(name="t", partition_responses=[PartitionProduceResponse()])]
    )
    assert answered(traffic, upstream, 12) == response_header(0, 12, 7) + encode(upstream, 12)


def test_a_produce_request_is_forgotten_when_it_is_answered(traffic: Traffic) -> None:
    # The gateway remembers 10,000 requests of a connection.
    for response in (ProduceResponse(), ProduceResponse(throttle_time_ms=1)):
        asked(traffic, ProduceRequest(acks=1), 10)
        assert traffic.awaits(7)
        answered(traffic, response, 10)
        assert not traffic.awaits(7)


def test_a_produce_request_without_a_response_is_not_remembered(traffic: Traffic) -> None:
    for correlation in range(20_000):
        assert asked(traffic, ProduceRequest(acks=0), 12, correlation) is Fate.PASS


def test_too_many_requests_without_a_response_end_the_connection(traffic: Traffic) -> None:
    with pytest.raises(BadStream, match="more than 10000 requests"):
        for correlation in range(10_001):
            asked(traffic, MetadataRequest(), 9, correlation)


def test_two_requests_under_way_with_one_correlation_id_end_the_connection(traffic: Traffic) -> None:
    # Responses are told apart by it: the answer to one would be read as that to the other.
    asked(traffic, MetadataRequest(), 9, correlation=7)
    with pytest.raises(BadStream, match="correlation ID 7"):
        asked(traffic, FindCoordinatorRequest(), 3, correlation=7)


def test_versions_are_those_that_both_know(traffic: Traffic) -> None:
    asked(traffic, ApiVersionsRequest(), 3)
    upstream = ApiVersionsResponse(
        api_keys=[
            ApiVersion(api_key=ApiKey.FETCH, min_version=4, max_version=19),
            ApiVersion(api_key=ApiKey.METADATA, min_version=0, max_version=99),
            ApiVersion(api_key=ApiKey.OFFSET_COMMIT, min_version=2, max_version=5),
            ApiVersion(api_key=ApiKey.SASL_HANDSHAKE, min_version=0, max_version=1),
            ApiVersion(api_key=78, min_version=0, max_version=3),  # ShareFetch
            ApiVersion(api_key=79, min_version=0, max_version=0),  # ShareAcknowledge, of which the gateway reads others
            ApiVersion(api_key=9_999, min_version=3, max_version=4),
        ],
        finalized_features_epoch=5,
        finalized_features=[FinalizedFeatureKey(name="transaction.version", max_version_level=2, min_version_level=2)],
    )
    got = read(ApiVersionsResponse, 3, answered(traffic, upstream, 3))
    assert {api.api_key: (api.min_version, api.max_version) for api in got.api_keys} == {
        ApiKey.FETCH: (4, 18),
        ApiKey.METADATA: (0, 13),
        ApiKey.OFFSET_COMMIT: (2, 5),
        ApiKey.SASL_HANDSHAKE: (1, 1),
        78: (1, 2),
        9_999: (3, 4),
    }
    assert (got.finalized_features_epoch, got.finalized_features) == (5, upstream.finalized_features)


def test_a_client_that_is_newer_than_the_broker_learns_its_versions(traffic: Traffic) -> None:
    # KIP-511: the response has version 0, whatever was asked for.
    frame = request_header(ApiKey.API_VERSIONS, 9, 7, None)
    traffic.decide_request(memoryview(frame), len(frame))
    upstream = ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        api_keys=[ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=0, max_version=4)],
    )
    got = read(ApiVersionsResponse, 0, answered(traffic, upstream, 0))
    assert got == upstream


def test_a_sasl_handshake_of_version_0_is_refused(traffic: Traffic) -> None:
    frame = request_header(ApiKey.SASL_HANDSHAKE, 0, 7, None)
    with pytest.raises(BadStream, match="SaslHandshake 0"):
        traffic.decide_request(memoryview(frame), len(frame))


def test_a_response_that_cannot_be_read_is_an_error(traffic: Traffic) -> None:
    asked(traffic, MetadataRequest(), 12)
    frame = response_header(ApiKey.METADATA, 12, 7) + b"\0\0"
    with pytest.raises(BadStream, match="Metadata 12 cannot be read"):
        traffic.response(frame)
