"""Experiments on real groups that measure what a rebalance costs, with any protocol, client and broker.

An `Experiment` is found by its name or read from a file. `run_all` runs its trials and keeps an
`Outcome` of each; `summarise` and the tables report what is kept. Start reading at `scenarios.py`,
which defines what is done to a group, and `measure.py`, which computes the measures from the members'
events. Members are processes whose start is measured, so names load on demand.
"""

from typing import TYPE_CHECKING

from kohort.on_demand import on_demand

if TYPE_CHECKING:
    from kohort.lab.apache_kafka import QUICK_START, ApacheKafka, running_kafka
    from kohort.lab.brokers import LabBroker, brokers_of
    from kohort.lab.events import Assigned, Event
    from kohort.lab.experiment import REPORT, TABLE, Experiment
    from kohort.lab.experiment_file import dump_experiment, find_experiment, from_command_line, with_settings
    from kohort.lab.goals import ROWS, Row, goal_results
    from kohort.lab.hop_table import hops_table, moves_of
    from kohort.lab.hops import Move, summarise_hops
    from kohort.lab.lab_group import LabGroup
    from kohort.lab.member_settings import PROTOCOLS
    from kohort.lab.processing import NOBODY, Dark, Processing
    from kohort.lab.raw import write_parquet
    from kohort.lab.report import write_report
    from kohort.lab.scenario_run import ScenarioRun
    from kohort.lab.scenarios import SCENARIOS
    from kohort.lab.summary import Summary, summarise
    from kohort.lab.table import WIDE, goals_table, summary_table
    from kohort.lab.trial import Outcome, Trial, prepare
    from kohort.lab.trials import outcomes, path_of, run_all
else:
    __getattr__ = on_demand(
        __name__,
        {
            "apache_kafka": ("QUICK_START", "ApacheKafka", "running_kafka"),
            "brokers": ("LabBroker", "brokers_of"),
            "events": ("Assigned", "Event"),
            "experiment": ("REPORT", "TABLE", "Experiment"),
            "experiment_file": ("dump_experiment", "find_experiment", "from_command_line", "with_settings"),
            "goals": ("ROWS", "Row", "goal_results"),
            "hop_table": ("hops_table", "moves_of"),
            "hops": ("Move", "summarise_hops"),
            "lab_group": ("LabGroup",),
            "member_settings": ("PROTOCOLS",),
            "processing": ("NOBODY", "Dark", "Processing"),
            "raw": ("write_parquet",),
            "report": ("write_report",),
            "scenario_run": ("ScenarioRun",),
            "scenarios": ("SCENARIOS",),
            "summary": ("Summary", "summarise"),
            "table": ("WIDE", "goals_table", "summary_table"),
            "trial": ("Outcome", "Trial", "prepare"),
            "trials": ("outcomes", "path_of", "run_all"),
        },
    )

__all__ = [
    "NOBODY",
    "PROTOCOLS",
    "QUICK_START",
    "REPORT",
    "ROWS",
    "SCENARIOS",
    "TABLE",
    "WIDE",
    "ApacheKafka",
    "Assigned",
    "Dark",
    "Event",
    "Experiment",
    "LabBroker",
    "LabGroup",
    "Move",
    "Outcome",
    "Processing",
    "Row",
    "ScenarioRun",
    "Summary",
    "Trial",
    "brokers_of",
    "dump_experiment",
    "find_experiment",
    "from_command_line",
    "goal_results",
    "goals_table",
    "hops_table",
    "moves_of",
    "outcomes",
    "path_of",
    "prepare",
    "run_all",
    "running_kafka",
    "summarise",
    "summarise_hops",
    "summary_table",
    "with_settings",
    "write_parquet",
    "write_report",
]
