"""Parsing of auto_offset_reset, which determines where a consumer without a position starts."""

import re
from dataclasses import dataclass

from kohort.client.offset_spec import OffsetSpec
from kohort.errors import ConfigError
from kohort.model import Millis

BY_DURATION = "by_duration:"

_DURATION = re.compile(
    r"([-+]?)P(?:([-+]?\d+)D)?(?:T(?=[-+\d])(?:([-+]?\d+)H)?(?:([-+]?\d+)M)?(?:([-+]?\d+(?:[.,]\d{0,9})?)S)?)?",
    re.IGNORECASE,
)
"""ISO 8601 duration as Java's Duration parses it: a day has 24 hours, there are no months, each
part may have a sign."""


@dataclass(frozen=True, slots=True)
class ByDuration:
    """Reset to the first record that is at most `back_ms` old, or to the end if there is none (KIP-1106)."""

    back_ms: Millis


Reset = OffsetSpec | ByDuration


def reset_policy(text: str) -> Reset | None:
    """Return the policy for a value of `auto_offset_reset`; None for "none". Raises ConfigError."""
    match text:
        case "earliest":
            return OffsetSpec.EARLIEST
        case "latest":
            return OffsetSpec.LATEST
        case "none":
            return None
    if text.startswith(BY_DURATION):
        back_ms = _milliseconds(text.removeprefix(BY_DURATION))
        if back_ms is not None and back_ms >= 0:
            return ByDuration(back_ms)
    raise ConfigError(
        f"auto_offset_reset is {text!r}, but must be earliest, latest, none, or by_duration: and how far back in"
        " ISO 8601, as in by_duration:PT1H or by_duration:P7D."
    )


def _milliseconds(text: str) -> Millis | None:
    found = _DURATION.fullmatch(text)
    if found is None or not any(found.groups()[1:]):
        return None
    days, hours, minutes = (int(text or 0) for text in found.groups()[1:4])
    seconds = float((found[5] or "0").replace(",", "."))
    total = ((days * 24 + hours) * 60 + minutes) * 60_000 + round(seconds * 1000)
    return -total if found[1] == "-" else total
