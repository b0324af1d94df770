"""Security options: their names in three dialects, contradictions, and secrets that stay hidden."""

from __future__ import annotations

import ssl
from typing import Any

import pytest

from kohort import ConfigError
from kohort.client import ClientOptions, ConsumerOptions
from kohort.client.security import SecurityOptions
from kohort.security import Secret

HERE = {"bootstrap_servers": "127.0.0.1:9093"}
SASL = {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN"}
USER = {"sasl_plain_username": "alice", "sasl_plain_password": "hunter-2"}
OAUTH = {"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER"}
ENDPOINT = {
    "sasl_oauth_token_endpoint_url": "https://id.example.com/token",
    "sasl_oauth_client_id": "me",
    "sasl_oauth_client_secret": "hunter-2",
}
MODULE = "org.apache.kafka.common.security"


def read(**given: Any) -> ClientOptions:
    return ClientOptions.read({**HERE, **given})


def differing(options: SecurityOptions) -> dict[str, object]:
    default = SecurityOptions()
    return {
        name: value
        for name in SecurityOptions.__dataclass_fields__
        if (value := getattr(options, name)) != getattr(default, name)
    }


@pytest.mark.parametrize(
    "given",
    [
        {"sasl_plain_username": "alice", "sasl_plain_password": "hunter-2", "sasl_mechanism": "SCRAM-SHA-512"},
        {"sasl.username": "alice", "sasl.password": "hunter-2", "sasl.mechanisms": "SCRAM-SHA-512"},
        {"sasl_username": "alice", "sasl_password": "hunter-2", "sasl_mechanism": "SCRAM-SHA-512"},
        {
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": f"{MODULE}.scram.ScramLoginModule required username=\"alice\" password='hunter-2';",
        },
        {
            "sasl_mechanism": "SCRAM-SHA-512",
            "sasl_jaas_config": f'{MODULE}.scram.ScramLoginModule required\n username=alice password="hunter-2" ;\n',
        },
    ],
)
@pytest.mark.parametrize("protocol", [{"security.protocol": "sasl_ssl"}, {"security_protocol": "SASL_SSL"}])
def test_a_user_has_the_same_meaning_in_every_dialect(given: dict[str, str], protocol: dict[str, str]) -> None:
    assert differing(ClientOptions.read({**HERE, **protocol, **given})) == {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "alice",
        "sasl_plain_password": Secret("hunter-2"),
    }


@pytest.mark.parametrize(
    "given",
    [
        {
            "ssl_cadata": "C",
            "ssl_certdata": "L",
            "ssl_keydata": "K",
            "ssl_password": "P",
            "ssl_check_hostname": False,
        },
        {
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": "C",
            "ssl.keystore.type": "pem",
            "ssl.keystore.certificate.chain": "L",
            "ssl.keystore.key": "K",
            "ssl.key.password": "P",
            "ssl.endpoint.identification.algorithm": "",
        },
        {
            "ssl.ca.pem": "C",
            "ssl.certificate.pem": "L",
            "ssl.key.pem": "K",
            "ssl.key.password": "P",
            "ssl.endpoint.identification.algorithm": "none",
        },
    ],
)
def test_certificates_have_the_same_meaning_in_every_dialect(given: dict[str, Any]) -> None:
    assert differing(read(security_protocol="SSL", **given)) == {
        "security_protocol": "SSL",
        "ssl_cadata": "C",
        "ssl_certdata": "L",
        "ssl_keydata": Secret("K"),
        "ssl_password": Secret("P"),
        "ssl_check_hostname": False,
    }


@pytest.mark.parametrize(
    "given",
    [
        {**ENDPOINT, "sasl_oauth_scope": "kafka", "sasl_oauth_extensions": {"logicalCluster": "lkc-1"}},
        {
            "sasl.oauthbearer.method": "OIDC",
            "sasl.oauthbearer.token.endpoint.url": "https://id.example.com/token",
            "sasl.oauthbearer.client.id": "me",
            "sasl.oauthbearer.client.secret": "hunter-2",
            "sasl.oauthbearer.scope": "kafka",
            "sasl.oauthbearer.extensions": "logicalCluster=lkc-1",
        },
        {
            "sasl.oauthbearer.token.endpoint.url": "https://id.example.com/token",
            "sasl.login.callback.handler.class": f"{MODULE}.oauthbearer.OAuthBearerLoginCallbackHandler",
            "sasl.jaas.config": f"{MODULE}.oauthbearer.OAuthBearerLoginModule required clientId='me'"
            ' clientSecret="hunter-2" scope="kafka" extension_logicalCluster="lkc-1";',
        },
        {
            "sasl.oauthbearer.token.endpoint.url": "https://id.example.com/token",
            "sasl.oauthbearer.client.credentials.client.id": "me",
            "sasl.oauthbearer.client.credentials.client.secret": "hunter-2",
            "sasl.oauthbearer.scope": "kafka",
            "sasl.jaas.config": f"{MODULE}.oauthbearer.OAuthBearerLoginModule required"
            ' extension_logicalCluster="lkc-1";',
        },
    ],
)
def test_a_token_endpoint_has_the_same_meaning_in_every_dialect(given: dict[str, Any]) -> None:
    options = ClientOptions.read({**HERE, **OAUTH, **given})
    assert options.extensions == {"logicalCluster": "lkc-1"}
    assert {**differing(options), "sasl_oauth_extensions": None} == {
        **OAUTH,
        **ENDPOINT,
        "sasl_oauth_client_secret": Secret("hunter-2"),
        "sasl_oauth_scope": "kafka",
        "sasl_oauth_extensions": None,
    }


def test_options_that_are_not_about_security_may_have_dots_too() -> None:
    options = ConsumerOptions.read({"bootstrap.servers": "a:1", "group.id": "g", "auto.offset.reset": "earliest"})
    assert (options.bootstrap_servers, options.group_id, options.auto_offset_reset) == ("a:1", "g", "earliest")


def test_the_callback_of_confluent_kafka_is_a_provider() -> None:
    options = read(**OAUTH, oauth_cb=lambda config: ("token", 12.5))
    assert options.sasl_oauth_token_provider() == ("token", 12_500)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"security_protocol": "TLS"}, "security_protocol is 'TLS', but must be one of: PLAINTEXT"),
        ({"sasl_plain_password": "hunter-2"}, "sasl_plain_password has no effect with security_protocol PLAINTEXT"),
        ({"security_protocol": "SSL", "sasl_mechanism": "PLAIN"}, "sasl_mechanism has no effect"),
        ({"ssl_cafile": "ca.pem"}, "set security_protocol to SSL or SASL_SSL"),
        ({"security_protocol": "SASL_PLAINTEXT", "ssl_cafile": "ca.pem"}, "ssl_cafile has no effect"),
        ({"security_protocol": "SASL_SSL"}, "SASL_SSL needs sasl_mechanism, which is one of: PLAIN, SCRAM"),
        ({**USER, "security_protocol": "SASL_SSL"}, "needs sasl_mechanism"),
        ({**SASL, "sasl_mechanism": "GSSAPI"}, "sasl_mechanism is 'GSSAPI', but must be one of"),
        ({**SASL, "sasl.kerberos.service.name": "kafka"}, "Kerberos"),
        (SASL, "PLAIN needs sasl_plain_password"),
        ({**SASL, "sasl_plain_password": "hunter-2"}, "PLAIN needs sasl_plain_username"),
        ({**SASL, **USER, "sasl_plain_password": "hunter\0-2"}, "must not contain the character NUL"),
        ({**SASL, **USER, "sasl_plain_password": 4711}, "sasl_plain_password must be text"),
        ({**SASL, **USER, "sasl.password": "hunter-3"}, "two names of sasl_plain_password"),
        ({**SASL, **USER, "sasl_oauth_token": "x"}, "sasl_oauth_token has no effect with sasl_mechanism PLAIN"),
        (OAUTH, "needs exactly one of sasl_oauth_token, .* not 0"),
        ({**OAUTH, **ENDPOINT, "sasl_oauth_token": "x"}, "not 2"),
        ({**OAUTH, **USER, "sasl_oauth_token": "x"}, "has no effect with sasl_mechanism OAUTHBEARER"),
        ({**OAUTH, **ENDPOINT, "sasl_oauth_client_id": None}, "needs sasl_oauth_client_id"),
        ({**OAUTH, **ENDPOINT, "sasl_oauth_token_endpoint_url": "ftp://x"}, "must begin with https:"),
        ({**OAUTH, "sasl_oauth_token": "x", "sasl_oauth_scope": "s"}, "sasl_oauth_scope is for a token endpoint"),
        ({**OAUTH, "sasl_oauth_token": "hunter 2"}, "cannot be sent"),
        ({**OAUTH, "sasl_oauth_token": "x", "sasl_oauth_extensions": "auth=1"}, "must not be auth"),
        ({**OAUTH, "sasl_oauth_token": "x", "sasl_oauth_extensions": "auth"}, "name=value"),
        ({**OAUTH, "sasl_oauth_token_provider": 7}, "must be a function, or an object with the method token"),
        ({**OAUTH, "oauth_cb": 7}, "oauth_cb must be a function"),
        ({"security_protocol": "SSL", "ssl_context": "x"}, "must be an ssl.SSLContext"),
        ({"security_protocol": "SSL", "ssl_keyfile": "k"}, "ssl_keyfile belongs to a certificate"),
        ({"security_protocol": "SSL", "ssl_cafile": "k", "ssl_cadata": "k"}, "give one of them"),
        ({"security_protocol": "SSL", "ssl_certdata": "k"}, "needs the private key"),
        ({"security_protocol": "SSL", "ssl_cafile": "k", "ssl_verify_certificate": "false"}, "leave the certificates"),
        ({"security_protocol": "SSL", "ssl.truststore.type": "JKS"}, "only PEM .*openssl pkcs12 .*keytool"),
        ({"security_protocol": "SSL", "ssl.keystore.type": "PKCS12"}, "only PEM is supported. Export PEM"),
        ({"security_protocol": "SSL", "ssl.truststore.password": "hunter-2"}, "ssl.key.password"),
        ({"security_protocol": "SSL", "ssl.endpoint.identification.algorithm": "x"}, "must be https, or empty"),
        ({"security_protocol": "SSL", "ssl.protocol": "SSLv3"}, "TLS 1.2 and 1.3"),
        ({**SASL, "sasl.login.callback.handler.class": "com.example.Mine"}, "give sasl_oauth_token_provider"),
        ({**SASL, "sasl.jaas.config": "hunter-2"}, "begins with the name of a login module"),
        ({**SASL, "sasl.jaas.config": "a.PlainLoginModule required password=hunter-2"}, "ends with a semicolon"),
        ({**SASL, "sasl.jaas.config": 'a.PlainLoginModule required password="hunter-2;'}, "has no end"),
        ({**SASL, "sasl.jaas.config": "a.PlainLoginModule required user_a=hunter-2;"}, "option user_a"),
        ({**SASL, "sasl.jaas.config": "a.Krb5LoginModule required keyTab=hunter-2;"}, "names Krb5LoginModule"),
        (
            {**SASL, "sasl.jaas.config": "a.ScramLoginModule required username=a password=hunter-2;"},
            "ScramLoginModule, which is for SCRAM-SHA-256 and SCRAM-SHA-512, but sasl.mechanism is PLAIN",
        ),
        ({**SASL, "sasl_mechanism": "AWS_MSK_IAM", **USER}, "has no effect with sasl_mechanism AWS_MSK_IAM"),
    ],
)
def test_contradictions_are_refused_in_a_sentence_without_the_secret(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence) as refused:
        read(**given)
    assert "hunter" not in str(refused.value)


def test_a_context_excludes_what_it_decides_itself() -> None:
    context = ssl.create_default_context()
    assert read(security_protocol="SSL", ssl_context=context).ssl_context is context
    with pytest.raises(ConfigError, match="ssl_cafile contradicts ssl_context"):
        read(security_protocol="SSL", ssl_context=context, ssl_cafile="x")


def test_passwords_are_hidden_in_the_options() -> None:
    text = repr(read(**SASL, **USER)) + repr(read(**OAUTH, **ENDPOINT))
    assert "hunter" not in text and text.count("[hidden]") == 2
