"""Settings of security that have no effect on the listeners of a broker: each is a warning, and none shows a secret."""

import pytest

from kohort.broker import Broker, BrokerOptions
from kohort.broker.config import warn_of_unused_security

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
USERS = f'{MODULE} required user_alice="wonderland";'
OPEN = "authorizer.class.name is empty, so all clients may do everything"


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"super.users": "User:admin"}, [f"super.users has no effect: {OPEN}"]),
        (
            {"allow.everyone.if.no.acl.found": "true"},
            [f"allow.everyone.if.no.acl.found has no effect: {OPEN}"],
        ),
        ({"super.users": "User:admin", "authorizer.class.name": AUTHORIZER}, []),
        ({"ssl.client.auth": "required"}, ["ssl.client.auth has no effect: the listeners do not use TLS"]),
        (
            {"sasl.enabled.mechanisms": "PLAIN"},
            ["sasl.enabled.mechanisms has no effect: the listeners do not use SASL"],
        ),
        (
            {"listener.name.plaintext.connections.max.reauth.ms": "1"},
            [
                "listener.name.plaintext.connections.max.reauth.ms has no effect: the listener PLAINTEXT does not use"
                " SASL"
            ],
        ),
        (
            {"listeners": "SASL_PLAINTEXT://h:1", "listener.name.sasl_plaintext.plain.sasl.jaas.config": USERS},
            [
                "listener.name.sasl_plaintext.plain.sasl.jaas.config has no effect: the listener SASL_PLAINTEXT does"
                " not offer PLAIN (sasl.enabled.mechanisms)"
            ],
        ),
        (
            {"listeners": "SASL_PLAINTEXT://h:1", "sasl.oauthbearer.expected.issuer": "me"},
            [
                "sasl.oauthbearer.expected.issuer has no effect: the listeners do not offer OAUTHBEARER"
                " (sasl.enabled.mechanisms)"
            ],
        ),
        (
            {
                "listeners": "SASL_PLAINTEXT://h:1",
                "sasl.enabled.mechanisms": "PLAIN",
                "listener.name.sasl_plaintext.plain.sasl.jaas.config": USERS,
                "connections.max.reauth.ms": "60000",
            },
            [],
        ),
        ({"listeners": "PLAINTEXT://h:1,SSL://h:2", "ssl.keystore.location": "broker.pem"}, []),
    ],
)
def test_a_setting_that_protects_nothing_is_a_warning(
    settings: dict[str, str], expected: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    broker = Broker(BrokerOptions(settings=settings))
    warn_of_unused_security(settings, broker.listeners, authorizes=broker.access_control is not None)
    assert caplog.messages == expected
    assert "wonderland" not in caplog.text


async def test_a_broker_warns_when_it_starts(caplog: pytest.LogCaptureFixture) -> None:
    async with Broker(BrokerOptions(port=0, settings={"super.users": "User:admin"})):
        pass
    assert f"super.users has no effect: {OPEN}" in caplog.text
