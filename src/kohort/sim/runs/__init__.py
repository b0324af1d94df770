"""Runs of many seeds on all cores, their choice and report, and the reduction of a failing plan.

`run_worlds` adds its results to a `Report`, which `save_report` and `load_report` store.
"""

from kohort.sim.runs.exploring import plan_of
from kohort.sim.runs.report import Report, load_report, save_report
from kohort.sim.runs.runner import run_worlds
from kohort.sim.runs.shrinking import shrink

__all__ = ["Report", "load_report", "plan_of", "run_worlds", "save_report", "shrink"]
