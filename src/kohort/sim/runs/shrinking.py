"""Reduction of a failing plan to a small one with the same failure: fewer steps, fewer members, less time.

Removing a step changes everything after it, so the reduction works by trial: first it removes
halves, then smaller and smaller pieces (Zeller's ddmin), and keeps each plan that violates the same
invariant.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from kohort.sim.plans import Plan
from kohort.sim.steps import MemberStart, MemberStep
from kohort.sim.violation import Violation
from kohort.sim.world import World

OnProgress = Callable[[Plan], None]


def shrink(plan: Plan, violation: Violation, *, runs: int = 400, on_progress: OnProgress = lambda plan: None) -> Plan:
    """Return the smallest plan found in at most `runs` runs that violates the same invariant.

    `on_progress` is called with each smaller plan.
    """
    return _Shrinking(violation.invariant, runs, on_progress).of(plan)


class _Shrinking:
    def __init__(self, invariant: str, runs: int, on_progress: OnProgress) -> None:
        self._invariant = invariant
        self._left = runs
        self._on_progress = on_progress

    def of(self, plan: Plan) -> Plan:
        plan = self._without_members(plan)
        plan = self._with_fewer_steps(plan)
        plan = self._without_members(plan)
        return _renumbered(plan)

    def _fails(self, plan: Plan) -> bool:
        if not self._left:
            return False
        self._left -= 1
        violation = World(plan).run().violation
        if violation is None or violation.invariant != self._invariant:
            return False
        self._on_progress(plan)
        return True

    def _without_members(self, plan: Plan) -> Plan:
        for number in reversed(range(len(plan.members))):
            steps = [step for step in plan.steps if not (isinstance(step, MemberStep) and step.member == number)]
            smaller = replace(plan, steps=steps)
            if len(steps) < len(plan.steps) and self._fails(smaller):
                plan = smaller
        return plan

    def _with_fewer_steps(self, plan: Plan) -> Plan:
        pieces = 2
        while self._left and len(plan.steps) > 1:
            size = -(-len(plan.steps) // pieces)
            for first in range(0, len(plan.steps), size):
                smaller = replace(plan, steps=plan.steps[:first] + plan.steps[first + size :])
                if self._fails(smaller):
                    plan, pieces = smaller, max(pieces - 1, 2)
                    break
            else:
                if size == 1:
                    break
                pieces = min(2 * pieces, len(plan.steps))
        return plan


def _renumbered(plan: Plan) -> Plan:
    """Remove members that never start, and renumber the others."""
    started = sorted({step.member for step in plan.steps if isinstance(step, MemberStart)})
    if len(started) == len(plan.members):
        return plan
    # The numbers are part of the processes' names, and so affect the world's random numbers: a renumbered
    # plan may not fail.
    places = {number: place for place, number in enumerate(started)}
    smaller = replace(
        plan,
        members=[plan.members[number] for number in started],
        rates=[plan.rates[number] for number in started],
        ways=[plan.ways[number] for number in started] if plan.ways else [],
        steps=[
            replace(step, member=places[step.member]) if isinstance(step, MemberStep) else step
            for step in plan.steps
            if not isinstance(step, MemberStep) or step.member in places
        ],
    )
    before, after = World(plan).run().violation, World(smaller).run().violation
    return smaller if before and after and before.invariant == after.invariant else plan
