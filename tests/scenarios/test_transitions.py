"""The transcripts together take a classic group from every state to every other that may follow."""

from __future__ import annotations

from itertools import chain

import pytest

from kohort.coordinator.classic.group import ClassicGroup
from kohort.coordinator.classic.states import PREDECESSORS, GroupState
from tests.scenarios.test_scenarios import FOLDER, SCENARIOS, played


def test_every_transition_has_a_transcript(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: set[tuple[GroupState, GroupState]] = set()
    real = ClassicGroup.transition_to

    def noted(group: ClassicGroup, state: GroupState) -> None:
        seen.add((group.state, state))
        real(group, state)

    monkeypatch.setattr(ClassicGroup, "transition_to", noted)
    for name in SCENARIOS:
        played((FOLDER / name).read_text(encoding="utf-8"))
    allowed = set(
        chain.from_iterable(((predecessor, state) for predecessor in before) for state, before in PREDECESSORS.items())
    )
    assert seen == allowed
