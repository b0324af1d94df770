"""Targets of `kohort group reset-offsets` as values, and the offsets that they stand for."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import assert_never

from kohort.cli.times import read_datetime
from kohort.errors import ConfigError
from kohort.model import Millis


@dataclass(frozen=True, slots=True)
class ToEarliest:
    """The first available record."""


@dataclass(frozen=True, slots=True)
class ToLatest:
    """The end, so that only records written from now on are read."""


@dataclass(frozen=True, slots=True)
class ToCurrent:
    """The committed offset, limited to the partition's range; the end if nothing is committed."""


@dataclass(frozen=True, slots=True)
class ToOffset:
    """The same offset in every partition."""

    offset: int


@dataclass(frozen=True, slots=True)
class ToTime:
    """The first record at or after a time, else the end.

    Times before 1970 are not allowed: negative times have other meanings on the wire.
    """

    at: Millis

    def __post_init__(self) -> None:
        assert self.at >= 0


@dataclass(frozen=True, slots=True)
class ShiftBy:
    """A number of records forward, or back if negative."""

    records: int


Target = ToEarliest | ToLatest | ToCurrent | ToOffset | ToTime | ShiftBy


@dataclass(frozen=True, slots=True)
class Place:
    """Offsets of one partition. `at_time` is the first offset at or after the target's time, if any."""

    committed: int | None
    start: int
    end: int
    at_time: int | None = None


def new_offset(target: Target, place: Place) -> int | None:
    """Return the target's offset, limited to the range that the partition holds.

    Return None if the target is a shift and the group has committed nothing there.
    """
    match target:
        case ToEarliest():
            return place.start
        case ToLatest():
            return place.end
        case ToTime():
            return place.end if place.at_time is None else place.at_time
        case ToOffset(offset):
            wanted = offset
        case ToCurrent():
            wanted = place.end if place.committed is None else place.committed
        case ShiftBy(records):
            if place.committed is None:
                return None
            wanted = place.committed + records
        case _:
            assert_never(target)
    return min(max(wanted, place.start), place.end)


def read_target(given: Mapping[str, object], now: Millis) -> Target:
    """Return the target from the options by name.

    Raises ConfigError unless exactly one option is given (not None, not False).
    """
    named = {name: value for name, value in given.items() if value is not None and value is not False}
    if len(named) != 1:
        what = " and ".join(named) + " contradict each other" if named else "No target given"
        raise ConfigError(f"{what}: give one of {', '.join(given)}.")
    [(name, value)] = named.items()
    match name, value:
        case "--to-earliest", _:
            return ToEarliest()
        case "--to-latest", _:
            return ToLatest()
        case "--to-current", _:
            return ToCurrent()
        case "--to-offset", int(offset):
            return ToOffset(offset)
        case "--shift-by", int(records):
            return ShiftBy(records)
        case "--to-datetime", str(text):
            return ToTime(max(0, read_datetime("--to-datetime", text)))
        case "--by-duration", str(text):
            return ToTime(max(0, now - _read_duration(text)))
        case _:
            raise AssertionError(f"{name} with {value!r}")


_DURATION = re.compile(
    r"P(?=[0-9T])(?:([0-9]{1,6})D)?(?:T(?=[0-9])(?:([0-9]{1,8})H)?(?:([0-9]{1,9})M)?(?:([0-9]{1,11}(?:\.[0-9]{1,9})?)S)?)?"
)


def _read_duration(text: str) -> Millis:
    match = _DURATION.fullmatch(text.upper())
    if match is None:
        raise ConfigError(f"--by-duration takes an ISO 8601 duration such as P1DT2H30M, not {text!r}.")
    days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return round(timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds) / timedelta(milliseconds=1))
