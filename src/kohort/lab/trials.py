"""Runs of many trials, with interleaved repetitions so that disturbances of the machine affect all alike."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from kohort import interruption
from kohort.errors import KohortError
from kohort.lab.brokers import LabBroker
from kohort.lab.process import kill_all
from kohort.lab.trial import Outcome, Trial
from kohort.lab.trial_run import run_trial

TRIALS = "trials"
"""Subdirectory of the output directory, with one file of raw data per trial."""

Report = Callable[[str], None]
Brokers = Mapping[str, Callable[[], AbstractContextManager[LabBroker]]]
"""Context managers by name, each of which starts a broker and stops it on exit."""


def run_all(trials: Sequence[Trial], out: Path, minutes: float, brokers: Brokers, report: Report) -> int:
    """Run the trials that are not stored yet; return the number of failed and remaining trials.

    A trial is not repeated if a trial with the same settings is stored. No trial starts after
    `minutes`.
    """
    (out / TRIALS).mkdir(parents=True, exist_ok=True)
    missing = [trial for trial in trials if not _done(trial, out)]
    if len(missing) < len(trials):
        report(f"{len(trials) - len(missing)} of {len(trials)} trials are in {out / TRIALS} already")
    if not missing:
        return 0
    # An interrupted run does not wait for the processes that it started.
    interruption.on_begin(kill_all)
    deadline = time.monotonic() + minutes * 60
    undone = 0
    with _running(list(dict.fromkeys(trial.broker for trial in missing)), brokers, report) as running:
        for number, trial in enumerate(missing, 1):
            if time.monotonic() > deadline:
                report(
                    f"the {minutes:g} minutes are over: {len(missing) - number + 1} trials are left for the next run"
                )
                return undone + len(missing) - number + 1
            begun = time.monotonic()
            what = f"{number}/{len(missing)} {trial.title}: {trial.client}, {trial.protocol}, {trial.broker}"
            report(f"{what}, repetition {trial.repetition}")
            try:
                outcome = run_trial(trial, running[trial.broker])
                outcome.save(path_of(trial, out))
                asked = "" if outcome.answered is None else f"; {outcome.answered}"
                report(f"{what}: {time.monotonic() - begun:.0f} s{asked}")
            except KohortError as problem:
                undone += 1
                report(f"{what}: {problem}")
    return undone


def outcomes(out: Path) -> list[Outcome]:
    """Return all stored outcomes, in the order in which they were saved."""
    kept = sorted((out / TRIALS).glob("*.jsonl"), key=lambda path: path.stat().st_mtime_ns)
    return [Outcome.load(path) for path in kept]


def path_of(trial: Trial, out: Path) -> Path:
    """Return the path of the trial's raw data."""
    return out / TRIALS / f"{trial.name}.jsonl"


def _done(trial: Trial, out: Path) -> bool:
    path = path_of(trial, out)
    return path.exists() and Outcome.load(path).trial == trial


@contextlib.contextmanager
def _running(names: Sequence[str], brokers: Brokers, report: Report) -> Iterator[dict[str, LabBroker]]:
    with contextlib.ExitStack() as held:
        started = {}
        for name in names:
            started[name] = held.enter_context(brokers[name]())
            report(f"{name} answers at {started[name].bootstrap}")
        yield started
