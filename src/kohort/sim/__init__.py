"""A simulated world: production's brokers and clients under one seed, in virtual time, with faults.

    outcome = World(draw(17)).run()
    outcome.violation  # None, or the invariant that did not hold and what of

`kohort.sim.loop` is time, `network` what lies between processes, `disk` what outlives them, `watch` and `ledger` who
looks.
"""

from kohort.sim.drawing import draw
from kohort.sim.outcome import Outcome
from kohort.sim.plan import Plan, Step, dump, load
from kohort.sim.violation import INVARIANTS, Violation
from kohort.sim.world import World

__all__ = ["INVARIANTS", "Outcome", "Plan", "Step", "Violation", "World", "draw", "dump", "load"]
