"""Names of Java's clients and of librdkafka, translated into the names of `options.py`.

Dots and underscores are equivalent, so that an environment variable can have any of the names.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from kohort.client.security.options import MSK_IAM, PASSWORD_MECHANISMS
from kohort.errors import ConfigError
from kohort.pem import EXPORT_PEM
from kohort.security import JaasError, parse_jaas

_SAME: Mapping[str, str] = {
    "ssl.truststore.certificates": "ssl_cadata",
    "ssl.truststore.location": "ssl_cafile",
    "ssl.keystore.certificate.chain": "ssl_certdata",
    "ssl.keystore.key": "ssl_keydata",
    "ssl.keystore.location": "ssl_certfile",
    "ssl.key.password": "ssl_password",
    "ssl.cipher.suites": "ssl_ciphers",
    "ssl.ca.location": "ssl_cafile",
    "ssl.ca.pem": "ssl_cadata",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.certificate.pem": "ssl_certdata",
    "ssl.key.location": "ssl_keyfile",
    "ssl.key.pem": "ssl_keydata",
    "ssl.crl.location": "ssl_crlfile",
    "enable.ssl.certificate.verification": "ssl_verify_certificate",
    "sasl.mechanisms": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
    "sasl.oauthbearer.token.endpoint.url": "sasl_oauth_token_endpoint_url",
    "sasl.oauthbearer.client.id": "sasl_oauth_client_id",
    "sasl.oauthbearer.client.secret": "sasl_oauth_client_secret",
    "sasl.oauthbearer.client.credentials.client.id": "sasl_oauth_client_id",
    "sasl.oauthbearer.client.credentials.client.secret": "sasl_oauth_client_secret",
    "sasl.oauthbearer.scope": "sasl_oauth_scope",
    "sasl.oauthbearer.extensions": "sasl_oauth_extensions",
}
_STORE_PASSWORDS = {"ssl.truststore.password", "ssl.keystore.password"}
_STORE_TYPES = {"ssl.truststore.type", "ssl.keystore.type"}
_LOGIN_CLASSES = {
    "sasl.login.callback.handler.class",
    "sasl.client.callback.handler.class",
    "sasl.login.class",
}
_KNOWN_CLASSES = {"OAuthBearerLoginCallbackHandler", "IAMClientCallbackHandler", "IAMOAuthBearerLoginCallbackHandler"}
_MODULES = {
    "PlainLoginModule": ("PLAIN",),
    "ScramLoginModule": ("SCRAM-SHA-256", "SCRAM-SHA-512"),
    "OAuthBearerLoginModule": ("OAUTHBEARER",),
    "IAMLoginModule": (MSK_IAM,),
}
_OF_PASSWORDS = {"username": "sasl_plain_username", "password": "sasl_plain_password"}
_OF_OAUTH = {
    "clientId": "sasl_oauth_client_id",
    "clientSecret": "sasl_oauth_client_secret",
    "scope": "sasl_oauth_scope",
}


def normal_names(given: Mapping[str, Any], known: Iterable[str]) -> dict[str, Any]:
    """Return the options under the names in `known`; names without a translation stay as they are.

    Raises ConfigError if an option is given twice, or has a value that only Java understands.
    """
    known = frozenset(known)
    found: dict[str, Any] = {}
    origin: dict[str, str] = {}
    for name, value in given.items():
        for normal, read in _translated(name, value, known):
            if normal in found and found[normal] != read:
                raise ConfigError(f"{name} and {origin[normal]} are two names of {normal}: give one of them.")
            found[normal], origin[normal] = read, name
    if isinstance(protocol := found.get("security_protocol"), str):
        found["security_protocol"] = protocol.upper()
    _check_module(found.pop(_MODULE, None), found.get("sasl_mechanism"))
    return found


_MODULE = "the login module of sasl.jaas.config"


def _translated(name: str, value: Any, known: frozenset[str]) -> list[tuple[str, Any]]:
    dotted = name.replace("_", ".")
    if dotted in _SAME:
        return [(_SAME[dotted], value)]
    if dotted in _SPECIAL:
        return _SPECIAL[dotted](value)
    if dotted.startswith("sasl.kerberos."):
        raise ConfigError(f"{name} is for Kerberos (GSSAPI), which is not supported.")
    snake = name.replace(".", "_")
    return [(snake if snake in known else name, value)]


def _nothing_but(name: str, allowed: Iterable[str], advice: str, value: Any) -> list[tuple[str, Any]]:
    if str(value or "").strip().upper() in {"", *(each.upper() for each in allowed)}:
        return []
    raise ConfigError(f"{name} is {value!r}: {advice}")


def _store_password(name: str, value: Any) -> list[tuple[str, Any]]:
    if not value:
        return []
    raise ConfigError(
        f"{name} is for JKS and PKCS12 stores, and only PEM is supported. The password of a PEM key is"
        f" ssl.key.password. {EXPORT_PEM}"
    )


def _identification(value: Any) -> list[tuple[str, Any]]:
    text = str(value or "").strip().lower()
    if text not in ("https", "", "none"):
        raise ConfigError(f"ssl.endpoint.identification.algorithm is {value!r}, but must be https, or empty for none.")
    return [] if text == "https" else [("ssl_check_hostname", False)]


def _login_class(name: str, value: Any) -> list[tuple[str, Any]]:
    simple = str(value or "").rpartition(".")[2]
    if not simple or simple in _KNOWN_CLASSES:
        return []
    raise ConfigError(f"{name} is the Java class {value}, which cannot run here: give sasl_oauth_token_provider.")


def _jaas(value: Any) -> list[tuple[str, Any]]:
    text = value.reveal() if hasattr(value, "reveal") else str(value)
    try:
        entry = parse_jaas(text)
    except JaasError as problem:
        raise ConfigError(f"sasl.jaas.config cannot be read: {problem}.") from None
    module = entry.name
    if module not in _MODULES:
        raise ConfigError(f"sasl.jaas.config names {module}, but must name one of: {', '.join(_MODULES)}.")
    read: list[tuple[str, Any]] = [(_MODULE, module)]
    names = _OF_OAUTH if module == "OAuthBearerLoginModule" else _OF_PASSWORDS
    extensions: dict[str, str] = {}
    for name, secret in entry.options.items():
        given = secret.reveal()
        if module == "OAuthBearerLoginModule" and name.startswith("extension_"):
            extensions[name.removeprefix("extension_")] = given
        elif module != "IAMLoginModule" and name in names:
            read.append((names[name], given))
        else:
            raise ConfigError(f"sasl.jaas.config has the option {name}, which is not supported with {module}.")
    return [*read, ("sasl_oauth_extensions", extensions)] if extensions else read


def _check_module(module: str | None, mechanism: Any) -> None:
    if module is None or mechanism is None:
        return
    mechanisms = _MODULES[module]
    if mechanism not in mechanisms and mechanism in (*PASSWORD_MECHANISMS, "OAUTHBEARER", MSK_IAM):
        raise ConfigError(
            f"sasl.jaas.config names {module}, which is for {' and '.join(mechanisms)}, but sasl.mechanism is"
            f" {mechanism}."
        )


def _confluent_callback(value: Any) -> list[tuple[str, Any]]:
    """Return a provider that calls confluent-kafka's `oauth_cb`: token and end in seconds since 1970."""
    if not callable(value):
        raise ConfigError("oauth_cb must be a function.")

    def token() -> tuple[str, int]:
        answer = value("")
        return answer[0], int(answer[1] * 1000)

    return [("sasl_oauth_token_provider", token)]


_ONLY_PEM = f"only PEM is supported. {EXPORT_PEM}"
_PROTOCOLS = "TLS 1.2 and 1.3 are used; give ssl_context for another choice."
_JAVA_ONLY = "it has no effect outside of Java: leave it out, or give ssl_context."

_SPECIAL: Mapping[str, Callable[[Any], list[tuple[str, Any]]]] = {
    **{name: partial(_nothing_but, name, ["PEM"], _ONLY_PEM) for name in _STORE_TYPES},
    **{name: partial(_store_password, name) for name in _STORE_PASSWORDS},
    **{name: partial(_login_class, name) for name in _LOGIN_CLASSES},
    "ssl.endpoint.identification.algorithm": _identification,
    "ssl.protocol": partial(_nothing_but, "ssl.protocol", ["TLS", "TLSv1.3", "TLSv1.2"], _PROTOCOLS),
    "ssl.enabled.protocols": partial(
        _nothing_but, "ssl.enabled.protocols", ["TLSv1.2,TLSv1.3", "TLSv1.3,TLSv1.2"], _PROTOCOLS
    ),
    "ssl.engine.factory.class": partial(_nothing_but, "ssl.engine.factory.class", [], _JAVA_ONLY),
    "ssl.provider": partial(_nothing_but, "ssl.provider", [], _JAVA_ONLY),
    "sasl.oauthbearer.method": partial(
        _nothing_but, "sasl.oauthbearer.method", ["default", "oidc"], "it must be default or oidc."
    ),
    "sasl.jaas.config": _jaas,
    "oauth.cb": _confluent_callback,
}

SECRET_NAMES = frozenset({"sasl.jaas.config", "oauth.cb", *_STORE_PASSWORDS})
"""Names with secret values, apart from those of `options.py`."""
TRANSLATED_NAMES = frozenset({*_SAME, *_SPECIAL})
"""Names of Java and of librdkafka that `normal_names` knows."""
