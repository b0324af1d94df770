"""What the charts of the page show: whole names, units, and times in UTC."""

from __future__ import annotations

import pytest

from kohort.analytics import plots
from tests.analytics.test_report import AT, HOUR, _group
from tests.charts.texts import misplaced, strings

pytest.importorskip("matplotlib")

NAMES = ["orders", "clicks.of.the.storefront.enrichment.production.eu-west-1", "pay$ments$", "search"]
CAUSES = ["member joined", "member left or expired", "cooperative follow-up", "members came and went",
          "subscription changed", "topics changed", "assignor changed", "static member returned"]  # fmt: skip


@pytest.mark.parametrize(("longest", "unit"), [(900, "milliseconds"), (90_000, "minutes"), (9 * HOUR, "hours")])
def test_costs_have_a_suitable_unit_and_a_whole_legend(longest: int, unit: str) -> None:
    groups = [_group(name, longest) for name in NAMES]
    causes = {name: [{"cause": cause, "times": 1, "excess_ms": longest // 8} for cause in CAUSES] for name in NAMES}
    figure = plots.costs(groups, causes)
    assert figure is not None
    assert not misplaced(figure)
    assert {*NAMES, *CAUSES[:7], "other causes"} <= set(strings(figure))
    (axes,) = figure.axes
    assert axes.get_xlabel() == f"partition-{unit} without a commit, beyond the usual"
    assert axes.get_xlim()[1] >= 1 or unit == "milliseconds"


def test_no_cost_is_no_chart() -> None:
    assert plots.costs([_group("orders", 0)], {}) is None
    assert plots.rebalances([], []) is plots.lag([]) is plots.rate([(AT, 1.0)]) is None


def test_rebalances_are_at_their_times_beside_whole_names() -> None:
    counts = [(name, AT + hour * HOUR, 1 + hour % 5) for name in NAMES for hour in range(30)]
    figure = plots.rebalances(counts, NAMES)
    assert figure is not None
    assert not misplaced(figure)
    assert set(NAMES) <= set(strings(figure))
    assert "00:00\n2026-01-01" in strings(figure)
    assert figure.axes[0].get_xlabel() == "time (UTC)"
    assert plots.largest_dot(counts) == 5
    # A dot at the edge does not cover a name.
    assert figure.axes[0].get_xlim()[0] < AT


def test_lag_and_rate_have_units_and_times() -> None:
    lag = plots.lag([(name, AT + step * HOUR, 60_000 * step) for name in NAMES for step in range(5)])
    rate = plots.rate([(AT + step * HOUR, 10.0) for step in range(5)])
    assert lag is not None and rate is not None
    assert not misplaced(lag) and not misplaced(rate)
    assert set(NAMES) <= set(strings(lag))
    assert (lag.axes[0].get_ylabel(), rate.axes[0].get_ylabel()) == ("minutes", "commits per second")
    assert lag.axes[0].get_xlabel() == "time (2026-01-01, UTC)"
    assert plots.svg(rate).startswith("<svg")
