"""Several listeners by Kafka's settings: which are valid, and what a wrong one says."""

import pytest

from kohort.broker.config.broker_config import parse_config
from kohort.broker.config.listeners import Address, SecurityProtocol, read_listeners
from kohort.errors import ConfigError


def listeners(**settings: str) -> dict[str, tuple[SecurityProtocol, str, int, Address | None]]:
    config = parse_config({name.replace("_", "."): text for name, text in settings.items()})
    return {
        found.name: (found.protocol, found.host, found.port, found.advertised)
        for found in read_listeners(config, "127.0.0.1", 9092)
    }


def test_without_listeners_there_is_one_without_tls_and_sasl() -> None:
    assert listeners() == {"PLAINTEXT": (SecurityProtocol.PLAINTEXT, "127.0.0.1", 9092, None)}


def test_each_listener_has_its_protocol_and_advertised_address() -> None:
    assert listeners(
        listeners="internal://127.0.0.1:1, CLIENTS://:2,SSL://[::1]:0",
        listener_security_protocol_map="INTERNAL:PLAINTEXT,clients:sasl_ssl,SSL:SSL",
        advertised_listeners="CLIENTS://kafka.example:9093",
    ) == {
        "INTERNAL": (SecurityProtocol.PLAINTEXT, "127.0.0.1", 1, None),
        "CLIENTS": (SecurityProtocol.SASL_SSL, "", 2, Address("kafka.example", 9093)),
        "SSL": (SecurityProtocol.SSL, "::1", 0, None),
    }


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"listeners": "PLAINTEXT://h:1,PLAINTEXT://h:2"}, "names PLAINTEXT twice"),
        ({"listeners": "PLAINTEXT://h:1,SSL://h:1"}, "PLAINTEXT and SSL have one address, h:1"),
        ({"listeners": "PLAINTEXT://h"}, "takes NAME://HOST:PORT, not 'PLAINTEXT://h'"),
        ({"listeners": "://h:1"}, "takes NAME://HOST:PORT, not '://h:1'"),
        ({"listeners": "INTERNAL://h:1"}, "no protocol for the listener INTERNAL: add INTERNAL:PLAINTEXT"),
        ({"listeners": "SSL://0.0.0.0:1"}, "No client can connect to 0.0.0.0"),
        ({"listener_security_protocol_map": "PLAINTEXT:TLS"}, "one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ({"advertised_listeners": "SSL://h:1"}, "names SSL, but the broker listens on PLAINTEXT"),
        ({"advertised_listeners": "PLAINTEXT://:1"}, "clients need a host"),
        ({"advertised_listeners": "PLAINTEXT://[::]:1"}, "no client can connect to ::"),
    ],
)
def test_a_wrong_listener_is_one_sentence(settings: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason.replace("[", r"\[")):
        listeners(**settings)


def test_a_listener_has_settings_of_its_own() -> None:
    config = parse_config(
        {
            "listeners": "SSL://h:1,PLAINTEXT://h:2",
            "ssl.client.auth": "none",
            "listener.name.ssl.ssl.client.auth": "required",
            "listener.name.ssl.plain.sasl.jaas.config": "secret",
        }
    )
    found = {listener.name: listener.config for listener in read_listeners(config, "", 0)}
    assert found["SSL"].text("ssl.client.auth") == "required"
    assert found["PLAINTEXT"].text("ssl.client.auth") == "none"
    assert found["SSL"].text_or_empty("plain.sasl.jaas.config") == "secret"
    assert "secret" not in repr(config)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (
            "listener.name.ssl.ssl.client.auth",
            "settings for listener.name.ssl, but the listeners are plaintext",
        ),
        ("listener.name.plaintext.num.partitions", "a listener has no setting num.partitions of its own"),
        ("listener.name.plaintext.gssapi.sasl.jaas.config", "no setting gssapi.sasl.jaas.config"),
    ],
)
def test_a_setting_of_a_listener_that_has_no_effect_is_refused(name: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        read_listeners(parse_config({name: "none"}), "h", 1)


def test_a_listener_with_sasl_asks_for_certificates_only_by_its_own_setting(caplog: pytest.LogCaptureFixture) -> None:
    # KIP-684: the broker's setting was without effect there, and a broker that has it must not begin to ask.
    config = parse_config(
        {
            "listeners": "SSL://h:1,SASL_SSL://h:2,CLIENTS://h:3",
            "listener.security.protocol.map": "SSL:SSL,SASL_SSL:SASL_SSL,CLIENTS:SASL_SSL",
            "ssl.client.auth": "required",
            "listener.name.clients.ssl.client.auth": "requested",
        }
    )
    found = {listener.name: listener.config.text("ssl.client.auth") for listener in read_listeners(config, "", 0)}
    assert found == {"SSL": "required", "SASL_SSL": "none", "CLIENTS": "requested"}
    (warning,) = caplog.messages
    assert "no effect on the listener SASL_SSL" in warning and "listener.name.sasl_ssl.ssl.client.auth" in warning
