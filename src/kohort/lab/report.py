"""`report.html`: the table, the two figures of the published experiment and a chart of partitions, in one file.

The published experiment: ten stateful instances bounced one by one, throughput against time with deviation bands and
the pause of each instance (Confluent, "From Eager to Smarter in Apache Kafka Consumer Rebalances", 2020).
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

from kohort.lab.measure import measure
from kohort.lab.pictures import partitions_figure, pauses_figure, throughput_figure
from kohort.lab.series import throughput
from kohort.lab.summary import Summary, summarise
from kohort.lab.table import COLUMNS, cells, filled
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
img { max-width: 100% } .note { color: #666; font-size: 12.5px }
"""
_HONEST = """What no broker makes faster is in these figures, too: a process that starts (a JVM takes about a second
until it joins), the time that restoring takes, the pause between two polls of the application, and the tick of the
load: a partition's gap is seen no finer than that."""


def write_report(outcomes: Sequence[Outcome], path: Path) -> None:
    """All that is on file; needs matplotlib."""
    ordered = sorted(outcomes, key=lambda one: (one.trial.title, one.trial.client, one.trial.protocol))
    sections = [_section(title, list(same)) for title, same in groupby(ordered, key=lambda one: one.trial.title)]
    body = f"<h1>What rebalances cost</h1><p>{_machine()}</p><p class=note>{_HONEST}</p>{''.join(sections)}"
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
    parts.append(_image(throughput_figure({name: throughput(same) for name, same in by_broker.items()})))
    measured = {name: [measure(one.events, one.triggers) for one in same] for name, same in by_broker.items()}
    if any(one.pauses for same in measured.values() for one in same):
        parts.append(_image(pauses_figure(measured)))
    for name, same in by_broker.items():
        parts.append(_image(partitions_figure(f"{name}: {title}", measured[name][0], same[0].triggers)))
        parts.append(_trace(same[0]))
    return "".join(parts)


def _trace(outcome: Outcome) -> str:
    """The hops of its slowest trigger, folded."""
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


def _setting(trial: Trial) -> str:
    state = f"a changelog of {trial.state_keys:,} keys per partition to restore from" if trial.state_keys else ""
    state = state or (f"{trial.restore_ms} ms of restoring per partition won" if trial.restore_ms else "no restoring")
    commits = f"commits every {trial.commit_ms} ms" if trial.commit_ms else "commits only before giving up"
    step = "; heartbeats out of step before each trigger" if trial.out_of_step else ""
    return (
        f"{trial.members} members, {trial.partitions} partitions, a record per partition every {trial.tick_ms} ms; "
        f"{state}; {commits}{step}."
    )


def _machine() -> str:
    return (
        f"{os.cpu_count()} cores, Linux {platform.release()}, Python {platform.python_version()}; all on one machine."
    )


def _image(figure: Figure) -> str:
    data = io.BytesIO()
    figure.savefig(data, format="png")
    return f'<p><img alt="" src="data:image/png;base64,{base64.b64encode(data.getvalue()).decode()}"></p>'
