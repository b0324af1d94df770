"""Deterministic simulation: the production code of brokers and clients under one seed, in virtual time, with faults.

    outcome = World(draw(17)).run()
    outcome.violation  # None, or the invariant that was violated, and where

`world` simulates time, network, disks and processes. `plans` decides what happens, `faults`
executes it, and `checks` verifies the invariants.
"""

from kohort.sim.checks.violation import INVARIANTS, Violation
from kohort.sim.plans.drawing import draw
from kohort.sim.plans.plan import Plan, Step, dump, load
from kohort.sim.world.outcome import Outcome
from kohort.sim.world.world import World

__all__ = ["INVARIANTS", "Outcome", "Plan", "Step", "Violation", "World", "draw", "dump", "load"]
