"""Points in time in options."""

from datetime import UTC, datetime

from kohort.errors import ConfigError
from kohort.model import Millis


def read_time(option: str, text: str) -> Millis:
    """Parse milliseconds since 1970, or ISO 8601 in UTC unless the text specifies a zone. Raises ConfigError."""
    if text.isascii() and text.isdecimal() and len(text) != 8:  # 20261121 is a date
        return int(text)
    return read_datetime(option, text)


def read_datetime(option: str, text: str) -> Millis:
    """Parse a time as Kafka's tools do: ISO 8601, in UTC unless the text specifies a zone. Raises ConfigError."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(f"{option} takes a time such as 2026-11-21T09:30:00.000, not {text!r}.") from None
    at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return round(at.timestamp() * 1000)
