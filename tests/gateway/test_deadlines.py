"""Things are looked at when they are due, and only then."""

import pytest

from kohort.gateway.deadlines import Deadlines


@pytest.fixture
def deadlines() -> Deadlines[str]:
    return Deadlines(1_000.5)


def test_a_thing_is_due_once_and_not_before_its_time(deadlines: Deadlines[str]) -> None:
    deadlines.set("a", 1_002.2)
    assert deadlines.due(1_002.9) == []
    assert deadlines.due(1_003.0) == ["a"]
    assert deadlines.due(1_004.0) == []
    assert not len(deadlines)


def test_things_are_due_in_the_order_of_their_times(deadlines: Deadlines[str]) -> None:
    for thing, at in (("late", 1_030.0), ("soon", 1_001.0), ("later", 1_031.0)):
        deadlines.set(thing, at)
    assert deadlines.due(1_030.5) == ["soon", "late"]


def test_another_time_takes_the_place_of_the_first(deadlines: Deadlines[str]) -> None:
    deadlines.set("a", 1_002.0)
    deadlines.set("a", 1_005.0)
    assert deadlines.due(1_004.0) == []
    assert deadlines.due(1_005.0) == ["a"]


def test_a_thing_that_is_removed_is_never_due_and_leaves_nothing_behind(deadlines: Deadlines[str]) -> None:
    deadlines.set("a", 1_002.0)
    deadlines.remove("a")
    deadlines.remove("unknown")
    assert not deadlines._things
    assert deadlines.due(2_000.0) == []


def test_a_time_that_has_passed_is_due_next(deadlines: Deadlines[str]) -> None:
    assert deadlines.due(1_010.0) == []
    deadlines.set("a", 900.0)
    assert deadlines.due(1_011.0) == ["a"]
