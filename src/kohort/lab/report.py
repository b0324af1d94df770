"""The report `report.html`: the table, the published experiment's two figures and a chart of partitions.

The page explains every word that it uses, for readers who know neither the laboratory nor Kohort.

In the published experiment, ten stateful instances are restarted one by one. Its figures show
throughput against time with deviation bands, and the pause of each instance (Confluent, "From Eager
to Smarter in Apache Kafka Consumer Rebalances", 2020). The report is a single file.
"""

from __future__ import annotations

import base64
import html
import io
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from kohort.charts import Paint
from kohort.errors import KohortError, install_extra
from kohort.lab.goals import ROWS, goal_results
from kohort.lab.hop_table import hops_html, moves_of
from kohort.lab.lab_group import Trigger
from kohort.lab.measure import measure
from kohort.lab.pictures import broker_paints, partitions_figure, pauses_figure, throughput_figure
from kohort.lab.scenarios import SCENARIOS
from kohort.lab.series import throughput, throughput_around
from kohort.lab.summary import Summary, summarise
from kohort.lab.table import COLUMNS, GOAL_COLUMNS, cells, duration, filled, goal_cells
from kohort.lab.trace import slowest_trigger, trace
from kohort.lab.trial import Outcome, Trial

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_STYLE = """
body { font: 14px/1.5 system-ui, sans-serif; color: #222; max-width: 1240px; margin: 2em auto; padding: 0 1em }
h1 { font-size: 1.6em } h2 { margin-top: 2.2em } h3 { margin: 1.6em 0 .3em }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 12.5px }
th, td { text-align: right; padding: .25em .6em; border-bottom: 1px solid #eee } th { border-color: #999 }
th { vertical-align: bottom } .wide { overflow-x: auto } dt { font-weight: 600; margin-top: .5em }
th:nth-child(-n+3), td:nth-child(-n+3) { text-align: left } tr.first td { border-top: 1px solid #999 }
.missed { color: #C0392B } .reached { color: #228833 }
.bars { width: 60em; white-space: nowrap; text-align: left } .bars i { display: inline-block; height: .9em }
.bars-legend i { display: inline-block; width: .9em; height: .9em }
td { white-space: nowrap } figure { margin: 1em 0; overflow-x: auto }
figcaption { color: #666; font-size: 12.5px } img { max-width: 100%; min-width: 44em; background: #fff }
@media (prefers-color-scheme: dark) {
  :root { color-scheme: dark } body { background: #1b1b1b; color: #ddd } figcaption { color: #aaa }
  th, td { border-color: #3a3a3a } th { border-color: #777 } .missed { color: #ff8a7a } .reached { color: #7ad08a }
}
"""
_VIEWPORT = '<meta name=viewport content="width=device-width, initial-scale=1">'
_LIMITS = """
<h2>What does not get faster</h2><ul>
<li>The start of a process: a JVM needs half a second or more until its first request. This time is in
<i>settled</i>, and in the dark time of partitions that wait for the member. It is not in <i>first partition</i> and
<i>settled after the last join</i>, which begin with the request.</li>
<li>Restoring and flushing the state of a partition. Warm-up restores before the move instead of during it.</li>
<li>An application that polls rarely: it learns of a rebalance when it polls. The members here wait at most 0.1 s for
records.</li>
<li>Classic members between joining and their first heartbeat, one interval (3 s) later: the coordinator cannot notify
them. With the eager protocol each member gives up and restores all its partitions, even if it is notified at once.</li>
<li>The interval between records: no dark time is measured more precisely than that, on any broker.</li>
<li>A busy machine (the last column): all processes wait for a core, and the figures depend more on that than on the
broker.</li>
</ul>"""
_TERMS = (
    ("trigger", "what the experiment did to the group, for example the restart of a member"),
    ("settled", "every partition has an owner that reads it, and the owners have even shares"),
    ("dark", "no member processes a partition: its owner has stopped, and the next one has read no record yet"),
    ("pause", "a member is in the group and may process no partition"),
    ("client", "the library of the members: java, librdkafka (confluent-kafka), kafka-python, aiokafka, kohort"),
    ("protocol", "eager: all members stop in each rebalance; cooperative: only partitions that move stop;"
     " consumer: as KIP-848, one member after the other"),
    ("broker", "kafka is Apache Kafka, kafka+gateway is Apache Kafka behind kohort gateway; kohort-hold-off is"
     " Kohort without held heartbeats"),
)  # fmt: skip
_NOTES = {
    "kafka-python": "kafka-python 3.0.12 can lose a join or an assignment during a rebalance: the member then owns"
    " partitions that it does not read until the next rebalance. This is a bug of the client with every broker. It"
    " distorts dark times, above all of runs that add partitions."
}
"""Known defects of clients that affect the figures."""


def write_report(outcomes: Sequence[Outcome], path: Path) -> None:
    """Write the report of all outcomes to `path`. Raises KohortError without matplotlib."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as missing:
        raise KohortError(f"The report needs matplotlib: {install_extra('lab')}.") from missing
    ordered = sorted(outcomes, key=lambda outcome: (outcome.trial.title, outcome.trial.client, outcome.trial.protocol))
    fills = broker_paints([outcome.trial.broker for outcome in ordered])
    sections = [
        _section(title, list(same), fills) for title, same in groupby(ordered, key=lambda outcome: outcome.trial.title)
    ]
    head = f"<h1>What rebalances cost</h1><p>{_machine()}</p>{_goals(ordered)}"
    body = f"{head}{''.join(sections)}{_explanations(summarise(ordered))}{_LIMITS}"
    head = f"<meta charset=utf-8>{_VIEWPORT}<title>kohort lab</title><style>{_STYLE}</style>"
    page = f"<!doctype html><html lang=en>{head}{body}"
    path.write_text(f"{page}</html>\n", encoding="utf-8")


def _section(title: str, outcomes: Sequence[Outcome], fills: Mapping[str, Paint]) -> str:
    trial = outcomes[0].trial
    parts = [f"<h2>{html.escape(title)}</h2>", f"<p>{html.escape(_done(trial))}</p>", f"<p>{_setting(trial)}</p>"]
    parts.append(_table(summarise(outcomes)))
    notes = [
        _NOTES[client] for client in dict.fromkeys(outcome.trial.client for outcome in outcomes) if client in _NOTES
    ]
    parts += [f"<p>{html.escape(note)}</p>" for note in notes]
    for (client, protocol), same in groupby(
        outcomes, key=lambda outcome: (outcome.trial.client, outcome.trial.protocol)
    ):
        parts.append(_pictures(f"{client}, {protocol}", list(same), fills))
    return "".join(parts)


def _done(trial: Trial) -> str:
    """Return what the scenario does: the first sentence of its description."""
    scenario = SCENARIOS.get(trial.scenario)
    return (scenario.__doc__ or "").partition("\n")[0] if scenario is not None else ""


def _explanations(summaries: Sequence[Summary]) -> str:
    """Return the words and columns of this page, with their meanings."""
    columns = [(COLUMNS[number].name, COLUMNS[number].meaning) for number in filled(summaries)]
    return f"<h2>What the words mean</h2>{_list(_TERMS)}<h2>What the columns mean</h2>{_list(columns)}"


def _list(entries: Iterable[tuple[str, str]]) -> str:
    told = "".join(f"<dt>{html.escape(name)}</dt><dd>{html.escape(meaning)}.</dd>" for name, meaning in entries)
    return f"<dl>{told}</dl>"


def _pictures(title: str, outcomes: Sequence[Outcome], fills: Mapping[str, Paint]) -> str:
    brokers = list(dict.fromkeys(outcome.trial.broker for outcome in outcomes))
    by_broker = {
        broker: [outcome for outcome in outcomes if outcome.trial.broker == broker] for broker in sorted(brokers)
    }
    parts = [f"<h3>{html.escape(title)}</h3>"]
    times = max(map(len, by_broker.values()))
    over = f" Lines are means of {times} repetitions; bands are one standard deviation." if times > 1 else ""
    lines = {name: throughput(same) for name, same in by_broker.items()}
    marks = {name: _seconds(same[0].triggers) for name, same in by_broker.items()}
    figure = throughput_figure(lines, "the first trigger", fills, marks)
    repetition = " of the first repetition" if times > 1 else ""
    parts.append(_image(figure, f"Throughput against time. Triangles are the triggers{repetition}.{over}"))
    triggers = max(len(outcome.triggers) for outcome in outcomes)
    if triggers * times > 1:
        around = {name: throughput_around(same) for name, same in by_broker.items()}
        told = f"means of all {triggers * times} triggers of a broker; bands are one standard deviation."
        figure = throughput_figure(around, "a trigger", fills, {})
        parts.append(_image(figure, f"Throughput around a trigger, at the vertical line. Lines are {told}"))
    measured = {
        name: [measure(outcome.events, outcome.triggers) for outcome in same] for name, same in by_broker.items()
    }
    if any(measurement.pauses for same in measured.values() for measurement in same):
        figure = pauses_figure(measured, fills, outcomes[0].trial.members)
        mean = " Bars are means of the repetitions." if times > 1 else ""
        parts.append(_image(figure, f"How long each member could process no partition.{mean}"))
    for name, same in by_broker.items():
        figure = partitions_figure(f"{name}: {title}", measured[name][0], same[0].triggers)
        which = ", in the first repetition" if times > 1 else ""
        told = f"Partitions and the members that process them{which}. Numbered lines are the triggers listed below."
        parts.append(_image(figure, told))
        parts.append(_triggers(same[0].triggers))
        parts.append(_trace(same[0]))
        if any(outcome.trial.trace for outcome in same):
            parts.append(hops_html(moves_of(same)))
    return "".join(parts)


def _seconds(triggers: Sequence[Trigger]) -> list[float]:
    """Return the times of the triggers since the first one."""
    return [(trigger.at - triggers[0].at) / 1e9 for trigger in triggers]


def _triggers(triggers: Sequence[Trigger]) -> str:
    """Return the numbered list of triggers below a chart of partitions."""
    rows = []
    for at, trigger in zip(_seconds(triggers), triggers, strict=True):
        settled = "not settled in time"
        if trigger.settled_at is not None:
            settled = f"settled after {duration((trigger.settled_at - trigger.at) / 1e6)}"
        rows.append(f"<li>{html.escape(trigger.what)}, at {at:.1f} s: {settled}</li>")
    return f"<ol>{''.join(rows)}</ol>"


def _trace(outcome: Outcome) -> str:
    """Return the steps of the outcome's slowest trigger, as a collapsed element."""
    index = slowest_trigger(outcome)
    hops = "".join(f"{hop.at_ms:9.0f} ms  {hop.member:<8}{hop.what}\n" for hop in trace(outcome, index))
    what = html.escape(f"where the time went: {outcome.triggers[index].what}, the slowest")
    return f"<details><summary>{what}</summary><pre>{html.escape(hops)}</pre></details>"


def _table(summaries: Sequence[Summary]) -> str:
    heads = "".join(f"<th>{name}</th>" for name in ("client", "protocol", "broker"))
    shown = filled(summaries)
    heads += "".join(
        f'<th title="{html.escape(COLUMNS[number].meaning)}">{html.escape(COLUMNS[number].name)}</th>'
        for number in shown
    )
    rows, before = [], None
    for summary in summaries:
        kind = summary.client, summary.protocol
        told = cells(summary)
        values = (*(kind if kind != before else ("", "")), summary.broker, *(told[number] for number in shown))
        row = "".join(f"<td>{html.escape(value)}</td>" for value in values)
        rows.append(f"<tr{' class=first' if kind != before else ''}>{row}</tr>")
        before = kind
    return f"<div class=wide><table><tr>{heads}</tr>{''.join(rows)}</table></div>"


def _goals(outcomes: Sequence[Outcome]) -> str:
    """Return the table of target figures for the experiments in `outcomes`; empty if there are none."""
    labels = {outcome.trial.label for outcome in outcomes}
    results = goal_results([row for row in ROWS if row.name in labels], summarise(outcomes))
    if not results:
        return ""
    heads = "".join(f"<th>{html.escape(head)}</th>" for head in GOAL_COLUMNS)
    rows, before = [], None
    for result in results:
        values = goal_cells(result, first=result.row is not before)
        row = "".join(f"<td class={result.verdict or 'none'}>{html.escape(value)}</td>" for value in values)
        rows.append(f"<tr{' class=first' if result.row is not before else ''}>{row}</tr>")
        before = result.row
    return f"<h2>Figures to reach</h2><table><tr>{heads}</tr>{''.join(rows)}</table>"


def _setting(trial: Trial) -> str:
    state = f"a changelog of {trial.state_keys:,} keys per partition to restore from" if trial.state_keys else ""
    state = state or (f"{trial.restore_ms} ms of restoring per partition won" if trial.restore_ms else "no restoring")
    commits = f"commits every {trial.commit_ms} ms" if trial.commit_ms else "commits only before giving up"
    more = "; heartbeats out of step before each trigger" if trial.out_of_step else ""
    more += f"; {trial.gap_ms} ms between stop and start" if trial.gap_ms else ""
    more += "; counts in RocksDB" if trial.store == "rocksdb" else ""
    more += f"; warm-up with {trial.num_standby} standbys" if trial.is_warm else ""
    return (
        f"{trial.members} members, {trial.partitions} partitions, a record per partition every {trial.tick_ms} ms; "
        f"{state}; {commits}{more}."
    )


def _machine() -> str:
    return (
        f"{os.cpu_count()} cores, Linux {platform.release()}, Python {platform.python_version()}; all on one machine."
    )


def _image(figure: Figure, caption: str) -> str:
    data = io.BytesIO()
    figure.savefig(data, format="png")
    source = f"data:image/png;base64,{base64.b64encode(data.getvalue()).decode()}"
    told = html.escape(caption)
    return f'<figure><figcaption>{told}</figcaption><img alt="{told}" src="{source}"></figure>'
