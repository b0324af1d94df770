"""The exhaustive model, to a depth that a test can afford; `kohort sim --model` explores eight events."""

from __future__ import annotations

import pytest

from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.consumer.partitions import NOTHING
from kohort.sim import Violation
from kohort.sim.model.model import Model, explore

DEPTH = 4


@pytest.mark.parametrize(("protocol", "at_least"), [("classic", 100), ("consumer", 150)])
def test_every_order_of_events_holds_every_invariant(protocol: str, at_least: int) -> None:
    explored = list(explore(protocol, DEPTH))[-1]
    assert explored.states > at_least
    assert explored.events > explored.states


def test_states_are_equal_whatever_ids_were_drawn_on_the_way() -> None:
    straight, with_a_loss, other = Model("classic"), Model("classic"), Model("classic")
    straight.play(("step", 0))
    for event in (("lost", 0), ("step", 0)):
        with_a_loss.play(event)
    other.play(("step", 1))
    assert straight.members[0] != with_a_loss.members[0], "the ids differ"
    assert straight.state() == with_a_loss.state() != other.state()


def test_a_partition_that_is_given_away_too_early_is_found_for_certain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ConsumerGroup, "taken", lambda self, wanted: NOTHING)
    with pytest.raises(Violation, match=r"^S1:"):
        list(explore("consumer", DEPTH))
