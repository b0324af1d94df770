"""Play every transcript and compare; `pytest tests/scenarios --rewrite` writes what is heard into the files.

A transcript is comments, and commands each followed by `----`, by what was heard, and by an empty line. Several
commands before one `----` are played one after the other.
"""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest

from tests.scenarios.conversation import Conversation

FOLDER = Path(__file__).parent
SCENARIOS = sorted(path.name for path in FOLDER.glob("*.txt"))


def played(text: str) -> str:
    """The same transcript with what is heard today."""
    conversation = Conversation()
    out: list[str] = []
    commands: list[str] = []
    heard = False
    for line in text.splitlines():
        if line == "----":
            out.append(line)
            out += [said for command in commands for said in conversation.play(command)]
            commands, heard = [], True
        elif heard and line:
            continue
        else:
            heard = False
            out.append(line)
            if line and not line.startswith("#"):
                commands.append(line)
    assert not commands, f"no ---- after {commands}"
    return "\n".join(out).rstrip("\n") + "\n"


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_transcript_is_what_happens(name: str, pytestconfig: pytest.Config) -> None:
    path = FOLDER / name
    text = path.read_text(encoding="utf-8")
    now = played(text)
    if pytestconfig.getoption("--rewrite"):
        path.write_text(now, encoding="utf-8")
    elif now != text:
        pytest.fail(explained(name, text, now), pytrace=False)


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


def test_a_transcript_that_says_otherwise_fails() -> None:
    text = "heartbeat a\n----\na heartbeat: ok\n"
    assert played(text) == "heartbeat a\n----\na heartbeat: UNKNOWN_MEMBER_ID\n"


def test_a_failure_shows_its_first_difference_first_and_then_the_whole_diff() -> None:
    expected = "# a note\njoin a\n----\na: one\n\nheartbeat a\n----\na heartbeat: ok\n\nleave a\n----\na: gone\n"
    heard = expected.replace("heartbeat: ok", "heartbeat: UNKNOWN_MEMBER_ID").replace("gone", "away")
    first, diff = explained("x.txt", expected, heard).split("\n\n", 1)
    assert first.splitlines() == [
        "x.txt, line 8",
        "    heartbeat a",
        "    ----",
        "  expected: a heartbeat: ok",
        "  heard:    a heartbeat: UNKNOWN_MEMBER_ID",
    ]
    assert {"-a: gone", "+a: away", "-a heartbeat: ok"} <= set(diff.splitlines())


def test_there_are_transcripts() -> None:
    assert len(SCENARIOS) > 20
