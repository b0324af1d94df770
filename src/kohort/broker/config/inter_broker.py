"""How a broker connects to the other brokers of its cluster: to which listener, and with which certificate or password.

As in Apache Kafka, `inter.broker.listener.name` or `security.inter.broker.protocol` names the listener, and the broker
uses the key store, the trust store and the login module that the listener has on this broker.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kohort.broker.config.broker_config import BrokerConfig
from kohort.broker.config.listeners import DEFAULT_NAME, Listener
from kohort.errors import ConfigError
from kohort.security import JaasError, Secret, parse_jaas

_NAME, _PROTOCOL = "inter.broker.listener.name", "security.inter.broker.protocol"
_MECHANISM = "sasl.mechanism.inter.broker.protocol"


@dataclass(frozen=True, slots=True)
class InterBroker:
    """The listener to which brokers connect."""

    listener: str
    options: Mapping[str, str | bool | Secret] = field(default_factory=dict, repr=False)
    """Options of the client for TLS and SASL."""
    problem: str = ""
    """Why the broker cannot connect to others; empty if it can."""


def read_inter_broker(config: BrokerConfig, listeners: Sequence[Listener]) -> InterBroker:
    """Return how brokers connect. Raise ConfigError if the settings name a listener to which this is impossible."""
    named = {listener.name: listener for listener in listeners}
    name, protocol = config.text(_NAME).upper(), config.text(_PROTOCOL)
    if name and protocol != DEFAULT_NAME:
        raise ConfigError(f"{_NAME} and {_PROTOCOL} contradict each other: set only one of them.")
    setting, wanted = (_NAME, name) if name else (_PROTOCOL, protocol)
    listener = named.get(wanted)
    is_chosen = bool(name) or protocol != DEFAULT_NAME
    if listener is None:
        known = ", ".join(named)
        if is_chosen:
            raise ConfigError(f"{setting} is {wanted}, but the broker listens on {known}: name one of these.")
        if len(listeners) > 1:
            return InterBroker("", problem=f"Brokers cannot connect to each other: set {_NAME} to one of {known}.")
        (listener,) = listeners
    try:
        return InterBroker(listener.name, _client_options(listener))
    except ConfigError as error:
        if is_chosen:
            raise
        return InterBroker(listener.name, problem=f"Brokers cannot connect to each other: {error}")


def _client_options(listener: Listener) -> dict[str, str | bool | Secret]:
    found: dict[str, str | bool | Secret] = {"security_protocol": str(listener.protocol)}
    if listener.protocol.tls:
        found |= _tls(listener.config)
    if listener.protocol.sasl:
        found |= _sasl(listener)
    return found


def _tls(config: BrokerConfig) -> dict[str, str | bool | Secret]:
    texts = {
        "ssl_cafile": "ssl.truststore.location",
        "ssl_cadata": "ssl.truststore.certificates",
        "ssl_certfile": "ssl.keystore.location",
        "ssl_certdata": "ssl.keystore.certificate.chain",
    }
    secrets = {"ssl_keydata": "ssl.keystore.key", "ssl_password": "ssl.key.password"}
    found: dict[str, str | bool | Secret] = {
        option: config.text(name) for option, name in texts.items() if config.text(name)
    }
    found |= {option: Secret(config.text(name)) for option, name in secrets.items() if config.text(name)}
    if suites := config.names("ssl.cipher.suites"):
        found["ssl_ciphers"] = ":".join(suites)
    found["ssl_check_hostname"] = config.text("ssl.endpoint.identification.algorithm") != ""
    return found


def _sasl(listener: Listener) -> dict[str, str | bool | Secret]:
    config = listener.config
    mechanism = config.text(_MECHANISM)
    if mechanism not in config.names("sasl.enabled.mechanisms"):
        raise ConfigError(
            f"{_MECHANISM} is {mechanism}, which the listener {listener.name} does not offer: add it to"
            " sasl.enabled.mechanisms, or choose another."
        )
    own = f"{mechanism.lower()}.sasl.jaas.config"
    setting = f"listener.name.{listener.name.lower()}.{own}"
    text = config.text_or_empty(own) or config.text("sasl.jaas.config")
    try:
        options = parse_jaas(text).options if text else {}
    except JaasError as error:
        raise ConfigError(f"{setting} cannot be read: {error}.") from None
    if not {"username", "password"} <= options.keys():
        raise ConfigError(
            f'{setting} needs username="..." and password="...", with which brokers connect to the listener'
            f" {listener.name}."
        )
    return {
        "sasl_mechanism": mechanism,
        "sasl_plain_username": options["username"].reveal(),
        "sasl_plain_password": options["password"],
    }
