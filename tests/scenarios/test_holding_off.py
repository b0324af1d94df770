"""With holding off, the coordinator never consults the prompt room."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import kohort.coordinator.prompt
from tests.coordinator.held_group import HeldGroup
from tests.scenarios.test_scenarios import FOLDER, SCENARIOS, played

ROOM = str(Path(kohort.coordinator.prompt.__file__).parent)


@contextmanager
def functions_called_in_the_room() -> Iterator[set[str]]:
    """Collect the names of the room's functions that are called. Values of its types may be created."""
    called: set[str] = set()

    def profile(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(ROOM):
            called.add(frame.f_code.co_qualname)

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        yield called
    finally:
        sys.setprofile(before)


def test_no_transcript_consults_the_room_with_holding_off() -> None:
    with functions_called_in_the_room() as called:
        for name in SCENARIOS:
            played((FOLDER / name).read_text(encoding="utf-8"))
    assert called == set()


def test_a_held_heartbeat_is_the_room_s() -> None:
    with functions_called_in_the_room() as called:
        HeldGroup().at_rest()
    assert "PromptHeartbeats.answer_or_hold_classic" in called
