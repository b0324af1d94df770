"""How many worlds, and how much processor time, it takes until each planted bug is found.

python -m tests.sim.measure_plants --most 100 --first 0 a_broker_answers_without_a_lease ...
python -m tests.sim.measure_plants --hints    # after a change of how worlds are drawn: which hints are stale
"""

from __future__ import annotations

import argparse
import time

from pytest import MonkeyPatch

from kohort.sim import World, draw
from tests.sim import test_plants
from tests.sim.planting import PLANTS
from tests.sim.test_worlds import SHORT

assert test_plants  # it fills PLANTS


def measure(name: str, first: int, most: int) -> str:
    """A line: the worlds and the CPU seconds until that bug was found, or what was spent in vain."""
    started = time.process_time()
    with MonkeyPatch.context() as patch:
        PLANTS[name].put(patch)
        for number in range(most):
            violation = World(draw(first + number, SHORT)).run().violation
            if violation is not None:
                spent = time.process_time() - started
                return f"{name} | {number + 1} | {spent:.1f} | {violation.invariant}"
    return f"{name} | more than {most} | {time.process_time() - started:.1f} |"


def check_hint(name: str) -> str:
    """A line: the hint, the CPU seconds of its world, and whether the first violation there is one of this bug's."""
    bug, started = PLANTS[name], time.process_time()
    with MonkeyPatch.context() as patch:
        bug.put(patch)
        violation = World(draw(bug.hint, SHORT)).run().violation
    found = "nothing" if violation is None else violation.invariant
    verdict = "" if found in bug.found_by else "stale"
    return f"{name} | {bug.hint} | {time.process_time() - started:.1f} | {found} | {verdict}"


def main() -> None:
    """Measure the bugs that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(PLANTS))
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--most", type=int, default=100, help="worlds for each bug at most")
    parser.add_argument("--hints", action="store_true", help="run only the world of each bug's hint")
    given = parser.parse_args()
    for name in given.names:
        line = check_hint(name) if given.hints else measure(name, given.first, given.most)
        print(line, flush=True)


if __name__ == "__main__":
    main()
