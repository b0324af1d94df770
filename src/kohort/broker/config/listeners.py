"""The addresses on which the broker listens, each with its security protocol and the address that clients receive.

As in Apache Kafka, a listener is NAME://HOST:PORT in `listeners`, `listener.security.protocol.map` says how the name is
secured, and `advertised.listeners` has the address of the same name that clients connect to.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from kohort.broker.config.advertised_listeners import (
    address_text,
    check_listener,
    is_wildcard,
    split_address,
)
from kohort.broker.config.broker_config import BrokerConfig
from kohort.errors import ConfigError

log = logging.getLogger("kohort.broker")


class SecurityProtocol(StrEnum):
    """How a listener protects and authenticates its connections."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def tls(self) -> bool:
        """Whether connections are encrypted."""
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def sasl(self) -> bool:
        """Whether clients authenticate with SASL."""
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


class Address(NamedTuple):
    """A host and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return address_text(self.host, self.port)


@dataclass(frozen=True, slots=True)
class Listener:
    """One listener. Port 0 takes a free port, and an empty host is all interfaces."""

    name: str
    protocol: SecurityProtocol
    host: str
    port: int
    advertised: Address | None
    """Address that clients receive; None for the one that the broker listens on."""
    config: BrokerConfig
    """Settings of the broker, with those of this listener."""


DEFAULT_NAME = "PLAINTEXT"


def read_listeners(config: BrokerConfig, host: str, port: int) -> list[Listener]:
    """Return the broker's listeners; without `listeners`, one on `host` and `port`. Raise ConfigError."""
    protocols = _protocols(config)
    entries = config.names("listeners")
    addresses = _named_addresses("listeners", entries) if entries else {DEFAULT_NAME: Address(host, port)}
    advertised = read_advertised(config.names("advertised.listeners"))
    unknown = sorted(advertised.keys() - addresses.keys())
    if unknown:
        raise ConfigError(
            f"advertised.listeners names {', '.join(unknown)}, but the broker listens on {', '.join(addresses)}: each"
            " advertised listener must be one of these."
        )
    _check_distinct(addresses)
    found = []
    for name, address in addresses.items():
        if name not in protocols:
            raise ConfigError(
                f"listener.security.protocol.map has no protocol for the listener {name}: add {name}:PLAINTEXT, or"
                " another protocol."
            )
        told = advertised.get(name)
        if told is None:
            name_in_example = None if name == DEFAULT_NAME else name
            check_listener(address.host, address.port, "--set advertised.listeners", name_in_example)
        own = _client_certificates(config, name, protocols[name])
        found.append(Listener(name, protocols[name], address.host, address.port, told, own))
    _check_names(config, {listener.name.lower() for listener in found})
    return found


def read_advertised(entries: Sequence[str]) -> dict[str, Address]:
    """Return the addresses of NAME://HOST:PORT by name, which is PLAINTEXT if it is left out. Raise ConfigError."""
    found = _named_addresses("advertised.listeners", entries)
    for entry, address in zip(entries, found.values(), strict=True):
        if not address.host:
            raise ConfigError(f"advertised.listeners takes NAME://HOST:PORT, not {entry!r}: clients need a host.")
        if is_wildcard(address.host):
            raise ConfigError(f"advertised.listeners cannot be {entry}: no client can connect to {address.host}.")
    return found


def _client_certificates(config: BrokerConfig, name: str, protocol: SecurityProtocol) -> BrokerConfig:
    """Return the settings of a listener. As in Kafka, one with SASL has its own ssl.client.auth, or none (KIP-684)."""
    own = config.of_listener(name)
    setting = "ssl.client.auth"
    if protocol is not SecurityProtocol.SASL_SSL or setting in config.own.get(name.lower(), {}):
        return own
    if own.text(setting) != "none":
        log.warning(
            "%s=%s has no effect on the listener %s, whose clients authenticate with SASL: set listener.name.%s.%s",
            *(setting, own.text(setting), name, name.lower(), setting),
        )
    return replace(own, values={**own.values, setting: "none"})


def _protocols(config: BrokerConfig) -> Mapping[str, SecurityProtocol]:
    found = {}
    for entry in config.names("listener.security.protocol.map"):
        name, _, protocol = entry.partition(":")
        if not name or protocol.upper() not in SecurityProtocol.__members__:
            known = ", ".join(SecurityProtocol)
            raise ConfigError(f"listener.security.protocol.map takes NAME:PROTOCOL with one of {known}, not {entry!r}.")
        found[name.upper()] = SecurityProtocol(protocol.upper())
    return found


def _named_addresses(setting: str, entries: Sequence[str]) -> dict[str, Address]:
    found: dict[str, Address] = {}
    for entry in entries:
        name, separator, rest = entry.rpartition("://")
        split = split_address(rest)
        if split is None or (separator and not name):
            raise ConfigError(f"{setting} takes NAME://HOST:PORT, not {entry!r}.")
        name = name.upper() or DEFAULT_NAME
        if name in found:
            raise ConfigError(f"{setting} names {name} twice: each listener needs its own name.")
        host, port = split
        found[name] = Address(host, int(port))
    return found


def _check_distinct(addresses: Mapping[str, Address]) -> None:
    taken: dict[Address, str] = {}
    for name, address in addresses.items():
        other = taken.setdefault(address, name) if address.port else name
        if other != name:
            raise ConfigError(f"The listeners {other} and {name} have one address, {address}: choose another port.")


def _check_names(config: BrokerConfig, names: set[str]) -> None:
    for listener in config.listener_names:
        if listener not in names:
            raise ConfigError(
                f"There are settings for listener.name.{listener}, but the listeners are {', '.join(sorted(names))}."
            )
