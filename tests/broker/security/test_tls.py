"""Listeners with TLS, to which clients connect with Python's own TLS."""

import asyncio
import ssl
import struct
from contextlib import suppress
from pathlib import Path

import pytest

from kohort.broker import Broker, BrokerOptions
from kohort.errors import ConfigError
from kohort.wire.api import request_header
from kohort.wire.codec import encode
from kohort.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kohort.wire.messages.metadata import MetadataRequest, MetadataResponse
from tests.broker.conftest import QUICK, MakeBroker
from tests.broker.peer import PATIENCE_S, Peer
from tests.broker.security.certificates import Certificates, new_certificates


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return new_certificates(tmp_path)


def tls_settings(certificates: Certificates, **more: str) -> dict[str, str]:
    own = {"listeners": "SSL://127.0.0.1:0", "ssl.keystore.location": str(certificates.key_store())}
    return {**QUICK, **own, **{name.replace("_", "."): text for name, text in more.items()}}


def trusting(certificates: Certificates) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(certificates.ca_file))


async def encrypted(broker: Broker, context: ssl.SSLContext) -> Peer:
    reader, writer = await asyncio.open_connection("127.0.0.1", broker.port, ssl=context)
    return Peer(reader, writer)


async def answers(peer: Peer) -> MetadataResponse:
    response = await peer.ask(MetadataRequest(topics=[]), 12, MetadataResponse)
    peer.writer.close()
    return response


async def test_requests_over_tls_are_answered(start_broker: MakeBroker, certificates: Certificates) -> None:
    broker = await start_broker(BrokerOptions(settings=tls_settings(certificates)))
    peer = await encrypted(broker, trusting(certificates))
    found = await answers(peer)
    assert [(node.host, node.port) for node in found.brokers] == [("127.0.0.1", broker.port)]


async def test_each_listener_is_told_its_own_address(start_broker: MakeBroker, certificates: Certificates) -> None:
    broker = await start_broker(
        BrokerOptions(settings=tls_settings(certificates, listeners="PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0"))
    )
    plain, secured = broker.endpoints["PLAINTEXT"].port, broker.endpoints["SSL"].port
    reader, writer = await asyncio.open_connection("127.0.0.1", plain)
    assert [node.port for node in (await answers(Peer(reader, writer))).brokers] == [plain]
    reader, writer = await asyncio.open_connection("127.0.0.1", secured, ssl=trusting(certificates))
    assert [node.port for node in (await answers(Peer(reader, writer))).brokers] == [secured]


async def test_a_renewed_certificate_is_used_without_a_restart(
    start_broker: MakeBroker, certificates: Certificates, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "kohort.broker")
    broker = await start_broker(BrokerOptions(settings=tls_settings(certificates)))
    store = tmp_path / "broker.pem"
    before = await certificate_of(broker, certificates)
    renewed = certificates.key_store("renewed")
    renewed.replace(store)
    after = before
    async with asyncio.timeout(PATIENCE_S):
        while after == before:
            after = await certificate_of(broker, certificates)
    assert "the key store of listener SSL was read again" in caplog.text

    store.write_text("-----BEGIN nothing")
    async with asyncio.timeout(PATIENCE_S):
        while "the former one stays in use" not in caplog.text:
            assert await certificate_of(broker, certificates) == after


async def test_another_authority_of_clients_is_trusted_without_a_restart(
    start_broker: MakeBroker, certificates: Certificates, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    other = new_certificates(tmp_path / "other")
    trusted = tmp_path / "clients.pem"
    trusted.write_bytes(certificates.ca_file.read_bytes())
    settings = tls_settings(certificates, ssl_client_auth="required", ssl_truststore_location=str(trusted))
    broker = await start_broker(BrokerOptions(settings=settings))
    former, added = trusting(certificates), trusting(certificates)
    former.load_cert_chain(str(certificates.key_store("alice", identity="alice.example")))
    added.load_cert_chain(str(other.key_store("bob", identity="bob.example")))
    await answers(await encrypted(broker, former))
    assert not await gets_in(broker, added)
    renewed = tmp_path / "renewed.pem"
    renewed.write_bytes(other.ca_file.read_bytes())
    renewed.replace(trusted)
    async with asyncio.timeout(PATIENCE_S):
        while not await gets_in(broker, added):
            pass
    assert not await gets_in(broker, former), "its authority is no longer trusted"


async def gets_in(broker: Broker, context: ssl.SSLContext) -> bool:
    peer = await encrypted(broker, context)
    try:
        await answers(peer)
    except (ssl.SSLError, ConnectionError, asyncio.IncompleteReadError):
        peer.writer.close()
        return False
    return True


async def certificate_of(broker: Broker, certificates: Certificates) -> bytes:
    peer = await encrypted(broker, trusting(certificates))
    found = peer.writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    await answers(peer)
    assert isinstance(found, bytes)
    return found


async def test_a_client_without_tls_is_told_apart_and_hurts_nobody(
    start_broker: MakeBroker, certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "kohort.broker")
    broker = await start_broker(BrokerOptions(settings=tls_settings(certificates)))
    reader, writer = await asyncio.open_connection("127.0.0.1", broker.port)
    peer = Peer(reader, writer)
    peer.send(MetadataRequest(topics=[]), 12)
    async with asyncio.timeout(PATIENCE_S):
        assert await reader.read() == b"\x15\x03\x03\0\x02\x02\x46"  # the alert protocol_version
    writer.close()
    assert "reason=the client does not use TLS, as this listener requires" in caplog.text
    await answers(await encrypted(broker, trusting(certificates)))


async def test_a_certificate_that_is_required_makes_the_principal(
    start_broker: MakeBroker, certificates: Certificates
) -> None:
    settings = tls_settings(
        certificates,
        ssl_client_auth="required",
        ssl_truststore_location=str(certificates.ca_file),
        ssl_principal_mapping_rules="RULE:.*CN=(.*?),.*/$1/",
    )
    broker = await start_broker(BrokerOptions(settings=settings))
    context = trusting(certificates)
    context.load_cert_chain(str(certificates.key_store("alice", identity="alice.example")))
    peer = await encrypted(broker, context)
    await peer.ask(MetadataRequest(topics=[]), 12, MetadataResponse)
    assert [connection.principal for connection in broker.sockets] == ["User:alice"]
    peer.writer.close()

    peer = await encrypted(
        broker, trusting(certificates)
    )  # TLS 1.3 reports the missing certificate after the handshake
    peer.send(MetadataRequest(topics=[]), 12)
    with pytest.raises(ssl.SSLError, match="alert certificate required"):
        await peer.answer(MetadataResponse)
    peer.writer.close()


async def test_a_request_that_comes_with_a_certificate_without_a_rule_is_not_handled(
    start_broker: MakeBroker, certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    settings = tls_settings(
        certificates,
        ssl_client_auth="required",
        ssl_truststore_location=str(certificates.ca_file),
        ssl_principal_mapping_rules="RULE:CN=nobody/$1/",
    )
    broker = await start_broker(BrokerOptions(settings=settings))
    context = trusting(certificates)
    context.load_cert_chain(str(certificates.key_store("alice", identity="alice.example")))
    request = CreateTopicsRequest(topics=[CreatableTopic(name="new", num_partitions=1, replication_factor=1)])
    frame = request_header(request.KEY, 5, 1, "eve") + encode(request, 5)
    reader, writer = await asyncio.open_connection("127.0.0.1", broker.port)
    encrypting, outgoing = await shaken_hands(reader, writer, context)
    # The end of the handshake and the request arrive together: before the broker can close the connection.
    encrypting.write(struct.pack(">i", len(frame)) + frame)
    with suppress(ssl.SSLWantReadError):
        encrypting.unwrap()  # otherwise the broker waits for the client's end of the encryption
    writer.write(outgoing.read())
    async with asyncio.timeout(PATIENCE_S):
        with suppress(ConnectionResetError):
            while await reader.read(1 << 16):
                pass
    writer.close()
    assert "no rule of ssl.principal.mapping.rules matches the certificate" in caplog.text
    assert broker.topics.named("new") is None


async def shaken_hands(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, context: ssl.SSLContext
) -> tuple[ssl.SSLObject, ssl.MemoryBIO]:
    """Return the encryption after a handshake, and what it has to send, which has not been sent."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    encrypting = context.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    while True:
        try:
            encrypting.do_handshake()
        except ssl.SSLWantReadError:
            writer.write(outgoing.read())
            async with asyncio.timeout(PATIENCE_S):
                incoming.write(await reader.read(1 << 16))
        else:
            return encrypting, outgoing


async def test_a_certificate_of_another_authority_is_rejected(
    start_broker: MakeBroker, certificates: Certificates, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "kohort.broker")
    settings = tls_settings(
        certificates, ssl_client_auth="requested", ssl_truststore_location=str(certificates.ca_file)
    )
    broker = await start_broker(BrokerOptions(settings=settings))
    (tmp_path / "other").mkdir()
    context = trusting(certificates)
    context.load_cert_chain(str(new_certificates(tmp_path / "other").key_store("eve", identity="eve.example")))
    peer = await encrypted(broker, context)
    peer.send(MetadataRequest(topics=[]), 12)
    with pytest.raises(ssl.SSLError, match="alert unknown ca"):
        await peer.answer(MetadataResponse)
    peer.writer.close()
    assert "TLS handshake failed" in caplog.text
    await answers(await encrypted(broker, trusting(certificates)))  # requested: a client may have none


async def test_handshakes_that_never_finish_are_bounded_in_number_and_time(
    start_broker: MakeBroker, certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "kohort.broker")
    settings = tls_settings(certificates, max_connections_unauthenticated="3", authentication_timeout_ms="1000")
    broker = await start_broker(BrokerOptions(settings=settings))
    idle = [await asyncio.open_connection("127.0.0.1", broker.port) for _ in range(3)]
    reader, writer = await asyncio.open_connection("127.0.0.1", broker.port)
    async with asyncio.timeout(PATIENCE_S):
        with suppress(ConnectionResetError):  # closed either way
            assert await reader.read() == b""
    writer.close()
    assert "there are max.connections.unauthenticated connections already" in caplog.text
    for reader, writer in idle:
        async with asyncio.timeout(PATIENCE_S):
            with suppress(ConnectionResetError):
                await reader.read()
        writer.close()
    assert "not complete within authentication.timeout.ms" in caplog.text
    await answers(await encrypted(broker, trusting(certificates)))


def test_key_stores_that_cannot_be_used_are_one_sentence_each(certificates: Certificates, tmp_path: Path) -> None:
    java = tmp_path / "store.jks"
    java.write_bytes(b"\xfe\xed\xfe\xed")
    chain_only = tmp_path / "chain.pem"
    chain_only.write_bytes(certificates.ca_file.read_bytes())
    for settings, reason in (
        ({}, "The listener SSL needs a certificate: set ssl.keystore.location"),
        ({"ssl.keystore.location": str(tmp_path / "none")}, "cannot be read: .*: No such file"),
        (
            {"ssl.keystore.location": __file__.replace("test_tls", "test_sasl")},
            "has no line that begins with -----BEGIN",
        ),
        ({"ssl.keystore.location": str(java)}, "must be PEM, but .* is a JKS store. Export PEM: .*openssl pkcs12"),
        ({"ssl.keystore.location": str(chain_only)}, "cannot be used"),
        ({"ssl.keystore.type": "JKS"}, "ssl.keystore.type must be one of PEM, not 'JKS'"),
        (
            {"ssl.keystore.location": str(certificates.key_store()), "ssl.client.auth": "required"},
            "verifies clients' certificates: set ssl.truststore.location",
        ),
    ):
        with pytest.raises(ConfigError, match=reason):
            asyncio.run(start_and_stop({"listeners": "SSL://127.0.0.1:0", **settings}))


async def start_and_stop(settings: dict[str, str]) -> None:
    async with Broker(BrokerOptions(settings=settings)):
        pass


async def test_a_key_store_may_be_the_text_itself(start_broker: MakeBroker, certificates: Certificates) -> None:
    pem = certificates.key_store().read_text()
    begin = pem.index("-----BEGIN CERTIFICATE")
    settings = {"ssl.keystore.key": pem[:begin], "ssl.keystore.certificate.chain": pem[begin:]}
    broker = await start_broker(BrokerOptions(settings={**QUICK, "listeners": "SSL://127.0.0.1:0", **settings}))
    await answers(await encrypted(broker, trusting(certificates)))
