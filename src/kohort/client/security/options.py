"""Options for TLS and SASL, under the names of aiokafka and kafka-python. `dialects.py` translates
the names of Java and librdkafka into them."""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kohort.errors import ConfigError
from kohort.security import Secret
from kohort.security.sasl import check_extensions, check_token

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MSK_IAM = "AWS_MSK_IAM"
"""OAUTHBEARER with a token that AWS's signer makes."""
PASSWORD_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
MECHANISMS = (*PASSWORD_MECHANISMS, "OAUTHBEARER", MSK_IAM)


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityOptions:
    """Options for TLS and SASL. Passwords, keys and tokens are kept as `Secret`."""

    security_protocol: str = "PLAINTEXT"
    """Protection of the connections: `SSL` encrypts them (TLS), `SASL_PLAINTEXT` authenticates this
    client, and `SASL_SSL` does both."""
    ssl_cafile: str | None = None
    """PEM file with the certificates of the authorities to trust (default: those of the system)."""
    ssl_cadata: str | None = None
    """Certificates of the authorities to trust, as PEM text."""
    ssl_certfile: str | None = None
    """PEM file with the certificate of this client and its chain. It may contain the key, too."""
    ssl_certdata: str | None = None
    """Certificate of this client and its chain, as PEM text."""
    ssl_keyfile: str | None = None
    """PEM file with the private key of this client."""
    ssl_keydata: Secret | None = None
    """Private key of this client, as PEM text."""
    ssl_password: Secret | None = None
    """Password of the private key."""
    ssl_crlfile: str | None = None
    """PEM file with revoked certificates. Brokers with one of them are rejected."""
    ssl_ciphers: str | None = None
    """Ciphers for TLS 1.2, in OpenSSL's notation."""
    ssl_check_hostname: bool = True
    """Whether a broker's certificate must contain the name to which this client connects."""
    ssl_verify_certificate: bool = True
    """Whether a broker's certificate must be issued by a trusted authority. Without it, anyone on the
    network can read everything, including passwords."""
    ssl_context: ssl.SSLContext | None = None
    """TLS settings as a whole, instead of the other ssl options."""
    sasl_mechanism: str | None = None
    """How this client authenticates. `AWS_MSK_IAM` is OAUTHBEARER with a token for Amazon MSK, and
    requires kohort[msk]."""
    sasl_plain_username: str | None = None
    """User name for PLAIN and SCRAM."""
    sasl_plain_password: Secret | None = None
    """Password for PLAIN and SCRAM."""
    sasl_oauth_token: Secret | None = None
    """Token for OAUTHBEARER that does not change."""
    sasl_oauth_token_provider: Any = None
    """Source of tokens for OAUTHBEARER: a function, or an object with the method `token`. It may be
    async. It returns the token, or a tuple of the token and its end in milliseconds since 1970."""
    sasl_oauth_token_endpoint_url: str | None = None
    """Address that issues tokens for OAUTHBEARER by OIDC client credentials. A `file:` address is a
    file that contains the token, and is read again when the token ends."""
    sasl_oauth_client_id: str | None = None
    """Client id for the token endpoint."""
    sasl_oauth_client_secret: Secret | None = None
    """Client secret for the token endpoint."""
    sasl_oauth_scope: str | None = None
    """Scope to request from the token endpoint."""
    sasl_oauth_extensions: str | Mapping[str, str] | None = None
    """SASL extensions for OAUTHBEARER, as a mapping or as `name=value,name=value`, such as
    logicalCluster and identityPoolId."""
    sasl_aws_region: str | None = None
    """AWS region for AWS_MSK_IAM (default: the region in the brokers' names)."""

    @property
    def uses_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.security_protocol.endswith("SSL")

    @property
    def uses_sasl(self) -> bool:
        """Whether this client authenticates by SASL."""
        return self.security_protocol.startswith("SASL_")

    @property
    def extensions(self) -> dict[str, str]:
        """SASL extensions by name. Raises ConfigError."""
        given = self.sasl_oauth_extensions
        if not given:
            return {}
        if isinstance(given, Mapping):
            return dict(given)
        pairs = [pair.partition("=") for pair in given.split(",") if pair.strip()]
        if not all(equals for _, equals, _ in pairs):
            raise ConfigError("sasl_oauth_extensions must be a mapping, or text like name=value,name=value.")
        return {name.strip(): value.strip() for name, _, value in pairs}


def check_security(options: SecurityOptions) -> None:
    """Raise ConfigError, with a sentence, for options that contradict each other."""
    given = {name for name in _defaults if getattr(options, name) != _defaults[name]}
    for prefix, used, instead in (
        ("ssl_", options.uses_tls, "SSL or SASL_SSL"),
        ("sasl_", options.uses_sasl, "SASL_SSL or SASL_PLAINTEXT"),
    ):
        unused = sorted(name for name in given if name.startswith(prefix))
        if unused and not used:
            raise ConfigError(
                f"{unused[0]} has no effect with security_protocol {options.security_protocol}: set security_protocol"
                f" to {instead}, or leave {unused[0]} out."
            )
    if options.uses_tls:
        _check_tls(options, given)
    if options.uses_sasl:
        _check_sasl(options, given)


def _check_tls(options: SecurityOptions, given: set[str]) -> None:
    if options.ssl_context is not None:
        others = sorted(name for name in given if name.startswith("ssl_") and name != "ssl_context")
        if others:
            raise ConfigError(f"{others[0]} contradicts ssl_context: make this setting in the context.")
    for file_option, text_option in (
        ("ssl_cafile", "ssl_cadata"),
        ("ssl_certfile", "ssl_certdata"),
        ("ssl_keyfile", "ssl_keydata"),
    ):
        if {file_option, text_option} <= given:
            raise ConfigError(
                f"{file_option} and {text_option} are the same thing as a file and as text: give one of them."
            )
    certificate = given & {"ssl_certfile", "ssl_certdata"}
    for name in sorted(given & {"ssl_keyfile", "ssl_keydata", "ssl_password"}):
        if not certificate:
            raise ConfigError(f"{name} belongs to a certificate: give ssl_certfile, or leave {name} out.")
    if "ssl_certdata" in given and not given & {"ssl_keyfile", "ssl_keydata"}:
        raise ConfigError("ssl_certdata needs the private key of the certificate: give ssl_keydata or ssl_keyfile.")
    if not options.ssl_verify_certificate and given & {"ssl_cafile", "ssl_cadata", "ssl_crlfile"}:
        raise ConfigError("ssl_verify_certificate is false, so no authority is trusted: leave the certificates out.")


def _check_sasl(options: SecurityOptions, given: set[str]) -> None:
    mechanism = options.sasl_mechanism
    if mechanism is None:
        listed = ", ".join(MECHANISMS)
        raise ConfigError(
            f"security_protocol {options.security_protocol} needs sasl_mechanism, which is one of: {listed}."
        )
    password, token = _names("sasl_plain_"), _names("sasl_oauth_")
    allowed = {
        "OAUTHBEARER": token,
        MSK_IAM: {"sasl_aws_region"},
    }.get(mechanism, password)
    for name in sorted(given & {*password, *token, "sasl_aws_region"} - allowed):
        raise ConfigError(f"{name} has no effect with sasl_mechanism {mechanism}: leave it out.")
    if mechanism in PASSWORD_MECHANISMS:
        for name in sorted(password):
            if not getattr(options, name):
                raise ConfigError(f"sasl_mechanism {mechanism} needs {name}.")
        if b"\0" in (options.sasl_plain_username or "").encode() + _bytes(options.sasl_plain_password):
            raise ConfigError("sasl_plain_username and sasl_plain_password must not contain the character NUL.")
    elif mechanism == "OAUTHBEARER":
        _check_oauth(options, given)


def _check_oauth(options: SecurityOptions, given: set[str]) -> None:
    sources = ("sasl_oauth_token", "sasl_oauth_token_provider", "sasl_oauth_token_endpoint_url")
    found = [name for name in sources if name in given]
    if len(found) != 1:
        raise ConfigError(f"sasl_mechanism OAUTHBEARER needs exactly one of {', '.join(sources)}, not {len(found)}.")
    client = {"sasl_oauth_client_id", "sasl_oauth_client_secret", "sasl_oauth_scope"}
    url = options.sasl_oauth_token_endpoint_url or ""
    if not url or url.startswith("file:"):
        for name in sorted(given & client):
            raise ConfigError(f"{name} is for a token endpoint: give sasl_oauth_token_endpoint_url, or leave it out.")
    else:
        if not url.startswith(("https://", "http://")):
            raise ConfigError("sasl_oauth_token_endpoint_url must begin with https:, http: or file:.")
        for name in ("sasl_oauth_client_id", "sasl_oauth_client_secret"):
            if name not in given:
                raise ConfigError(f"sasl_oauth_token_endpoint_url needs {name}.")
    provider: object = options.sasl_oauth_token_provider
    if provider is not None and not callable(getattr(provider, "token", provider)):
        raise ConfigError("sasl_oauth_token_provider must be a function, or an object with the method token.")
    if options.sasl_oauth_token is not None and (problem := check_token(options.sasl_oauth_token.reveal())):
        raise ConfigError(f"sasl_oauth_token cannot be sent: {problem}.")
    if problem := check_extensions(options.extensions):
        raise ConfigError(f"sasl_oauth_extensions cannot be sent: {problem}.")


def _names(prefix: str) -> set[str]:
    return {name for name in _defaults if name.startswith(prefix)}


def _bytes(secret: Secret | None) -> bytes:
    return b"" if secret is None else secret.reveal_bytes()


_defaults: Mapping[str, object] = {
    name: getattr(SecurityOptions(), name) for name in SecurityOptions.__dataclass_fields__
}
