"""Runs of many trials, with interleaved repetitions so that disturbances of the machine affect all alike."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import product
from pathlib import Path

from kohort import interruption
from kohort.errors import KohortError
from kohort.lab.brokers import LabBroker
from kohort.lab.member import SPEAK
from kohort.lab.order import PROTOCOLS
from kohort.lab.process import kill_all
from kohort.lab.scenarios import possible
from kohort.lab.trial import Outcome, Trial
from kohort.lab.trial_run import run_trial

TRIALS = "trials"
"""Subdirectory of the output directory, with one file of raw data per trial."""

Tell = Callable[[str], None]
Brokers = Mapping[str, Callable[[], AbstractContextManager[LabBroker]]]
"""Context managers by name, each of which starts a broker and stops it on exit."""


def plan(
    first: Trial, scenarios: Sequence[str], clients: Sequence[str], protocols: Sequence[str], brokers: Sequence[str],
    repetitions: int,
) -> list[Trial]:  # fmt: skip
    """Return all possible combinations, with the other settings of `first`.

    Trials on different brokers are adjacent; repetitions are outer to clients, protocols and
    brokers.
    """
    combined = product(scenarios, range(1, repetitions + 1), clients, protocols, brokers)
    trials = [
        replace(first, scenario=scenario, client=client, protocol=protocol, broker=broker, repetition=repetition)
        for scenario, repetition, client, protocol, broker in combined
        if protocol in SPEAK.get(client, PROTOCOLS)
    ]
    return [trial for trial in trials if possible(trial)]


def run(trials: Sequence[Trial], out: Path, minutes: float, brokers: Brokers, tell: Tell) -> int:
    """Run the trials that are not stored yet; return the number of failed and remaining trials.

    A trial is not repeated if a trial with the same settings is stored. No trial starts after
    `minutes`.
    """
    (out / TRIALS).mkdir(parents=True, exist_ok=True)
    missing = [trial for trial in trials if not _done(trial, out)]
    if len(missing) < len(trials):
        tell(f"{len(trials) - len(missing)} of {len(trials)} trials are in {out / TRIALS} already")
    if not missing:
        return 0
    # An interrupted run does not wait for the processes that it started.
    interruption.on_begin(kill_all)
    deadline = time.monotonic() + minutes * 60
    undone = 0
    with _running(list(dict.fromkeys(trial.broker for trial in missing)), brokers, tell) as running:
        for number, trial in enumerate(missing, 1):
            if time.monotonic() > deadline:
                tell(f"the {minutes:g} minutes are over: {len(missing) - number + 1} trials are left for the next run")
                return undone + len(missing) - number + 1
            begun = time.monotonic()
            what = f"{number}/{len(missing)} {trial.title}: {trial.client}, {trial.protocol}, {trial.broker}"
            tell(f"{what}, repetition {trial.repetition}")
            try:
                outcome = run_trial(trial, running[trial.broker])
                outcome.save(path_of(trial, out))
                asked = "" if outcome.answered is None else f"; {outcome.answered}"
                tell(f"{what}: {time.monotonic() - begun:.0f} s{asked}")
            except KohortError as problem:
                undone += 1
                tell(f"{what}: {problem}")
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
def _running(names: Sequence[str], brokers: Brokers, tell: Tell) -> Iterator[dict[str, LabBroker]]:
    with contextlib.ExitStack() as held:
        started = {}
        for name in names:
            started[name] = held.enter_context(brokers[name]())
            tell(f"{name} answers at {started[name].bootstrap}")
        yield started
