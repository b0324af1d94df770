"""Run of one trial on a running broker."""

from __future__ import annotations

import tempfile
from pathlib import Path

from kohort.lab.brokers import LabBroker
from kohort.lab.scenario_run import ScenarioRun
from kohort.lab.scenarios import SCENARIOS
from kohort.lab.trial import Outcome, Trial, group_for, prepare


def run_trial(trial: Trial, broker: LabBroker) -> Outcome:
    """Run the trial to its end and return its outcome."""
    settings = prepare(trial, broker.bootstrap)
    with tempfile.TemporaryDirectory(prefix="kohort-lab-logs-") as logs:
        group = group_for(trial, settings, Path(logs))
        try:
            group.begin_load()
            run = ScenarioRun(trial, broker, group, settings.topic)
            SCENARIOS[trial.scenario](run)
            return run.outcome()
        finally:
            group.close()
