"""How a transcript that does not hold is shown."""

from __future__ import annotations

import difflib


def explained(name: str, expected: str, heard: str) -> str:
    """Return the first difference of two transcripts with the commands before it, and then the whole diff."""
    left, right = expected.splitlines(), heard.splitlines()
    number = next(
        (n for n, pair in enumerate(zip(left, right, strict=False)) if pair[0] != pair[1]), min(len(left), len(right))
    )
    begin = next((n + 1 for n in range(number - 1, -1, -1) if not left[n]), 0)
    diff = difflib.unified_diff(left, right, f"{name}: expected", f"{name}: heard", lineterm="", n=3)
    return "\n".join(
        [
            f"{name}, line {number + 1}",
            *(f"    {line}" for line in left[begin:number]),
            f"  expected: {_line(left, number)}",
            f"  heard:    {_line(right, number)}",
            "",
            *diff,
        ]
    )


def _line(lines: list[str], number: int) -> str:
    return lines[number] if number < len(lines) else "(the transcript ends here)"
