"""Metrics as text for Prometheus: its text format 0.0.4 and OpenMetrics 1.0. Pure.

Samples are appended as lines of their family, so that thousands of them cost little. The formats
require that the samples of one family follow each other, and that no two have the same labels.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from hashlib import blake2b
from math import inf, isfinite, isnan

TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"

MOST_CHARACTERS = 256
"""Length of the longest label value. A longer one is cut, and ends with a hash of the whole."""
_KEPT = 200
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
_OPENMETRICS_TYPE = "application/openmetrics-text"


class Kind(Enum):
    """Type of a family."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Exemplar:
    """Example of an observation. Only OpenMetrics has it."""

    labels: str
    """Labels in the form of `labels`, 128 characters at most."""
    value: float
    at: float
    """Time in seconds since 1970."""

    def __str__(self) -> str:
        return f" # {{{self.labels}}} {number(self.value)} {self.at}"


@dataclass(slots=True)
class Histogram:
    """Distribution of observed values."""

    bounds: Sequence[float]
    """Upper bounds of the buckets, ascending, without infinity."""
    counts: list[int] = field(default_factory=list)
    """Number of values in each bucket; the last one has no bound."""
    sum: float = 0.0
    exemplars: dict[int, Exemplar] = field(default_factory=dict)
    """Last exemplar of each bucket."""

    def __post_init__(self) -> None:
        self.counts = self.counts or [0] * (len(self.bounds) + 1)

    def observe(self, value: float, exemplar: Exemplar | None = None) -> None:
        """Count a value in the first bucket whose bound is not below it."""
        bucket = bisect_left(self.bounds, value)
        self.counts[bucket] += 1
        self.sum += value
        if exemplar is not None:
            self.exemplars[bucket] = exemplar


class Family:
    """Samples of one name. Labels are those that `labels` returns."""

    __slots__ = ("_openmetrics", "_series", "head", "lines")

    def __init__(self, name: str, kind: Kind, help_: str, *, openmetrics: bool) -> None:
        self._openmetrics = openmetrics
        self._series = f"{name}_total" if kind is Kind.COUNTER else name
        # In OpenMetrics, the name of a counter's family does not have the suffix of its samples.
        family = name if openmetrics else self._series
        self.head = f"# HELP {family} {help_}\n# TYPE {family} {kind.value}\n"
        self.lines: list[str] = []

    def add(self, labels: str, value: float, exemplar: Exemplar | None = None) -> None:
        """Add a sample of a counter or a gauge."""
        suffix = exemplar if exemplar is not None and self._openmetrics else ""
        shown = f"{{{labels}}}" if labels else ""
        self.lines.append(f"{self._series}{shown} {number(value)}{suffix}\n")

    def add_histogram(self, labels: str, histogram: Histogram) -> None:
        """Add the buckets, the sum and the count of a histogram."""
        before = f"{labels}," if labels else ""
        total = 0
        for index, (bound, count) in enumerate(zip([*histogram.bounds, inf], histogram.counts, strict=True)):
            total += count
            exemplar = histogram.exemplars.get(index) if self._openmetrics else None
            shown = "+Inf" if bound == inf else repr(float(bound))
            suffix = "" if exemplar is None else exemplar
            self.lines.append(f'{self._series}_bucket{{{before}le="{shown}"}} {total}{suffix}\n')
        shown = f"{{{labels}}}" if labels else ""
        self.lines.append(f"{self._series}_sum{shown} {number(histogram.sum)}\n")
        self.lines.append(f"{self._series}_count{shown} {total}\n")


class Exposition:
    """All families of one scrape, in the order of their creation."""

    def __init__(self, *, openmetrics: bool) -> None:
        self.openmetrics = openmetrics
        self._families: list[Family] = []

    def counter(self, name: str, help_: str) -> Family:
        """Add a counter. `name` does not have the suffix `_total`."""
        return self._family(name, Kind.COUNTER, help_)

    def gauge(self, name: str, help_: str) -> Family:
        """Add a gauge."""
        return self._family(name, Kind.GAUGE, help_)

    def histogram(self, name: str, help_: str) -> Family:
        """Add a histogram."""
        return self._family(name, Kind.HISTOGRAM, help_)

    def _family(self, name: str, kind: Kind, help_: str) -> Family:
        self._families.append(Family(name, kind, help_, openmetrics=self.openmetrics))
        return self._families[-1]

    def body(self, *others: bytes) -> bytes:
        """Return the text. `others` are the bodies of other expositions in the same format, without their end."""
        parts = [part for family in self._families for part in (family.head, *family.lines)]
        return b"".join(("".join(parts).encode(), *others, b"# EOF\n" if self.openmetrics else b""))

    def part(self) -> bytes:
        """Return the text without its end, as `body` of another exposition takes it."""
        return self.body().removesuffix(b"# EOF\n")


def labels(**values: str | int) -> str:
    """Return the labels of a sample, escaped, without braces."""
    return ",".join(f'{name}="{escaped(str(value))}"' for name, value in values.items())


def escaped(value: str) -> str:
    """Return a label value as the formats require it. Two values stay different, also if they are changed.

    A value that is too long is cut, and one with surrogates (made of bytes that are not UTF-8) gets
    replacement characters; both then end with a hash of the whole.
    """
    if len(value) > MOST_CHARACTERS or not (value.isascii() or _is_text(value)):
        raw = value.encode("utf-8", "surrogatepass")
        value = f"{raw.decode('utf-8', 'replace')[:_KEPT]}...{blake2b(raw, digest_size=8).hexdigest()}"
    return value.translate(_ESCAPES)


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def number(value: float) -> str:
    """Return a value as the formats require it."""
    if isinstance(value, int) or isfinite(value):
        return repr(value)
    return "NaN" if isnan(value) else "+Inf" if value > 0 else "-Inf"


def wants_openmetrics(accept: str) -> bool:
    """Return whether a client prefers OpenMetrics to Prometheus' text format, by its header Accept."""
    ours, text = 0.0, 0.0
    for media_type, quality in _accepted(accept):
        if media_type == _OPENMETRICS_TYPE:
            ours = max(ours, quality)
        elif media_type in ("text/plain", "text/*"):
            text = max(text, quality)
    return ours > 0 and ours >= text


def _accepted(accept: str) -> Iterable[tuple[str, float]]:
    for each in accept.split(","):
        media_type, *parameters = (part.strip().lower() for part in each.split(";"))
        quality = 1.0
        for parameter in parameters:
            if parameter.startswith("q="):
                try:
                    quality = float(parameter[2:])
                except ValueError:
                    quality = 0.0
        yield media_type, quality
