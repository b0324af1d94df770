"""SASL that ends at the gateway: clients log in there, and the gateway logs in at the cluster for all of them."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import aiokafka
import confluent_kafka
import kafka
import pytest

from kohort.client import Admin, Consumer, NewTopic, Producer
from kohort.client.net import Authentication
from kohort.errors import ConfigError, KafkaError
from kohort.gateway import Address, Gateway, GatewayOptions
from kohort.gateway import upstream as gateway_upstream
from kohort.gateway.login import UpstreamLogin
from kohort.gateway.users import read_users
from kohort.security import Secret
from kohort.wire.codec import Message
from kohort.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from kohort.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kohort.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kohort.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kohort.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tests.broker.peer import Peer
from tests.broker.security.certificates import new_certificates
from tests.client.security.early_logins import logins
from tests.client.security.secured_kafka import LONG_SESSION_MS, PASSWORD, SESSION_MS, USER, SecuredKafka

__all__ = ["logins"]

pytestmark = pytest.mark.timeout(60)
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
OWN_USER, OWN_PASSWORD = "bob", "of the gateway"


@pytest.fixture
def users(tmp_path: Path) -> Path:
    path = tmp_path / "users"
    path.write_text(f"{OWN_USER}={OWN_PASSWORD}\ncarol=other\n")
    path.chmod(0o600)
    return path


def options(
    secured: SecuredKafka, users: Path, *, upstream: str = "SASL_PLAINTEXT", password: str = PASSWORD, **settings: str
) -> GatewayOptions:
    given = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "connection.failed.authentication.delay.ms": "10",
        **{name.replace("_", "."): value for name, value in settings.items()},
    }
    login = {"sasl_mechanism": "SCRAM-SHA-256", "sasl_plain_username": USER, "sasl_plain_password": password}
    return GatewayOptions(
        [Address("localhost", secured.ports[upstream])],
        settings=given,
        upstream_options={"security_protocol": "SASL_PLAINTEXT", **login},
        ends_sasl=True,
        users=users,
    )


def login(mechanism: str, password: str = OWN_PASSWORD) -> dict[str, Any]:
    return {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": OWN_USER,
        "sasl_plain_password": password,
    }


async def brokers_of(gateway: Gateway, **given: Any) -> set[int]:
    async with Admin(bootstrap_servers=str(gateway.address), default_api_timeout_ms=5_000, **given) as admin:
        return set((await admin.describe_cluster()).brokers)


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_clients_log_in_with_users_that_the_cluster_does_not_know(
    secured: SecuredKafka, users: Path, mechanism: str
) -> None:
    async with Gateway(options(secured, users)) as gateway:
        assert await brokers_of(gateway, **login(mechanism))
        with pytest.raises(KafkaError, match=r"(?i)rejects user 'bob'"):
            await brokers_of(gateway, **login(mechanism, "wrong"))
        with pytest.raises(KafkaError, match=r"(?i)rejects user 'alice'"):  # a user of the cluster
            theirs = {"sasl_plain_username": USER, "sasl_plain_password": PASSWORD}
            await brokers_of(gateway, **login(mechanism) | theirs)
        assert gateway.figures.ended["login"] >= 2


async def test_a_token_of_the_issuer_logs_in(secured: SecuredKafka, users: Path) -> None:
    settings = {
        "sasl_enabled_mechanisms": "OAUTHBEARER",
        "sasl_oauthbearer_jwks_endpoint_url": secured.keys_url,
    }
    async with Gateway(options(secured, users, **settings)) as gateway:
        token = {"sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token": secured.token(subject="dave")}
        assert await brokers_of(gateway, security_protocol="SASL_PLAINTEXT", **token)


async def test_users_of_plain_may_be_in_the_settings(secured: SecuredKafka, tmp_path: Path) -> None:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    given = options(secured, tmp_path, sasl_enabled_mechanisms="PLAIN")
    settings = {
        **given.settings,
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{module} user_{OWN_USER}="{OWN_PASSWORD}";',
    }
    async with Gateway(
        GatewayOptions(given.upstream, settings=settings, upstream_options=given.upstream_options, ends_sasl=True)
    ) as gateway:
        assert await brokers_of(gateway, **login("PLAIN"))


async def test_tls_and_login_end_at_the_gateway(secured: SecuredKafka, users: Path, tmp_path: Path) -> None:
    certificates = new_certificates(tmp_path)
    settings = {"listeners": "SASL_SSL://127.0.0.1:0", "ssl_keystore_location": str(certificates.key_store())}
    async with Gateway(options(secured, users, **settings)) as gateway:
        tls = {"security_protocol": "SASL_SSL", "ssl_cafile": str(certificates.ca_file)}
        assert await brokers_of(gateway, **login("SCRAM-SHA-512") | tls)


async def test_the_start_says_what_the_cluster_sees(
    secured: SecuredKafka, users: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with Gateway(options(secured, users)):
        assert f"the cluster sees all of them as user {USER}: its ACLs and quotas apply to the gateway" in caplog.text


def are_repeated(logins: Counter[Authentication], connections: int) -> bool:
    """Return whether so many clients have logged in three times on one connection, and so has the gateway for them."""
    often = [isinstance(each._line, UpstreamLogin) for each, number in logins.items() if number >= 3]
    return min(often.count(False), often.count(True)) >= connections


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_both_logins_are_repeated_on_their_connections(
    secured: SecuredKafka, users: Path, logins: Counter[Authentication], mechanism: str
) -> None:
    # KIP-368: either side closes a connection with a request between the two steps of a login.
    given = options(secured, users, upstream="LONG", connections_max_reauth_ms=str(LONG_SESSION_MS))
    async with Gateway(given) as gateway:
        topic = f"repeated-{mechanism}"
        async with Producer(bootstrap_servers=str(gateway.address), **login(mechanism)) as producer:
            await producer.send(topic, b"first")
            await producer.flush()
            links = {link for link in gateway._links if link.node_id is not None}
            while not are_repeated(logins, len(links)):
                await producer.send(topic, b"more" * 10_000)
                await producer.flush()
            assert links
            assert links <= gateway._links.keys()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_a_member_whose_heartbeats_are_held_stays_while_both_logins_are_repeated(
    secured: SecuredKafka, users: Path, logins: Counter[Authentication], protocol: str
) -> None:
    given = options(secured, users, upstream="LONG", connections_max_reauth_ms=str(LONG_SESSION_MS))
    topic, lost = f"member-{protocol}", []
    async with Gateway(given) as gateway:
        servers, sasl = str(gateway.address), login("SCRAM-SHA-256")
        async with Admin(bootstrap_servers=servers, **sasl) as admin:
            await admin.create_topics([NewTopic(topic, 3)])
        async with Consumer(
            topic,
            on_lost=lambda partitions: lost.append(partitions),
            bootstrap_servers=servers,
            group_id=topic,
            group_protocol=protocol,
            **sasl,
        ) as consumer:
            while len(consumer.assignment) < 3:
                await consumer.poll(timeout=0.1)
            generation, links = consumer.generation, {link for link in gateway.links if link.node_id is not None}
            logins.clear()
            while not are_repeated(logins, len(links)):
                await consumer.poll(timeout=0.1)
            await consumer.commit()
            assert (consumer.generation, lost) == (generation, [])
            assert links
            assert links <= set(gateway.links)


async def test_other_clients_log_in(secured: SecuredKafka, users: Path) -> None:
    given = options(secured, users, upstream="LONG", connections_max_reauth_ms=str(LONG_SESSION_MS))
    async with Gateway(given) as gateway:
        servers = str(gateway.address)
        for mechanism in MECHANISMS:
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
            "sasl.username": OWN_USER,
            "sasl.password": OWN_PASSWORD,
        }
    )
    producer.produce("others", b"value", on_delivery=lambda error, _: failed.append(error) if error else None)
    assert producer.flush(20.0) == 0
    assert not failed


def _kafka_python(servers: str, mechanism: str) -> None:
    producer = kafka.KafkaProducer(bootstrap_servers=servers, **login(mechanism))
    try:
        producer.send("others", b"value").get(20.0)
    finally:
        producer.close()


async def _aiokafka(servers: str, mechanism: str) -> None:
    async with aiokafka.AIOKafkaProducer(bootstrap_servers=servers, **login(mechanism)) as producer:
        await asyncio.wait_for(producer.send_and_wait("others", b"value"), 20.0)


async def connected(gateway: Gateway) -> Peer:
    return Peer(*await asyncio.open_connection("127.0.0.1", gateway.address.port))


async def disconnected(peer: Peer) -> bool:
    """Whether the gateway closes the connection without another byte."""
    try:
        return await peer.closed()
    finally:
        peer.writer.transport.abort()


async def logged_in(peer: Peer) -> None:
    assert not (await peer.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1, SaslHandshakeResponse)).error_code
    token = f"\0{OWN_USER}\0{OWN_PASSWORD}".encode()
    done = await peer.ask(SaslAuthenticateRequest(auth_bytes=token), 2, SaslAuthenticateResponse)
    assert not done.error_code


async def test_a_request_before_the_login_ends_the_connection(secured: SecuredKafka, users: Path) -> None:
    async with Gateway(options(secured, users)) as gateway:
        peer = await connected(gateway)
        versions = await peer.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)
        named = {api.api_key: (api.min_version, api.max_version) for api in versions.api_keys}
        assert (named[17], named[36]) == ((1, 1), (0, 2))
        peer.send(MetadataRequest(topics=[]), 12)
        assert await disconnected(peer)


async def test_a_large_request_before_the_login_ends_the_connection(secured: SecuredKafka, users: Path) -> None:
    async with Gateway(options(secured, users)) as gateway:
        peer = await connected(gateway)
        peer.send(SaslHandshakeRequest(mechanism="x" * 20_000), 1)
        peer.send(SaslAuthenticateRequest(auth_bytes=bytes(600_000)), 2)
        while not await peer.closed():
            pass
        peer.writer.transport.abort()


async def test_a_client_that_does_not_log_in_is_disconnected(secured: SecuredKafka, users: Path) -> None:
    async with Gateway(options(secured, users, authentication_timeout_ms="500")) as gateway:
        assert await disconnected(await connected(gateway))
        assert gateway.figures.ended["login"] == 1


async def test_a_client_beyond_those_that_may_log_in_at_once_is_refused(
    secured: SecuredKafka, users: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with Gateway(options(secured, users, max_connections_unauthenticated="1")) as gateway:
        first = await connected(gateway)
        await first.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)
        assert await disconnected(await connected(gateway))
        assert gateway.figures.refused["max.connections.unauthenticated"] == 1
        first.writer.close()
    assert "reason=there are max.connections.unauthenticated connections already" in caplog.text


async def test_a_repeated_login_is_answered_after_the_requests_before_it(secured: SecuredKafka, users: Path) -> None:
    given = options(secured, users, connections_max_reauth_ms="60000")
    async with Gateway(given) as gateway:
        peer = await connected(gateway)
        await logged_in(peer)
        found = await peer.ask(MetadataRequest(topics=[MetadataRequestTopic(name="waited")]), 12, MetadataResponse)
        while found.topics[0].error_code:
            found = await peer.ask(MetadataRequest(topics=[MetadataRequestTopic(name="waited")]), 12, MetadataResponse)
        wanted = [FetchTopic(topic="waited", partitions=[FetchPartition(partition=0, partition_max_bytes=1000)])]
        peer.send(FetchRequest(max_wait_ms=700, min_bytes=1, max_bytes=1000, topics=wanted), 11)
        peer.send(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        await peer.answer(FetchResponse)  # `Peer` checks the order
        assert not (await peer.answer(SaslHandshakeResponse)).error_code
        peer.writer.close()


async def test_a_repeated_login_is_answered_after_a_heartbeat_that_the_gateway_would_hold(
    secured: SecuredKafka, users: Path
) -> None:
    given = options(secured, users, connections_max_reauth_ms="60000")
    async with Gateway(given) as gateway:
        peer = await connected(gateway)
        await logged_in(peer)
        heartbeat = ConsumerGroupHeartbeatRequest(
            group_id="held", member_id="m", rebalance_timeout_ms=60_000, subscribed_topic_names=["waited"]
        )
        heartbeat.topic_partitions = []
        joined = await peer.ask(heartbeat, 1, ConsumerGroupHeartbeatResponse)
        while joined.error_code:  # the coordinator is loading
            joined = await peer.ask(heartbeat, 1, ConsumerGroupHeartbeatResponse)
        next_ = ConsumerGroupHeartbeatRequest(group_id="held", member_id="m", member_epoch=joined.member_epoch)
        # The heartbeat passes, because the response to the fetch precedes that to the heartbeat.
        wanted = [FetchTopic(topic="waited", partitions=[FetchPartition(partition=0, partition_max_bytes=1000)])]
        peer.send(FetchRequest(max_wait_ms=700, min_bytes=1, max_bytes=1000, topics=wanted), 11)
        peer.send(next_, 1)
        peer.send(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        await peer.answer(FetchResponse)  # `Peer` checks the order
        assert not (await peer.answer(ConsumerGroupHeartbeatResponse)).error_code
        assert not (await peer.answer(SaslHandshakeResponse)).error_code
        peer.writer.close()


async def test_a_client_cannot_try_a_second_password_on_its_connection(secured: SecuredKafka, users: Path) -> None:
    async with Gateway(options(secured, users, connection_failed_authentication_delay_ms="60000")) as gateway:
        peer = await connected(gateway)
        assert not (await peer.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1, SaslHandshakeResponse)).error_code
        for password in ("wrong", OWN_PASSWORD):
            peer.send(SaslAuthenticateRequest(auth_bytes=f"\0{OWN_USER}\0{password}".encode()), 2)
        assert await disconnected(peer)


@pytest.mark.parametrize("request_", [MetadataRequest(topics=[]), SaslAuthenticateRequest(auth_bytes=b"token")])
async def test_a_client_that_changes_its_mechanism_gets_no_more_answers(
    secured: SecuredKafka, users: Path, request_: Message
) -> None:
    limits = {"connection_failed_authentication_delay_ms": "500", "connections_max_reauth_ms": "60000"}
    async with Gateway(options(secured, users, **limits)) as gateway:
        peer = await connected(gateway)
        await logged_in(peer)
        changed = await peer.ask(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1, SaslHandshakeResponse)
        assert not changed.error_code  # as in Kafka
        peer.send(request_, 2)
        assert await disconnected(peer)


async def test_the_gateway_does_not_log_in_again_for_a_client_that_has_gone(
    secured: SecuredKafka, users: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with Gateway(options(secured, users, upstream="SHORT")) as gateway:
        peer = await connected(gateway)
        await logged_in(peer)
        (link,) = gateway.links
        peer.writer.close()
        await asyncio.sleep(1.5 * SESSION_MS / 1000)
        assert link not in gateway.links
    assert "cannot log in again" not in caplog.text


async def test_a_login_that_the_cluster_refuses_is_logged_and_not_repeated_at_once(
    secured: SecuredKafka, users: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    logins = 0

    class Counted(UpstreamLogin):
        async def log_in(self) -> None:
            nonlocal logins
            logins += 1
            await super().log_in()

    monkeypatch.setattr(gateway_upstream, "UpstreamLogin", Counted)
    monkeypatch.setattr(gateway_upstream, "_REFUSED_S", 60.0)
    async with Gateway(options(secured, users, password="wrong")) as gateway:
        for _ in range(5):
            assert await disconnected(await connected(gateway))
            await asyncio.sleep(0.1)
        assert logins == 1
        assert not gateway.figures.ended["login"]  # none waited until the time to log in was over
    assert caplog.text.count("the gateway cannot log in, so its clients are disconnected") == 1
    assert "rejects user 'alice'" in caplog.text
    assert "wrong" not in caplog.text


@pytest.mark.parametrize(
    ("listener", "more", "sentence"),
    [
        ("PLAINTEXT", {}, "lets clients in without a login"),
        ("SSL", {"ssl_client_auth": "requested"}, "lets clients in without a login"),
    ],
)
async def test_a_listener_without_a_login_is_refused(
    secured: SecuredKafka, users: Path, listener: str, more: dict[str, str], sentence: str
) -> None:
    with pytest.raises(ConfigError, match=sentence):
        Gateway(options(secured, users, listeners=f"{listener}://127.0.0.1:0", **more))


@pytest.mark.parametrize("text", ["", "bob=", "=\n", "bob"])
def test_a_file_without_users_is_refused(secured: SecuredKafka, tmp_path: Path, text: str) -> None:
    path = tmp_path / "users"
    path.write_text(text)
    with pytest.raises(ConfigError, match="must have a line NAME=PASSWORD"):
        Gateway(options(secured, path))


@pytest.mark.parametrize(("mode", "warns"), [(0o600, False), (0o640, True), (0o604, True)])
def test_a_file_of_passwords_that_others_can_read_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, mode: int, warns: bool
) -> None:
    path = tmp_path / "users"
    path.write_text("bob=secret\n")
    path.chmod(mode)
    assert read_users(path) == {"bob": Secret("secret")}
    assert ("chmod 600 it" in caplog.text) is warns


def test_users_without_the_option_are_refused(users: Path) -> None:
    with pytest.raises(ConfigError, match="add --end-sasl"):
        Gateway(GatewayOptions([Address("127.0.0.1", 9092)], users=users))


async def test_scram_without_users_is_refused(secured: SecuredKafka, users: Path) -> None:
    given = options(secured, users)
    without = GatewayOptions(
        given.upstream, settings=given.settings, upstream_options=given.upstream_options, ends_sasl=True
    )
    with pytest.raises(ConfigError, match="name its users by --users"):
        async with Gateway(without):
            pytest.fail("it started")
