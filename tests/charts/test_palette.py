"""Colours of the pictures are told apart by all readers."""

from __future__ import annotations

from itertools import combinations

import pytest

from kohort.charts import COLOURS, DARK, LINE_COLOURS, paints
from tests.charts.sight import SIGHTS, distance

LEAST = {"normal": 0.18, "deuteranopia": 0.13, "protanopia": 0.13, "tritanopia": 0.09}


def test_the_distance_is_that_of_the_colour_space() -> None:
    assert distance("#000000", "#FFFFFF") == pytest.approx(1, abs=1e-3)
    # What looks most different to most readers looks alike without red cones.
    assert distance("#CC0000", "#447700") > 3 * distance("#CC0000", "#554400", "protanopia")


@pytest.mark.parametrize("sight", SIGHTS)
def test_ten_members_and_the_dark_are_told_apart(sight: str) -> None:
    assert len(COLOURS) == 10
    nearest = min((distance(*pair, sight), pair) for pair in combinations(COLOURS, 2))
    assert nearest[0] >= LEAST[sight], nearest
    assert min(distance(colour, edge, sight) for colour in COLOURS for edge in (DARK, "#FFFFFF")) >= 0.12


@pytest.mark.parametrize("sight", SIGHTS)
def test_a_hatch_is_seen_on_its_colour(sight: str) -> None:
    assert all(distance(paint.colour, paint.hatch_colour, sight) >= 0.3 for paint in paints(60) if paint.hatch)


def test_more_members_have_hatches() -> None:
    assert [paint.hatch for paint in paints(10)] == [""] * 10
    assert len(set(paints(60))) == 60
    assert len(paints(150)) == 150


def test_a_thin_line_is_seen_on_white() -> None:
    assert len(LINE_COLOURS) == 8
    assert min(distance(colour, "#FFFFFF") for colour in LINE_COLOURS) > 0.25
