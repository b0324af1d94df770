"""What is made of trials on file: the table's lines, the page, the Parquet files."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from kohort.errors import KohortError
from kohort.lab.events import Assigned, Event, Gone, Joining, Read, Ready, Revoked
from kohort.lab.experiment import outcomes, path_of, plan
from kohort.lab.raw import write_parquet
from kohort.lab.report import write_report
from kohort.lab.stage import Trigger
from kohort.lab.summary import summarise
from kohort.lab.trace import slowest_trigger, trace
from kohort.lab.trial import Outcome, Trial

MS = 1_000_000
_TRIAL = Trial(scenario="scale-in", broker="kohort", client="java", protocol="eager", members=2, partitions=2)


def test_repetitions_become_one_line() -> None:
    (line,) = summarise([_outcome(dark_ms=100), _outcome(dark_ms=300, repetition=2)])
    assert (line.repetitions, line.dark_p50, line.dark_max, line.dark_sum) == (2, 100, 300, 200)
    assert (line.wall_p50, line.wall_max, line.unsettled) == (150, 350, 0)
    assert (line.first_p50, line.duplicated, line.skipped) == (None, 0, 0)


def test_a_trigger_that_never_came_to_rest_is_in_no_quantile() -> None:
    (line,) = summarise([_outcome(dark_ms=100), _outcome(dark_ms=300, repetition=2, settled=False)])
    assert (line.wall_max, line.unsettled) == (150, 1)


def test_a_trial_survives_its_file(tmp_path: Path) -> None:
    outcome = _outcome(dark_ms=100)
    (tmp_path / "trials").mkdir()
    outcome.save(path_of(outcome.trial, tmp_path))
    (kept,) = outcomes(tmp_path)
    assert kept == outcome


def test_what_is_no_trial_is_told_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "trials").mkdir()
    (tmp_path / "trials" / "old.jsonl").write_text('{"trial": {}}\n')
    with pytest.raises(KohortError, match=r"old\.jsonl is no trial of this version"):
        outcomes(tmp_path)


def test_the_page_stands_alone_with_a_picture_of_each_kind(tmp_path: Path) -> None:
    write_report([_outcome(dark_ms=100), _outcome(dark_ms=300, repetition=2)], tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert page.count("data:image/png;base64,") == 3
    assert not re.search(r'(src|href)="(?!data:)', page)
    assert "scale-in" in page and "300 ms" in page


def test_the_raw_data_can_be_asked_for_darkness(tmp_path: Path) -> None:
    write_parquet([_outcome(dark_ms=100)], tmp_path)
    (dark,) = pq.read_table(tmp_path / "dark.parquet").to_pylist()
    assert (dark["partition"], dark["before"], dark["after"]) == (0, "m1", "m2")
    assert dark["end_s"] - dark["begin_s"] == pytest.approx(0.1)
    events = pq.read_table(tmp_path / "events.parquet").to_pylist()
    assert {event["event"] for event in events} >= {"assigned", "revoked", "read", "gone"}


def test_a_trace_has_every_hop_from_the_trigger_to_the_first_record() -> None:
    outcome = _outcome(dark_ms=100)
    told = [(round(hop.at_ms), hop.member, hop.what) for hop in trace(outcome, slowest_trigger(outcome))]
    assert (10, "m1", "revoked 0") in told and (20, "m2", "assigned 0") in told
    assert told[-1] == (110, "m2", "first records of 0")


def test_combinations_that_there_are_not_are_left_out_and_brokers_take_turns() -> None:
    trials = plan(_TRIAL, ["bounce", "deploy"], ["aiokafka", "java"], ["eager", "consumer"], ["kohort", "kafka"], 2)
    bounces = [(one.repetition, one.client, one.protocol, one.broker) for one in trials if one.scenario == "bounce"]
    assert bounces[:2] == [(1, "aiokafka", "eager", "kohort"), (1, "aiokafka", "eager", "kafka")]
    assert len(bounces) == 12 and all(one[1:3] != ("aiokafka", "consumer") for one in bounces)
    deploys = {(one.client, one.protocol, one.broker) for one in trials if one.scenario == "deploy"}
    assert deploys == {("java", "consumer", "kohort")}


def _outcome(dark_ms: int, repetition: int = 1, settled: bool = True) -> Outcome:
    """Two members with a partition each; one leaves."""
    events: list[Event] = []
    for number, name in enumerate(("m1", "m2")):
        events += [Joining(0, name), Assigned(1 * MS, name, (number,)), Ready(2 * MS, name)]
        events += [Read((5 + 50 * tick) * MS, name, ((number, tick, tick),)) for tick in range(20)]
    events += [Revoked(1010 * MS, "m1", (0,)), Ready(1011 * MS, "m1"), Gone(1012 * MS, "m1", False)]
    events += [Revoked(1015 * MS, "m2", ()), Ready(1015 * MS, "m2"), Assigned(1020 * MS, "m2", (0,))]
    events += [Ready(1025 * MS, "m2"), Read((1010 + dark_ms) * MS, "m2", ((0, 20, 22),))]
    events += [Read((1010 + dark_ms + 600) * MS, "m2", ((1, 20, 24),))]
    trigger = Trigger(1000 * MS, "m1 leaves", (1000 + dark_ms + 50) * MS if settled else None)
    trial = replace(_TRIAL, repetition=repetition)
    return Outcome(trial, [trigger], events, 0.5, "group", 0.9)
