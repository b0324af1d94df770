"""Read OTLP metrics (protobuf `MetricsData` of opentelemetry-proto) as numbers by name. Pure.

Any client may have sent the bytes. The reader follows only the fields that it needs, keeps at most
`MAX_POINTS` numbers and reads at most `MAX_FIELDS` fields, so its time and memory are bounded. It
replaces a dependency on protobuf and opentelemetry-proto.
"""

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from math import isfinite

from kohort.errors import KohortError

MAX_POINTS = 2_000
"""Maximum number of data points that are kept. A Java consumer of 100 partitions pushes about 700."""
MAX_FIELDS = 100_000
"""Maximum number of protobuf fields. A Java consumer's data point has about ten."""
MAX_NAME = 300
"""Maximum length of a name with its attributes, in characters; longer ones are left out."""
_MAX_ATTRIBUTES = 16

_VARINT, _BYTES = 0, 2
_double, _int64 = struct.Struct("<d").unpack_from, struct.Struct("<q").unpack_from


class MalformedMetrics(KohortError):
    """The bytes are not OTLP metrics."""


class TooManyMetrics(KohortError):
    """The metrics have more than `MAX_FIELDS` fields."""


class Kind(Enum):
    """What a number says."""

    GAUGE = "gauge"
    """A present value."""
    TOTAL = "total"
    """A sum since the client's start (cumulative temporality)."""
    INCREMENT = "increment"
    """A sum since the client's last push (delta temporality)."""


@dataclass(frozen=True, slots=True)
class Point:
    """One number of a metric."""

    name: str
    """Name of the metric, with the attributes of this number as `name{key=value,...}` if it has any."""
    kind: Kind
    value: float


@dataclass(slots=True)
class Metrics:
    """Metrics of one client."""

    resource: dict[str, str] = field(default_factory=dict)
    """Attributes of the client, such as group_id and group_member_id."""
    points: list[Point] = field(default_factory=list)
    left_out: int = 0
    """Number of metrics and data points that are not in `points`: histograms, numbers that are not finite, and those
    above the limits."""


def read_metrics(data: bytes) -> Metrics:
    """Read `MetricsData`. Raise MalformedMetrics or TooManyMetrics."""
    return _Reader(data).read()


class _Reader:
    """Reads one message. Its methods take the start and the end of a part of the message.

    A field whose wire type differs from that of its declaration is unknown, as in every reader of protobuf.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._left = MAX_FIELDS
        self._found = Metrics()

    def read(self) -> Metrics:
        for of_resource, *span in self._spans(0, len(self._data), 1):
            assert of_resource == 1
            scopes = []
            for number, start, end in self._spans(*span, 1, 2):
                if number == 1:
                    self._found.resource |= self._attributes(start, end, 1)
                else:
                    scopes.append((start, end))
            for scope in scopes:
                for _, *metric in self._spans(*scope, 2):
                    self._metric(*metric)
        return self._found

    def _metric(self, start: int, end: int) -> None:
        name, numbers, other = "", [], 0
        for number, at, to in self._spans(start, end, 1, 5, 7, 9, 10, 11):
            if number == 1:
                name = self._text(at, to)
            elif number in (5, 7):
                numbers.append((number == 7, at, to))
            else:
                other += 1
        self._found.left_out += other
        for is_sum, at, to in numbers:
            self._points(name, is_sum, at, to)

    def _points(self, name: str, is_sum: bool, start: int, end: int) -> None:
        kind, points = Kind.TOTAL if is_sum else Kind.GAUGE, []
        for number, wire_type, at, to in self._fields(start, end):
            if (number, wire_type) == (1, _BYTES):
                points.append((at, to))
            elif (number, wire_type) == (2, _VARINT) and is_sum and at == 1:
                kind = Kind.INCREMENT
        for at, to in points:
            if len(self._found.points) < MAX_POINTS:
                self._point(name, kind, at, to)
            else:
                self._found.left_out += 1

    def _point(self, name: str, kind: Kind, start: int, end: int) -> None:
        value: float | None = None
        attributes: dict[str, str] = {}
        for number, wire_type, at, to in self._fields(start, end):
            match number, wire_type:
                case 4, 1:
                    (value,) = _double(self._data, at)
                case 6, 1:
                    (integer,) = _int64(self._data, at)
                    value = float(integer)
                case 7, 2 if len(attributes) < _MAX_ATTRIBUTES:
                    attributes |= self._attribute(at, to)
        if attributes:
            name += f"{{{','.join(f'{key}={text}' for key, text in sorted(attributes.items()))}}}"
        if value is None or not isfinite(value) or not 0 < len(name) <= MAX_NAME:
            self._found.left_out += 1
        else:
            self._found.points.append(Point(name, kind, value))

    def _attributes(self, start: int, end: int, wanted: int) -> Mapping[str, str]:
        found: dict[str, str] = {}
        for _, at, to in self._spans(start, end, wanted):
            if len(found) < _MAX_ATTRIBUTES:
                found |= self._attribute(at, to)
        return found

    def _attribute(self, start: int, end: int) -> Mapping[str, str]:
        """Read a KeyValue; one without a string, a boolean or a number is left out."""
        key, value = "", None
        for number, at, to in self._spans(start, end, 1, 2):
            if number == 1:
                key = self._text(at, to)
            else:
                value = self._value(at, to)
        return {} if value is None or len(key) + len(value) > MAX_NAME else {key: value}

    def _value(self, start: int, end: int) -> str | None:
        found = None
        for number, wire_type, at, to in self._fields(start, end):
            match number, wire_type:
                case 1, 2:
                    found = self._text(at, to)
                case 2, 0:
                    found = "true" if at else "false"
                case 3, 0:
                    found = str(at - (1 << 64) if at >> 63 else at)
                case 4, 1:
                    found = str(_double(self._data, at)[0])
        return found

    def _text(self, start: int, end: int) -> str:
        try:
            return self._data[start:end].decode()
        except UnicodeDecodeError:
            raise MalformedMetrics("a text of the metrics is not UTF-8") from None

    def _spans(self, start: int, end: int, *wanted: int) -> Iterator[tuple[int, int, int]]:
        """Yield number, start and end of the wanted messages and texts."""
        for number, wire_type, at, to in self._fields(start, end):
            if wire_type == _BYTES and number in wanted:
                yield number, at, to

    def _fields(self, position: int, end: int) -> Iterator[tuple[int, int, int, int]]:
        """Yield number and wire type of each field, and its start and end; of a varint, its value and 0."""
        while position < end:
            self._left -= 1
            if self._left < 0:
                raise TooManyMetrics(f"The metrics have more than {MAX_FIELDS} fields: subscribe to fewer metrics.")
            tag, position = self._varint(position, end)
            number, wire_type = tag >> 3, tag & 7
            if not 0 < number < 1 << 29:
                raise MalformedMetrics(f"{number} is not a number of a field")
            match wire_type:
                case 0:
                    value, position = self._varint(position, end)
                    yield number, wire_type, value, 0
                    continue
                case 1:
                    start, position = position, position + 8
                case 2:
                    size, start = self._varint(position, end)
                    position = start + size
                case 5:
                    start, position = position, position + 4
                case _:
                    raise MalformedMetrics(f"wire type {wire_type} is not used by these messages")
            if position > end:
                raise MalformedMetrics("a field passes the end of its message")
            yield number, wire_type, start, position

    def _varint(self, position: int, end: int) -> tuple[int, int]:
        value = shift = 0
        for at in range(position, min(position + 10, end)):
            byte = self._data[at]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value & ((1 << 64) - 1), at + 1
            shift += 7
        raise MalformedMetrics("a number has no end")
