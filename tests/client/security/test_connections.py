"""Kohort's client against both brokers over TLS and SASL, and what it says about each mistake."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kohort import Admin, Consumer, KafkaError, NewTopic, Producer, TopicPartition, blocking
from kohort.client import AuthenticationError, Cluster, NotKafkaError
from kohort.client.net import Authentication
from kohort.errors import ErrorCode
from kohort.wire.messages.metadata import MetadataRequest, MetadataResponse
from tests.broker.security.issuer import AUDIENCE, ISSUER
from tests.client.security.authorities import KEY_PASSWORD, unsecured_token
from tests.client.security.early_logins import logins
from tests.client.security.secured_kafka import PASSWORD, USER, SecuredKafka

__all__ = ["logins"]

_SOON = 10.0


def login(kafka: SecuredKafka, mechanism: str, password: str = PASSWORD) -> dict[str, Any]:
    if mechanism == "OAUTHBEARER":
        return {"sasl_mechanism": mechanism, "sasl_oauth_token": kafka.token()}
    return {"sasl_mechanism": mechanism, "sasl_plain_username": USER, "sasl_plain_password": password}


def over_tls(kafka: SecuredKafka, mechanism: str = "SCRAM-SHA-512", **others: Any) -> dict[str, Any]:
    return {
        "bootstrap_servers": kafka.address("SASL_SSL"),
        "security_protocol": "SASL_SSL",
        "ssl_cafile": kafka.certificates.cafile,
        **login(kafka, mechanism),
        **others,
    }


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"])
async def test_records_pass_over_tls_with_each_mechanism(secured: SecuredKafka, mechanism: str, fresh: str) -> None:
    options = over_tls(secured, mechanism)
    async with asyncio.timeout(30):
        async with Admin(**options) as admin, Producer(**options) as producer:
            await admin.create_topics([NewTopic(fresh, 1, 1)])
            await producer.send(fresh, b"hello")
            await producer.flush()
        async with Consumer(fresh, group_id=fresh, auto_offset_reset="earliest", **options) as consumer:
            assert [record.value for record in await consumer.poll(timeout=20)] == [b"hello"]


def test_the_blocking_clients_take_the_names_of_java(secured: SecuredKafka) -> None:
    quoted = PASSWORD.replace('"', '\\"')
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    options: dict[str, Any] = {
        "bootstrap.servers": secured.address("SASL_SSL"),
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": Path(secured.certificates.cafile).read_text(),
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.jaas.config": f'{module} required username="{USER}" password="{quoted}";',
    }
    with blocking.Admin(**options) as admin:
        assert "nothing" not in admin.list_topics()


async def test_a_client_certificate_authenticates(secured: SecuredKafka) -> None:
    made = secured.certificates
    made.issue("client", "client.example.com", common_name="client")
    options: dict[str, Any] = {
        "bootstrap_servers": secured.address("MTLS"),
        "security_protocol": "SSL",
        "ssl_cafile": made.cafile,
        "ssl_certfile": str(made.directory / "client.crt"),
        "ssl_keyfile": str(made.directory / "client.locked.key"),
        "ssl_password": KEY_PASSWORD,
    }
    async with Admin(**options) as admin:
        await admin.list_topics()


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512", "OAUTHBEARER"])
async def test_a_connection_authenticates_again_while_requests_are_in_flight(
    secured: SecuredKafka, logins: Counter[Authentication], mechanism: str
) -> None:
    # Kafka accepts no other request in between.
    options = {"security_protocol": "SASL_PLAINTEXT", **login(secured, mechanism)}
    async with Cluster.of(secured.address("LONG"), **options) as cluster:
        connection = await cluster.any_connection()
        answered = 0

        async def ask() -> None:
            nonlocal answered
            while connection.authentications < 3 or answered <= 100:
                await connection.request(MetadataRequest(topics=[]), MetadataResponse)
                answered += 1

        async with asyncio.timeout(60):
            await asyncio.gather(*(ask() for _ in range(8)))
        assert connection.open
        assert max(logins.values()) == connection.authentications


async def test_a_refused_reauthentication_ends_the_connection_with_the_reason(secured: SecuredKafka) -> None:
    users = iter([USER])  # the principal of a connection must stay
    options: dict[str, Any] = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        # The client asks for another token each time: it takes these for expired by then.
        "sasl_oauth_token_provider": lambda: (secured.token(next(users, "another")), (time.time() + 1) * 1000),
    }
    async with Cluster.of(secured.address("SHORT"), **options) as cluster:
        connection = await cluster.any_connection()
        async with asyncio.timeout(_SOON):
            why = await asyncio.shield(connection.closed)
    assert isinstance(why, AuthenticationError) and not why.retriable
    assert "Cannot change principals" in str(why)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
async def test_a_wrong_password_ends_every_client_at_once(secured: SecuredKafka, mechanism: str) -> None:
    options = over_tls(secured) | login(secured, mechanism, "hunter-2")
    found: list[KafkaError] = []
    async with asyncio.timeout(_SOON):
        async with Admin(**options) as admin:
            with pytest.raises(KafkaError) as refused:
                await admin.list_topics()
            found.append(refused.value)
        async with Producer(**options) as producer:
            with pytest.raises(KafkaError) as refused:
                await producer.send("orders", b"x")
            found.append(refused.value)
        async with Consumer("orders", group_id="g", **options) as consumer:
            with pytest.raises(KafkaError) as refused:
                while True:
                    await consumer.poll(timeout=0.5)
            found.append(refused.value)
        async with Consumer(**options) as consumer:
            consumer.assign([TopicPartition("orders", 0)])
            with pytest.raises(KafkaError) as refused:
                while True:
                    await consumer.poll(timeout=0.5)
            found.append(refused.value)
    for problem in found:
        assert (problem.code, problem.retriable) == (ErrorCode.SASL_AUTHENTICATION_FAILED, False)
        assert "rejects user 'alice' with its password" in str(problem)
        assert "check sasl_plain_username and sasl_plain_password" in str(problem)
        assert "hunter" not in repr(problem)


async def test_a_wrong_password_reaches_the_broker_seldom(
    secured: SecuredKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kohort.client.net.authentication import Authentication

    begun: list[float] = []
    authenticate = Authentication.authenticate

    async def counted(self: Authentication, machine: Any) -> None:
        begun.append(time.monotonic())
        await authenticate(self, machine)

    monkeypatch.setattr(Authentication, "authenticate", counted)
    refused = 0
    options = over_tls(secured) | login(secured, "PLAIN", "hunter-2")
    async with Consumer("orders", group_id="g", **options) as consumer:
        until = time.monotonic() + 4
        while time.monotonic() < until:
            with pytest.raises(KafkaError, match="rejects user"):
                while True:
                    await consumer.poll(timeout=0.1)
            refused += 1
            await asyncio.sleep(0)
    # At 0 s, 1 s and 3 s. Accounts are locked after five to ten failures.
    assert refused > 10 and 2 <= len(begun) <= 4


@pytest.mark.parametrize("reason", ["another audience", "another issuer", "no signature"])
async def test_a_token_that_the_broker_rejects_is_one_sentence(secured: SecuredKafka, reason: str) -> None:
    tokens = {
        "another audience": secured.token(aud="another"),
        "another issuer": secured.token(iss="https://another.example.com"),
        "no signature": unsecured_token(USER, aud=AUDIENCE, iss=ISSUER),
    }
    options = over_tls(secured, "OAUTHBEARER", sasl_oauth_token=tokens[reason])
    async with asyncio.timeout(_SOON), Admin(**options) as admin:
        with pytest.raises(AuthenticationError, match=r"rejects the OAUTHBEARER token: .*'invalid_token'") as refused:
            await admin.list_topics()
    assert tokens[reason] not in str(refused.value)


@pytest.mark.parametrize(
    ("listener", "given", "sentence"),
    [
        ("SSL", {"ssl_cafile": "other-ca.pem"}, "is not issued by a trusted authority .* set ssl_cafile"),
        ("SSL", {}, "is not issued by a trusted authority"),
        ("SSL", {"host": "127.0.0.1", "ssl_cafile": "ca.pem"}, "127.0.0.1:.* is for another name: connect by a name"),
        ("EXPIRED", {"ssl_cafile": "ca.pem"}, "has expired: its operator must renew it"),
        ("SCRAM_ONLY", {"security_protocol": "SASL_PLAINTEXT"}, "set sasl_mechanism to one of SCRAM-SHA-512"),
        ("PLAINTEXT", {"security_protocol": "SASL_PLAINTEXT"}, "does not authenticate by SASL: .* PLAINTEXT or SSL"),
    ],
)
async def test_each_mistake_is_one_sentence_that_says_what_to_change(
    secured: SecuredKafka, listener: str, given: dict[str, Any], sentence: str
) -> None:
    await is_one_sentence(secured, listener, given, sentence)


@pytest.mark.parametrize(
    ("listener", "given", "sentence"),
    [
        ("MTLS", {"ssl_cafile": "ca.pem"}, "requires (one|a certificate of this client)[ :].*ssl_certfile"),
        ("SSL", {"security_protocol": "PLAINTEXT"}, "expects TLS: set security_protocol to SSL or SASL_SSL"),
    ],
)
async def test_the_alerts_of_a_broker_are_explained(
    secured: SecuredKafka, listener: str, given: dict[str, Any], sentence: str
) -> None:
    await is_one_sentence(secured, listener, given, sentence)


async def is_one_sentence(secured: SecuredKafka, listener: str, given: dict[str, Any], sentence: str) -> None:
    options: dict[str, Any] = {"security_protocol": "SSL", **given}
    host = options.pop("host", "localhost")
    if "ssl_cafile" in options:
        options["ssl_cafile"] = str(secured.certificates.directory / options["ssl_cafile"])
    if options["security_protocol"].startswith("SASL"):
        options |= login(secured, "PLAIN")
    async with asyncio.timeout(_SOON):
        async with Admin(bootstrap_servers=secured.address(listener, host), **options) as admin:
            with pytest.raises(KafkaError, match=sentence) as refused:
                await admin.list_topics()
    assert isinstance(refused.value, AuthenticationError | NotKafkaError)
    assert not refused.value.retriable


@pytest.mark.parametrize(
    ("listener", "protocol", "sentence"),
    [
        ("PLAINTEXT", "SSL", "closed the connection during the TLS handshake: .* PLAINTEXT or SASL_PLAINTEXT"),
        ("SASL_PLAINTEXT", "PLAINTEXT", r"is it stopping, or does it require SASL \(security_protocol\)"),
    ],
)
async def test_a_connection_that_the_broker_just_closes_may_mean_the_wrong_protocol(
    secured: SecuredKafka, listener: str, protocol: str, sentence: str
) -> None:
    # A broker that stops does the same, so the client tries again.
    address = secured.address(listener)
    async with Admin(bootstrap_servers=address, security_protocol=protocol, default_api_timeout_ms=300) as admin:
        with pytest.raises(KafkaError, match=sentence) as refused:
            await admin.list_topics()
    assert refused.value.retriable
