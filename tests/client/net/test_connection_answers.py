"""A connection and a peer whose every answer the test writes: versions, pieces of answers, times, and ends."""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from kohort import ErrorCode, KafkaError
from kohort.client.net.connection import BrokerConnection
from kohort.wire.api import APIS
from kohort.wire.api.header import RequestHeader
from kohort.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.wire.messages.metadata import MetadataRequest, MetadataResponse
from tests.client.conftest import eventually
from tests.client.peer import API_VERSIONS, HEARTBEAT, METADATA, Peer, answer_to, framed, peer, supports


@asynccontextmanager
async def connected(
    request_timeout_ms: int = 5_000, *, keys: Sequence[int] = (API_VERSIONS, HEARTBEAT, METADATA), newest: int = 99
) -> AsyncIterator[tuple[Peer, BrokerConnection]]:
    async with peer((supports(*keys, newest=newest), None)) as made:
        connection = await made.connect(request_timeout_ms)
        yield made, connection
        await connection.close()


async def asked(made: Peer, key: int, count: int = 1) -> list[RequestHeader]:
    await eventually(lambda: len(made.requests(key)) >= count)
    return made.requests(key)


def logged(caplog: pytest.LogCaptureFixture, start: str) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.getMessage().startswith(start)]


# Versions


async def test_a_request_that_the_broker_does_not_support_is_refused_before_it_is_sent() -> None:
    async with connected(keys=[API_VERSIONS, HEARTBEAT]) as (_, connection):
        assert connection.speaks(HeartbeatRequest) and not connection.speaks(MetadataRequest)
        with pytest.raises(KafkaError, match="no version of Metadata in common") as raised:
            connection.send(MetadataRequest(topics=[]))
        assert raised.value.code is ErrorCode.UNSUPPORTED_VERSION
        assert connection.in_flight == 0


@pytest.mark.parametrize(("told", "version"), [([ApiVersion(api_key=18, max_version=2)], 2), ([], 0)])
async def test_a_broker_that_knows_only_older_versions_is_asked_again_in_its_own(
    told: list[ApiVersion], version: int
) -> None:
    # KIP-511: it answers in version 0, whatever it was asked in.
    others = [ApiVersion(api_key=METADATA, max_version=1)] if told else []
    old = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=others + told)
    async with peer((old, 0), (supports(API_VERSIONS, METADATA), None)) as made:
        connection = await made.connect()
        assert [header.api_version for header in made.asked] == [APIS[API_VERSIONS].max_version, version]
        assert connection.speaks(MetadataRequest)
        await connection.close()


async def test_a_broker_that_does_not_list_its_versions_is_not_used() -> None:
    refusal = ApiVersionsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    async with peer((refusal, None)) as made:
        with pytest.raises(KafkaError, match="refused to list its supported versions") as raised:
            await made.connect()
        assert raised.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        await made.ended.wait()


async def test_a_request_arrives_with_its_content() -> None:
    async with connected() as (made, connection):
        request = HeartbeatRequest(group_id="g", generation_id=7, member_id="m")
        connection.post(request)
        (header,) = await asked(made, HEARTBEAT)
        assert header.client_id == "test"
        assert made.read(HeartbeatRequest) == [request]


async def test_another_request_may_be_refused_as_unsupported() -> None:
    # Its answer has the layout that it was asked in, unlike that of ApiVersions.
    async with connected(newest=0) as (made, connection):
        answer = connection.send(HeartbeatRequest(group_id="g"))
        (header,) = await asked(made, HEARTBEAT)
        connection.data_received(answer_to(header, HeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)))
        assert (await answer).error_code == ErrorCode.UNSUPPORTED_VERSION


# Answers in pieces


@pytest.mark.parametrize("size", [1, 3, 4, 5, 7, 13, 1_000])
async def test_answers_arrive_in_pieces_of_any_size(size: int) -> None:
    async with connected() as (made, connection):
        before = connection.received
        answers = [connection.send(MetadataRequest(topics=[])) for _ in range(3)]
        frames = [
            answer_to(header, MetadataResponse(cluster_id=f"{number}" * (1 + number * 40)))
            for number, header in enumerate(await asked(made, METADATA, 3))
        ]
        data = b"".join(frames)
        for at in range(0, len(data), size):
            connection.data_received(data[at : at + size])
            arrived, end = min(at + size, len(data)), 0
            for frame, answer in zip(frames, answers, strict=True):
                end += len(frame)
                assert answer.done() is (end <= arrived)
        assert [len((await answer).cluster_id) for answer in answers] == [1, 41, 81]
        assert connection.received == before + len(data)


async def test_a_small_answer_after_a_large_one_is_not_held_back() -> None:
    async with connected() as (made, connection):
        large, small, last = (connection.send(MetadataRequest(topics=[])) for _ in range(3))
        of_large, of_small, of_last = await asked(made, METADATA, 3)
        frame, piece = answer_to(of_large, MetadataResponse(cluster_id="c" * 1_000)), 6
        after = answer_to(of_small, MetadataResponse())
        connection.data_received(frame[:500])
        connection.data_received(frame[500:] + after[:piece])
        assert large.done() and not small.done()
        connection.data_received(after[piece:])
        assert small.done()
        connection.data_received(answer_to(of_last, MetadataResponse()))
        assert last.done()


async def test_a_large_answer_is_not_taken_for_tls() -> None:
    async with connected() as (made, connection):
        connection.send(MetadataRequest(topics=[]))
        await asked(made, METADATA)
        connection.data_received(b"\x15\x03\x00\x00" + bytes(10))  # the size of 350 MB
        assert connection.open


async def test_an_answer_to_another_request_ends_the_connection() -> None:
    async with connected() as (made, connection):
        answers = [connection.send(MetadataRequest(topics=[])) for _ in range(2)]
        first, second = await asked(made, METADATA, 2)
        assert first.correlation_id != second.correlation_id
        connection.data_received(answer_to(second, MetadataResponse()) + answer_to(first, MetadataResponse()))
        for answer in answers:
            with pytest.raises(KafkaError, match="malformed answer to Metadata: the answer is to request"):
                await answer
        await made.ended.wait()


async def test_an_answer_without_a_request_ends_the_connection() -> None:
    async with connected() as (made, connection):
        connection.data_received(framed(bytes(8)))
        assert not connection.open
        with pytest.raises(KafkaError, match="sent an answer without a request"):
            await connection.send(MetadataRequest(topics=[]))
        await made.ended.wait()


@pytest.mark.parametrize("size", [0, -1, 1 << 30 | 1])
async def test_a_size_that_no_answer_has_ends_the_connection(size: int) -> None:
    async with connected() as (made, connection):
        answer = connection.send(MetadataRequest(topics=[]))
        connection.data_received(struct.pack(">i", size))
        with pytest.raises(KafkaError, match="does not speak Kafka's protocol"):
            await answer
        with pytest.raises(KafkaError, match="does not speak Kafka's protocol") as raised:
            await connection.send(MetadataRequest(topics=[]))
        assert not raised.value.retriable
        await made.ended.wait()


# Times


async def test_each_request_has_its_own_time() -> None:
    async with connected() as (made, connection):
        first = connection.send(MetadataRequest(topics=[]), timeout_ms=400)
        second = connection.send(MetadataRequest(topics=[]), timeout_ms=450)
        header, _ = await asked(made, METADATA, 2)
        connection.data_received(answer_to(header, MetadataResponse()))
        await first
        async with asyncio.timeout(4):
            with pytest.raises(KafkaError, match="did not answer Metadata in time") as raised:
                await second
        assert raised.value.code is ErrorCode.REQUEST_TIMED_OUT
        await made.ended.wait()


async def test_a_request_without_a_time_of_its_own_has_request_timeout_ms() -> None:
    async with connected(request_timeout_ms=50) as (_, connection), asyncio.timeout(4):
        with pytest.raises(KafkaError, match="did not answer Metadata in time"):
            await connection.send(MetadataRequest(topics=[]))


async def test_a_throttled_connection_has_more_time(caplog: pytest.LogCaptureFixture) -> None:
    # KIP-219: the broker reads no request for the throttle time, which is longer than a request may take.
    caplog.set_level(logging.INFO, "kohort.client.net")
    async with connected(request_timeout_ms=300) as (made, connection):
        throttled = connection.send(MetadataRequest(topics=[]))
        behind = connection.send(MetadataRequest(topics=[]))
        headers = await asked(made, METADATA, 2)
        connection.data_received(answer_to(headers[0], MetadataResponse(throttle_time_ms=60_000)))
        await throttled
        later = connection.send(MetadataRequest(topics=[]))
        done, _ = await asyncio.wait([behind, later], timeout=0.6)  # twice the time of a request
        assert not done and connection.open
        for header in (headers[1], (await asked(made, METADATA, 3))[2]):
            connection.data_received(answer_to(header, MetadataResponse()))
        await behind
        await later
    assert logged(caplog, "slow answer") == []


@pytest.mark.parametrize(("timeout_ms", "slow"), [(None, True), (4_000, False)])
async def test_an_answer_that_takes_a_quarter_of_request_timeout_ms_is_logged(
    timeout_ms: int | None, slow: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "kohort.client.net")
    async with connected(request_timeout_ms=1_000) as (made, connection):
        quick = connection.send(MetadataRequest(topics=[]))
        (header,) = await asked(made, METADATA)
        connection.data_received(answer_to(header, MetadataResponse()))
        await quick
        began = asyncio.get_running_loop().time()
        late = connection.send(MetadataRequest(topics=[]), timeout_ms)
        header = (await asked(made, METADATA, 2))[1]
        await eventually(lambda: asyncio.get_running_loop().time() > began + 0.3)
        assert logged(caplog, "slow answer") == []
        connection.data_received(answer_to(header, MetadataResponse()))
        await late
    lines = logged(caplog, "slow answer")
    assert [line.endswith("for Metadata") and " took 0." in line for line in lines] == [True] * slow


async def test_a_peer_that_does_not_answer_is_disconnected() -> None:
    async with peer() as made:
        with pytest.raises(KafkaError, match="did not answer within 50 ms") as raised:
            await made.connect(setup_timeout_ms=50)
        assert raised.value.code is ErrorCode.REQUEST_TIMED_OUT
        await made.ended.wait()


async def test_an_address_that_refuses_is_named_with_the_reason() -> None:
    for host, named in (("127.0.0.1", r"127\.0\.0\.1:1"), ("::1", r"\[::1\]:1")):
        with pytest.raises(KafkaError, match=rf"cannot connect to {named}: [A-Z][a-z ]+") as raised:
            await BrokerConnection.connect(host, 1, client_id="t", request_timeout_ms=100, setup_timeout_ms=5_000)
        assert raised.value.code is ErrorCode.NETWORK_EXCEPTION


# Writing


async def test_a_posted_request_expects_no_answer() -> None:
    async with connected() as (made, connection):
        connection.post(MetadataRequest(topics=[]))
        assert connection.in_flight == 0
        await asked(made, METADATA)
        await connection.close()
        with pytest.raises(KafkaError, match="the connection was closed"):
            connection.post(MetadataRequest(topics=[]))


@pytest.mark.parametrize("ends", [False, True])
async def test_a_writer_waits_until_the_peer_has_taken_most_or_the_connection_ends(ends: bool) -> None:
    async with connected() as (_, connection):
        await connection.drained()
        connection.pause_writing()  # as the transport does when its buffer is full
        waiting = asyncio.ensure_future(connection.drained())
        for _ in range(3):
            await asyncio.sleep(0)
        assert not waiting.done()
        if ends:
            await connection.close()
        else:
            connection.resume_writing()
        async with asyncio.timeout(4):
            await waiting


# Ends


async def test_a_request_under_way_fails_at_once_when_the_connection_is_closed() -> None:
    async with connected() as (made, connection):
        answer = connection.send(MetadataRequest(topics=[]))
        await connection.close()
        assert answer.done() and not connection.open and connection.in_flight == 0
        for refused in (answer, connection.send(MetadataRequest(topics=[]))):
            with pytest.raises(KafkaError, match="the connection was closed") as raised:
                await refused
            assert raised.value.retriable
        await connection.close()
        await made.ended.wait()


async def test_a_connection_that_the_peer_ends_before_its_first_answer_may_expect_tls() -> None:
    async def end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(4)
        writer.close()

    async with await asyncio.start_server(end, "127.0.0.1", 0) as server:
        made = Peer([], int(server.sockets[0].getsockname()[1]))
        with pytest.raises(KafkaError, match=r"before its first answer: .* it expect TLS \(security_protocol\)\?$"):
            await made.connect()


async def test_a_connection_that_the_peer_ends_later_is_logged_with_what_waited(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "kohort.client.net")
    async with connected() as (made, connection):
        answers = [connection.send(MetadataRequest(topics=[])), connection.send(HeartbeatRequest())]
        await asked(made, HEARTBEAT)
        made.writers[0].transport.abort()
        for answer in answers:
            with pytest.raises(KafkaError, match=r"closed the connection(: .*reset.*| after its first.*)?$"):
                await answer
    (line,) = logged(caplog, "connection lost")
    assert line.endswith("unanswered requests: Metadata, Heartbeat")


async def test_the_reason_of_the_system_is_named() -> None:
    async with connected() as (_, connection):
        answer = connection.send(MetadataRequest(topics=[]))
        connection.connection_lost(ConnectionResetError(104, "Connection reset by peer"))
        with pytest.raises(KafkaError, match=r"closed the connection: \[Errno 104\] Connection reset by peer$"):
            await answer


@pytest.mark.parametrize("closes", [False, True])
async def test_an_end_that_no_request_waited_for_is_not_logged(closes: bool, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kohort.client.net")
    async with connected() as (made, connection):
        if closes:
            connection.send(MetadataRequest(topics=[])).add_done_callback(lambda done: done.exception())
            await connection.close()
        made.writers[0].transport.abort()
        await connection.closed
        await eventually(lambda: connection._transport.is_closing())
    assert logged(caplog, "connection lost") == []


async def test_a_connection_may_end_as_soon_as_it_begins() -> None:
    connection = BrokerConnection("test", 1_000)
    connection.connection_lost(None)
    assert "closed the connection" in (await connection.closed).sentence
