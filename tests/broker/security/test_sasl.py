"""SASL listeners, message by message: who gets in, and what the others are told."""

import asyncio
import sys
from pathlib import Path
from types import BuiltinFunctionType, FrameType

import pytest

from kohort.broker import Broker, BrokerOptions, Clock
from kohort.errors import ConfigError, ErrorCode
from kohort.security import Secret
from kohort.security.sasl import (
    ClientDone,
    Failed,
    PlainClient,
    SaslClient,
    ScramClient,
    ScramCredential,
    ScramMechanism,
    ScramPassword,
    Send,
)
from kohort.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kohort.wire.messages.metadata import MetadataRequest, MetadataResponse
from kohort.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kohort.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tests.broker.conftest import QUICK, MakeBroker
from tests.broker.peer import Peer, connected, talking_to

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SETTINGS = {
    **QUICK,
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{MODULE} required user_alice="wonderland";',
    "connection.failed.authentication.delay.ms": "0",
}
SALT = b"26-characters-as-of-admins"


@pytest.fixture
async def secured(start_broker: MakeBroker) -> Broker:
    """A broker whose users are alice, by PLAIN, and bob, by SCRAM."""
    broker = await start_broker(BrokerOptions(settings=SETTINGS))
    add_bob(broker)
    return broker


def add_bob(broker: Broker) -> None:
    add_user(broker, "bob", "builder")


def add_user(broker: Broker, user: str, password: str, iterations: int = 4096) -> None:
    made = {m: ScramCredential.from_password(m, Secret(password), SALT, iterations) for m in ScramMechanism}
    broker.scram_credentials.change(user, (), made)


async def handshake(peer: Peer, mechanism: str, version: int = 1) -> SaslHandshakeResponse:
    return await peer.ask(SaslHandshakeRequest(mechanism=mechanism), version, SaslHandshakeResponse)


async def authenticate(peer: Peer, client: SaslClient) -> SaslAuthenticateResponse:
    token, machine = client.start(), client
    while True:
        answer = await peer.ask(SaslAuthenticateRequest(auth_bytes=token), 2, SaslAuthenticateResponse)
        if answer.error_code:
            return answer
        step = machine.receive(answer.auth_bytes)
        if isinstance(step, ClientDone):
            return answer
        assert isinstance(step, Send)
        token = step.token


def client_of(mechanism: str, user: str, password: str) -> SaslClient:
    if mechanism == "PLAIN":
        return PlainClient(user, Secret(password))
    found = ScramMechanism.named(mechanism)
    assert found is not None
    return ScramClient(user, ScramPassword(found, Secret(password)), "nonce-of-the-client")


USERS = {"PLAIN": ("alice", "wonderland"), "SCRAM-SHA-256": ("bob", "builder"), "SCRAM-SHA-512": ("bob", "builder")}


@pytest.mark.parametrize("mechanism", USERS)
async def test_a_client_that_knows_its_password_gets_in(secured: Broker, mechanism: str) -> None:
    user, password = USERS[mechanism]
    async with talking_to(secured) as peer:
        assert (await handshake(peer, mechanism)).mechanisms == ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
        answer = await authenticate(peer, client_of(mechanism, user, password))
        assert (answer.error_code, answer.session_lifetime_ms) == (0, 0)
        await peer.ask(MetadataRequest(topics=[]), 12, MetadataResponse)
        assert [connection.principal for connection in secured.sockets] == [f"User:{user}"]


@pytest.mark.parametrize("mechanism", USERS)
@pytest.mark.parametrize("user", ["alice", "bob", "nobody"])
async def test_an_unknown_user_and_a_wrong_password_get_the_same_answer(
    secured: Broker, mechanism: str, user: str, caplog: pytest.LogCaptureFixture
) -> None:
    answers = []
    for name, password in ((user, "guess"), ("nobody", "guess")):
        async with talking_to(secured) as peer:
            await handshake(peer, mechanism)
            answers.append(await authenticate(peer, client_of(mechanism, name, password)))
            assert await peer.closed()
    assert answers[0] == answers[1]
    assert answers[0].error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "guess" not in caplog.text
    assert "authentication failed peer=127.0.0.1:" in caplog.text


async def test_before_authentication_other_requests_close_the_connection(secured: Broker) -> None:
    async with talking_to(secured) as peer:
        await peer.ask(
            ApiVersionsRequest(client_software_name="t", client_software_version="1"), 3, ApiVersionsResponse
        )
        peer.send(MetadataRequest(topics=[]), 12)
        assert await peer.closed()
    async with talking_to(secured) as peer:
        peer.send(SaslAuthenticateRequest(auth_bytes=b"\0alice\0wonderland"), 2)
        assert await peer.closed()
    async with talking_to(secured) as peer:
        await handshake(peer, "SCRAM-SHA-256")
        peer.send(MetadataRequest(topics=[]), 12)
        assert await peer.closed()


async def test_a_mechanism_that_is_not_offered_is_answered_with_those_that_are(secured: Broker) -> None:
    async with talking_to(secured) as peer:
        answer = await handshake(peer, "GSSAPI")
        assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert answer.mechanisms == ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
        assert await peer.closed()


async def test_the_tokens_after_version_0_of_the_handshake_are_bare(secured: Broker) -> None:
    async with talking_to(secured) as peer:
        await handshake(peer, "PLAIN", version=0)
        peer.send_frame(b"\0alice\0wonderland")
        assert await peer.receive_frame() == b""
        await peer.ask(MetadataRequest(topics=[]), 12, MetadataResponse)
    async with talking_to(secured) as peer:
        await handshake(peer, "PLAIN", version=0)
        peer.send_frame(b"\0alice\0guess")
        assert await peer.closed()


async def test_sasl_requests_to_a_listener_without_sasl_get_an_error(broker: Broker) -> None:
    async with talking_to(broker) as peer:
        assert (await handshake(peer, "PLAIN")).error_code == ErrorCode.ILLEGAL_SASL_STATE
        answer = await authenticate(peer, client_of("PLAIN", "alice", "wonderland"))
        assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
        await peer.ask(MetadataRequest(topics=[]), 12, MetadataResponse)


async def test_a_failed_attempt_is_answered_late(start_broker: MakeBroker) -> None:
    broker = await start_broker(
        BrokerOptions(settings={**SETTINGS, "connection.failed.authentication.delay.ms": "300"})
    )
    loop = asyncio.get_running_loop()
    async with talking_to(broker) as peer:
        await handshake(peer, "PLAIN")
        begun = loop.time()
        await authenticate(peer, client_of("PLAIN", "alice", "guess"))
        assert loop.time() - begun >= 0.29


async def test_a_large_request_before_authentication_closes_the_connection(secured: Broker) -> None:
    async with talking_to(secured) as peer:
        peer.writer.write((600_000).to_bytes(4) + b"\0" * 100)
        assert await peer.closed()
    async with talking_to(secured) as peer:
        await handshake(peer, "PLAIN")
        await authenticate(peer, client_of("PLAIN", "alice", "wonderland"))
        peer.send(MetadataRequest(topics=[]), 12, "i" * 30_000)
        await peer.answer(MetadataResponse)


async def test_clients_that_never_authenticate_are_bounded_in_number_and_time(
    start_broker: MakeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    limits = {"max.connections.unauthenticated": "2", "authentication.timeout.ms": "1000"}
    broker = await start_broker(BrokerOptions(settings={**SETTINGS, **limits}))
    async with talking_to(broker) as first, talking_to(broker) as second:
        await handshake(first, "PLAIN")
        await authenticate(first, client_of("PLAIN", "alice", "wonderland"))
        await handshake(second, "PLAIN")
        async with talking_to(broker) as third:
            await handshake(third, "PLAIN")
            async with talking_to(broker) as fourth:
                assert await fourth.closed()
            assert await second.closed()
            assert await third.closed()
        await first.ask(MetadataRequest(topics=[]), 12, MetadataResponse)
    assert "max.connections.unauthenticated" in caplog.text
    assert "within authentication.timeout.ms" in caplog.text


class Time:
    """Time in milliseconds that a test moves."""

    def __init__(self) -> None:
        self.now = 1_000_000

    def __call__(self) -> int:
        return self.now


async def test_a_session_expires_unless_the_client_authenticates_again() -> None:
    clock = Time()
    broker = Broker(BrokerOptions(settings={**SETTINGS, "connections.max.reauth.ms": "60000"}), clock=Clock(clock))
    async with broker:
        add_bob(broker)
        async with talking_to(broker) as peer:
            await handshake(peer, "PLAIN")
            answer = await authenticate(peer, client_of("PLAIN", "alice", "wonderland"))
            assert answer.session_lifetime_ms == 60_000

            clock.now += 50_000
            await handshake(peer, "PLAIN")
            await authenticate(peer, client_of("PLAIN", "alice", "wonderland"))
            clock.now += 50_000
            await peer.ask(MetadataRequest(topics=[]), 12, MetadataResponse)

            clock.now += 10_000
            peer.send(MetadataRequest(topics=[]), 12)
            assert await peer.closed()


async def test_a_failed_login_is_one_short_line_in_the_log(secured: Broker, caplog: pytest.LogCaptureFixture) -> None:
    for user in ("eve\nauthenticated peer=10.0.0.1 principal=User:root\x1b[2J", "e" * 100_000):
        async with talking_to(secured) as peer:
            await handshake(peer, "PLAIN")
            assert (await authenticate(peer, PlainClient(user, Secret("guess")))).error_code
    failures = [record.getMessage() for record in caplog.records if "authentication failed" in record.getMessage()]
    assert len(failures) == 2
    assert all(len(failure) < 500 and failure.isprintable() for failure in failures)


async def test_a_request_before_authentication_is_small(secured: Broker, caplog: pytest.LogCaptureFixture) -> None:
    async with talking_to(secured) as peer:
        peer.writer.write((524_289).to_bytes(4))
        assert await peer.closed()
    assert "a request of 524289 bytes is outside 0 to 524288 (sasl.server.max.receive.size)" in caplog.text


async def test_a_client_cannot_become_another_one_on_its_connection(caplog: pytest.LogCaptureFixture) -> None:
    clock = Time()
    broker = Broker(BrokerOptions(settings={**SETTINGS, "connections.max.reauth.ms": "60000"}), clock=Clock(clock))
    async with broker:
        add_user(broker, "bob", "builder")
        add_user(broker, "carol", "singer")
        async with talking_to(broker) as peer:
            await handshake(peer, "SCRAM-SHA-256")
            await authenticate(peer, client_of("SCRAM-SHA-256", "bob", "builder"))
            clock.now += 2_000
            await handshake(peer, "SCRAM-SHA-256")
            answer = await authenticate(peer, client_of("SCRAM-SHA-256", "carol", "singer"))
            assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            assert answer.error_message is not None and "Cannot change principals" in answer.error_message
            assert await peer.closed()
    assert "User:bob may not become User:carol on its connection" in caplog.text


async def test_a_client_cannot_go_on_with_another_mechanism(caplog: pytest.LogCaptureFixture) -> None:
    # As in Apache Kafka, whose SaslServerAuthenticator answers the handshake and closes after what follows it.
    clock = Time()
    broker = Broker(BrokerOptions(settings={**SETTINGS, "connections.max.reauth.ms": "60000"}), clock=Clock(clock))
    async with broker:
        add_user(broker, "alice", "wonderland")
        async with talking_to(broker) as peer:
            await handshake(peer, "SCRAM-SHA-512")
            await authenticate(peer, client_of("SCRAM-SHA-512", "alice", "wonderland"))
            clock.now += 2_000
            assert (await handshake(peer, "PLAIN")).error_code == 0
            peer.send(SaslAuthenticateRequest(auth_bytes=b"\0alice\0wonderland"), 2)
            assert await peer.closed()
    assert "the client authenticated with SCRAM-SHA-512, and may not change to PLAIN" in caplog.text
    assert "wonderland" not in caplog.text


async def challenge_for(broker: Broker, user: str, mechanism: str = "SCRAM-SHA-256") -> bytes:
    """What the broker tells of the user's credential: salt and iterations."""
    async with talking_to(broker) as peer:
        await handshake(peer, mechanism)
        token = client_of(mechanism, user, "guess").start()
        answer = await peer.ask(SaslAuthenticateRequest(auth_bytes=token), 2, SaslAuthenticateResponse)
        return answer.auth_bytes.split(b",", 1)[1]


async def test_the_challenge_for_an_unknown_user_does_not_change(tmp_path: Path) -> None:
    # If it did, a guesser would know which users exist: theirs is the same after a restart and on each listener.
    settings = {
        **QUICK,
        "listeners": "ONE://127.0.0.1:0,TWO://127.0.0.1:0",
        "listener.security.protocol.map": "ONE:SASL_PLAINTEXT,TWO:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
    }
    challenges = []
    for _ in range(2):
        async with Broker(BrokerOptions(settings=settings, data=tmp_path / "data")) as broker:
            for endpoint in broker.endpoints.values():
                async with connected(f"127.0.0.1:{endpoint.port}") as peer:
                    await handshake(peer, "SCRAM-SHA-256")
                    token = client_of("SCRAM-SHA-256", "nobody", "guess").start()
                    answer = await peer.ask(SaslAuthenticateRequest(auth_bytes=token), 2, SaslAuthenticateResponse)
                    challenges.append(answer.auth_bytes.split(b",", 1)[1])
    assert len(challenges) == 4 and len(set(challenges)) == 1


async def test_the_brokers_of_a_cluster_invent_the_same_challenge(start_broker: MakeBroker, tmp_path: Path) -> None:
    brokers = [
        await start_broker(BrokerOptions(settings=SETTINGS, data=tmp_path / "data", shared=True, node_id=node_id))
        for node_id in (1, 2)
    ]
    first, second = [await challenge_for(broker, "nobody") for broker in brokers]
    assert first == second


async def test_an_unknown_user_has_as_many_iterations_as_most_users(secured: Broker) -> None:
    assert (await challenge_for(secured, "nobody")).endswith(b",i=4096")
    for user in ("carol", "dave"):
        add_user(secured, user, "any", 8192)
    assert (await challenge_for(secured, "nobody")).endswith(b",i=8192")
    assert (await challenge_for(secured, "bob")).endswith(b",i=4096")


@pytest.mark.parametrize("mechanism", USERS)
async def test_an_unknown_user_takes_the_same_work_as_a_wrong_password(secured: Broker, mechanism: str) -> None:
    """Clocks are too coarse to show it on a busy machine: the functions that are called are compared."""

    def calls(user: str) -> list[str]:
        found: list[str] = []

        def note(frame: FrameType, event: str, argument: object) -> None:
            if event == "call":
                found.append(frame.f_code.co_qualname)
            elif event == "c_call":
                found.append(argument.__qualname__ if isinstance(argument, BuiltinFunctionType) else "")

        server = secured._secured[0]._mechanisms
        assert server is not None
        machine = server.server(mechanism)
        assert machine is not None
        client = client_of(mechanism, user, "guess")
        token = client.start()
        while True:
            sys.setprofile(note)
            try:
                step = machine.receive(token)
            finally:
                sys.setprofile(None)
            if isinstance(step, Failed):
                return found
            assert isinstance(step, Send)
            answer = client.receive(step.token)
            assert isinstance(answer, Send)
            token = answer.token

    known = USERS[mechanism][0]
    calls(known)  # what is cached afterwards is cached for all
    assert len(calls(known)) > 10
    assert calls("x" * len(known)) == calls(known)


def test_credentials_survive_in_the_store(tmp_path_factory: pytest.TempPathFactory) -> None:
    data = tmp_path_factory.mktemp("data")

    async def run(first: bool) -> None:
        async with Broker(BrokerOptions(settings=SETTINGS, data=data)) as broker:
            if first:
                add_bob(broker)
            async with talking_to(broker) as peer:
                await handshake(peer, "SCRAM-SHA-512")
                answer = await authenticate(peer, client_of("SCRAM-SHA-512", "bob", "builder"))
                assert answer.error_code == 0

    asyncio.run(run(first=True))
    asyncio.run(run(first=False))


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"sasl.enabled.mechanisms": ""}, "name a mechanism in sasl.enabled.mechanisms"),
        ({"sasl.enabled.mechanisms": "GSSAPI"}, "sasl.enabled.mechanisms must be a list of"),
        ({"sasl.enabled.mechanisms": "OAUTHBEARER"}, "set sasl.oauthbearer.jwks.endpoint.url"),
        ({"listener.name.sasl_plaintext.plain.sasl.jaas.config": ""}, "offers PLAIN, but has no users"),
        ({"listener.name.sasl_plaintext.plain.sasl.jaas.config": f"{MODULE} required;"}, "has no users: add user_NAME"),
        ({"listener.name.sasl_plaintext.plain.sasl.jaas.config": "x required;"}, "must name org.apache.kafka"),
        ({"listener.name.sasl_plaintext.plain.sasl.jaas.config": f"{MODULE} required"}, "ends with a semicolon"),
    ],
)
async def test_a_mechanism_that_lacks_a_setting_is_one_sentence(settings: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        async with Broker(BrokerOptions(settings={**SETTINGS, **settings})):
            pass
