"""Deterministic simulation: the production code of brokers and clients under one seed, in virtual time, with faults.

    outcome = World(draw(17)).run()
    outcome.violation  # None, or the invariant that was violated, and where

`plans` decides what happens in a world, as `steps`. `environment` simulates time, network and disks,
`processes` has the brokers and clients, `faults` executes the steps of a plan, `checks` verifies the
invariants, and `world` connects all of them. `runs` runs many worlds.
"""

from kohort.sim.plans import Plan, draw, dump, load
from kohort.sim.steps import Step
from kohort.sim.violation import INVARIANTS, Violation
from kohort.sim.world import Outcome, World

__all__ = ["INVARIANTS", "Outcome", "Plan", "Step", "Violation", "World", "draw", "dump", "load"]
