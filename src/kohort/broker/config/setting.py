"""One configuration key of the broker, a topic or a group: its values and its meaning."""

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass

from kohort.errors import ConfigError

Value = int | bool | float | str

ABSENT = "absent"
"""Value of `Setting.kafka` for a setting that only this broker has."""

INT32 = 2**31 - 1
INT64 = 2**63 - 1

# Python's int() and float() accept more than other programs that read the same file: 1_000, and other scripts' digits.
_WHOLE_NUMBER = re.compile(r" *[+-]?[0-9]{1,20} *")
_FRACTION = re.compile(r" *[+-]?([0-9]{1,20}(\.[0-9]{0,20})?|\.[0-9]{1,20})([eE][+-]?[0-9]{1,3})? *")


def split_list(text: str) -> list[str]:
    """Split a list as Kafka does: blank text has no parts, and a comma has a part on each side."""
    return [part.strip() for part in text.split(",")] if text.strip() else []


@dataclass(frozen=True, slots=True)
class Setting:
    """One configuration key: its default, bounds and description. docs/configuration.md is made from it."""

    default: Value
    doc: str
    """What it sets, with its unit, in one or more sentences."""
    low: int | None = None
    high: int | None = None
    choices: frozenset[str] = frozenset()
    """Allowed values; of a list, the allowed parts. A list may be empty."""
    is_list: bool = False
    """Whether the value is a list with commas: parts can be added and removed (KIP-339)."""
    live: bool = False
    """Whether an admin may change it while the broker runs (KIP-226)."""
    kafka: str = ""
    """How Apache Kafka differs, such as `default 2147483647`."""
    sensitive: bool = False
    """Whether the value is a secret, which no answer and no log contains."""
    no_effect: str = ""
    """Why it has no effect here, such as `the broker has no thread pools`."""

    @property
    def kind(self) -> str:
        """Kafka's name of its type: boolean, int, long, double, list or string."""
        match self.default:
            case bool():
                return "boolean"
            case int():
                return "long" if self.high is None or self.high > INT32 else "int"
            case float():
                return "double"
            case _:
                return "list" if self.is_list else "string"

    @property
    def default_text(self) -> str:
        """Default, as it is written in a settings file."""
        return as_text(self.default)

    @property
    def documentation(self) -> str:
        """Description for DescribeConfigs."""
        parts = [self.doc]
        if self.no_effect:
            parts.append(f"No effect: {self.no_effect}.")
        if self.kafka:
            parts.append(f"In Apache Kafka: {self.kafka}.")
        return " ".join(parts)

    def parse(self, name: str, text: str) -> Value:
        """Return the value that `text` means. Raise ConfigError for a wrong type or a value out of range."""
        match self.default:
            case bool():
                if text.lower() not in ("true", "false"):
                    raise ConfigError(f"{name} must be true or false, not {text!r}.")
                if self.choices and text.lower() not in self.choices:
                    raise ConfigError(f"{name} must be {' or '.join(self.choices)}: {self.no_effect}.")
                return text.lower() == "true"
            case int():
                if not _WHOLE_NUMBER.fullmatch(text):
                    raise ConfigError(f"{name} must be a whole number, not {text[:40]!r}.")
                return self._within(name, int(text))
            case float():
                if not _FRACTION.fullmatch(text):
                    raise ConfigError(f"{name} must be a number, not {text[:40]!r}.")
                return self._within(name, float(text))
            case _:
                parts = split_list(text) if self.is_list else [text]
                if self.choices and not self.choices.issuperset(parts):
                    known = ", ".join(sorted(choice or "empty" for choice in self.choices))
                    kind = "a list of" if self.is_list else "one of"
                    raise ConfigError(f"{name} must be {kind} {known}, not {text[:80]!r}.")
                return text

    def _within(self, name: str, number: int | float) -> int | float:
        if (self.low is not None and number < self.low) or (self.high is not None and number > self.high):
            bounds = f"at least {self.low}" if self.high is None else f"between {self.low} and {self.high}"
            raise ConfigError(f"{name} must be {bounds}, not {number}.")
        return number


def as_text(value: Value) -> str:
    """Return a value as it is written in a settings file and on the wire."""
    if isinstance(value, float):
        return str(value).replace("e+", "E")  # as Java writes it
    return str(value).lower() if isinstance(value, bool) else str(value)


def known_setting(name: str, settings: Mapping[str, Setting]) -> Setting:
    """Return the setting of that name. Raise ConfigError, which names the nearest one, if there is none."""
    setting = settings.get(name)
    if setting is None:
        near = difflib.get_close_matches(name, settings, n=1)
        hint = f"; did you mean {near[0]}?" if near else "; docs/configuration.md lists all settings."
        raise ConfigError(f"Unknown setting {name}{hint}")
    return setting
