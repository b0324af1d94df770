from __future__ import annotations

import pytest

from kohort.coordinator import GroupState
from kohort.coordinator.classic.group import ClassicGroup
from kohort.coordinator.classic.states import PREDECESSORS

# ClassicGroupState.validPreviousStates of Apache Kafka.
ALLOWED = {
    ("PreparingRebalance", "Empty"),
    ("Empty", "PreparingRebalance"),
    ("CompletingRebalance", "PreparingRebalance"),
    ("Stable", "PreparingRebalance"),
    ("PreparingRebalance", "CompletingRebalance"),
    ("CompletingRebalance", "Stable"),
    ("Empty", "Dead"),
    ("PreparingRebalance", "Dead"),
    ("CompletingRebalance", "Dead"),
    ("Stable", "Dead"),
}


@pytest.mark.parametrize("before", GroupState)
@pytest.mark.parametrize("after", GroupState)
def test_a_group_makes_only_transitions_of_the_table(before: GroupState, after: GroupState) -> None:
    group = ClassicGroup("g")
    group.state = before
    if (before.value, after.value) in ALLOWED:
        group.transition_to(after)
        assert group.state is after
    else:
        with pytest.raises(AssertionError):
            group.transition_to(after)


def test_every_state_has_its_row() -> None:
    assert set(PREDECESSORS) == set(GroupState)
