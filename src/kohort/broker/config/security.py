"""Settings of listeners, authentication and authorization, with Kafka's names.

All but those of the authorizer may be set for one listener: `listener.name.internal.ssl.client.auth=required`.
"""

from collections.abc import Mapping

from kohort.broker.config.setting import ABSENT, INT32, INT64, Setting
from kohort.broker.config.single_connection import SINGLE_CONNECTION_SETTINGS

STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
MECHANISMS = frozenset({"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"})
_STORE_TYPES = frozenset({"PEM"})
_ONLY_PEM = "default JKS; also PKCS12"

TLS: Mapping[str, Setting] = {
    "ssl.cipher.suites": Setting(
        "",
        "Cipher suites of TLS 1.2, in OpenSSL's notation. Empty: OpenSSL's default.",
        is_list=True,
        kafka="names of Java; also dynamic",
    ),
    "ssl.client.auth": Setting(
        "none",
        "Whether clients authenticate with a certificate: required, requested or none.",
        choices=frozenset({"none", "requested", "required"}),
        kafka="also dynamic",
    ),
    "ssl.enabled.protocols": Setting(
        "TLSv1.2,TLSv1.3",
        "Versions of TLS that clients may use.",
        choices=frozenset({"TLSv1.2", "TLSv1.3"}),
        is_list=True,
        kafka="also dynamic",
    ),
    "ssl.endpoint.identification.algorithm": Setting(
        "https",
        "Whether this broker requires that certificates of other brokers contain the names to which it connects: https,"
        " or empty for no.",
        choices=frozenset({"https", ""}),
        kafka="also dynamic",
    ),
    "ssl.key.password": Setting("", "Password of the private key.", sensitive=True, kafka="also dynamic"),
    "ssl.keystore.certificate.chain": Setting(
        "", "Certificate chain of the broker, as PEM text.", sensitive=True, kafka="type PEM only; also dynamic"
    ),
    "ssl.keystore.key": Setting(
        "", "Private key of the broker, as PEM text.", sensitive=True, kafka="type PEM only; PKCS #8; also dynamic"
    ),
    "ssl.keystore.location": Setting(
        "",
        "File with the broker's private key and its certificate chain, as PEM. The broker reads it when it changes.",
        kafka="also dynamic",
    ),
    "ssl.keystore.type": Setting(
        "PEM", "Format of the key store.", choices=_STORE_TYPES, kafka=f"{_ONLY_PEM}; also dynamic"
    ),
    "ssl.principal.mapping.rules": Setting(
        "DEFAULT",
        "Rules that make the principal from the subject of a client's certificate: RULE:pattern/replacement/[LU], or"
        " DEFAULT for the whole subject. The first rule that matches applies.",
    ),
    "ssl.truststore.certificates": Setting(
        "",
        "Certificates of the authorities that sign clients' certificates, as PEM text.",
        sensitive=True,
        kafka="also dynamic",
    ),
    "ssl.truststore.location": Setting(
        "",
        "File with the certificates of the authorities that sign clients' certificates, as PEM. The broker reads it"
        " when it changes.",
        kafka="also dynamic",
    ),
    "ssl.truststore.type": Setting(
        "PEM", "Format of the trust store.", choices=_STORE_TYPES, kafka=f"{_ONLY_PEM}; also dynamic"
    ),
}
"""Settings of TLS. A listener may have its own value of each."""

SASL: Mapping[str, Setting] = {
    "connections.max.reauth.ms": Setting(
        0,
        "Time after which a client must authenticate again on its connection, in milliseconds (KIP-368). 0: never,"
        " unless its token expires.",
        0,
        INT64,
    ),
    "sasl.enabled.mechanisms": Setting(
        "SCRAM-SHA-512",
        "Mechanisms that the listener offers.",
        choices=MECHANISMS,
        is_list=True,
        kafka="default GSSAPI; also dynamic",
    ),
    "sasl.jaas.config": Setting(
        "",
        "Users of PLAIN, as `org.apache.kafka.common.security.plain.PlainLoginModule required user_NAME="
        '"PASSWORD" ...;`. The name has the prefix listener.name.NAME.plain.',
        sensitive=True,
        kafka="one for each mechanism; also dynamic",
    ),
    "sasl.oauthbearer.clock.skew.seconds": Setting(
        30, "Difference between clocks that is tolerated in the times of a token, in seconds.", 0, INT32
    ),
    "sasl.oauthbearer.expected.audience": Setting(
        "", "Audiences of which a token must name one. Empty: any.", is_list=True
    ),
    "sasl.oauthbearer.expected.issuer": Setting("", "Issuer that a token must name. Empty: any."),
    "sasl.oauthbearer.jwks.endpoint.refresh.ms": Setting(
        3_600_000, "Time after which the keys of the token issuer are read again, in milliseconds.", 1, INT64
    ),
    "sasl.oauthbearer.jwks.endpoint.url": Setting(
        "", "URL of the JSON Web Key Set with the keys of the token issuer: https, http or file."
    ),
    "sasl.oauthbearer.scope.claim.name": Setting("scope", "Claim with the scopes of a token."),
    "sasl.oauthbearer.sub.claim.name": Setting("sub", "Claim with the name of the principal."),
    "sasl.server.max.receive.size": Setting(
        524_288, "Maximum size of a request before authentication, in bytes.", 1, INT32
    ),
}
"""Settings of authentication by SASL. A listener may have its own value of each."""

LISTENERS: Mapping[str, Setting] = {
    "connection.failed.authentication.delay.ms": Setting(
        100, "Delay before the answer to a failed authentication, in milliseconds.", 0, INT32
    ),
    "inter.broker.listener.name": Setting(
        "", "Listener to which the brokers of a cluster connect. Empty: security.inter.broker.protocol names it."
    ),
    "listener.security.protocol.map": Setting(
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "Security protocol of each listener, as NAME:PROTOCOL.",
        is_list=True,
        kafka="also dynamic",
    ),
    "listeners": Setting(
        "",
        "Addresses that the broker listens on, as NAME://HOST:PORT. An empty host is all interfaces. Empty: the address"
        " of --listen, without TLS and SASL.",
        is_list=True,
        kafka="default PLAINTEXT://:9092; also dynamic",
    ),
    "sasl.mechanism.inter.broker.protocol": Setting(
        "SCRAM-SHA-512",
        "Mechanism by which brokers authenticate at other brokers, with username and password of the listener's"
        " sasl.jaas.config for this mechanism.",
        choices=MECHANISMS - {"OAUTHBEARER"},
        kafka="default GSSAPI; also dynamic",
    ),
    "security.inter.broker.protocol": Setting(
        "PLAINTEXT",
        "Listener of this name to which the brokers of a cluster connect. Without a listener PLAINTEXT, the default is"
        " the only listener.",
        choices=frozenset({"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"}),
    ),
    "max.connections.unauthenticated": Setting(
        1_000,
        "Maximum number of connections that are in their TLS handshake or not authenticated. If there are"
        " more, one of the host with the most is closed.",
        1,
        INT32,
        kafka=ABSENT,
    ),
    "authentication.timeout.ms": Setting(
        10_000,
        "Time within which a client must finish its TLS handshake and authenticate, in milliseconds.",
        1,
        INT32,
        kafka=ABSENT,
    ),
}
"""Settings of the listeners and of connections that are not authenticated yet."""

AUTHORIZER: Mapping[str, Setting] = {
    "allow.everyone.if.no.acl.found": Setting(
        False, "Whether all principals may use a resource to which no ACL applies."
    ),
    "authorizer.class.name": Setting(
        "",
        f"Empty: all principals may do everything. {STANDARD_AUTHORIZER}: ACLs decide.",
        choices=frozenset({"", STANDARD_AUTHORIZER}),
        kafka="any class that implements Authorizer",
    ),
    "super.users": Setting("", "Principals that may do everything, as User:NAME, separated by semicolons."),
}
"""Settings of the authorizer."""

SECURITY: Mapping[str, Setting] = {**LISTENERS, **TLS, **SASL, **AUTHORIZER}

OF_LISTENERS: Mapping[str, Setting] = {**TLS, **SASL, **SINGLE_CONNECTION_SETTINGS}
"""Settings of which a listener may have its own value."""

_PREFIX = "listener.name."


def split_listener_name(name: str) -> tuple[str, str] | None:
    """Return the listener and the setting of `listener.name.LISTENER.SETTING`, in lower case; None for other names.

    A mechanism before `sasl.jaas.config` belongs to the setting's name, as in Kafka.
    """
    if not name.startswith(_PREFIX):
        return None
    listener, _, setting = name.removeprefix(_PREFIX).partition(".")
    return listener.lower(), setting


def setting_of_listener(setting: str) -> Setting | None:
    """Return the setting of that name without its listener, such as `plain.sasl.jaas.config`; None if there is none."""
    mechanism, dot, rest = setting.partition(".")
    if dot and mechanism.upper() in MECHANISMS and rest == "sasl.jaas.config":
        return SASL[rest]
    return OF_LISTENERS.get(setting)
