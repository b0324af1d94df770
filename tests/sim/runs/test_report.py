"""Totals of many runs: what is written is read again, and no seed is counted twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from kohort.sim import draw
from kohort.sim.runs.report import Report, load_report, save_report
from kohort.sim.runs.runner import run_world, run_worlds


def test_totals_are_read_as_they_were_written(tmp_path: Path) -> None:
    result = run_world(str(_short_seed()))
    result.violation = "S1: two have it"
    report = Report()
    report.add(result)
    save_report(report, tmp_path / "totals")
    again = load_report(tmp_path / "totals")
    assert again == report
    assert again.lines() == report.lines() and again.events > 1_000 and again.states and again.errors


def test_a_seed_that_is_in_the_totals_is_not_run_again() -> None:
    seed = _short_seed()
    told: list[int] = []
    report = run_worlds(seed, 1, None, lambda report: told.append(len(report.ran)), workers=1)
    events = report.events
    assert told == [1] and events
    assert run_worlds(seed, 1, None, lambda report: told.append(-1), report=report, workers=1).events == events
    assert told == [1]


def test_a_file_that_holds_no_totals_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "totals"
    assert load_report(path) == Report()
    for text in ("{}", "[]", "seeds 12"):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(ValueError):
            load_report(path)


def _short_seed() -> int:
    return next(seed for seed in range(1_000) if draw(seed).seconds == 60.0)
