"""The storm leaves a gateway up for long enough that its clients find it again."""

from __future__ import annotations

from tests.chaos.behind_gateway import Uptime


def test_a_gateway_is_up_twice_as_long_as_it_was_away_before_it_is_killed_again() -> None:
    uptime = Uptime(100.0)
    uptime.ready(101.0)
    assert not uptime.is_due(102.9)
    assert uptime.is_due(103.0)
    uptime.killed(110.0)
    uptime.ready(125.0)  # a busy machine
    assert not uptime.is_due(154.9)
    assert uptime.is_due(155.0)
