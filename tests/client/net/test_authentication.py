"""When a connection authenticates again (KIP-368), and what ends it."""

from __future__ import annotations

import asyncio

import pytest

from kohort.client.metrics import NetworkMetrics, Sampling
from kohort.client.net.authentication import Authentication
from kohort.client.security import AuthenticationError, Credentials, SecurityOptions
from kohort.errors import ErrorCode, KafkaError
from kohort.security import Secret
from kohort.wire.codec import Message
from kohort.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kohort.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

SESSION_S = 0.4


class Broker:
    """The other end of a connection, whose answers to handshakes a test gives."""

    address = "broker.example.com:9093"

    def __init__(self, session_s: float = SESSION_S) -> None:
        self.session_ms = int(session_s * 1000)
        self.metrics = NetworkMetrics(Sampling()).node(1)
        self.handshakes: asyncio.Queue[asyncio.Future[Message]] = asyncio.Queue()
        self.ended: asyncio.Future[KafkaError] = asyncio.get_running_loop().create_future()

    def version_of(self, kind: type[Message]) -> int:
        return 1

    def speaks(self, kind: type[Message]) -> bool:
        return True

    def hold_requests(self) -> None:
        pass

    def release_requests(self) -> None:
        pass

    def end(self, error: KafkaError) -> None:
        self.ended.set_result(error)

    def send_first(self, request: Message, version: int) -> asyncio.Future[Message]:
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        if isinstance(request, SaslHandshakeRequest):
            self.handshakes.put_nowait(answer)
        else:
            assert isinstance(request, SaslAuthenticateRequest)
            answer.set_result(SaslAuthenticateResponse(session_lifetime_ms=self.session_ms))
        return answer


@pytest.fixture
def credentials() -> Credentials:
    options = SecurityOptions(
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_plain_username="alice",
        sasl_plain_password=Secret("wonderland"),
    )
    return Credentials(options, "broker.example.com:9093")


@pytest.fixture(autouse=True)
def in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kohort.client.net.authentication._AGAIN", (0.9, 0.9))


async def authenticated(broker: Broker, credentials: Credentials) -> Authentication:
    """Authenticate for the first time, without a delay."""
    authentication = Authentication(broker, credentials)
    first = asyncio.create_task(authentication.authenticate(await credentials.client()))
    (await broker.handshakes.get()).set_result(SaslHandshakeResponse())
    await first
    return authentication


async def test_a_session_counts_from_when_the_handshake_is_answered(credentials: Credentials) -> None:
    # Kafka handles a handshake behind a JoinGroup when the group has rebalanced, and refuses the next one within a
    # second from then.
    broker, loop = Broker(), asyncio.get_running_loop()
    async with asyncio.timeout(10):
        authentication = await authenticated(broker, credentials)
        again = await broker.handshakes.get()
        answered = asyncio.Event()

        def answer() -> None:
            again.set_result(SaslHandshakeResponse())
            answered.set()

        loop.call_later(SESSION_S, answer)
        await answered.wait()
        at = loop.time()
        await broker.handshakes.get()
    assert loop.time() - at >= 0.8 * SESSION_S
    assert authentication.count == 2
    authentication.close()


async def test_a_short_session_is_not_renewed_sooner_than_brokers_allow(credentials: Credentials) -> None:
    broker, loop = Broker(1.05), asyncio.get_running_loop()
    async with asyncio.timeout(10):
        authentication = await authenticated(broker, credentials)
        at = loop.time()
        await broker.handshakes.get()
    assert loop.time() - at >= 0.98
    authentication.close()


async def test_a_connection_that_may_not_authenticate_again_yet_is_opened_again(credentials: Credentials) -> None:
    broker = Broker()
    async with asyncio.timeout(10):
        await authenticated(broker, credentials)
        (await broker.handshakes.get()).set_result(SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE))
        problem = await broker.ended
    assert problem.retriable and not isinstance(problem, AuthenticationError)
    assert "does not let the connection authenticate again" in str(problem)


async def test_a_listener_without_sasl_is_an_error_that_does_not_end(credentials: Credentials) -> None:
    broker = Broker()
    first = asyncio.create_task(Authentication(broker, credentials).authenticate(await credentials.client()))
    (await broker.handshakes.get()).set_result(SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE))
    with pytest.raises(AuthenticationError, match="does not authenticate by SASL"):
        await first
