"""Choice of the next world to run: a rare kind of world, or a variant of one that produced new orders of events.

    exploring = Exploring(first=100)
    name = exploring.next()
    exploring.ran(name, World(plan_of(name)).run().orders)

The plan of a world is a function of its name: "17" is drawn from that seed, "17.3" is the third
variant of it, and "17.3.8" is a variant of that one. "t17" is the small world with transactions of
that seed. So the choice of worlds depends on earlier runs, but each world only on its name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from itertools import count
from random import Random

from kohort.sim.plans import Plan, draw, draw_small_transactions, message_fault
from kohort.sim.steps import MemberStart, sort

_CANDIDATES = 32
"""Number of seeds that are drawn ahead; the one of the rarest kind runs next."""
_VARIANTS = 0.25
"""Fraction of worlds that are variants, once there is a world to vary."""
_PARENTS = 40
"""Maximum number of recent worlds with new orders from which variants are made."""
_LONGEST_NAME = 6
_SETTINGS = {
    "group.initial.rebalance.delay.ms": ("0", "500", "3000"),
    "group.consumer.assignment.interval.ms": ("0", "1000"),
    "group.max.size": ("2", "3"),
}
_NEAR = (0.001, 0.01, 0.1, 1.0)
"""Time between a step and the one that it is moved to, in seconds."""
_LONGEST = 86_400.0
TRANSACTIONS = "t"
"""First letter of the names of small worlds with transactions."""


def plan_of(name: str, longest: float = _LONGEST) -> Plan:
    """Return the plan of the world of that name, with at most `longest` seconds of steps. Raises ValueError."""
    seed, *variants = map(int, name.removeprefix(TRANSACTIONS).split("."))
    is_small = name.startswith(TRANSACTIONS)
    plan, said = draw_small_transactions(seed) if is_small else draw(seed, longest), name.partition(".")[0]
    for variant in variants:
        said += f".{variant}"
        _vary(plan, Random(f"variant {said}"))
    return plan


def kind_of(plan: Plan) -> tuple[str, ...]:
    """Return the kind of a world in a few words; worlds of one kind are similar."""
    log = "cluster" if plan.cluster else "files" if plan.files else "database" if plan.database else "memory"
    protocols = {settings.protocol for settings in plan.members}
    crowd = "one" if len(plan.members) == 1 else "few" if len(plan.members) < 4 else "many"
    static = "static" if any(settings.instance for settings in plan.members) else "dynamic"
    faults = "faults" if plan.faults else "faultless"
    records, access = "records" if plan.records else "numbers", "secured" if plan.secured else "open"
    return log, "+".join(sorted(protocols)), crowd, static, records, faults, access


class Exploring:
    """Choice of the worlds of a run. The same results lead to the same choices."""

    def __init__(self, first: int, longest: float = _LONGEST, *, variants: float = _VARIANTS) -> None:
        self._longest = longest
        self._variants = variants
        self._fresh = count(first)
        self._rng = Random(f"exploring {first}")
        self._candidates: list[tuple[int, tuple[str, ...]]] = []
        self._kinds: Counter[str] = Counter()
        self._seen: set[str] = set()
        self._parents: list[tuple[str, int]] = []
        """Names of worlds, each with the number of orders that it produced first."""
        self._children: Counter[str] = Counter()

    def next(self) -> str:
        """Return the name of the world to run."""
        if self._parents and self._rng.random() < self._variants:
            names = [name for name, _ in self._parents]
            weights = [new / (1 + self._children[name]) for name, new in self._parents]
            (parent,) = self._rng.choices(names, weights)
            self._children[parent] += 1
            return f"{parent}.{self._children[parent]}"
        return self._rarest()

    def ran(self, name: str, orders: Collection[str]) -> None:
        """Record that a world ran and produced these orders of events."""
        new = len(set(orders) - self._seen)
        self._seen.update(orders)
        if new and name.count(".") + 1 < _LONGEST_NAME:
            self._parents = [*self._parents, (name, new)][-_PARENTS:]

    def _rarest(self) -> str:
        while len(self._candidates) < _CANDIDATES:
            seed = next(self._fresh)
            self._candidates.append((seed, kind_of(draw(seed, self._longest))))
        best = min(
            self._candidates, key=lambda candidate: (sorted(self._kinds[word] for word in candidate[1]), candidate[0])
        )
        self._candidates.remove(best)
        self._kinds.update(best[1])
        return str(best[0])


# Variants


def _vary(plan: Plan, rng: Random) -> None:
    """Change a few things: the time of a step, a message that a fault affects, a setting."""
    for _ in range(rng.choice([1, 2, 4])):
        rng.choice(
            [_move_close, _move_close, _repeat, _add_message_fault, _add_message_fault, _remove, _change_setting]
        )(plan, rng)
    sort(plan.steps)


def _movable(plan: Plan) -> list[int]:
    return [number for number, step in enumerate(plan.steps) if not isinstance(step, MemberStart)]


def _move_close(plan: Plan, rng: Random) -> None:
    """Move one step close to another one."""
    movable = _movable(plan)
    if movable:
        number, other = rng.choice(movable), rng.choice(plan.steps)
        at = min(max(other.at + rng.choice([-1, 1]) * rng.choice(_NEAR), 0.0), plan.seconds)
        plan.steps[number] = replace(plan.steps[number], at=round(at, 4))


def _repeat(plan: Plan, rng: Random) -> None:
    """Repeat a step at another time."""
    movable = _movable(plan)
    if movable:
        step = plan.steps[rng.choice(movable)]
        plan.steps.append(replace(step, at=round(rng.uniform(0.0, plan.seconds), 4)))


def _add_message_fault(plan: Plan, rng: Random) -> None:
    """Add a fault that affects a message close to a step."""
    near = rng.choice(plan.steps)
    plan.steps.append(message_fault(plan, rng, near.at + rng.choice([0.0, *_NEAR])))


def _remove(plan: Plan, rng: Random) -> None:
    """Remove a step."""
    movable = _movable(plan)
    if len(movable) > 1:
        del plan.steps[rng.choice(movable)]


def _change_setting(plan: Plan, rng: Random) -> None:
    """Change a setting."""
    name = rng.choice(sorted(_SETTINGS))
    plan.settings[name] = rng.choice(_SETTINGS[name])
    if name == "group.max.size":
        plan.settings["group.consumer.max.size"] = plan.settings[name]
