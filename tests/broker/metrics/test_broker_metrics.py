"""A broker's metrics, as a scrape shows them after clients used the broker."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from kohort.broker import Broker, BrokerOptions
from kohort.broker.metrics import BrokerMetrics, MetricsEndpoint
from kohort.client import Consumer, Producer
from kohort.errors import KohortError
from kohort.wire.api import request_header
from kohort.wire.batches import Marker, Record, encode_batch, encode_marker
from kohort.wire.codec import encode
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kohort.wire.messages.metadata import MetadataRequest, MetadataResponse
from tests.broker.conftest import Connect

Samples = dict[tuple[str, ...], float]


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    made = Broker(BrokerOptions(port=0, settings={"group.initial.rebalance.delay.ms": "0"}))
    made.metrics = BrokerMetrics()
    async with made:
        yield made


def samples(broker: Broker, *, openmetrics: bool = False) -> Samples:
    """Return each value by the name and the values of the labels."""
    assert broker.metrics is not None
    body = broker.metrics.body(openmetrics=openmetrics).decode()
    families = (parse_openmetrics if openmetrics else parse_text)(body)
    return {(sample.name, *sample.labels.values()): sample.value for family in families for sample in family.samples}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("openmetrics", [False, True])
async def test_a_group_leaves_its_traces(broker: Broker, protocol: str, *, openmetrics: bool) -> None:
    async with Producer(bootstrap_servers=broker.address) as producer:
        await (await producer.send("orders", b"value"))
    consumer = Consumer(
        "orders",
        bootstrap_servers=broker.address,
        group_id="g",
        group_protocol=protocol,
        auto_offset_reset="earliest",
    )
    async with consumer:
        while not await consumer.poll():
            pass
        await consumer.commit()
        found = samples(broker, openmetrics=openmetrics)
        requests = {
            key[1]: value for key, value in found.items() if key[0] == "kafka_network_requestmetrics_requests_total"
        }
        assert requests["Produce"] == requests["OffsetCommit"] == 1
        assert requests["Fetch"] >= 1
        assert found["kafka_server_group_coordinator_metrics_group_count", protocol] == 1
        assert found["kohort_broker_group_members", protocol] == 1
        assert found["kohort_broker_request_seconds_count", "Produce"] == 1
        assert 0 < found["kohort_broker_request_seconds_sum", "Produce"] < 60
        assert found["kohort_broker_request_bytes_total", "Produce"] > 50
        assert found["kohort_broker_sync_seconds_count",] >= 1
        assert found["kafka_server_socket_server_metrics_connection_count",] >= 1
        assert found["kafka_server_replicamanager_leadercount",] > 1
        assert found["kohort_broker_log_bytes",] > 0
        assert found["process_resident_memory_bytes",] > 1 << 20
        assert found["kohort_broker_info", "1"] == 1


async def test_errors_are_counted_by_name_also_those_of_one_partition(broker: Broker, connect: Connect) -> None:
    peer = await connect()
    await peer.ask(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4, HeartbeatResponse)
    unknown = ListOffsetsTopic(name="none", partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])
    await peer.ask(ListOffsetsRequest(topics=[unknown]), 6, ListOffsetsResponse)
    await peer.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4, FindCoordinatorResponse)
    errors = {
        key[1:]: value
        for key, value in samples(broker).items()
        if key[0] == "kafka_network_requestmetrics_errors_total"
    }
    assert errors == {("Heartbeat", "UNKNOWN_MEMBER_ID"): 1, ("ListOffsets", "UNKNOWN_TOPIC_OR_PARTITION"): 1}


async def test_a_held_heartbeat_is_shown(broker: Broker) -> None:
    async with Producer(bootstrap_servers=broker.address) as producer:
        await (await producer.send("orders", b"value"))
    consumer = Consumer("orders", bootstrap_servers=broker.address, group_id="g", group_protocol="consumer")
    async with consumer, asyncio.timeout(60):
        while not samples(broker)["kohort_broker_held_heartbeats",]:
            await consumer.poll(timeout=0.05)
        assert samples(broker)["kohort_broker_requests_waiting",] >= 1


async def test_repeated_heartbeats_are_counted_with_their_errors_sizes_and_times(
    broker: Broker, connect: Connect
) -> None:
    # The broker remembers a heartbeat and its answer, and counts repetitions together at the end of a loop turn.
    first, second = await connect(), await connect()
    heartbeat = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    frame = request_header(heartbeat.KEY, 4, 7, "app") + encode(heartbeat, 4)
    metadata = MetadataRequest(topics=[])
    for _ in range(5):
        for peer in (first, second):
            for _ in range(3):
                peer.send_frame(frame)
        for peer in (first, second):
            for _ in range(3):
                await peer.receive_frame()
        await first.ask(metadata, 9, MetadataResponse)  # ends the memory of no heartbeat
    found = samples(broker)
    assert found["kafka_network_requestmetrics_requests_total", "Heartbeat"] == 30
    assert found["kafka_network_requestmetrics_errors_total", "Heartbeat", "UNKNOWN_MEMBER_ID"] == 30
    assert found["kohort_broker_request_bytes_total", "Heartbeat"] == 30 * len(frame)
    assert found["kohort_broker_request_seconds_count", "Heartbeat"] == 30
    assert 0 < found["kohort_broker_request_seconds_sum", "Heartbeat"] < 60
    assert found["kafka_network_requestmetrics_requests_total", "Metadata"] == 5


async def test_a_heartbeat_whose_answer_changes_is_counted_under_each(broker: Broker, connect: Connect) -> None:
    peer = await connect()
    joining = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="m", rebalance_timeout_ms=60_000, subscribed_topic_names=["orders"], topic_partitions=[]
    )
    await peer.ask(joining, 1, ConsumerGroupHeartbeatResponse)
    heartbeat = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=9)
    leaving = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=-1)
    for request, times in ((heartbeat, 3), (leaving, 1), (heartbeat, 4)):
        frame = request_header(request.KEY, 1, 7, "app") + encode(request, 1)
        for _ in range(times):  # all in one packet, so in one turn of the event loop
            peer.send_frame(frame)
    for _ in range(8):
        await peer.receive_frame()
    found = samples(broker)
    name = "ConsumerGroupHeartbeat"
    assert found["kafka_network_requestmetrics_requests_total", name] == 9
    assert found["kafka_network_requestmetrics_errors_total", name, "FENCED_MEMBER_EPOCH"] == 3
    assert found["kafka_network_requestmetrics_errors_total", name, "UNKNOWN_MEMBER_ID"] == 4


async def test_the_time_of_a_held_heartbeat_is_the_time_until_its_answer() -> None:
    made = Broker(BrokerOptions(port=0, settings={"group.heartbeat.hold.ms": "200"}))
    made.metrics = BrokerMetrics()
    async with made:
        async with Producer(bootstrap_servers=made.address) as producer:
            await (await producer.send("orders", b"value"))
        consumer = Consumer("orders", bootstrap_servers=made.address, group_id="g", group_protocol="consumer")
        key = "kohort_broker_request_seconds_bucket", "ConsumerGroupHeartbeat"
        async with consumer, asyncio.timeout(60):
            while (found := samples(made)).get((*key, "+Inf"), 0) - found.get((*key, "0.1"), 0) < 3:
                await consumer.poll(timeout=0.05)


async def test_a_broker_without_metrics_makes_plain_calls() -> None:
    async with Broker(BrokerOptions(port=0)) as plain:
        assert plain.metrics is None
        assert plain.writer.synced is None


async def answer(address: str, request: bytes) -> tuple[bytes, bytes]:
    host, port = address.rsplit(":", 1)
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(request)
    async with asyncio.timeout(60):
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    return head, body


@pytest.fixture
async def endpoint(broker: Broker) -> AsyncIterator[MetricsEndpoint]:
    assert broker.metrics is not None
    made = MetricsEndpoint(broker.metrics)
    await made.start("127.0.0.1", 0)
    yield made
    await made.close()


@pytest.mark.parametrize("openmetrics", [False, True])
async def test_the_endpoint_answers_in_the_format_that_is_asked_for(
    endpoint: MetricsEndpoint, *, openmetrics: bool
) -> None:
    kind = b"application/openmetrics-text" if openmetrics else b"text/plain"
    head, body = await answer(endpoint.address, b"GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: " + kind + b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\nContent-Type: " + kind)
    assert body.endswith(b"# EOF\n") is openmetrics
    assert b"kohort_broker_info" in body
    assert f"Content-Length: {len(body)}".encode() in head


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        (b"GET / HTTP/1.1", b"404"),
        (b"GET /metrics?x=1 HTTP/1.1", b"200"),
        (b"POST /metrics HTTP/1.1", b"405"),
        (b"\xff\x00", b"405"),
    ],
)
async def test_other_requests_are_refused(endpoint: MetricsEndpoint, request_line: bytes, status: bytes) -> None:
    head, _ = await answer(endpoint.address, request_line + b"\r\n\r\n")
    assert head.split()[1] == status


async def test_a_request_that_is_too_large_gets_no_answer(endpoint: MetricsEndpoint) -> None:
    with suppress(ConnectionError):  # the rest of the request is refused
        assert await answer(endpoint.address, b"GET /metrics HTTP/1.1\r\nX: " + b"x" * 100_000) == (b"", b"")


async def test_a_port_in_use_is_an_error_that_names_it(endpoint: MetricsEndpoint, broker: Broker) -> None:
    assert broker.metrics is not None
    port = int(endpoint.address.rsplit(":", 1)[1])
    with pytest.raises(KohortError, match=f"Metrics cannot be served on 127.0.0.1:{port}"):
        await MetricsEndpoint(broker.metrics).start("127.0.0.1", port)


@pytest.mark.parametrize(("age_s", "late"), [(0, 0), (1_199, 0), (1_210, 1)])
async def test_a_transaction_is_late_five_minutes_after_the_longest_timeout(
    broker: Broker, age_s: int, late: int
) -> None:
    broker.topics.create("t", 2)
    log = broker.partition("t", 0)
    assert log is not None

    async def append(batch: bytearray) -> float:
        log.append(batch, log.leader_epoch)
        broker.writer.current()
        await broker.writer.drain()
        return samples(broker)[("kafka_server_replicamanager_partitionswithlatetransactionscount",)]

    record = [Record(0, broker.wall() - 1_000 * age_s, None, b"x")]
    assert await append(encode_batch(record)) == 0
    written = encode_batch(record, producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    assert await append(written) == late
    assert await append(encode_marker(1, 0, Marker(False, 0), broker.wall())) == 0
