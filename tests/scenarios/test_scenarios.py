"""Play every transcript and compare; `pytest tests/scenarios --rewrite` writes what is heard into the files.

A transcript is comments, and commands each followed by `----`, by what was heard, and by an empty line. Several
commands before one `----` are played one after the other.
"""

from __future__ import annotations

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
    else:
        assert now == text


def test_a_transcript_that_says_otherwise_fails() -> None:
    text = "heartbeat a\n----\na heartbeat: ok\n"
    assert played(text) == "heartbeat a\n----\na heartbeat: UNKNOWN_MEMBER_ID\n"


def test_there_are_transcripts() -> None:
    assert len(SCENARIOS) > 20
