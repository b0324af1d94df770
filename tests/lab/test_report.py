"""Output for stored trials: the table's lines, the page, the Parquet files."""

from __future__ import annotations

import html
import io
import re
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from rich.console import Console

from kohort.errors import KohortError
from kohort.lab.events import Assigned, Event, Gone, Joining, Read, Ready, Revoked
from kohort.lab.experiment import Experiment
from kohort.lab.goals import ROWS, GoalResult, goal_results
from kohort.lab.lab_group import Trigger
from kohort.lab.queries import Answered
from kohort.lab.raw import write_parquet
from kohort.lab.report import write_report
from kohort.lab.scenarios import possible
from kohort.lab.series import throughput_around
from kohort.lab.summary import summarise
from kohort.lab.table import WIDE, goal_cells, summary_table
from kohort.lab.trace import slowest_trigger, trace
from kohort.lab.trial import Outcome, Trial
from kohort.lab.trials import outcomes, path_of

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


def test_a_file_that_is_not_a_trial_is_reported_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "trials").mkdir()
    (tmp_path / "trials" / "old.jsonl").write_text('{"trial": {}}\n')
    with pytest.raises(KohortError, match=r"old\.jsonl is not a trial of this version"):
        outcomes(tmp_path)


def test_the_page_is_self_contained_with_a_picture_of_each_kind(tmp_path: Path) -> None:
    write_report([_outcome(dark_ms=100), _outcome(dark_ms=300, repetition=2)], tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert page.count("data:image/png;base64,") == 4
    assert not re.search(r'(src|href)="(?!data:)', page)
    assert "scale-in" in page and "300 ms" in page


def test_the_page_explains_its_words_columns_and_triggers(tmp_path: Path) -> None:
    write_report([_outcome(dark_ms=100), _outcome(dark_ms=300, repetition=2)], tmp_path / "report.html")
    page = html.unescape((tmp_path / "report.html").read_text())
    heads = re.findall(r"<th[^>]*>(.*?)</th>", page)
    explained = dict(re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", page))
    assert len(heads) == len(set(heads)) > 10
    assert not set(heads) - set(explained)
    assert "trigger" in explained and not any("the same" in meaning for meaning in explained.values())
    assert "<p>Stop one member, which leaves the group.</p>" in page
    assert "<ol><li>m1 leaves, at 0.0 s: settled after 150 ms</li></ol>" in page
    assert "Triangles are the triggers of the first repetition." in page


def test_throughput_around_triggers_has_the_deviation_of_all_of_them() -> None:
    one, other = _outcome(dark_ms=100), _outcome(dark_ms=300, repetition=2)
    series = throughput_around([one, other], before_s=0.5, bin_s=0.1)
    assert series.times[0] == pytest.approx(-0.45)
    # Two partitions with a record each 50 ms, until one of them is dark.
    assert (series.mean[0], series.deviation[0]) == (40.0, 0.0)
    # The first repetition reads on 110 ms after its trigger, the other one 310 ms after.
    assert series.mean[6] == series.deviation[6] == 15.0


def test_the_goals_are_beside_the_measurements(tmp_path: Path) -> None:
    (row,) = [row for row in ROWS if row.name == "crash"]
    quick, slow = (_labelled("crash", dark_ms=took, protocol="consumer") for took in (1_900, 2_100))
    (classic, ours), (_, late) = (goal_results([row], summarise([trial])) for trial in (quick, slow))
    assert (classic.kohort_ms, classic.verdict) == (None, "")
    assert (ours.kohort_ms, ours.kafka_ms, ours.verdict, late.verdict) == (1_900, None, "reached", "missed")
    write_report([slow], tmp_path / "report.html")
    assert "<td class=missed>2.10 s</td>" in (tmp_path / "report.html").read_text()


def test_the_goal_of_a_gateway_is_a_part_of_what_apache_kafka_needs_without_one() -> None:
    (row,) = [row for row in ROWS if row.name == "bounce"]
    (goal,) = [goal for goal in row.goals if (goal.protocol, goal.figure) == ("consumer", "dark_sum")]
    measured = [GoalResult(row, goal, 150_000.0, None, gateway) for gateway in (30_000.0, 30_001.0, None)]
    assert [result.gateway_verdict for result in measured] == ["reached", "missed", ""]
    assert [goal_cells(result, first=True)[-1] for result in measured] == [
        "30.00 s (20%, reached)", "30.00 s (20%, missed)", ""
    ]  # fmt: skip


def test_trials_that_never_settled_reach_no_goal() -> None:
    (row,) = [row for row in ROWS if row.name == "crash"]
    never = _labelled("crash", dark_ms=100, protocol="consumer", settled=False)
    assert [result.verdict for result in goal_results([row], summarise([never]))] == ["", "missed"]


def test_every_row_of_the_table_can_be_run_and_has_a_name_of_its_own() -> None:
    trials = [trial for row in ROWS for trial in row.trials(["kohort", "kafka"], 2)]
    assert all(map(possible, trials))
    assert len({trial.name for trial in trials}) == len(trials)
    # Brokers take turns, whatever disturbs the machine.
    assert [trial.broker for trial in trials[:4]] == ["kohort", "kafka", "kohort", "kafka"]


def test_questions_have_a_column_only_where_somebody_asked() -> None:
    silent, asked = _outcome(dark_ms=100), replace(_outcome(dark_ms=100), answered=Answered(90, 9, 1, 40.0))
    assert "owner/copy/none" not in _terminal([silent])
    assert "owner/copy/none" in _terminal([asked]) and "90/9/1" in _terminal([asked]) and "40 ms" in _terminal([asked])
    (both,) = summarise([asked, replace(asked, answered=Answered(10, 0, 1, 60.0))])
    assert both.answered == Answered(100, 9, 2, 60.0)


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


def test_impossible_combinations_are_skipped_and_brokers_alternate() -> None:
    trials = Experiment(
        scenarios=("bounce", "deploy"), clients=("aiokafka", "java"), protocols=("eager", "consumer"),
        brokers=("kohort", "kafka"), repeat=2,
    ).trials()  # fmt: skip
    bounces = [
        (trial.repetition, trial.client, trial.protocol, trial.broker) for trial in trials if trial.scenario == "bounce"
    ]
    assert bounces[:2] == [(1, "aiokafka", "eager", "kohort"), (1, "aiokafka", "eager", "kafka")]
    assert len(bounces) == 12 and all(bounce[1:3] != ("aiokafka", "consumer") for bounce in bounces)
    deploys = {(trial.client, trial.protocol, trial.broker) for trial in trials if trial.scenario == "deploy"}
    assert deploys == {("java", "consumer", "kohort")}


def _terminal(kept: list[Outcome]) -> str:
    console = Console(width=WIDE, record=True, file=io.StringIO())
    console.print(summary_table(summarise(kept)))
    return console.export_text()


def _labelled(label: str, dark_ms: int, protocol: str, settled: bool = True) -> Outcome:
    outcome = _outcome(dark_ms, settled=settled)
    return replace(outcome, trial=replace(outcome.trial, label=label, protocol=protocol))


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
