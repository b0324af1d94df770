"""The worlds that a run chooses; each is determined by its name alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kohort.cli.sim import sim
from kohort.errors import ConfigError
from kohort.sim import World, draw, dump, load
from kohort.sim.plans import draw_small_transactions
from kohort.sim.runs import load_report
from kohort.sim.runs.exploring import Exploring, kind_of, plan_of
from kohort.sim.steps import MemberStart
from tests.sim.worlds.test_worlds import SHORT


def chosen(exploring: Exploring, orders: dict[str, set[str]], worlds: int) -> list[str]:
    """Return the names of the first worlds; these worlds have these orders of events."""
    names = []
    for _ in range(worlds):
        names.append(exploring.next())
        exploring.ran(names[-1], orders.get(names[-1], set()))
    return names


def test_a_seed_names_the_world_that_is_drawn_from_it() -> None:
    assert dump(plan_of("17")) == dump(draw(17))


def test_a_variant_is_the_same_world_whenever_it_runs() -> None:
    plan = plan_of("5.2.1", SHORT)
    assert dump(plan) == dump(plan_of("5.2.1", SHORT)) != dump(plan_of("5.2.2", SHORT))
    one, other = World(plan).run(), World(load(dump(plan_of("5.2.1", SHORT)))).run()
    assert one.violation is None
    assert (one.trace, one.events) == (other.trace, other.events) and one.orders == other.orders


def test_every_variant_keeps_the_members_and_begins_them() -> None:
    for number in range(1, 60):
        plan, before = plan_of(f"{number % 7}.{number}", SHORT), draw(number % 7, SHORT)
        assert plan.members == before.members
        assert {step.member for step in plan.steps if isinstance(step, MemberStart)} == set(range(len(plan.members)))
        assert [step.at for step in plan.steps] == sorted(step.at for step in plan.steps)


def test_the_same_results_give_the_same_choices() -> None:
    orders = {"0": {"a > b", "b > c"}}
    one, other = (chosen(Exploring(0, SHORT), orders, 30) for _ in range(2))
    assert one == other
    assert len(set(one)) == len(one)


def test_only_worlds_with_new_orders_get_variants() -> None:
    first = Exploring(0, SHORT).next()
    names = chosen(Exploring(0, SHORT), {first: {"a > b"}}, 30)
    variants = [name for name in names if "." in name]
    assert variants and all(name.startswith(f"{first}.") for name in variants)
    assert not [name for name in chosen(Exploring(0, SHORT), {}, 30) if "." in name]


def test_rare_kinds_run_first() -> None:
    logs = {kind_of(plan_of(name, SHORT))[0] for name in chosen(Exploring(0, SHORT), {}, 8)}
    assert logs == {"memory", "files", "cluster", "database"}


@pytest.mark.parametrize("name", ["", "x", "17.", "17.x", "1,7", "t", "tt17"])
def test_a_name_of_no_world_is_refused_with_what_to_give(name: str) -> None:
    with pytest.raises(ConfigError, match=r"give a number such as 17, or 17\.3, or t17"):
        sim(seed=name)


def test_a_small_world_with_transactions_has_a_name() -> None:
    assert dump(plan_of("t17")) == dump(draw_small_transactions(17))
    assert dump(plan_of("t17.1")) != dump(plan_of("t17"))


@pytest.mark.parametrize("other", [{"seed": "17"}, {"plan": Path("plan.txt")}, {"model": 2}])
def test_small_worlds_are_run_in_numbers_only(other: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="--seed t17 runs one such world"):
        sim(transactions=True, **other)


def test_a_run_of_small_worlds_goes_from_seed_to_seed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    totals = tmp_path / "totals"
    assert sim(transactions=True, first=0, seeds=2, jobs=1, totals=totals) == 0
    assert sim(transactions=True, first=1, seeds=2, jobs=1, totals=totals) == 0
    assert load_report(totals).ran == {"t0", "t1", "t2"}
    assert "coverage" not in capsys.readouterr().out


def test_a_variant_is_run_by_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert sim(seed="5.1") == 0
    assert "seed 5.1: " in capsys.readouterr().out
