"""What commands print: columns for people, JSON for programs."""

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any


class ReaderLeft(Exception):
    """Whoever read our output has seen enough, such as `head`: no error, but nothing more to do."""


def say(line: str) -> None:
    """A line of the answer."""
    say_bytes(line.encode(errors="surrogateescape"))


def say_bytes(line: bytes) -> None:
    """The same, as it came from a record."""
    try:
        sys.stdout.buffer.write(line + b"\n")
    except BrokenPipeError:
        raise ReaderLeft from None


def flush() -> None:
    """Let the reader see what was said so far."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise ReaderLeft from None


def remark(line: str) -> None:
    """A line for the person who runs it, that is not part of the answer."""
    sys.stderr.write(line + "\n")


def say_json(value: Any) -> None:
    """One JSON document on one line."""
    say(json.dumps(value, separators=(",", ":"), ensure_ascii=False))


def columns(header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Aligned columns; numbers to the right, absent values as a dash."""
    cells = [["-" if value is None else str(value) for value in row] for row in (header, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    numeric = [_is_numeric(column[1:]) for column in zip(*cells, strict=True)]
    for row in cells:
        padded = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        ]
        say("  ".join(padded).rstrip())


def _is_numeric(column: Sequence[str]) -> bool:
    return any(cell != "-" for cell in column) and all(cell == "-" or cell.lstrip("-").isdigit() for cell in column)


def printable(data: bytes | None) -> str | None:
    """Bytes as text where they are text; the rest escaped, so that nothing is lost to the eye."""
    return None if data is None else data.decode("utf-8", "backslashreplace")
