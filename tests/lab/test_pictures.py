"""What the figures of the report show: whole labels, triggers, and a name for each colour."""

from __future__ import annotations

from itertools import count

import numpy as np
import pytest

from kohort.charts import COLOURS
from kohort.lab.lab_group import Trigger
from kohort.lab.measure import Measures
from kohort.lab.pictures import broker_paints, partitions_figure, pauses_figure, throughput_figure
from kohort.lab.processing import Span
from kohort.lab.series import Series
from tests.charts.texts import misplaced, strings

pytest.importorskip("matplotlib")

S = 1_000_000_000
FILLS = broker_paints(["kohort", "kafka", "kohort-hold-off"])


def _series(seconds: int = 20) -> Series:
    return Series(0.5, [800.0] * 2 * seconds, [20.0] * 2 * seconds)


def test_a_broker_has_one_colour_in_all_figures_of_a_report() -> None:
    both = throughput_figure({name: _series() for name in ("kafka", "kohort")}, "the first trigger", FILLS, {})
    alone = throughput_figure({"kohort": _series()}, "the first trigger", FILLS, {})
    colours = {line.get_label(): line.get_color() for figure in (both, alone) for line in figure.axes[0].lines}
    assert colours["kohort"] == FILLS["kohort"].colour != colours["kafka"]
    assert [line.get_color() for line in alone.axes[0].lines if line.get_label() == "kohort"] == [colours["kohort"]]
    assert {paint.colour for paint in FILLS.values()} == set(COLOURS[:3])


def test_throughput_shows_each_brokers_triggers_in_its_colour() -> None:
    triggers = {"kafka": [0.0, 4.0, 8.0], "kohort": [0.0, 3.0]}
    figure = throughput_figure({name: _series() for name in triggers}, "the first trigger", FILLS, triggers)
    (axes,) = figure.axes
    shown = {str(line.get_label()): line for line in axes.lines}
    for name, times in triggers.items():
        line = shown[f"triggers of {name}"]
        assert (np.asarray(line.get_xdata()).tolist(), line.get_color()) == (times, FILLS[name].colour)
    assert not misplaced(figure)
    assert axes.get_xlabel() == "seconds since the first trigger"


def test_throughput_around_a_trigger_marks_it() -> None:
    figure = throughput_figure({"kohort": _series()}, "a trigger", FILLS, {})
    assert np.asarray(figure.axes[0].lines[-1].get_xdata()).tolist() == [0, 0]


def test_every_member_has_a_place_among_the_pauses() -> None:
    paused = Measures(pauses={"m1": [(0, S // 2)], "m2": [(0, S // 4)]})
    figure = pauses_figure({"kafka": [paused, paused], "kohort": [Measures()]}, FILLS, members=10)
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == [str(rank) for rank in range(1, 11)]
    assert {"kafka: 750 ms in all", "kohort: 0 ms in all"} <= set(strings(figure))
    assert not misplaced(figure)


@pytest.mark.parametrize(("members", "partitions"), [(1, 1), (10, 50), (25, 300)])
def test_partitions_have_numbered_triggers_and_a_legend_of_all_members(members: int, partitions: int) -> None:
    numbers = count()
    spans = [
        Span(partition, f"m{(partition + step) % members + 1}", step * 4 * S, (step + 1) * 4 * S - S // 4)
        for partition in range(partitions)
        for step in range(5)
    ]
    triggers = [Trigger(at * S, f"restart m{next(numbers)}") for at in (4, 8, 12, 12, 13)]
    figure = partitions_figure("kafka: java, cooperative", Measures(spans=spans), triggers)
    shown = strings(figure)
    assert {f"m{number + 1}" for number in range(members)} <= set(shown)
    assert "dark: no member processes the partition" in shown
    labels = [text.get_text().split("–") for text in figure.axes[0].texts]
    assert [number for ends in labels for number in range(int(ends[0]), int(ends[-1]) + 1)] == [1, 2, 3, 4, 5]
    assert not misplaced(figure)
