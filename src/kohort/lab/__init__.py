"""Experiments on real groups that measure what a rebalance costs, with any protocol, client and broker.

An `Experiment` is found by its name or read from a file. `run_all` runs its trials and keeps an
`Outcome` of each; `summarise` and the tables report what is kept. Start reading at `scenarios.py`,
which defines what is done to a group, and `measure.py`, which computes the measures from the members'
events. Members are processes whose start is measured, so names load on demand.
"""

from typing import TYPE_CHECKING

from kohort.on_demand import on_demand

if TYPE_CHECKING:
    from kohort.lab.brokers import brokers_of
    from kohort.lab.experiment import REPORT, TABLE, Experiment
    from kohort.lab.experiment_file import dump_experiment, find_experiment, from_command_line, with_settings
    from kohort.lab.goals import ROWS, Row, goal_results
    from kohort.lab.raw import write_parquet
    from kohort.lab.report import write_report
    from kohort.lab.summary import summarise
    from kohort.lab.table import WIDE, goals_table, summary_table
    from kohort.lab.trial import Outcome
    from kohort.lab.trials import outcomes, path_of, run_all
else:
    __getattr__ = on_demand(
        __name__,
        {
            "brokers": ("brokers_of",),
            "experiment": ("REPORT", "TABLE", "Experiment"),
            "experiment_file": ("dump_experiment", "find_experiment", "from_command_line", "with_settings"),
            "goals": ("ROWS", "Row", "goal_results"),
            "raw": ("write_parquet",),
            "report": ("write_report",),
            "summary": ("summarise",),
            "table": ("WIDE", "goals_table", "summary_table"),
            "trial": ("Outcome",),
            "trials": ("outcomes", "path_of", "run_all"),
        },
    )

__all__ = [
    "REPORT",
    "ROWS",
    "TABLE",
    "WIDE",
    "Experiment",
    "Outcome",
    "Row",
    "brokers_of",
    "dump_experiment",
    "find_experiment",
    "from_command_line",
    "goal_results",
    "goals_table",
    "outcomes",
    "path_of",
    "run_all",
    "summarise",
    "summary_table",
    "with_settings",
    "write_parquet",
    "write_report",
]
