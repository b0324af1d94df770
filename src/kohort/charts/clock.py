"""Ticks of a time axis at round times of the local clock."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo

from kohort.model import Millis

_SECOND, _MINUTE, _HOUR, _DAY = 1000, 60_000, 3_600_000, 86_400_000
_STEPS = (
    *(1, 2, 5, 10, 20, 50, 100, 200, 500),
    *(step * _SECOND for step in (1, 2, 5, 10, 15, 30)),
    *(step * _MINUTE for step in (1, 2, 5, 10, 15, 30)),
    *(step * _HOUR for step in (1, 2, 3, 6, 12)),
    *(step * _DAY for step in (1, 2, 5, 10, 30, 100, 365)),
)


@dataclass(frozen=True, slots=True)
class ClockTick:
    """A tick and its label."""

    at: Millis
    label: str


def clock_ticks(begin: Millis, end: Millis, *, most: int = 10, local: tzinfo | None = None) -> list[ClockTick]:
    """Return at most `most` + 1 ticks from `begin` to `end`, labelled with the time of day as far as they need it.

    The first tick of each day has the date. `local` is the time zone; None means that of this host.
    """
    step = next((step for step in _STEPS if (end - begin) / step <= most), _STEPS[-1])
    # Ticks of hours are round in the local zone, which may be half an hour off; a day may have 23 hours.
    shift = int((_moment(begin, local).utcoffset() or timedelta()).total_seconds() * 1000)
    first = -(-(begin + shift) // step) * step - shift
    ticks: list[ClockTick] = []
    day = _moment(begin, local).date() if _moment(begin, local).date() == _moment(end, local).date() else None
    for at in range(first, end + 1, step):
        moment = _moment(at, local)
        date = "" if moment.date() == day else f"{moment:%Y-%m-%d}"
        day = moment.date()
        ticks.append(ClockTick(at, "\n".join(filter(None, (_time(moment, step), date)))))
    return ticks


def zone(begin: Millis, end: Millis, *, local: tzinfo | None = None) -> str:
    """Return the zone of the ticks, with the date if it is the same for all of them."""
    first, last = _moment(begin, local), _moment(end, local)
    name = first.tzname() or "local time"
    return f"{first:%Y-%m-%d}, {name}" if first.date() == last.date() else name


def _time(moment: datetime, step: int) -> str:
    if step >= _DAY:
        return ""
    if step >= _MINUTE:
        return f"{moment:%H:%M}"
    if step >= _SECOND:
        return f"{moment:%H:%M:%S}"
    digits = 1 if step >= 100 else 2 if step >= 10 else 3
    return f"{moment:%H:%M:%S}.{moment.microsecond:06d}"[: 9 + digits]


def _moment(at: Millis, local: tzinfo | None) -> datetime:
    return datetime.fromtimestamp(at / 1000, UTC).astimezone(local)
