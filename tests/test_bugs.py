"""docs/bugs.md names what holds each known bug; here, that it exists."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
ROW = re.compile(r"^\| (\d+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
REFERENCE = re.compile(r"`(tests/[^`]+)`")


def rows() -> dict[int, str]:
    """By number, what holds the bug."""
    text = (ROOT / "docs" / "bugs.md").read_text(encoding="utf-8")
    return {int(number): held for number, _, _, held in ROW.findall(text)}


def test_every_known_bug_has_its_row() -> None:
    assert list(rows()) == list(range(1, 78))


def test_every_row_names_existing_tests_or_a_reason() -> None:
    for number, held in rows().items():
        references = REFERENCE.findall(held)
        assert references or "Does not apply: " in held, f"bug {number} is held by nothing"
        for reference in references:
            path, _, name = reference.partition("::")
            file = ROOT / path
            assert file.is_file(), f"bug {number}: {path} is gone"
            text = file.read_text(encoding="utf-8")
            found = not name or re.search(rf"^(async )?def {name}\(", text, re.MULTILINE)
            assert found, f"bug {number}: {reference} is gone"
