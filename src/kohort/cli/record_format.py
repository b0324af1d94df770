"""Records as text: values alone, values with what surrounds them, or by a format string of kcat."""

import re
import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kohort.errors import ConfigError

if TYPE_CHECKING:
    from kohort.client import ConsumerRecord

Formatter = Callable[[Sequence["ConsumerRecord"]], bytes]
"""Returns the text of records, delimiters included."""
ValuesFormatter = Callable[[Sequence[bytes | None]], bytes]
"""Returns the text of values, delimiters included."""

SHOWN = ("timestamp", "partition", "offset", "headers", "key")
_TOKEN = re.compile(rb"%(.?)|\\(x[0-9a-fA-F]{1,2}|[0-9]{1,3}|.)", re.DOTALL)
_TIMESTAMPS = (b"CreateTime", b"LogAppendTime")
_ESCAPES = {b"n": b"\n", b"r": b"\r", b"t": b"\t"}


def values_format(delimiter: bytes, null: bytes) -> ValuesFormatter:
    """Return a formatter that prints values, each followed by the delimiter."""

    def text(values: Sequence[bytes | None]) -> bytes:
        try:
            joined = delimiter.join(values)  # type: ignore[arg-type]  # fails if one is None
        except TypeError:
            joined = delimiter.join([null if value is None else value for value in values])
        return joined + delimiter

    return text


def keys_format(separator: bytes, delimiter: bytes, null: bytes) -> Formatter:
    """Return a formatter that prints keys and values."""

    def text(records: Sequence["ConsumerRecord"]) -> bytes:
        parts: list[bytes] = []
        for record in records:
            key, value = record.key, record.value
            parts += (null if key is None else key, separator, null if value is None else value, delimiter)
        return b"".join(parts)

    return text


def shown_format(shown: Sequence[str], separator: bytes, delimiter: bytes, null: bytes) -> Formatter:
    """Return a formatter that prints these parts and the value, as Kafka's console consumer does.

    Raises ConfigError for a part that records do not have.
    """
    for name in shown:
        if name not in SHOWN:
            raise ConfigError(f"--show takes {', '.join(SHOWN)}, not {name!r}.")
    parts: dict[str, Callable[[ConsumerRecord], bytes]] = {
        "timestamp": lambda record: b"%b:%d" % (_TIMESTAMPS[record.timestamp_type], record.timestamp),
        "partition": lambda record: b"Partition:%d" % record.partition,
        "offset": lambda record: b"Offset:%d" % record.offset,
        "headers": lambda record: _headers(record, b":", null) or b"NO_HEADERS",
        "key": lambda record: null if record.key is None else record.key,
    }
    wanted = [parts[name] for name in SHOWN if name in shown]

    def line(record: "ConsumerRecord") -> bytes:
        value = null if record.value is None else record.value
        return separator.join([*(part(record) for part in wanted), value]) + delimiter

    return lambda records: b"".join(map(line, records))


def string_format(template: str, null: bytes) -> Formatter:
    r"""Return a formatter for kcat's -f, such as '%t [%p] at %o: %k: %s\n'. Raises ConfigError."""
    tokens: dict[bytes, Callable[[ConsumerRecord], bytes]] = {
        b"s": lambda record: null if record.value is None else record.value,
        b"S": lambda record: b"%d" % _size(record.value),
        b"R": lambda record: struct.pack(">i", _size(record.value)),
        b"k": lambda record: null if record.key is None else record.key,
        b"K": lambda record: b"%d" % _size(record.key),
        b"T": lambda record: b"%d" % record.timestamp,
        b"h": lambda record: _headers(record, b"=", b"NULL"),
        b"t": lambda record: record.topic.encode(),
        b"p": lambda record: b"%d" % record.partition,
        b"o": lambda record: b"%d" % record.offset,
    }
    parts: list[Callable[[ConsumerRecord], bytes]] = []
    fixed = bytearray()
    at = 0
    text = template.encode(errors="surrogateescape")

    def end_fixed() -> None:
        if fixed:
            parts.append(lambda record, same=bytes(fixed): same)  # type: ignore[misc]
            fixed.clear()

    for found in _TOKEN.finditer(text):
        fixed += text[at : found.start()]
        at = found.end()
        token, escape = found.groups()
        if escape is not None:
            fixed += _escaped(escape)
        elif token == b"%":
            fixed += token
        elif token in tokens:
            end_fixed()
            parts.append(tokens[token])
        else:
            known = ", ".join(f"%{name.decode()}" for name in tokens)
            raise ConfigError(f"--format has {found[0].decode(errors='replace')!r}, but takes {known} and %%.")
    fixed += text[at:]
    end_fixed()
    return lambda records: b"".join([part(record) for record in records for part in parts])


def _escaped(escape: bytes) -> bytes:
    if escape[:1] == b"x" and len(escape) > 1:
        return bytes([int(escape[1:], 16)])
    if escape.isdigit():
        return bytes([int(escape) & 255])
    return _ESCAPES.get(escape, escape)


def _size(content: bytes | None) -> int:
    return -1 if content is None else len(content)


def _headers(record: "ConsumerRecord", equals: bytes, null: bytes) -> bytes:
    return b",".join(
        name.encode() + equals + (null if content is None else content) for name, content in record.headers
    )
