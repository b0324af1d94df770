"""Implementation of `kohort lab`: resolve an experiment, run its trials, and report the stored ones."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kohort.cli.output import print_line, print_note
from kohort.errors import ConfigError, KohortError

if TYPE_CHECKING:
    from rich.table import Table

    from kohort.lab import Experiment, Move, Outcome, Row, Summary


def resolved(name: str, given: Mapping[str, object], pairs: Mapping[str, str]) -> Experiment:
    """Return the experiment of that name or file with settings of the command line. Raises ConfigError."""
    from kohort.lab import find_experiment, from_command_line, with_settings

    experiment = find_experiment(name)
    changes = from_command_line(pairs.items())
    twice = given.keys() & changes.keys()
    if twice:
        raise ConfigError(f"`{min(twice)}` is given by its option and by --set: give it once.")
    return with_settings(experiment, {**given, **changes}).check()


def run(experiment: Experiment, *, again: bool, as_json: bool) -> int:
    """Run the trials that are not stored yet, and report all stored ones; return the exit code."""
    from kohort.lab import REPORT, ROWS, TABLE

    out = Path(experiment.out)
    if experiment.scenarios == (REPORT,):
        print_summaries(out, as_json)
        return 0
    if experiment.scenarios != (TABLE,):
        undone = _run(experiment, again)
        print_summaries(out, as_json)
        return 1 if undone else 0
    rows = [row for row in ROWS if row.name in experiment.rows]
    for row in rows:
        print_note(f"{row.name}: {row.what}; about {row.minutes * experiment.repeat:g} min on both brokers")
    undone = _run(experiment, again)
    print_goals(rows, out, as_json)
    return 1 if undone else 0


def _run(experiment: Experiment, again: bool) -> int:
    """Run the trials; return the number of trials that were not run."""
    from kohort.lab import brokers_of, path_of, run_all

    trials, out = experiment.trials(), Path(experiment.out)
    if again:
        for trial in trials:
            path_of(trial, out).unlink(missing_ok=True)
    brokers = brokers_of(experiment.bootstrap, experiment.broker_settings, traced=experiment.trace)
    return run_all(trials, out, experiment.minutes, brokers, print_note)


def print_summaries(out: Path, as_json: bool) -> None:
    """Print the summaries of all stored trials, and write the report."""
    from kohort.lab import summarise

    kept = _kept(out)
    summaries = summarise(kept)
    traced = _traced(kept)
    if as_json:
        print_line(json.dumps([{**asdict(summary), **_hops(traced, summary)} for summary in summaries]))
        return
    from kohort.lab import hops_table, summary_table

    _print(lambda width: summary_table(summaries, width))
    for summary in summaries:
        if found := traced.get(_kind(summary)):
            table = hops_table(f"{summary.scenario}: {summary.client}, {summary.protocol}, {summary.broker}", found)
            _print(partial(_as_it_is, table))


_Kind = tuple[str, str, str, str]


def _kind(summary: Summary) -> _Kind:
    return summary.scenario, summary.client, summary.protocol, summary.broker


def _traced(kept: Sequence[Outcome]) -> dict[_Kind, list[Move]]:
    """Return the moved partitions of traced trials."""
    from kohort.lab import moves_of

    found: dict[_Kind, list[Move]] = {}
    for outcome in kept:
        trial = outcome.trial
        if trial.trace:
            found.setdefault((trial.title, trial.client, trial.protocol, trial.broker), []).extend(moves_of([outcome]))
    return found


def _hops(traced: Mapping[_Kind, Sequence[Move]], summary: Summary) -> dict[str, object]:
    """Return what JSON says about the hops: nothing unless the trials were traced."""
    from kohort.lab import summarise_hops

    found = traced.get(_kind(summary))
    return {} if found is None else {"hops": [asdict(hop) for hop in summarise_hops(found)]}


def _as_it_is(table: Table, width: int) -> Table:
    return table


def print_goals(rows: Sequence[Row], out: Path, as_json: bool) -> None:
    """Print the target figures and the measured ones, and write the report."""
    from kohort.lab import goal_results, summarise

    found = goal_results(rows, summarise(_kept(out)))
    if as_json:
        goals = [{"row": result.row.name, **asdict(result.goal), "kafka_ms": result.kafka_ms,
                 "kohort_ms": result.kohort_ms, "verdict": result.verdict} for result in found]  # fmt: skip
        print_line(json.dumps(goals))
        return
    from kohort.lab import goals_table

    _print(lambda width: goals_table(found))


def _kept(out: Path) -> list[Outcome]:
    """Return all stored trials, after writing a report of them. Raises ConfigError if there are none."""
    from kohort.lab import outcomes

    kept = outcomes(out)
    if not kept:
        raise ConfigError(f"There is nothing to report in {out}: run a scenario first, as in kohort lab bounce.")
    _report(kept, out)
    return kept


def _report(kept: Sequence[Outcome], out: Path) -> None:
    """Write the report page and the Parquet files, or print which dependency is missing."""
    from kohort.lab import write_parquet, write_report

    try:
        write_parquet(kept, out)
        write_report(kept, out / "report.html")
    except KohortError as missing:
        print_note(str(missing))
    else:
        print_note(f"wrote {out / 'report.html'}")


def _print(table: Callable[[int], Table]) -> None:
    from rich.console import Console

    from kohort.lab import WIDE

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = WIDE
    console.print(table(console.width))
