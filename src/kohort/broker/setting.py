"""One configuration key, of the broker, a topic or a group: what it takes, and what it means."""

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass

from kohort.errors import ConfigError

Value = int | bool | float | str

INT32 = 2**31 - 1
INT64 = 2**63 - 1

# Python takes more for a number than other programs that read the same file: 1_000, and other scripts' digits.
_WHOLE_NUMBER = re.compile(r" *[+-]?[0-9]{1,20} *")
_FRACTION = re.compile(r" *[+-]?([0-9]{1,20}(\.[0-9]{0,20})?|\.[0-9]{1,20})([eE][+-]?[0-9]{1,3})? *")


def split_list(text: str) -> list[str]:
    """The parts of a list, as Kafka cuts it: blank text has none, and a comma has a part on each side."""
    return [part.strip() for part in text.split(",")] if text.strip() else []


@dataclass(frozen=True, slots=True)
class Setting:
    """One configuration key: its default, its bounds, and what it means in a sentence."""

    default: Value
    doc: str
    low: int | None = None
    high: int | None = None
    choices: frozenset[str] = frozenset()
    """What a text may be; a list's parts, where it is one. A list may be empty."""
    is_list: bool = False
    """Whether the text is a list with commas: parts can be added and taken away (KIP-339)."""
    live: bool = False
    """Whether an admin may change it while the broker runs (KIP-226)."""

    def parse(self, name: str, text: str) -> Value:
        """The value that `text` stands for; ConfigError where it is of the wrong type or out of range."""
        match self.default:
            case bool():
                if text.lower() not in ("true", "false"):
                    raise ConfigError(f"{name} takes true or false, not {text!r}.")
                if self.choices and text.lower() not in self.choices:
                    raise ConfigError(f"{name} cannot be {text!r} here: {self.doc}.")
                return text.lower() == "true"
            case int():
                if not _WHOLE_NUMBER.fullmatch(text):
                    raise ConfigError(f"{name} takes a whole number, not {text[:40]!r}.")
                return self._within(name, int(text))
            case float():
                if not _FRACTION.fullmatch(text):
                    raise ConfigError(f"{name} takes a number, not {text[:40]!r}.")
                return self._within(name, float(text))
            case _:
                parts = split_list(text) if self.is_list else [text]
                if self.choices and not self.choices.issuperset(parts):
                    known = ", ".join(sorted(self.choices))
                    raise ConfigError(f"{name} cannot be {text!r} here; what it takes is: {known}.")
                return text

    def _within(self, name: str, number: int | float) -> int | float:
        if (self.low is not None and number < self.low) or (self.high is not None and number > self.high):
            bounds = f"at least {self.low}" if self.high is None else f"between {self.low} and {self.high}"
            raise ConfigError(f"{name} must be {bounds}, not {number}.")
        return number


def as_text(value: Value) -> str:
    """A value as it is written in a file of settings and on the wire."""
    if isinstance(value, float):
        return str(value).replace("e+", "E")  # as Java writes it
    return str(value).lower() if isinstance(value, bool) else str(value)


def known_setting(name: str, settings: Mapping[str, Setting]) -> Setting:
    """The setting of that name; ConfigError names the nearest one where there is none."""
    setting = settings.get(name)
    if setting is None:
        near = difflib.get_close_matches(name, settings, n=1)
        hint = f"; did you mean {near[0]}?" if near else "; the documentation lists the names."
        raise ConfigError(f"{name} is not a known configuration{hint}")
    return setting
