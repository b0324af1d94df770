"""The report `report.html`: the table, the published experiment's two figures and a chart of partitions.

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
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from kohort.lab.bars import ROWS, reached
from kohort.lab.measure import measure
from kohort.lab.pictures import partitions_figure, pauses_figure, throughput_figure
from kohort.lab.series import throughput, throughput_around
from kohort.lab.summary import Summary, summarise
from kohort.lab.table import BAR_COLUMNS, COLUMNS, bar_cells, cells, filled
from kohort.lab.trace import slowest_trigger, trace
from kohort.lab.trial import Outcome, Trial

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_STYLE = """
body { font: 14px/1.5 system-ui, sans-serif; color: #222; max-width: 1240px; margin: 2em auto; padding: 0 1em }
h1 { font-size: 1.6em } h2 { margin-top: 2.2em } h3 { margin: 1.6em 0 .3em }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 12.5px }
th, td { text-align: right; padding: .25em .6em; border-bottom: 1px solid #eee } th { border-color: #999 }
th:nth-child(-n+3), td:nth-child(-n+3) { text-align: left } tr.first td { border-top: 1px solid #999 }
.missed { color: #C0392B } .reached { color: #228833 }
figure { margin: 1em 0 } figcaption { color: #666; font-size: 12.5px } img { max-width: 100% }
"""
_HONEST = """
<h2>What does not get faster</h2><ul>
<li>A process that starts: a JVM needs half a second or more until it asks for anything. It is in <i>wall</i>, and in
the darkness of what waits for that member; not in <i>first</i> and <i>join</i>, which begin with its request.</li>
<li>Restoring and flushing what a member keeps per partition. Warm-up does it before the move instead of in it.</li>
<li>An application that polls seldom: it hears of everything when it polls. The members here wait 0.1 s for records at
most.</li>
<li>Classic members between joining and their first heartbeat, one interval (3 s) later: nobody can be told anything
meanwhile. With eager rebalancing everybody gives up and restores everything, however soon it is told.</li>
<li>The tick of the load: a partition's gap is seen no finer than that, on either broker.</li>
<li>A machine that is busy (the last column): then everything waits for a core, and the figures say more of that.</li>
</ul>"""


def write_report(outcomes: Sequence[Outcome], path: Path) -> None:
    """Write the report of all outcomes to `path`. Raises KohortError without matplotlib."""
    ordered = sorted(outcomes, key=lambda one: (one.trial.title, one.trial.client, one.trial.protocol))
    sections = [_section(title, list(same)) for title, same in groupby(ordered, key=lambda one: one.trial.title)]
    bars = _bars(ordered)
    body = f"<h1>What rebalances cost</h1><p>{_machine()}</p>{bars}{''.join(sections)}{_HONEST}"
    page = f"<!doctype html><html lang=en><meta charset=utf-8><title>kohort lab</title><style>{_STYLE}</style>{body}"
    path.write_text(f"{page}</html>\n", encoding="utf-8")


def _section(title: str, outcomes: Sequence[Outcome]) -> str:
    summaries = summarise(outcomes)
    parts = [f"<h2>{html.escape(title)}</h2>", f"<p>{_setting(outcomes[0].trial)}</p>", _table(summaries)]
    for (client, protocol), same in groupby(outcomes, key=lambda one: (one.trial.client, one.trial.protocol)):
        parts.append(_pictures(f"{client}, {protocol}", list(same)))
    return "".join(parts)


def _pictures(title: str, outcomes: Sequence[Outcome]) -> str:
    brokers = list(dict.fromkeys(one.trial.broker for one in outcomes))
    by_broker = {broker: [one for one in outcomes if one.trial.broker == broker] for broker in sorted(brokers)}
    parts = [f"<h3>{html.escape(title)}</h3>"]
    times = max(map(len, by_broker.values()))
    over = f"; mean and one standard deviation over {times} repetitions" if times > 1 else ""
    lines = {name: throughput(same) for name, same in by_broker.items()}
    parts.append(_image(throughput_figure(lines, "the first trigger"), f"Throughput against time{over}."))
    triggers = max(len(one.triggers) for one in outcomes)
    if triggers * times > 1:
        around = {name: throughput_around(same) for name, same in by_broker.items()}
        told = f"Throughput around a trigger; mean and one standard deviation over all {triggers * times} triggers."
        parts.append(_image(throughput_figure(around, "a trigger"), told))
    measured = {name: [measure(one.events, one.triggers) for one in same] for name, same in by_broker.items()}
    if any(one.pauses for same in measured.values() for one in same):
        parts.append(_image(pauses_figure(measured), "How long each member could process nothing."))
    for name, same in by_broker.items():
        figure = partitions_figure(f"{name}: {title}", measured[name][0], same[0].triggers)
        parts.append(_image(figure, "A row per partition, coloured by the member that processes it."))
        parts.append(_trace(same[0]))
    return "".join(parts)


def _trace(outcome: Outcome) -> str:
    """Return the steps of the outcome's slowest trigger, as a collapsed element."""
    index = slowest_trigger(outcome)
    hops = "".join(f"{hop.at_ms:9.0f} ms  {hop.member:<8}{hop.what}\n" for hop in trace(outcome, index))
    what = html.escape(f"where the time went: {outcome.triggers[index].what}, the slowest")
    return f"<details><summary>{what}</summary><pre>{html.escape(hops)}</pre></details>"


def _table(summaries: Sequence[Summary]) -> str:
    heads = "".join(f"<th>{name}</th>" for name in ("client", "protocol", "broker"))
    shown = filled(summaries)
    heads += "".join(f'<th title="{html.escape(COLUMNS[one][1])}">{COLUMNS[one][0]}</th>' for one in shown)
    rows, before = [], None
    for one in summaries:
        kind = one.client, one.protocol
        told = cells(one)
        values = (*(kind if kind != before else ("", "")), one.broker, *(told[number] for number in shown))
        row = "".join(f"<td>{html.escape(value)}</td>" for value in values)
        rows.append(f"<tr{' class=first' if kind != before else ''}>{row}</tr>")
        before = kind
    return f"<table><tr>{heads}</tr>{''.join(rows)}</table>"


def _bars(outcomes: Sequence[Outcome]) -> str:
    """Return the table of target figures for the experiments in `outcomes`; empty if there are none."""
    labels = {one.trial.label for one in outcomes}
    found = reached([row for row in ROWS if row.name in labels], summarise(outcomes))
    if not found:
        return ""
    heads = "".join(f"<th>{html.escape(head)}</th>" for head in BAR_COLUMNS)
    rows, before = [], None
    for one in found:
        told = bar_cells(one, first=one.row is not before)
        row = "".join(f"<td class={one.verdict or 'none'}>{html.escape(value)}</td>" for value in told)
        rows.append(f"<tr{' class=first' if one.row is not before else ''}>{row}</tr>")
        before = one.row
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
