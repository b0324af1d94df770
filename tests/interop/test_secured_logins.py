"""Logins that no client makes, to Apache Kafka and to ours: both answer the same, and end the connection as soon."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress

import pytest

from kohort.errors import ErrorCode
from kohort.security import Secret
from kohort.security.sasl import PlainClient, SaslClient, ScramClient, ScramMechanism, ScramPassword, Send
from kohort.wire.messages.metadata import MetadataRequest
from kohort.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from tests.broker.peer import Peer
from tests.broker.security.test_sasl import authenticate, handshake
from tests.interop.mixed.login import Login
from tests.interop.secured import SecuredBroker, running_secured_broker

AGAIN_AFTER_S = 1.1
"""A little more than the second that must pass between two repetitions of a login."""


@pytest.fixture(scope="module", params=["kohort", pytest.param("kafka", marks=pytest.mark.kafka)])
def secured(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, kafka_tools: None
) -> Iterator[SecuredBroker]:
    """Each broker, once for all tests."""
    with running_secured_broker(request.param, tmp_path_factory.mktemp("logins")) as broker:
        yield broker


def client_of(login: Login, nonce: str = "client-nonce") -> SaslClient:
    if login.mechanism == "PLAIN":
        return PlainClient(login.user, Secret(login.password))
    mechanism = ScramMechanism.named(login.mechanism)
    assert mechanism is not None
    return ScramClient(login.user, ScramPassword(mechanism, Secret(login.password)), nonce)


@asynccontextmanager
async def connected(login: Login) -> AsyncIterator[Peer]:
    host, _, port = login.bootstrap.rpartition(":")
    context = ssl.create_default_context(cafile=login.cafile)
    reader, writer = await asyncio.open_connection(host, int(port), ssl=context)
    try:
        yield Peer(reader, writer)
    finally:
        writer.transport.abort()
        with suppress(OSError):
            await writer.wait_closed()


async def logged_in(peer: Peer, login: Login) -> None:
    await handshake(peer, login.mechanism)
    assert (await authenticate(peer, client_of(login))).error_code == 0


async def test_requests_before_the_login_close_the_connection(secured: SecuredBroker) -> None:
    login = secured.login("producer", "PLAIN")
    first = client_of(login).start()
    async with connected(login) as peer:
        peer.send(MetadataRequest(topics=[]), 12)
        assert await peer.closed()
    async with connected(login) as peer:
        peer.send(SaslAuthenticateRequest(auth_bytes=first), 2)
        assert await peer.closed()


async def test_a_connection_may_authenticate_again_once_a_second(secured: SecuredBroker) -> None:
    login = secured.login("producer", "PLAIN")
    async with connected(login) as peer:
        await logged_in(peer, login)
        await logged_in(peer, login)
        assert (await handshake(peer, "PLAIN")).error_code == ErrorCode.ILLEGAL_SASL_STATE
        await asyncio.sleep(AGAIN_AFTER_S)
        await logged_in(peer, login)


async def test_a_client_cannot_go_on_with_another_mechanism(secured: SecuredBroker) -> None:
    scram, plain = secured.login("franz-go", "SCRAM-SHA-256"), secured.login("franz-go", "PLAIN")
    async with connected(scram) as peer:
        await logged_in(peer, scram)
        assert (await handshake(peer, "PLAIN")).error_code == ErrorCode.NONE
        peer.send(SaslAuthenticateRequest(auth_bytes=client_of(plain).start()), 2)
        assert await peer.closed()


async def test_a_client_cannot_become_another_user(secured: SecuredBroker) -> None:
    first, second = secured.login("admin", "PLAIN"), secured.login("producer", "PLAIN")
    async with connected(first) as peer:
        await logged_in(peer, first)
        await handshake(peer, "PLAIN")
        answer = await authenticate(peer, client_of(second))
        assert (answer.error_code, answer.error_message) == (
            ErrorCode.SASL_AUTHENTICATION_FAILED,
            "Cannot change principals during re-authentication from User.admin: User.producer",
        )
        assert await peer.closed()


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
async def test_the_messages_of_another_login_are_worth_nothing(secured: SecuredBroker, mechanism: str) -> None:
    login = secured.login("replayed", mechanism)
    client = client_of(login)
    first = client.start()
    async with connected(login) as peer:
        await handshake(peer, mechanism)
        challenge = await peer.ask(SaslAuthenticateRequest(auth_bytes=first), 2, SaslAuthenticateResponse)
        proof = client.receive(challenge.auth_bytes)
        assert isinstance(proof, Send)
        done = await peer.ask(SaslAuthenticateRequest(auth_bytes=proof.token), 2, SaslAuthenticateResponse)
        assert done.error_code == 0
    async with connected(login) as peer:
        await handshake(peer, mechanism)
        await peer.ask(SaslAuthenticateRequest(auth_bytes=first), 2, SaslAuthenticateResponse)
        again = await peer.ask(SaslAuthenticateRequest(auth_bytes=proof.token), 2, SaslAuthenticateResponse)
        assert (again.error_code, again.error_message) == (
            ErrorCode.SASL_AUTHENTICATION_FAILED,
            f"Authentication failed during authentication due to invalid credentials with SASL mechanism {mechanism}",
        )
        assert await peer.closed()
