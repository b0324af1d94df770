"""Clients push metrics to a broker, which appends them to a topic."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

import pytest

from kohort.broker import Broker, BrokerOptions
from kohort.broker.logs import INTERNAL_TOPICS
from kohort.broker.telemetry import receiver
from kohort.errors import ErrorCode
from kohort.model import NO_UUID
from kohort.telemetry import TELEMETRY_TOPIC, ClientTelemetry
from kohort.wire.batches import Codec, batches, decode_records
from kohort.wire.batches.compression import compress
from kohort.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kohort.wire.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from kohort.wire.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from tests.broker.conftest import MakeBroker
from tests.broker.peer import Peer, talking_to, until
from tests.telemetry.otlp import field, gauge, metrics_data, point

MAX_BYTES = 50_000
DATA = metrics_data(gauge("org.apache.kafka.consumer.poll.idle.ratio.avg", point(0.25)), resource={"group_id": "g"})


class Pushing(NamedTuple):
    """A broker that receives metrics, and a client."""

    broker: Broker
    peer: Peer

    async def ask(self, instance_id: UUID = NO_UUID) -> GetTelemetrySubscriptionsResponse:
        request = GetTelemetrySubscriptionsRequest(client_instance_id=instance_id)
        return await self.peer.ask(request, 0, GetTelemetrySubscriptionsResponse)

    async def push(self, data: bytes, compression: int = 0) -> int:
        """Push as a new instance."""
        told = await self.ask()
        request = PushTelemetryRequest(
            client_instance_id=told.client_instance_id,
            subscription_id=told.subscription_id,
            compression_type=compression,
            metrics=data,
        )
        return (await self.peer.ask(request, 0, PushTelemetryResponse)).error_code

    async def received(self) -> list[ClientTelemetry]:
        """Write what was received, and read it from the topic."""
        self.broker.client_telemetry.close()
        await self.broker.writer.drain()
        log = self.broker.partition(TELEMETRY_TOPIC, 0)
        values = [
            record.value or b""
            for buffer in ([] if log is None else log.read(0, 1 << 20))
            for position, _ in batches(buffer)
            for record in decode_records(buffer, position)
        ]
        return [ClientTelemetry.from_json(value) for value in values]


@pytest.fixture
async def pushing(start_broker: MakeBroker) -> AsyncIterator[Pushing]:
    settings = {"telemetry.receiver.enable": "true", "telemetry.max.bytes": str(MAX_BYTES)}
    broker = await start_broker(BrokerOptions(port=0, settings=settings))
    broker.subscriptions.change("all", {"metrics": "org.apache.kafka.consumer."})
    async with talking_to(broker) as peer:
        yield Pushing(broker, peer)


async def test_a_push_becomes_a_record(pushing: Pushing) -> None:
    software = ApiVersionsRequest(client_software_name="librdkafka", client_software_version="2.16.0")
    await pushing.peer.ask(software, 3, ApiVersionsResponse)
    assert await pushing.push(DATA) == ErrorCode.NONE
    (found,) = await pushing.received()
    assert (found.client_id, found.client_host) == ("peer", "/127.0.0.1")
    assert (found.software, found.version) == ("librdkafka", "2.16.0")
    assert (found.group_id, found.interval_ms, found.terminating) == ("g", 300_000, False)
    assert found.metrics == {"org.apache.kafka.consumer.poll.idle.ratio.avg": 0.25}


@pytest.mark.parametrize("codec", list(Codec))
async def test_every_codec_is_read(pushing: Pushing, codec: Codec) -> None:
    assert await pushing.push(bytes(compress(codec, DATA)), codec) == ErrorCode.NONE
    assert len(await pushing.received()) == 1


async def test_a_push_without_metrics_is_accepted_and_not_kept(pushing: Pushing) -> None:
    assert await pushing.push(b"") == ErrorCode.NONE
    assert await pushing.received() == []


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
async def test_a_push_that_is_too_large_unpacked_is_refused(pushing: Pushing, codec: Codec) -> None:
    bomb = field(900, 2, bytes(MAX_BYTES))
    packed = bytes(compress(codec, bomb))
    assert len(packed) < MAX_BYTES
    assert await pushing.push(packed, codec) == ErrorCode.TELEMETRY_TOO_LARGE
    assert await pushing.push(field(900, 2, bytes(MAX_BYTES)), Codec.NONE) == ErrorCode.TELEMETRY_TOO_LARGE
    assert await pushing.received() == []


@pytest.mark.parametrize("codec", list(Codec))
async def test_what_is_no_otlp_is_an_invalid_record(pushing: Pushing, codec: Codec) -> None:
    assert await pushing.push(b"nonsense", codec) == ErrorCode.INVALID_RECORD
    assert await pushing.received() == []


async def test_another_subscription_is_unknown(pushing: Pushing) -> None:
    told = await pushing.ask()
    request = PushTelemetryRequest(
        client_instance_id=told.client_instance_id, subscription_id=told.subscription_id ^ 1, metrics=DATA
    )
    answer = await pushing.peer.ask(request, 0, PushTelemetryResponse)
    assert answer.error_code == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    assert await pushing.received() == []


async def test_a_closed_connection_frees_its_instance(pushing: Pushing) -> None:
    told = await pushing.ask()
    assert (await pushing.ask(told.client_instance_id)).error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    pushing.peer.writer.close()
    await until(lambda: pushing.broker.connections == 0)
    async with talking_to(pushing.broker) as peer:
        again = Pushing(pushing.broker, peer)
        assert (await again.ask(told.client_instance_id)).error_code == ErrorCode.NONE


async def test_more_pushes_than_a_batch_holds_are_counted(
    pushing: Pushing, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(receiver, "_MOST_UNWRITTEN", 2)
    for _ in range(3):
        assert await pushing.push(DATA) == ErrorCode.NONE
    assert len(await pushing.received()) == 2
    assert "1 pushes of clients' metrics are lost" in caplog.text


async def test_more_bytes_than_a_batch_holds_are_counted_and_the_next_batch_is_empty_again(
    pushing: Pushing, monkeypatch: pytest.MonkeyPatch
) -> None:
    await pushing.push(DATA)
    [first] = await pushing.received()
    monkeypatch.setattr(receiver, "_MOST_UNWRITTEN_BYTES", int(1.5 * len(first.to_json())))
    for batch in (2, 3):
        for _ in range(2):
            assert await pushing.push(DATA) == ErrorCode.NONE
        assert len(await pushing.received()) == batch


async def test_the_topic_is_short_lived_and_internal(pushing: Pushing) -> None:
    await pushing.push(DATA)
    await pushing.received()
    topic = pushing.broker.topics.named(TELEMETRY_TOPIC)
    assert topic is not None
    assert topic.configs == {"cleanup.policy": "delete", "retention.ms": "3600000", "segment.ms": "900000"}
    assert TELEMETRY_TOPIC in INTERNAL_TOPICS


@pytest.mark.parametrize("enabled", [True, False])
async def test_the_requests_are_announced_only_by_a_receiver(start_broker: MakeBroker, enabled: bool) -> None:
    settings = {"telemetry.receiver.enable": str(enabled).lower()}
    broker = await start_broker(BrokerOptions(port=0, settings=settings))
    async with talking_to(broker) as peer:
        answer = await peer.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)
        announced = {71, 72} <= {found.api_key for found in answer.api_keys}
        assert announced == enabled
        if not enabled:
            peer.send(GetTelemetrySubscriptionsRequest(), 0)
            assert await peer.closed()


async def test_a_change_reaches_the_other_brokers_of_a_cluster(start_broker: MakeBroker, tmp_path: Path) -> None:
    one, two = [
        await start_broker(BrokerOptions(port=0, data=tmp_path, shared=True, node_id=number)) for number in (1, 2)
    ]
    one.subscriptions.change("all", {"metrics": "a."})
    await until(lambda: "all" in two.subscriptions.current)
    one.subscriptions.change("all", {})
    await until(lambda: not two.subscriptions.current)
