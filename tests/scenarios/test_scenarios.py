"""Play every transcript and compare; `pytest tests/scenarios --rewrite` writes what is heard into the files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenarios.conversation import Conversation
from tests.scenarios.explained import explained
from tests.scenarios.transcripts import played_by

FOLDER = Path(__file__).parent
SCENARIOS = sorted(
    str(path.relative_to(FOLDER)) for path in FOLDER.glob("*/*.txt") if path.parent.name != "transactions"
)
"""Those of groups; `test_transactions` plays the others."""


def played(text: str) -> str:
    """Return the same transcript with the present output."""
    return played_by(Conversation().play, text)


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_transcript_is_what_happens(name: str, pytestconfig: pytest.Config) -> None:
    path = FOLDER / name
    text = path.read_text(encoding="utf-8")
    now = played(text)
    if pytestconfig.getoption("--rewrite"):
        path.write_text(now, encoding="utf-8")
    elif now != text:
        pytest.fail(explained(name, text, now), pytrace=False)


def test_a_transcript_that_differs_fails() -> None:
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


def test_transcripts_exist() -> None:
    assert len(SCENARIOS) > 20
