"""Parser of the options that a user sets. Spark passes all of them as text and converts their names to lower case.

An unknown option is an error that suggests the most similar known one; a misspelt limit would
otherwise have no effect.
"""

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, TypeVar

from kohort.errors import ConfigError
from kohort.model import Millis

if TYPE_CHECKING:
    from kohort.client.security import SecurityOptions

T = TypeVar("T")

_SECURITY = ("kafka.security.protocol", "kafka.ssl.", "kafka.sasl.", "kafka.enable.ssl.")
"""Beginnings of the names of options for TLS and SASL, which Kohort's client checks."""

_UNITS = {"": 1, "ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


@dataclass(frozen=True, slots=True)
class OptionNames:
    """Names of the options: `known` as documented, `refused` in lower case with what to do instead."""

    known: Iterable[str]
    refused: Mapping[str, str]


@dataclass(frozen=True, slots=True, repr=False)
class Security:
    """Options for TLS and SASL as the user gave them, such as `kafka.sasl.jaas.config`.

    The repr shows none of them. The pickle, which Spark sends to its tasks, contains them.
    """

    given: tuple[tuple[str, str], ...] = ()

    def __repr__(self) -> str:
        return "Security([hidden])" if self.given else "Security()"

    def __bool__(self) -> bool:
        return bool(self.given)

    def by_name(self) -> dict[str, str]:
        """Return the options for Kohort's client."""
        return {name.removeprefix("kafka."): text for name, text in self.given}

    def options(self) -> "SecurityOptions":
        """Return the options in the form of Kohort's client. Raises ConfigError."""
        from kohort.client import ClientOptions  # most clusters of tests have no security, and need no client here

        return ClientOptions.read({"bootstrap_servers": "localhost:9092", **self.by_name()})


class GivenOptions:
    """Options that the user set, under the names as documented.

    Every method that reads an option raises ConfigError with one sentence.
    """

    def __init__(self, options: Mapping[str, str], names: OptionNames) -> None:
        by_lowered = {name.lower(): name for name in names.known}
        self._values = {_known(name, by_lowered, names.refused): str(value) for name, value in options.items()}

    @property
    def names(self) -> Iterable[str]:
        return self._values.keys()

    def text(self, name: str) -> str | None:
        return self._values.get(name)

    def flag(self, name: str, default: bool) -> bool:
        return self._read(name, default, "true or false", lambda text: {"true": True, "false": False}[text.lower()])

    def number(self, name: str, default: int) -> int:
        return self._read(name, default, "a whole number of at least 1", _positive)

    def limit(self, name: str) -> int | None:
        """Return the number, or None (no limit) if the option is not set."""
        return self.number(name, 1) if name in self._values else None

    def duration(self, name: str, default: Millis) -> Millis:
        return self._read(name, default, "a duration such as 500ms, 30s or 15m", _duration)

    def one_of(self, name: str, kind: type[T], default: T) -> T:
        assert issubclass(kind, Enum)
        choices = " or ".join(str(choice.value) for choice in kind)
        return self._read(name, default, choices, lambda text: kind(text.lower()))

    def bootstrap(self) -> tuple[tuple[str, int], ...]:
        """Return the bootstrap brokers as (host, port) pairs."""
        servers = self.text("kafka.bootstrap.servers")
        if not servers:
            raise ConfigError("Option kafka.bootstrap.servers is missing: host:port of one or more brokers.")
        return tuple(_address(server) for server in servers.split(","))

    def security(self) -> Security:
        """Return the options for TLS and SASL, checked."""
        given = tuple(sorted((name, text) for name, text in self._values.items() if name.startswith(_SECURITY)))
        security = Security(given)
        if security:
            security.options()
        return security

    def _read(self, name: str, default: T, what: str, read: Callable[[str], T]) -> T:
        text = self._values.get(name)
        if text is None:
            return default
        try:
            return read(text.strip())
        except (ValueError, KeyError):
            raise ConfigError(f"Option {name} must be {what}, not {text!r}.") from None


def _known(name: str, by_lowered: Mapping[str, str], refused: Mapping[str, str]) -> str:
    lowered = name.lower()
    if lowered.startswith(_SECURITY):
        return lowered
    if lowered in by_lowered:
        return by_lowered[lowered]
    if lowered in refused:
        raise ConfigError(f"Option {name} is not supported: {refused[lowered]}.")
    close = difflib.get_close_matches(lowered, by_lowered, n=1)
    hint = f" Did you mean {by_lowered[close[0]]}?" if close else ""
    raise ConfigError(f"Option {name} is unknown to format kohort.{hint}")


def _address(server: str) -> tuple[str, int]:
    host, _, port = server.strip().rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise ConfigError(f"kafka.bootstrap.servers must be host:port,host:port..., not {server!r}.")
    return host.strip("[]"), int(port)


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def _duration(text: str) -> Millis:
    match = re.fullmatch(r"(\d+)\s*([a-z]*)", text.lower())
    if match is None:
        raise ValueError
    return int(match[1]) * _UNITS[match[2]]
