"""OTLP metrics as bytes, written by hand as protobuf writes them."""

from __future__ import annotations

import struct
from collections.abc import Mapping


def field(number: int, wire_type: int, content: bytes) -> bytes:
    """One field; the content of a message or text gets its length in front."""
    length = varint(len(content)) if wire_type == 2 else b""
    return varint(number << 3 | wire_type) + length + content


def varint(value: int) -> bytes:
    """A varint."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))


def attribute(key: str, value: str | int | bool | float) -> bytes:
    """A KeyValue."""
    match value:
        case bool():
            content = field(2, 0, varint(int(value)))
        case int():
            content = field(3, 0, varint(value % (1 << 64)))
        case float():
            content = field(4, 1, struct.pack("<d", value))
        case str():
            content = field(1, 2, value.encode())
    return field(1, 2, key.encode()) + field(2, 2, content)


def point(value: float, **attributes: str | int | bool | float) -> bytes:
    """A NumberDataPoint; whole numbers are as_int."""
    number = field(6, 1, struct.pack("<q", value)) if isinstance(value, int) else field(4, 1, struct.pack("<d", value))
    times = field(2, 1, struct.pack("<q", 1)) + field(3, 1, struct.pack("<q", 2))
    return b"".join(field(7, 2, attribute(key, text)) for key, text in attributes.items()) + times + number


def gauge(name: str, *points: bytes) -> bytes:
    """A Metric with a Gauge."""
    return field(1, 2, name.encode()) + field(5, 2, b"".join(field(1, 2, one) for one in points))


def total(name: str, *points: bytes, delta: bool = False) -> bytes:
    """A Metric with a monotonic Sum, cumulative unless `delta`."""
    content = b"".join(field(1, 2, one) for one in points)
    return field(1, 2, name.encode()) + field(
        7, 2, content + field(2, 0, varint(1 if delta else 2)) + field(3, 0, b"\1")
    )


def metrics_data(*metrics: bytes, resource: Mapping[str, str] | None = None) -> bytes:
    """MetricsData with one ResourceMetrics, one ScopeMetrics and these metrics."""
    client = b"".join(field(1, 2, attribute(key, value)) for key, value in (resource or {}).items())
    scope = b"".join(field(2, 2, metric) for metric in metrics)
    return field(1, 2, field(1, 2, client) + field(2, 2, scope))
