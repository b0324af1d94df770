"""A user's mistakes raise errors soon that say what to do and whether a retry can succeed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from functools import partial
from struct import Struct
from typing import Any

import pytest

from kohort import (
    Admin,
    ConfigError,
    Consumer,
    ErrorCode,
    KafkaError,
    KohortError,
    OffsetAndMetadata,
    Producer,
    TopicPartition,
    blocking,
)
from kohort.client import NotAssignedError, NotKafkaError
from kohort.wire.api import APIS, read_request_header, response_header
from kohort.wire.codec import Message, encode
from kohort.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from kohort.wire.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from kohort.wire.messages.metadata import MetadataResponse, MetadataResponseBroker, MetadataResponseTopic
from tests.client.conftest import NewTopicName, eventually
from tests.client.consume.test_consumer import consumer_of, fill, take
from tests.interop.broker import Broker

_HEAD = Struct(">ihhi")
_SOON = 20.0

Serve = Callable[..., Any]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Serve on a free port until the test ends; gives its address."""
    servers: list[asyncio.Server] = []

    async def start(handler: Callable[..., Any]) -> str:
        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                await handler(reader, writer)
            except (ConnectionError, asyncio.IncompleteReadError):
                pass
            finally:
                writer.close()

        server = await asyncio.start_server(handle, "127.0.0.1", 0)
        servers.append(server)
        host, port = server.sockets[0].getsockname()[:2]
        return f"{host}:{port}"

    yield start
    for server in servers:
        server.close()
        await server.wait_closed()


async def web(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(10)
    writer.write(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
    await writer.drain()


async def tls(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A server of TLS: what does not begin with a handshake gets a fatal alert, protocol_version (RFC 8446, 6)."""
    await reader.read(4096)
    writer.write(bytes([21, 3, 3, 0, 2, 2, 70]))
    await writer.drain()


async def tls_without_a_word(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """OpenSSL's servers close without an alert."""
    await reader.read(4096)


async def old_broker(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One that knows ApiVersions and nothing else that we speak."""
    while True:
        size, key, version, correlation_id = _HEAD.unpack(await reader.readexactly(_HEAD.size))
        await reader.readexactly(size + 4 - _HEAD.size)
        assert key == 18
        code = ErrorCode.UNSUPPORTED_VERSION if version else ErrorCode.NONE
        keys = [ApiVersion(api_key=18, min_version=0, max_version=0)]
        body = bytes(encode(ApiVersionsResponse(error_code=code, api_keys=keys), 0))
        writer.write((len(body) + 4).to_bytes(4, "big") + correlation_id.to_bytes(4, "big") + body)
        await writer.drain()


async def closed_broker(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, group: ErrorCode = ErrorCode.GROUP_AUTHORIZATION_FAILED
) -> None:
    """One with ACLs that allow us neither the topic `t` nor, as it is, the group."""
    port = writer.get_extra_info("sockname")[1]
    answers: dict[int, Message] = {
        3: MetadataResponse(
            brokers=[MetadataResponseBroker(host="127.0.0.1", port=port)],
            topics=[MetadataResponseTopic(name="t", error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)],
        ),
        10: FindCoordinatorResponse(coordinators=[Coordinator(key="g", error_code=group)]),
        18: ApiVersionsResponse(
            api_keys=[
                ApiVersion(api_key=key, min_version=APIS[key].max_version, max_version=APIS[key].max_version)
                for key in (3, 10, 18)
            ]
        ),
    }
    while True:
        size = int.from_bytes(await reader.readexactly(4), "big")
        asked = read_request_header(await reader.readexactly(size))
        key, version = asked.api_key, asked.api_version
        body = response_header(key, version, asked.correlation_id) + bytes(encode(answers[key], version))
        writer.write(len(body).to_bytes(4, "big") + body)
        await writer.drain()


async def refusals(address: str) -> list[KafkaError]:
    """Return the errors of the three clients for an address, within `_SOON` seconds."""
    found: list[KafkaError] = []
    async with asyncio.timeout(_SOON):
        async with Admin(bootstrap_servers=address) as admin:
            with pytest.raises(KafkaError) as raised:
                await admin.list_topics()
            found.append(raised.value)
        async with Producer(bootstrap_servers=address) as producer:
            with pytest.raises(KafkaError) as raised:
                await producer.send("t", b"x")
            found.append(raised.value)
        async with Consumer("t", bootstrap_servers=address, group_id="g") as consumer:
            with pytest.raises(KafkaError) as raised:
                while True:
                    await consumer.poll(timeout=0.2)
            found.append(raised.value)
    return found


async def test_a_web_server_is_detected_at_once(serve: Serve) -> None:
    for problem in await refusals(await serve(web)):
        assert isinstance(problem, NotKafkaError) and not problem.retriable
        assert "is a web server; bootstrap_servers must name a Kafka broker" in str(problem)


async def test_a_port_that_expects_tls_is_detected_at_once(serve: Serve) -> None:
    for problem in await refusals(await serve(tls)):
        assert isinstance(problem, NotKafkaError) and not problem.retriable
        assert "expects TLS: set security_protocol to SSL or SASL_SSL" in str(problem)


async def test_a_port_that_closes_at_once_may_expect_tls(serve: Serve) -> None:
    async with Admin(bootstrap_servers=await serve(tls_without_a_word), default_api_timeout_ms=300) as admin:
        with pytest.raises(KafkaError, match="is it stopping, or does it expect TLS \\(security_protocol\\)") as raised:
            await admin.list_topics()
        assert raised.value.retriable  # a broker that stops does the same


async def test_a_broker_that_is_too_old_is_detected_at_once(serve: Serve) -> None:
    for problem in await refusals(await serve(old_broker)):
        assert problem.code is ErrorCode.UNSUPPORTED_VERSION and not problem.retriable
        assert "no version of Metadata in common" in str(problem) and "must be upgraded" in str(problem)


async def test_a_client_without_authorization_gets_a_sentence_that_says_what_to_do(serve: Serve) -> None:
    address = await serve(closed_broker)
    refused: list[KafkaError] = []
    async with asyncio.timeout(_SOON):
        async with Admin(bootstrap_servers=address) as admin:
            for call in (admin.describe_topics(["t"]), admin.group_offsets("g")):
                with pytest.raises(KafkaError) as raised:
                    await call
                refused.append(raised.value)
        async with Producer(bootstrap_servers=address) as producer:
            with pytest.raises(KafkaError) as raised:
                await producer.send("t", b"x")
            refused.append(raised.value)
        loading = await serve(partial(closed_broker, group=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
        for name, at in (("t", loading), ("u", address)):
            async with Consumer(name, bootstrap_servers=at, group_id="g") as consumer:
                with pytest.raises(KafkaError) as raised:
                    while True:
                        await consumer.poll(timeout=0.2)
                refused.append(raised.value)
    topic, group = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert [error.code for error in refused] == [topic, group, topic, topic, group]
    for error in refused:
        assert not error.retriable
        assert "not authorized" in str(error) and "its operator must allow that to this client (an ACL)" in str(error)


async def test_one_wrong_address_among_others_does_no_harm(serve: Serve, any_broker: Broker) -> None:
    listed = [await serve(web), "127.0.0.1:1", any_broker.bootstrap]
    async with Admin(bootstrap_servers=listed) as admin:
        for _ in range(3):  # they are tried in any order
            assert (await admin.describe_cluster()).brokers


@pytest.mark.parametrize("address", ["127.0.0.1:1", "no-such-host.invalid:9092"])
async def test_an_unreachable_address_is_retried(address: str, caplog: pytest.LogCaptureFixture) -> None:
    async with Admin(bootstrap_servers=address, default_api_timeout_ms=300) as admin:
        with pytest.raises(KafkaError, match=f"cannot connect to {address}: .*is bootstrap_servers correct") as raised:
            await admin.list_topics()
        assert raised.value.retriable
    async with Consumer("t", bootstrap_servers=address, group_id="g") as consumer:
        with caplog.at_level(logging.WARNING, "kohort.client"):
            assert await consumer.poll(timeout=0.5) == []
        assert "no broker answers" in caplog.text  # a broker that restarts is no error, but is logged


async def test_an_unknown_topic_is_reported(any_broker: Broker, fresh: str, caplog: pytest.LogCaptureFixture) -> None:
    own: dict[str, Any] = {"bootstrap_servers": any_broker.bootstrap, "allow_auto_create_topics": False}
    async with Producer(max_block_ms=500, **own) as producer:
        with pytest.raises(KafkaError, match=f"{fresh}: this broker does not have that topic") as raised:
            await producer.send(fresh, b"x")
        assert raised.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and raised.value.retriable
    async with Consumer(group_id=fresh, **own) as consumer:
        with caplog.at_level(logging.WARNING, "kohort.client"):
            consumer.subscribe([fresh])
            assert await consumer.poll(timeout=0.5) == []
        assert f"topic={fresh}: this broker does not have that topic" in caplog.text
        assert await consumer.partitions_for(fresh) == 0


async def test_a_missing_partition_is_reported(any_broker: Broker, new_topic: NewTopicName) -> None:
    topic = await new_topic(1)
    async with Producer(bootstrap_servers=any_broker.bootstrap) as producer:
        with pytest.raises(KafkaError, match="has only partition 0, not 3"):
            await producer.send(topic, b"x", partition=3)
    async with Consumer(bootstrap_servers=any_broker.bootstrap, default_api_timeout_ms=500) as consumer:
        with pytest.raises(KafkaError, match="has no known leader") as raised:
            await consumer.end_offsets([TopicPartition(topic, 3)])
        assert raised.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize(
    ("kind", "options", "sentence"),
    [
        (Consumer, {"max_poll_records": "many"}, "must be a whole number"),
        (Consumer, {"fetch_max_wait_ms": 0.5}, "must be a whole number"),
        (Consumer, {"auto_offset_reset": None}, "leave it out for its default"),
        (Consumer, {"check_crcs": 1}, "must be true or false"),
        (Consumer, {"auto_ofset_reset": "earliest"}, "did you mean auto_offset_reset"),
        (Producer, {"acks": "two"}, "acks is 'two', but must be one of"),
        (Producer, {"acks": 1, "enable_idempotence": True}, "enable_idempotence needs acks=all"),
        (Producer, {"compression_type": "zip"}, "must be one of: gzip, lz4, none, snappy, zstd"),
        (Admin, {"bootstrap_servers": 9092}, "must be host:port"),
        (Admin, {"group_id": "g"}, "no option group_id"),
    ],
)
async def test_an_option_of_the_wrong_type_is_refused_at_once(
    kind: Callable[..., Any], options: dict[str, object], sentence: str
) -> None:
    with pytest.raises(ConfigError, match=sentence) as raised:
        kind(**{"bootstrap_servers": "127.0.0.1:9092", **options})
    assert not raised.value.retriable


async def test_a_commit_of_anothers_partition_is_refused(
    any_broker: Broker, new_topic: NewTopicName, fresh: str
) -> None:
    # The coordinator would take it: a member may commit whatever it likes, and the owner would read again or skip.
    topic = await new_topic(2)
    await fill(any_broker.bootstrap, topic, 10, 2)
    other = TopicPartition(await new_topic(1), 0)
    async with consumer_of(any_broker, topic, group_id=fresh, enable_auto_commit=False) as consumer:
        await take(consumer, 10)
        ours = TopicPartition(topic, 0)
        with pytest.raises(NotAssignedError, match="before on_revoked returns") as raised:
            await consumer.commit({ours: 5, other: 1})
        assert raised.value.partitions == {other} and not raised.value.retriable
        await consumer.commit({ours: 5})
        committed = await consumer.committed([ours, other])
        assert committed == {ours: OffsetAndMetadata(5), other: None}


async def test_invalid_records_are_rejected_before_anything_is_sent(
    any_broker: Broker, new_topic: NewTopicName
) -> None:
    topic = await new_topic(1)
    async with Producer(bootstrap_servers=any_broker.bootstrap) as producer:
        with pytest.raises((KohortError, TypeError)):
            await producer.send(topic, "text")
        delivery = await producer.send(topic, b"bytes")
        assert (await delivery).offset == 0
    async with consumer_of(any_broker) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        await eventually(lambda: bool(consumer.positions()))
        assert [record.value for record in await take(consumer, 1)] == [b"bytes"]


@pytest.mark.parametrize("kind", [Consumer, blocking.Consumer])
async def test_callbacks_without_topics_are_not_passed_over_in_silence(kind: type[Any]) -> None:
    with pytest.raises(ConfigError, match="on_assigned, on_revoked and on_lost need topics"):
        kind(on_revoked=print, bootstrap_servers="127.0.0.1:1", group_id="callbacks")
