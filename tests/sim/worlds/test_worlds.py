"""Worlds from seeds: every invariant holds in each, and the same seed is the same world."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial

import pytest

from kohort.sim import World, draw, dump, load
from kohort.sim.environment.files import FilesDisk
from kohort.sim.environment.hang_limit import cpu_limit
from kohort.sim.world import world
from tests.log.logs import open_below

SHORT = 60.0
"""Seconds of steps in the suite's worlds; `make sim` runs longer ones."""
DAILY, SEEDS = 10, 120
"""Each kind of log and of group is in some of the daily worlds; a world takes half a second."""
TOGETHER = 10
_MORE = pytest.mark.long("more worlds of each kind")


@pytest.mark.parametrize(
    "first", [pytest.param(first, marks=() if first < DAILY else _MORE) for first in range(0, SEEDS, TOGETHER)]
)
def test_every_invariant_holds_in_the_world_of_a_seed(first: int) -> None:
    for seed in range(first, first + TOGETHER):
        outcome = World(draw(seed, SHORT)).run()
        assert outcome.violation is None, f"kohort sim --seed {seed}: {outcome.violation}"


def test_the_same_seed_is_the_same_world_to_the_byte() -> None:
    one, other = (World(draw(5, SHORT)).run() for _ in range(2))
    assert one.deliveries > 500
    assert (one.trace, one.events, one.deliveries) == (other.trace, other.events, other.deliveries)
    assert World(draw(6, SHORT)).run().trace != one.trace


@pytest.mark.parametrize("seed", [2, 4])
def test_a_world_that_has_ended_has_no_file_open(seed: int) -> None:
    world = World(draw(seed, 20.0))
    assert world.run().violation is None
    disk = world.brokers.disk
    assert isinstance(disk, FilesDisk)
    assert open_below(disk.path) == 0


def test_a_world_that_hangs_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def look_for_ever(self: World) -> None:
        while True:
            pass

    monkeypatch.setattr(world, "cpu_limit", partial(cpu_limit, 1.0))
    monkeypatch.setattr(World, "_supervise", look_for_ever)
    violation = str(World(draw(5, SHORT)).run().violation)
    assert "no end within 1 s" in violation and "look_for_ever" in violation


@pytest.mark.parametrize(
    "worlds",
    ["(3, 10), (107, 10)", pytest.param("(3, 60), (8, 60), (18, 60)", marks=pytest.mark.long("runs nine worlds"))],
)
def test_the_world_does_not_depend_on_how_strings_are_hashed(worlds: str) -> None:
    script = f"from kohort.sim import World, draw; print(*(World(draw(*one)).run().trace for one in ({worlds})))"
    traces = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("0", "1", "77")
    }
    assert len(traces) == 1


def test_a_plan_that_is_written_down_is_the_same_plan() -> None:
    plan = draw(7, SHORT)
    again = load("# a story\n" + dump(plan))
    assert dump(again) == dump(plan)
    assert World(again).run().trace == World(plan).run().trace


def test_a_line_that_is_not_a_plan_is_rejected_with_its_number() -> None:
    with pytest.raises(ValueError, match="line 2 is not understood: 'at noon kill'"):
        load("seed 1\nat noon kill\n")
