"""The shell around the mirror of all groups: its timers."""

from __future__ import annotations

import asyncio

import pytest

from kohort.gateway.group_requests import GroupRequests
from kohort.gateway.groups import Outcome, ProbeDue


async def test_a_timer_that_is_set_again_fires_once(monkeypatch: pytest.MonkeyPatch) -> None:
    groups, fired = GroupRequests(15_000), []

    def fire(timer: object, now: int) -> Outcome:
        fired.append(timer)
        return Outcome()

    monkeypatch.setattr(groups._mirror, "fire", fire)
    for later in (20, 40, 40, 60):
        groups._set(ProbeDue("g"), groups.now() + later)
    groups._set(ProbeDue("h"), groups.now() + 20)
    groups._set(ProbeDue("h"), None)
    await asyncio.sleep(0.3)
    assert fired == [ProbeDue("g")]
    assert not groups._timers
