"""Properties of Kafka's console scripts: `--property print.key=true` and the like."""

from collections.abc import Iterable
from dataclasses import dataclass

from kohort.cli.options import read_pairs
from kohort.cli.record_format import SHOWN
from kohort.cli.record_lines import HeaderSeparators, read_separator
from kohort.errors import ConfigError

_PRINTED = {f"print.{name}": name for name in SHOWN}
_OF_CONSUMER = (*_PRINTED, "print.value", "key.separator", "line.separator", "null.literal")
_OF_PRODUCER = (
    "parse.key", "key.separator", "parse.headers", "headers.delimiter", "headers.separator", "headers.key.separator",
    "null.marker",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Printed:
    """What the console consumer prints of a record."""

    shown: str | None
    """Names for --show."""
    separator: str | None
    delimiter: str | None
    null: str | None


@dataclass(frozen=True, slots=True)
class Parsed:
    """What the console producer reads from a line."""

    separator: str | None
    """Separator between key and value; None if lines have no keys."""
    headers: HeaderSeparators | None
    null: str | None


def read_printed(pairs: Iterable[str]) -> Printed:
    """Return the meaning of --property for the console consumer. Raises ConfigError."""
    given = _known(pairs, _OF_CONSUMER)
    if "print.value" in given and not _is_true(given, "print.value"):
        raise ConfigError(r"--property print.value=false is not supported: use --format, such as --format '%k\n'.")
    shown = ",".join(name for property_, name in _PRINTED.items() if _is_true(given, property_))
    return Printed(shown or None, given.get("key.separator"), given.get("line.separator"), given.get("null.literal"))


def read_parsed(pairs: Iterable[str]) -> Parsed:
    """Return the meaning of --property for the console producer. Raises ConfigError."""
    given = _known(pairs, _OF_PRODUCER)
    defaults = HeaderSeparators()
    headers = HeaderSeparators(
        _separator(given, "headers.delimiter", defaults.end),
        _separator(given, "headers.separator", defaults.between),
        _separator(given, "headers.key.separator", defaults.of_name),
    )
    return Parsed(
        given.get("key.separator", r"\t") if _is_true(given, "parse.key") else None,
        headers if _is_true(given, "parse.headers") else None,
        given.get("null.marker"),
    )


def _known(pairs: Iterable[str], names: Iterable[str]) -> dict[str, str]:
    # A separator may consist of spaces, which are no part of other values.
    given = {pair.partition("=")[0].strip(): pair.partition("=")[2] for pair in pairs}
    for name in read_pairs("--property", pairs):
        if name not in names:
            raise ConfigError(f"--property has {name!r}, but takes {', '.join(names)}.")
    return given


def _is_true(given: dict[str, str], name: str) -> bool:
    value = given.get(name, "false").strip().lower()
    if value not in ("true", "false"):
        raise ConfigError(f"--property {name} takes true or false, not {given[name]!r}.")
    return value == "true"


def _separator(given: dict[str, str], name: str, default: bytes) -> bytes:
    return read_separator(f"--property {name}", given[name]) if name in given else default
