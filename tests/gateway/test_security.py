"""TLS on both sides of a gateway, and clients that log in through it."""

from __future__ import annotations

import asyncio
import ssl
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiokafka
import confluent_kafka
import kafka
import pytest

from kohort.client import Admin, Producer
from kohort.client.net import Authentication
from kohort.errors import ConfigError, KafkaError
from kohort.gateway import Address, Gateway, GatewayOptions
from kohort.wire.messages.metadata import MetadataRequest, MetadataResponse
from tests.broker.peer import Peer
from tests.broker.security.certificates import Certificates, new_certificates
from tests.client.security.early_logins import logins
from tests.client.security.secured_kafka import PASSWORD, USER, SecuredKafka

__all__ = ["logins"]

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return new_certificates(tmp_path)


def settings(certificates: Certificates, **more: str) -> dict[str, str]:
    own = {"listeners": "SSL://127.0.0.1:0", "ssl.keystore.location": str(certificates.key_store())}
    return own | {name.replace("_", "."): value for name, value in more.items()}


def gateway_to(
    secured: SecuredKafka, listener: str, own: Mapping[str, str] | None = None, **options: Any
) -> GatewayOptions:
    """Return options of a gateway in front of a listener. Its host is a name in the broker's certificate."""
    tls = {"security_protocol": "SSL", "ssl_cafile": secured.certificates.cafile}
    return GatewayOptions(
        [Address("localhost", secured.ports[listener])],
        Address("127.0.0.1", 0),
        own or {},
        tls if listener in ("SASL_SSL", "SSL", "MTLS", "EXPIRED") else {},
        **options,
    )


async def brokers_of(gateway: Gateway, **options: Any) -> dict[int, tuple[str, int]]:
    async with Admin(bootstrap_servers=str(gateway.address), default_api_timeout_ms=5_000, **options) as admin:
        described = await admin.describe_cluster()
    return {node_id: (broker.host, broker.port) for node_id, broker in described.brokers.items()}


async def test_both_sides_are_encrypted(secured: SecuredKafka, certificates: Certificates) -> None:
    async with Gateway(gateway_to(secured, "SSL", settings(certificates))) as gateway:
        found = await brokers_of(gateway, security_protocol="SSL", ssl_cafile=str(certificates.ca_file))
    assert [(host, port != gateway.address.port) for host, port in found.values()] == [("127.0.0.1", True)]


async def test_clients_verify_the_gateway(secured: SecuredKafka, certificates: Certificates) -> None:
    own = settings(certificates, ssl_keystore_location=str(certificates.key_store("other", identity="192.0.2.1")))
    async with Gateway(gateway_to(secured, "PLAINTEXT", own)) as gateway:
        with pytest.raises(KafkaError, match="is for another name"):
            await brokers_of(gateway, security_protocol="SSL", ssl_cafile=str(certificates.ca_file))


@pytest.mark.parametrize(
    ("listener", "host", "why"),
    [
        ("EXPIRED", "localhost", "has expired"),
        ("SSL", "127.0.0.1", "is for another name"),
    ],
)
async def test_the_gateway_verifies_brokers(
    secured: SecuredKafka, caplog: pytest.LogCaptureFixture, listener: str, host: str, why: str
) -> None:
    tls = {"security_protocol": "SSL", "ssl_cafile": secured.certificates.cafile}
    options = GatewayOptions([Address(host, secured.ports[listener])], Address("127.0.0.1", 0), {}, tls)
    async with Gateway(options) as gateway:
        with pytest.raises(KafkaError):
            await brokers_of(gateway)
    assert f"upstream broker {host}:{secured.ports[listener]} cannot be reached: " in caplog.text
    assert why in caplog.text


async def test_a_broker_wants_the_gateways_certificate(secured: SecuredKafka, caplog: pytest.LogCaptureFixture) -> None:
    client = secured.certificates.issue("client", "client.example.com")
    options = gateway_to(secured, "MTLS")
    options = GatewayOptions(
        options.upstream, options.listen, {}, {**options.upstream_options, "ssl_certfile": str(client)}
    )
    async with Gateway(options) as gateway:
        assert await brokers_of(gateway)
    assert "brokers see the certificate of the gateway on all connections" in caplog.text


async def test_certificates_of_clients_end_at_the_gateway(
    secured: SecuredKafka, certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    own = settings(certificates, ssl_client_auth="required", ssl_truststore_location=secured.certificates.cafile)
    client = secured.certificates.issue("client", "client.example.com")
    async with Gateway(gateway_to(secured, "PLAINTEXT", own)) as gateway:
        tls = {"security_protocol": "SSL", "ssl_cafile": str(certificates.ca_file)}
        assert await brokers_of(gateway, **tls, ssl_certfile=str(client))
        with pytest.raises(KafkaError, match="certificate"):
            await brokers_of(gateway, **tls)
    assert "the certificates of clients of the listener SSL end at the gateway" in caplog.text


async def test_a_renewed_certificate_is_used(secured: SecuredKafka, certificates: Certificates) -> None:
    async with Gateway(gateway_to(secured, "PLAINTEXT", settings(certificates))) as gateway:
        before = after = await certificate_of(gateway, certificates)
        certificates.key_store("renewed").replace(certificates.directory / "broker.pem")
        async with asyncio.timeout(20):
            while after == before:
                after = await certificate_of(gateway, certificates)


async def certificate_of(gateway: Gateway, certificates: Certificates) -> bytes | None:
    context = ssl.create_default_context(cafile=str(certificates.ca_file))
    _, writer = await asyncio.open_connection(gateway.address.host, gateway.address.port, ssl=context)
    encrypted: ssl.SSLObject = writer.get_extra_info("ssl_object")
    writer.close()
    return encrypted.getpeercert(binary_form=True)


async def test_names_tell_brokers_apart_at_one_port(secured: SecuredKafka, certificates: Certificates) -> None:
    domain = "kafka.example.com"
    own = settings(certificates, ssl_keystore_location=str(certificates.key_store("named", identity=f"*.{domain}")))
    context = ssl.create_default_context(cafile=str(certificates.ca_file))
    given = "Kafka.Example.com"  # TLS compares names without regard to case
    async with Gateway(gateway_to(secured, "PLAINTEXT", own, sni_domain=given)) as gateway:
        wanted: list[int | None] = []
        for name in (f"any.{domain}", f"broker-1.{domain}", f"BROKER-7.{domain}"):
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", gateway.address.port, ssl=context, server_hostname=name
            )
            peer = Peer(reader, writer)
            found = await peer.ask(MetadataRequest(topics=[]), 12, MetadataResponse)
            (broker,) = found.brokers
            assert (broker.host, broker.port) == (f"broker-{broker.node_id}.{given}", gateway.address.port)
            (link,) = gateway._links
            wanted.append(link.node_id)
            writer.close()
            await reader.read()
        assert wanted == [None, 1, 7]


def test_names_need_tls() -> None:
    with pytest.raises(ConfigError, match="has no TLS"):
        Gateway(GatewayOptions([], sni_domain="example.com"))


MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")


def login(secured: SecuredKafka, mechanism: str) -> dict[str, Any]:
    if mechanism == "OAUTHBEARER":
        return {"sasl_mechanism": mechanism, "sasl_oauth_token": secured.token()}
    return {"sasl_mechanism": mechanism, "sasl_plain_username": USER, "sasl_plain_password": PASSWORD}


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_our_client_logs_in_through_tls_on_both_sides(
    secured: SecuredKafka, certificates: Certificates, mechanism: str
) -> None:
    own = settings(certificates, listeners="SASL_SSL://127.0.0.1:0")
    async with Gateway(gateway_to(secured, "SASL_SSL", own)) as gateway:
        tls = {"security_protocol": "SASL_SSL", "ssl_cafile": str(certificates.ca_file)}
        assert await brokers_of(gateway, **tls, **login(secured, mechanism))


async def test_a_wrong_password_is_reported_to_the_client(secured: SecuredKafka) -> None:
    async with Gateway(gateway_to(secured, "SASL_PLAINTEXT")) as gateway:
        wrong = login(secured, "SCRAM-SHA-256") | {"sasl_plain_password": "wrong"}
        with pytest.raises(KafkaError, match=r"(?i)password|credentials|authentication"):
            await brokers_of(gateway, security_protocol="SASL_PLAINTEXT", **wrong)


async def test_the_gateways_own_login_finds_the_brokers(secured: SecuredKafka) -> None:
    options = gateway_to(secured, "SASL_PLAINTEXT")
    own = {"security_protocol": "SASL_PLAINTEXT", **login(secured, "SCRAM-SHA-256")}
    found = asyncio.Event()
    async with Gateway(GatewayOptions(options.upstream, options.listen, {}, own)) as gateway:
        tell, gateway.brokers.learned = gateway.brokers.learned, lambda *_: found.set()
        assert tell is not None
        await asyncio.wait_for(found.wait(), 20)
        # It is not lent to clients.
        with pytest.raises(KafkaError):
            await brokers_of(gateway)


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_clients_log_in_again_on_a_connection(
    secured: SecuredKafka, logins: Counter[Authentication], mechanism: str
) -> None:
    # KIP-368: the broker closes a connection with a request between the two steps of a login.
    async with Gateway(gateway_to(secured, "LONG")) as gateway:
        topic = f"again-{mechanism}"
        sasl = {"security_protocol": "SASL_PLAINTEXT", **login(secured, mechanism)}
        async with Producer(bootstrap_servers=str(gateway.address), **sasl) as producer:
            await producer.send(topic, b"first")
            await producer.flush()
            links = {link for link in gateway._links if link.node_id is not None}
            while sum(number >= 3 for number in logins.values()) < len(links):
                await producer.send(topic, b"more")
                await producer.flush()
            assert links
            assert links <= gateway._links.keys()


async def test_other_clients_log_in(secured: SecuredKafka) -> None:
    async with Gateway(gateway_to(secured, "LONG")) as gateway:
        servers = str(gateway.address)
        for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
            await asyncio.to_thread(_librdkafka, servers, mechanism)
            await asyncio.to_thread(_kafka_python, servers, mechanism)
            await _aiokafka(servers, mechanism)


def _librdkafka(servers: str, mechanism: str) -> None:
    failed: list[Any] = []
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.username": USER,
            "sasl.password": PASSWORD,
        }
    )
    producer.produce("others", b"value", on_delivery=lambda error, _: failed.append(error) if error else None)
    assert producer.flush(20.0) == 0
    assert not failed


def _kafka_python(servers: str, mechanism: str) -> None:
    producer = kafka.KafkaProducer(
        bootstrap_servers=servers,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism=mechanism,
        sasl_plain_username=USER,
        sasl_plain_password=PASSWORD,
    )
    try:
        producer.send("others", b"value").get(20.0)
    finally:
        producer.close()


async def _aiokafka(servers: str, mechanism: str) -> None:
    async with aiokafka.AIOKafkaProducer(
        bootstrap_servers=servers,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism=mechanism,
        sasl_plain_username=USER,
        sasl_plain_password=PASSWORD,
    ) as producer:
        await asyncio.wait_for(producer.send_and_wait("others", b"value"), 20.0)
