"""The clock of the kit: it is scaled, frozen and advanced, and knows how old records are by it."""

import pytest

from kohort.testing import ControlledClock


class Wall:
    """Real time, which the test moves."""

    def __init__(self) -> None:
        self.now = 1_000_000

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def wall() -> Wall:
    return Wall()


def test_a_clock_that_nobody_touches_shows_real_time(wall: Wall) -> None:
    clock = ControlledClock(wall)
    wall.now += 5_000
    assert clock.now() == clock.wall() == 1_005_000
    assert clock.seconds_until(1_006_000) == 1
    assert clock.written_before(2_000) == 1_003_000
    assert clock.written_before(500_000) == 505_000, "before there was a clock"


def test_a_jump_does_not_change_real_time(wall: Wall) -> None:
    clock = ControlledClock(wall)
    clock.jump(60_000)
    wall.now += 1_000
    assert (clock.now(), clock.wall()) == (1_061_000, 1_001_000)
    assert clock.seconds_until(1_071_000) == 10


def test_a_scaled_clock_waits_less_long(wall: Wall) -> None:
    clock = ControlledClock(wall)
    clock.set_rate(10)
    wall.now += 1_000
    assert clock.now() == 1_010_000
    assert clock.seconds_until(1_020_000) == 1
    assert clock.seconds_until(1_000_000) == 0
    clock.set_rate(1)
    wall.now += 1_000
    assert clock.now() == 1_011_000


def test_a_frozen_clock_moves_only_by_hand(wall: Wall) -> None:
    clock = ControlledClock(wall)
    clock.set_rate(0)
    wall.now += 9_000
    assert clock.now() == 1_000_000
    assert clock.seconds_until(1_000_001) is None
    assert clock.seconds_until(1_000_000) == 0
    clock.jump(5)
    assert clock.now() == 1_000_005
    clock.set_rate(2)
    wall.now += 10
    assert clock.now() == 1_000_025


def test_a_record_is_as_old_as_the_clock_has_moved_since_it_was_written(wall: Wall) -> None:
    day = 86_400_000
    clock = ControlledClock(wall)
    wall.now += 1_000  # an old record has this time
    wall.now += 1_000
    clock.jump(7 * day)
    wall.now += 500  # and a new one this
    assert 1_001_000 < clock.written_before(7 * day) == 1_002_000 < 1_002_500
    wall.now += 500
    assert clock.written_before(800) == 1_002_200
    assert clock.written_before(7 * day + 2_000) == 1_001_000
    clock.set_rate(1_000)
    wall.now += 10
    assert clock.written_before(5_000) == wall.now - 5
    clock.set_rate(0)
    wall.now += 10
    assert clock.written_before(0) == wall.now - 10


def test_time_does_not_go_back(wall: Wall) -> None:
    clock = ControlledClock(wall)
    with pytest.raises(ValueError, match="Time does not go back"):
        clock.jump(-1)
    with pytest.raises(ValueError, match="between 0 and a million"):
        clock.set_rate(-0.5)
