"""Output of commands: columns for people, JSON for programs.

Names of groups, clients and topics are strangers' input. What a terminal would obey is shown as an escape; in JSON it
is an escape of JSON, so that programs read the name itself.
"""

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from kohort.printable import printable, printable_lines


class OutputClosed(Exception):
    """The reader of the output, such as `head`, closed it: no error, but nothing more to do."""


def print_line(line: str) -> None:
    """Print a line of the result."""
    print_exactly(printable(line).encode() + b"\n")


def print_text(text: str) -> None:
    """Print lines of the result."""
    print_exactly(printable_lines(text).encode() + b"\n")


def print_exactly(data: bytes) -> None:
    """Print bytes of the result."""
    try:
        sys.stdout.buffer.write(data)
    except BrokenPipeError:
        raise OutputClosed from None


def flush() -> None:
    """Flush the output, so that its reader sees it. Raises ReaderLeft."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise OutputClosed from None


def print_note(line: str) -> None:
    """Print a line for the user on stderr; it is not part of the result."""
    sys.stderr.write(printable_lines(line) + "\n")


def print_json(value: Any) -> None:
    """Print a JSON document on one line."""
    print_exactly(json_line(value))


def json_line(value: Any) -> bytes:
    """Return a JSON document as a line."""
    return json_text(json.dumps(value, separators=(",", ":"), ensure_ascii=False)) + b"\n"


def json_text(text: str) -> bytes:
    """Return JSON of one line as bytes that a terminal can show, and that mean the same."""
    if not text.isprintable():
        text = "".join(each if each.isprintable() or _is_byte(each) else json.dumps(each)[1:-1] for each in text)
    return text.encode(errors="surrogateescape")


def _is_byte(character: str) -> bool:
    """Return whether it stands for a byte that is no UTF-8: the output has the byte."""
    return "\udc80" <= character <= "\udcff"


def columns(header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print aligned columns, with numbers to the right and None as a dash."""
    cells = [["-" if value is None else printable(str(value)) for value in row] for row in (header, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    numeric = [_is_numeric(column[1:]) for column in zip(*cells, strict=True)]
    for row in cells:
        padded = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        ]
        print_line("  ".join(padded).rstrip())


def _is_numeric(column: Sequence[str]) -> bool:
    return any(cell != "-" for cell in column) and all(cell == "-" or cell.lstrip("-").isdigit() for cell in column)
