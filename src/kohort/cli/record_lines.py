"""Input of `kohort produce` as records: bytes are divided at a delimiter, and each line is parsed."""

import re
from dataclasses import dataclass
from operator import methodcaller

from kohort.cli.record_json import Header, NewRecord, UnreadableLine, from_json
from kohort.errors import ConfigError
from kohort.model import Millis

_ENDS_IN_RETURN = methodcaller("endswith", b"\r")
_ESCAPES = {"n": b"\n", "r": b"\r", "t": b"\t", "0": b"\0", "\\": b"\\"}


def read_separator(option: str, text: str) -> bytes:
    r"""Return the bytes of a separator: escapes (\t, \n, \r, \0, \\, \x1f) have their usual meaning.

    Raises ConfigError for an empty one.
    """
    if not text:
        raise ConfigError(f"{option} takes at least one character.")
    pieces = re.split(r"\\(x[0-9a-fA-F]{1,2}|[nrt0\\])", text)
    found = bytearray()
    for number, piece in enumerate(pieces):
        if number % 2 == 0:
            found += piece.encode(errors="surrogateescape")
        else:
            found += _ESCAPES[piece] if piece in _ESCAPES else bytes([int(piece[1:], 16)])
    return bytes(found)


def read_header(text: str) -> Header:
    """Parse NAME=VALUE; NAME alone has a null value. Raises ConfigError."""
    name, equals, value = text.partition("=")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise ConfigError(f"--header takes NAME=VALUE with a name in UTF-8, not {text!r}.") from None
    return name, value.encode(errors="surrogateescape") if equals else None


@dataclass(frozen=True, slots=True)
class HeaderSeparators:
    """Separators of the headers at the start of a line, with the defaults of Kafka's console producer."""

    end: bytes = b"\t"
    """Separator between the headers and the rest of the line."""
    between: bytes = b","
    of_name: bytes = b":"
    """Separator between name and value of a header."""


@dataclass(frozen=True, slots=True)
class LineFormat:
    """Meaning of a line, and what every record has unless its line says otherwise."""

    separator: bytes | None = None
    """Separator between key and value; None if lines have no keys."""
    as_json: bool = False
    key: bytes | None = None
    headers: tuple[Header, ...] = ()
    """Headers that follow those of the line."""
    timestamp: Millis | None = None
    partition: int | None = None
    """Partition of all records; -1 leaves the choice to the producer even if lines name one."""
    empty_as_null: bool = False
    null_marker: bytes | None = None
    header_separators: HeaderSeparators | None = None
    """Separators of the headers at the start of each line; None if lines have no headers."""

    @property
    def values_only(self) -> bool:
        """Whether a line is the value of a record, and the record has nothing else."""
        return self == LineFormat(partition=self.partition)

    @property
    def pairs_only(self) -> bool:
        """Whether a line is the key and the value of a record, and the record has nothing else."""
        return self.separator is not None and self == LineFormat(self.separator, partition=self.partition)

    def pairs(self, lines: list[bytes]) -> tuple[list[bytes], list[bytes]] | None:
        """Return the keys and the values of lines if `pairs_only`; None if a line has no separator."""
        assert self.separator is not None
        keys, found, values = zip(*map(methodcaller("partition", self.separator), lines), strict=True)
        return None if b"" in found else (list(keys), list(values))

    def record(self, line: bytes) -> NewRecord:
        """Return the record of a line. Raises UnreadableLine."""
        return self._completed(from_json(line) if self.as_json else self._split(line))

    def _split(self, line: bytes) -> NewRecord:
        if self.header_separators is not None:
            headers, rest = self._headers(line, self.header_separators)
            return self._split_key(rest)._replace(headers=headers)
        return self._split_key(line)

    def _headers(self, line: bytes, by: HeaderSeparators) -> tuple[tuple[Header, ...], bytes]:
        text, found, rest = line.partition(by.end)
        if not found:
            raise UnreadableLine(f"has no {by.end.decode(errors='replace')!r} after its headers")
        headers: list[Header] = []
        for header in text.split(by.between) if text and text != self.null_marker else ():
            name, found, value = header.partition(by.of_name)
            if not found:
                raise UnreadableLine(f"has a header without {by.of_name.decode(errors='replace')!r}")
            headers.append((name.decode(errors="replace"), self._content(value)))
        return tuple(headers), rest

    def _split_key(self, line: bytes) -> NewRecord:
        if self.separator is None:
            return NewRecord(self._content(line))
        key, found, value = line.partition(self.separator)
        if found:
            return NewRecord(self._content(value), self._content(key))
        if self.key is not None:
            return NewRecord(self._content(line))
        separator = self.separator.decode(errors="replace")
        raise UnreadableLine(f"has no {separator!r} between key and value")

    def _content(self, data: bytes) -> bytes | None:
        is_null = data == self.null_marker or (self.empty_as_null and not data)
        return None if is_null else data

    def _completed(self, record: NewRecord) -> NewRecord:
        partition = record.partition if self.partition is None else self.partition
        return NewRecord(
            record.value,
            self.key if record.key is None else record.key,
            (*record.headers, *self.headers),
            self.timestamp if record.timestamp is None else record.timestamp,
            None if partition == -1 else partition,
        )


class LineSplitter:
    """Divides bytes that arrive in chunks at a delimiter.

    The default delimiter is the end of a line, also that of Windows.
    """

    def __init__(self, delimiter: bytes | None = None) -> None:
        self._delimiter = delimiter or b"\n"
        self._windows = delimiter is None
        self._rest = bytearray()

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that this chunk completes."""
        # The bytes before the chunk have no delimiter, but one can begin there.
        start = max(0, len(self._rest) - len(self._delimiter) + 1)
        self._rest += chunk
        if self._rest.find(self._delimiter, start) < 0:
            return []
        *lines, rest = bytes(self._rest).split(self._delimiter)
        self._rest = bytearray(rest)
        return self._stripped(lines)

    def finish(self) -> list[bytes]:
        """Return the last line if no delimiter follows it."""
        rest, self._rest = bytes(self._rest), bytearray()
        return self._stripped([rest]) if rest else []

    def _stripped(self, lines: list[bytes]) -> list[bytes]:
        if self._windows and any(map(_ENDS_IN_RETURN, lines)):
            return [line.removesuffix(b"\r") for line in lines]
        return lines
