"""The listener to which brokers of a cluster connect, and the options of their client."""

from __future__ import annotations

import pytest

from kohort.broker.config.broker_config import parse_config
from kohort.broker.config.inter_broker import InterBroker, read_inter_broker
from kohort.broker.config.listeners import read_listeners
from kohort.client import ClientOptions
from kohort.errors import ConfigError
from kohort.security import Secret

_LOGIN = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="broker" password="hunter-2";'
TWO = {
    "listeners": "OWN://h:1,CLIENTS://h:2",
    "listener.security.protocol.map": "OWN:SASL_SSL,CLIENTS:SSL",
    "listener.name.own.scram-sha-512.sasl.jaas.config": _LOGIN,
}


def inter_broker(settings: dict[str, str]) -> InterBroker:
    config = parse_config(settings)
    return read_inter_broker(config, read_listeners(config, "h", 1))


def test_without_settings_brokers_connect_to_the_listener_without_tls() -> None:
    assert inter_broker({}) == InterBroker("PLAINTEXT", {"security_protocol": "PLAINTEXT"})
    assert inter_broker({"listeners": "SSL://h:1,PLAINTEXT://h:2"}).listener == "PLAINTEXT"


def test_brokers_use_the_stores_and_the_login_module_of_their_listener() -> None:
    found = inter_broker(
        {
            **TWO,
            "inter.broker.listener.name": "own",
            "ssl.keystore.location": "/k.pem",
            "ssl.truststore.location": "/all.pem",
            "listener.name.own.ssl.truststore.location": "/own.pem",
            "listener.name.own.ssl.key.password": "hunter-3",
            "listener.name.own.ssl.cipher.suites": "A,B",
        }
    )
    assert (found.listener, found.problem) == ("OWN", "")
    assert found.options == {
        "security_protocol": "SASL_SSL",
        "ssl_cafile": "/own.pem",
        "ssl_certfile": "/k.pem",
        "ssl_password": Secret("hunter-3"),
        "ssl_ciphers": "A:B",
        "ssl_check_hostname": True,
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "broker",
        "sasl_plain_password": Secret("hunter-2"),
    }
    assert "hunter" not in repr(found)
    ClientOptions.read({"bootstrap_servers": "h:1", **found.options})


def test_a_protocol_names_the_listener_and_names_of_certificates_need_not_match() -> None:
    found = inter_broker(
        {
            "listeners": "SSL://h:1,PLAINTEXT://h:2",
            "security.inter.broker.protocol": "SSL",
            "ssl.keystore.key": "key",
            "ssl.keystore.certificate.chain": "chain",
            "ssl.truststore.certificates": "authorities",
            "ssl.endpoint.identification.algorithm": "",
        }
    )
    assert found.listener == "SSL"
    assert found.options == {
        "security_protocol": "SSL",
        "ssl_cadata": "authorities",
        "ssl_certdata": "chain",
        "ssl_keydata": Secret("key"),
        "ssl_check_hostname": False,
    }


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"security.inter.broker.protocol": "SSL"}, "security.inter.broker.protocol is SSL, but .* on OWN, CLIENTS"),
        ({"inter.broker.listener.name": "OTHER"}, "inter.broker.listener.name is OTHER, but .* on OWN, CLIENTS"),
        (
            {"inter.broker.listener.name": "OWN", "security.inter.broker.protocol": "SSL"},
            "contradict each other: set only one of them",
        ),
        (
            {"inter.broker.listener.name": "OWN", "listener.name.own.sasl.enabled.mechanisms": "PLAIN"},
            "SCRAM-SHA-512, which the listener OWN does not offer",
        ),
        (
            {
                "inter.broker.listener.name": "OWN",
                "listener.name.own.scram-sha-512.sasl.jaas.config": "x required y=z;",
            },
            'listener.name.own.scram-sha-512.sasl.jaas.config needs username="..." and password="..."',
        ),
        (
            {"inter.broker.listener.name": "OWN", "listener.name.own.scram-sha-512.sasl.jaas.config": "hunter"},
            "listener.name.own.scram-sha-512.sasl.jaas.config cannot be read: a login configuration begins",
        ),
        ({"sasl.mechanism.inter.broker.protocol": "OAUTHBEARER"}, "sasl.mechanism.inter.broker.protocol"),
    ],
)
def test_a_listener_for_brokers_that_cannot_work_is_refused(settings: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence) as refused:
        inter_broker({**TWO, **settings})
    assert "hunter" not in str(refused.value)


@pytest.mark.parametrize(
    ("settings", "listener", "sentence"),
    [
        (TWO, "", "set inter.broker.listener.name to one of OWN, CLIENTS."),
        ({"listeners": "SASL_SSL://h:1"}, "SASL_SSL", 'scram-sha-512.sasl.jaas.config needs username="..."'),
    ],
)
def test_a_broker_that_nobody_told_how_to_connect_says_why_it_cannot(
    settings: dict[str, str], listener: str, sentence: str
) -> None:
    found = inter_broker(settings)
    assert found.listener == listener and sentence in found.problem and not found.options
