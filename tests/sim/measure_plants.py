"""How many worlds, and how much processor time, it takes until each planted bug is found.

python -m tests.sim.measure_plants --most 100 --runs 3 --first 0 a_broker_answers_without_a_lease ...
python -m tests.sim.measure_plants --choose variants ...    # by kohort.sim.runs.exploring, instead of seed after seed
python -m tests.sim.measure_plants --choose transactions ...    # small worlds with transactions, seed after seed
python -m tests.sim.measure_plants --hints    # after a change of how worlds are drawn: which hints are stale
"""

from __future__ import annotations

import argparse
import time

from pytest import MonkeyPatch

from kohort.sim import World
from kohort.sim.runs.exploring import TRANSACTIONS, Exploring, plan_of
from tests.sim.planting import PLANTS
from tests.sim.worlds import test_plants
from tests.sim.worlds.test_worlds import SHORT

assert test_plants  # it fills PLANTS

_APART = 1_000
"""How far apart the first seeds of runs are."""


_VARIANTS = {"seeds": None, "transactions": None, "kinds": 0.0, "variants": 0.5}
"""How worlds are chosen: how many of them are variants; None for seed after seed."""


def measure(name: str, first: int, most: int, runs: int, choose: str) -> str:
    """A line: of how many runs found that bug, and the worlds, thousands of events and CPU seconds for each find.

    A run ends with its first violation, or after `most` worlds. Events do not depend on what else the machine does.
    """
    found, worlds, events, started = [], 0, 0, time.process_time()
    variants, prefix = _VARIANTS[choose], TRANSACTIONS if choose == "transactions" else ""
    with MonkeyPatch.context() as patch:
        PLANTS[name].put(patch)
        for run in range(runs):
            begin = first + run * _APART
            exploring = None if variants is None else Exploring(begin, SHORT, variants=variants)
            for number in range(most):
                world = f"{prefix}{begin + number}" if exploring is None else exploring.next()
                outcome = World(plan_of(world, SHORT)).run()
                worlds, events = worlds + 1, events + outcome.events
                if exploring is not None:
                    exploring.ran(world, outcome.orders)
                if outcome.violation is not None:
                    found.append(outcome.violation.invariant)
                    break
    spent, finds = time.process_time() - started, max(len(found), 1)
    figures = f"{worlds / finds:.1f} | {events / finds / 1_000:.0f} | {spent / finds:.1f}"
    return f"{name} | {len(found)} of {runs} | {figures} | {' '.join(found)}"


def check_hint(name: str) -> str:
    """A line: the hint, the CPU seconds of its world, and whether the invariant that the bug proves reports it."""
    bug, started = PLANTS[name], time.process_time()
    with MonkeyPatch.context() as patch:
        bug.put(patch)
        _, plan = next(bug.worlds(SHORT, 0))
        violation = World(plan).run().violation
    found = "nothing" if violation is None else violation.invariant
    verdict = "" if found == bug.proves else f"stale: not {bug.proves}"
    return f"{name} | {bug.hint} | {time.process_time() - started:.1f} | {found} | {verdict}"


def main() -> None:
    """Measure the bugs that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(PLANTS))
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--most", type=int, default=100, help="worlds for each run at most")
    parser.add_argument("--runs", type=int, default=3, help="runs for each bug, each from other seeds")
    parser.add_argument("--choose", choices=_VARIANTS, default="seeds", help="how worlds are chosen")
    parser.add_argument("--hints", action="store_true", help="run only the world of each bug's hint")
    given = parser.parse_args()
    for name in given.names:
        line = check_hint(name) if given.hints else measure(name, given.first, given.most, given.runs, given.choose)
        print(line, flush=True)


if __name__ == "__main__":
    main()
