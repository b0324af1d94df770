"""Peers of secured listeners that do what no client does: none gets in, and none disturbs the others."""

from __future__ import annotations

import asyncio
import logging
import random
import shutil
import ssl
import struct
from contextlib import suppress
from pathlib import Path

import pytest

from kohort.broker import Broker, BrokerOptions
from kohort.broker.net import ClientConnection
from kohort.errors import ErrorCode
from kohort.security import Secret
from kohort.security.sasl import OAuthBearerClient, PlainClient, ScramClient, ScramMechanism, ScramPassword, Send
from kohort.wire.api import request_header
from kohort.wire.codec import Message, encode
from kohort.wire.messages.api_versions import ApiVersionsRequest
from kohort.wire.messages.metadata import MetadataRequest, MetadataResponse
from kohort.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kohort.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.broker.conftest import MakeBroker
from tests.broker.peer import PATIENCE_S, Peer, talking_to, until
from tests.broker.security.certificates import Certificates, new_certificates
from tests.broker.security.issuer import new_key, running_issuer, token
from tests.broker.security.test_oauthbearer import settings as oauth_settings
from tests.broker.security.test_sasl import SETTINGS, add_bob, authenticate, client_of, handshake
from tests.broker.security.test_tls import answers, encrypted, shaken_hands, tls_settings, trusting

GUESS = "not-the-password"


async def logged_in(peer: Peer) -> Peer:
    await handshake(peer, "PLAIN")
    assert (await authenticate(peer, client_of("PLAIN", "alice", "wonderland"))).error_code == 0
    return peer


def frame(request: Message, version: int) -> bytes:
    data = request_header(request.KEY, version, 1, "hostile") + encode(request, version)
    return struct.pack(">i", len(data)) + data


def tokens() -> list[bytes]:
    """First tokens of each mechanism, and second ones, with a password that is not right."""
    wrong = Secret(GUESS)
    scram = ScramClient("bob", ScramPassword(ScramMechanism.SHA_256, wrong), "nonce")
    proof = scram.receive(b"r=nonceAndMore,s=c2FsdA==,i=4096")
    assert isinstance(proof, Send)
    return [
        PlainClient("alice", wrong).start(),
        scram.start(),
        proof.token,
        OAuthBearerClient(Secret(token(new_key("unknown")))).start(),
        b"\x01",
        b"",
    ]


def conversation(dice: random.Random, known: list[bytes]) -> bytes:
    """What a client would send in one go, with some of it changed."""
    sent = [frame(SaslHandshakeRequest(mechanism=dice.choice(MECHANISMS)), dice.choice((0, 1)))]
    for _ in range(dice.randrange(4)):
        chosen = mutated(dice, dice.choice(known))
        bare = struct.pack(">i", len(chosen)) + chosen
        sent.append(dice.choice((bare, frame(SaslAuthenticateRequest(auth_bytes=chosen), dice.randrange(3)))))
    if dice.random() < 0.2:
        sent.append(frame(MetadataRequest(topics=[]), 12))
    if dice.random() < 0.2:
        dice.shuffle(sent)
    data = b"".join(sent)
    return mutated(dice, data) if dice.random() < 0.5 else data


def mutated(dice: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(dice.choice((0, 1, 1, 3))):
        at = dice.randrange(len(changed) + 1)
        match dice.randrange(5):
            case 0:
                changed[at : at + 1] = dice.randbytes(1)
            case 1:
                del changed[at : at + dice.choice((1, 2, 50))]
            case 2:
                changed[at:at] = dice.choice((b"\0", b"\xff", b",", b"=", b"\x01", b"a=x,", dice.randbytes(9)))
            case 3:
                changed[at:at] = changed[at : at + dice.randrange(100)]
            case _:
                changed[at:at] = dice.choice((b"A", b"\0", b",")) * dice.choice((300, 70_000))
    return bytes(changed)


MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI", "", "x" * 1000)


async def test_fuzzed_sasl_frames_let_nobody_in(start_broker: MakeBroker, caplog: pytest.LogCaptureFixture) -> None:
    with running_issuer() as issuer:
        both = {**oauth_settings(issuer.jwks_url), **SETTINGS, "sasl.enabled.mechanisms": ",".join(MECHANISMS[:4])}
        broker = await start_broker(BrokerOptions(settings=both))
    add_bob(broker)
    seed = random.randrange(1 << 32)
    dice, known = random.Random(seed), tokens()
    async with talking_to(broker) as honest:
        await logged_in(honest)
        caplog.clear()
        caplog.set_level(logging.DEBUG, "kohort")
        for number in range(500):
            async with talking_to(broker) as peer, asyncio.timeout(PATIENCE_S):
                peer.writer.write(conversation(dice, known))
                with suppress(ConnectionError):
                    peer.writer.write_eof()
                    await peer.reader.read()
            if number % 50 == 0:
                await honest.ask(MetadataRequest(topics=[]), 12, MetadataResponse)
    assert "authenticated peer" not in caplog.text, f"seed {seed}"
    worse = [each.getMessage() for each in caplog.records if each.levelno >= logging.ERROR or each.exc_info]
    assert not worse, f"seed {seed}"
    assert GUESS not in caplog.text, f"seed {seed}"
    assert all("\n" not in each.getMessage() for each in caplog.records), f"seed {seed}"
    assert "authentication failed peer=" in caplog.text


async def test_what_follows_a_failed_attempt_does_not_shorten_its_delay(
    start_broker: MakeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    broker = await start_broker(
        BrokerOptions(settings={**SETTINGS, "connection.failed.authentication.delay.ms": "300"})
    )
    loop = asyncio.get_running_loop()
    async with talking_to(broker) as peer:
        begun = loop.time()
        guess = frame(SaslAuthenticateRequest(auth_bytes=PlainClient("alice", Secret(GUESS)).start()), 2)
        peer.writer.write(frame(SaslHandshakeRequest(mechanism="PLAIN"), 1) + guess * 3)
        await peer.receive_frame()
        await peer.receive_frame()
        assert loop.time() - begun >= 0.29
        assert await peer.closed()
    assert caplog.text.count("authentication failed") == 1


async def test_failed_attempts_do_not_delay_others(start_broker: MakeBroker) -> None:
    broker = await start_broker(
        BrokerOptions(settings={**SETTINGS, "connection.failed.authentication.delay.ms": "60000"})
    )
    async with talking_to(broker) as honest:
        guessing = [await asyncio.open_connection("127.0.0.1", broker.port) for _ in range(50)]
        guess = frame(SaslAuthenticateRequest(auth_bytes=PlainClient("alice", Secret(GUESS)).start()), 2)
        for _, writer in guessing:
            writer.write(frame(SaslHandshakeRequest(mechanism="PLAIN"), 1) + guess)
        await logged_in(honest)
        await honest.ask(MetadataRequest(topics=[]), 12, MetadataResponse)
        for _, writer in guessing:
            writer.close()


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
async def test_the_messages_of_another_login_are_worth_nothing(
    start_broker: MakeBroker, mechanism: str, caplog: pytest.LogCaptureFixture
) -> None:
    broker = await start_broker(BrokerOptions(settings=SETTINGS))
    add_bob(broker)
    client = client_of(mechanism, "bob", "builder")
    async with talking_to(broker) as peer:
        await handshake(peer, mechanism)
        first = client.start()
        challenge = await peer.ask(SaslAuthenticateRequest(auth_bytes=first), 2, SaslAuthenticateResponse)
        proof = client.receive(challenge.auth_bytes)
        assert isinstance(proof, Send)
        done = await peer.ask(SaslAuthenticateRequest(auth_bytes=proof.token), 2, SaslAuthenticateResponse)
        assert done.error_code == 0
    async with talking_to(broker) as replay:
        await handshake(replay, mechanism)
        again = await replay.ask(SaslAuthenticateRequest(auth_bytes=first), 2, SaslAuthenticateResponse)
        assert again.auth_bytes.split(b",")[1:] == challenge.auth_bytes.split(b",")[1:]
        refused = await replay.ask(SaslAuthenticateRequest(auth_bytes=proof.token), 2, SaslAuthenticateResponse)
        assert refused.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert await replay.closed()
    assert "the SCRAM nonce is of another authentication" in caplog.text


async def test_a_peer_that_neither_authenticates_nor_reads_is_dropped(
    start_broker: MakeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    broker = await start_broker(BrokerOptions(settings={**SETTINGS, "authentication.timeout.ms": "1500"}))
    reader, writer = await asyncio.open_connection("127.0.0.1", broker.port, limit=1 << 10)
    asked = frame(ApiVersionsRequest(client_software_name="t", client_software_version="1"), 3) * 500
    (connection,) = await connections(broker)
    # Its answers fill the buffers of the system, and then that of the broker, which stops reading.
    while connection.transport is not None and not connection._paused_for:
        writer.write(asked)
        await asyncio.sleep(0)
    await until(lambda: not len(broker.sockets))
    assert "the client did not authenticate within authentication.timeout.ms" in caplog.text
    writer.transport.abort()
    with suppress(ConnectionError):
        await reader.read()


async def connections(broker: Broker) -> list[ClientConnection]:
    await until(lambda: bool(len(broker.sockets)))
    return list(broker.sockets)


# TLS


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return new_certificates(tmp_path)


def hello(context: ssl.SSLContext) -> bytes:
    """The first message of a handshake."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1").do_handshake()
    return outgoing.read()


async def test_a_peer_that_is_refused_cannot_keep_its_connection(
    start_broker: MakeBroker, certificates: Certificates
) -> None:
    settings = {
        **tls_settings(certificates, listeners="SASL_SSL://127.0.0.1:0", authentication_timeout_ms="1000"),
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
    }
    broker = await start_broker(BrokerOptions(settings=settings))
    reader, writer = await asyncio.open_connection("127.0.0.1", broker.port)
    encrypting, outgoing = await shaken_hands(reader, writer, trusting(certificates))
    encrypting.write(frame(MetadataRequest(topics=[]), 12))  # not allowed before authentication
    writer.write(outgoing.read())
    await until(lambda: len(broker.sockets) == 1)
    # The peer never ends the encryption, for which asyncio would wait for half a minute.
    async with asyncio.timeout(15):
        await until(lambda: len(broker.sockets) == 0)
    writer.close()


async def test_handshakes_that_end_anywhere_do_not_disturb_others(
    start_broker: MakeBroker, certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "kohort")
    broker = await start_broker(BrokerOptions(settings=tls_settings(certificates)))
    whole = hello(trusting(certificates))
    dice = random.Random(7)
    beginnings = [whole[:size] for size in (0, 1, 4, 5, 6, 9, 43, 44, 100, len(whole) - 1)]
    garbled = [mutated(dice, whole) for _ in range(100)]
    others = [
        whole + whole,
        whole + b"\0" * 100,
        b"\0\0\0\x05hello",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\xff\xff",
    ]
    for data in (*beginnings, *garbled, *others):
        reader, writer = await asyncio.open_connection("127.0.0.1", broker.port)
        async with asyncio.timeout(PATIENCE_S):
            writer.write(data)
            with suppress(ConnectionError):
                writer.write_eof()
                await reader.read()
        writer.close()
    await answers(await encrypted(broker, trusting(certificates)))
    await until(lambda: not len(broker.sockets))
    worse = [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING or each.exc_info]
    assert not worse
    assert "TLS handshake failed peer=127.0.0.1:" in caplog.text


async def test_a_client_cannot_renegotiate(start_broker: MakeBroker, certificates: Certificates) -> None:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("needs the command openssl: Python cannot renegotiate")
    broker = await start_broker(BrokerOptions(settings=tls_settings(certificates)))
    command = ("s_client", "-connect", f"127.0.0.1:{broker.port}", "-tls1_2", "-CAfile", str(certificates.ca_file))
    process = await asyncio.create_subprocess_exec(
        openssl, *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(PATIENCE_S):
        out, err = await process.communicate(b"R\n")
    assert b"Verify return code: 0 (ok)" in out
    assert b"RENEGOTIATING" in out + err and b"no renegotiation" in err
    await answers(await encrypted(broker, trusting(certificates)))
