"""Report on one self-contained HTML page: which groups have problems, their causes, and their cost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from typing import TYPE_CHECKING

from kohort.analytics import plots
from kohort.analytics.findings import MOST_GROUPS, Findings, Row, gather
from kohort.model import Millis

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pyspark.sql import SparkSession

    from kohort.analytics.places import Destination

HOUR_MS = 3_600_000
_MOST_RECORDED = 3
_COLUMNS = (
    ("group", "the group id"),
    ("protocol", "the group protocol, classic or consumer (KIP-848), and the assignor"),
    ("members", "the largest number of members at a time"),
    ("rebalances", "the number of generations or group epochs; if the cluster has a journal, the number that"
     " kohort rebalances shows"),
    ("moves", "the number of times that a partition went from one member to another"),
    ("waited, all partitions", "the sum of the times for which partitions waited because of rebalances"),
    ("longest dark", "the longest time between two commits of a partition around a rebalance"),
    ("worst lag", "the age of the oldest unprocessed record, at its worst"),
    ("could be saved", "the part of the waiting time that the cooperative or the consumer protocol would have saved"),
    ("why", "the most frequent cause, and what would help"),
)  # fmt: skip
"""Columns of the groups' table, and what they mean."""


@dataclass(frozen=True, slots=True)
class WrittenReport:
    """Main facts of a report, in a few sentences."""

    headline: str
    span: str
    left_out: list[str]


def write_report(spark: SparkSession, out: Destination, window_ms: Millis) -> WrittenReport:
    """Write report.html from the tables of an analysis, which are views of this session.

    `window_ms` is the window of commit rates.
    """
    found = gather(spark, window_ms)
    out.write(spark, "report.html", page(found).encode())
    return WrittenReport(headline(found), span(found), left_out(found))


def page(found: Findings) -> str:
    """Return the findings as HTML."""
    parts = [
        f"<h1>{escape(headline(found))}</h1>",
        f"<p class=lead>{escape(span(found))}</p>",
        *(f"<p class=warning>{escape(sentence)}</p>" for sentence in left_out(found)),
        _picture(
            "Where the time went: waiting time of each group, by the cause of the rebalance",
            plots.costs(found.groups[:MOST_GROUPS], found.causes),
        ),
        "<h2>Groups with the most waiting time</h2>",
        _groups_table(found),
        _meanings(),
        _picture(
            "When they rebalanced",
            plots.rebalances(found.times, [row["group_id"] for row in found.groups]),
            f"The area of a dot is the number of rebalances; the largest is {count(plots.largest_dot(found.times))}.",
        ),
        _flapping_table(found.flapping),
        _thrashing_table(found.thrashing),
        _picture("How old the oldest unprocessed record was, in the groups with the most lag", plots.lag(found.lags)),
        _picture("Commits per second, all groups", plots.rate(found.rate)),
        _journal_table(found.journal),
        _FOOT,
    ]
    return f"<!doctype html><html lang=en>{_HEAD}{''.join(parts)}</html>"


def headline(found: Findings) -> str:
    """Return one sentence with the total cost and the groups that account for most of it."""
    total = sum(row["excess_ms"] or 0 for row in found.groups)
    rebalances = sum(row["rebalances"] for row in found.groups)
    if not total:
        return f"{count(rebalances)}, and no partition waited longer than usual between commits"
    share, names = 0, []
    for row in found.groups:
        names.append(row["group_id"])
        share += row["excess_ms"] or 0
        if share >= total * 0.8 or len(names) == 5:
            break
    if len(found.groups) == 1:
        return f"Rebalances of {names[0]} kept its partitions waiting for {partition_time(total)}"
    few = f"{len(names)} of {len(found.groups)} groups account for"
    if len(names) == 1:
        few = f"{names[0]}, one of {len(found.groups)} groups, accounts for"
    return f"Rebalances kept partitions waiting for {partition_time(total)}; {few} {share / total:.0%}"


def span(found: Findings) -> str:
    """Return a sentence on the analysed period and data."""
    whole = found.whole
    rebalances = sum(row["rebalances"] for row in found.groups)
    return (
        f"{day(whole['begin_at'])} to {day(whole['end_at'])} UTC: {whole['groups']:,} groups,"
        f" {whole['partitions']:,} partitions, {whole['commits'] or 0:,} commits, {count(rebalances)}."
    )


def left_out(found: Findings) -> list[str]:
    """Return a sentence for each topic with records that the figures lack."""
    sentences = []
    for row in found.unreadable:
        first = "" if row["shard"] is None else f", the first at offset {row['position']} of partition {row['shard']}"
        records = "1 record" if row["records"] == 1 else f"{row['records']:,} records"
        sentences.append(
            f"{records} of {row['topic']}, damaged or of a newer version, could not be read{first}."
            " The figures do not include them."
        )
    return sentences


def why(row: Row, causes: Sequence[Row], found: Findings) -> str:
    """Return one or two sentences on why this group has problems and what would help."""
    sentences = [f"{_times(causes[0]['times'])}: {causes[0]['cause']}.".capitalize()] if causes else []
    recorded = found.recorded.get(row["group_id"], ())
    if recorded and (not causes or recorded[0]["cause"] != causes[0]["cause"]):
        causes_seen = (f"{_times(row['times'])} {row['cause']}" for row in recorded[:_MOST_RECORDED])
        sentences.append(f"A recorder saw: {', '.join(causes_seen)}.")
    saved = found.savings.get(row["group_id"])
    if saved is not None and saved["consumer_saves_ms"] and saved["stops"]:
        kept = 1 - saved["consumer_stops"] / saved["stops"]
        if kept >= 0.2:
            sentences.append(
                f"{saved['stops']:,} partitions were stopped; the consumer protocol would have stopped"
                f" {saved['consumer_stops']:,}, cooperative-sticky {saved['cooperative_stops']:,}."
            )
    if row["needless"]:
        sentences.append(f"{row['needless']:,} moves were between members that stayed.")
    if row["missing"]:
        sentences.append(f"{row['missing']:,} generations are not in the log.")
    return " ".join(sentences)


def _groups_table(found: Findings) -> str:
    rows = []
    for row in found.groups[:MOST_GROUPS]:
        name = row["group_id"]
        lag = found.worst_lag.get(name)
        saved = found.savings.get(name)
        rows.append(
            (
                name,
                ", ".join((row["group_type"] or "unknown", row["assignor"] or "default")),
                f"{row['members'] or 0:,}",
                f"{row['rebalances']:,}",
                f"{row['moved']:,}",
                duration(row["excess_ms"] or 0),
                duration(row["longest_dark_ms"]),
                "-" if lag is None else duration(lag["lag_ms"]),
                "-" if saved is None else duration(max(saved["cooperative_saves_ms"], saved["consumer_saves_ms"])),
                why(row, found.causes.get(name, ()), found),
            )
        )
    return table([name for name, _ in _COLUMNS], rows)


def _meanings() -> str:
    """Return what the columns of the groups' table mean."""
    told = "".join(f"<dt>{escape(name)}</dt><dd>{escape(meaning)}.</dd>" for name, meaning in _COLUMNS)
    return f"<details><summary>What the columns mean</summary><dl>{told}</dl></details>"


def _flapping_table(rows: Sequence[Row]) -> str:
    if not rows:
        return "<h2>Members that join and leave repeatedly</h2><p>There are none.</p>"
    found = [
        (row["group_id"], row["member_name"], row["client_host"], f"{row['episodes']:,}", f"{row['returns']:,}",
         f"{day(row['begin_at'])} to {day(row['end_at'])}", duration(row["mean_away_ms"]))
        for row in rows
    ]  # fmt: skip
    head = ("group", "member", "host", "episodes", "returns", "between", "away each time")
    return f"<h2>Members that join and leave repeatedly</h2>{table(head, found)}"


def _thrashing_table(rows: Sequence[Row]) -> str:
    if not rows:
        return "<h2>Groups that mostly rebalanced</h2><p>There are none.</p>"
    found = [
        (row["group_id"], day(row["begin_at"]), duration(row["end_at"] - row["begin_at"]), f"{row['rebalances']:,}",
         duration(row["excess_ms"] or 0), row["mostly"])
        for row in rows
    ]  # fmt: skip
    head = ("group", "from", "for", "rebalances", "waited, all partitions", "most frequent cause")
    return f"<h2>Groups that mostly rebalanced</h2>{table(head, found)}"


def _journal_table(rows: Sequence[Row]) -> str:
    if not rows:
        return ""
    found = [
        (row["group_id"], day(row["ended_at"], "%H:%M:%S"), row["cause"] or "-", row["reason"] or "-",
         duration(row["wall_ms"]), duration(row["dark_ms"]))
        for row in rows
    ]  # fmt: skip
    head = ("group", "at", "cause", "reason", "took", "dark, all partitions")
    return f"<h2>Rebalances with the longest dark time, from the journal</h2>{table(head, found)}"


def table(head: Iterable[str], rows: Iterable[Sequence[str]]) -> str:
    """Return an HTML table; all cells are escaped."""
    top = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<div class=wide><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>"


def _picture(title: str, figure: Figure | None, caption: str = "") -> str:
    if figure is None:
        return ""
    below = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return f"<h2>{escape(title)}</h2><figure><div class=wide>{plots.svg(figure)}</div>{below}</figure>"


def partition_time(ms: int) -> str:
    """Format the sum of times for which partitions waited, in the largest unit of which there is at least one."""
    size, name = plots.unit(ms)
    return f"{ms / size:,.1f} partition-{name}" if size > 1 else f"{ms} partition-{name}"


def count(rebalances: int) -> str:
    """Return a number of rebalances in words."""
    return "1 rebalance" if rebalances == 1 else f"{rebalances:,} rebalances"


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number:,} times"


def duration(ms: float | None) -> str:
    """Format a duration for readers."""
    if ms is None:
        return "-"
    for size, unit in ((86_400_000, "d"), (HOUR_MS, "h"), (60_000, "min"), (1_000, "s")):
        if ms >= size:
            return f"{ms / size:.1f} {unit}"
    return f"{ms:.0f} ms"


def day(at: int | None, clock: str = "%H:%M") -> str:
    """Format a time in UTC, by default to the minute."""
    return "-" if at is None else datetime.fromtimestamp(at / 1000, UTC).strftime(f"%Y-%m-%d {clock}")


_HEAD = """<meta charset=utf-8><meta name=viewport content="width=device-width, initial-scale=1">
<title>Consumer groups</title><style>
body { font: 15px/1.5 system-ui, sans-serif; color: #222; max-width: 1180px; margin: 2.5em auto; padding: 0 1.5em }
h1 { font-size: 1.7em; line-height: 1.25; margin-bottom: .3em } h2 { font-size: 1.2em; margin-top: 2.2em }
.lead, figcaption { color: #555 } figcaption, dl { font-size: .87em } dt { font-weight: 600 }
.warning { background: #fff3cd; padding: .5em .8em }
figure { margin: 0 } svg { max-width: 100%; min-width: 44em; height: auto; background: #fff }
.wide { overflow-x: auto }
table { border-collapse: collapse; width: 100%; font-size: .87em } td:last-child { min-width: 9em }
th { text-align: left; font-weight: 600; border-bottom: 2px solid #ccc; padding: .35em .6em; vertical-align: bottom }
td { border-bottom: 1px solid #e6e6e6; padding: .35em .6em; vertical-align: top; font-variant-numeric: tabular-nums }
.foot { color: #555; font-size: .87em; margin-top: 3em }
@media (max-width: 40em) { body { margin: 1em auto; padding: 0 1em } h1 { font-size: 1.35em }
  table { min-width: 46em } }
@media (prefers-color-scheme: dark) {
  :root { color-scheme: dark } body { background: #1b1b1b; color: #ddd } .lead, figcaption, .foot { color: #aaa }
  .warning { background: #4a3c00 } th { border-color: #666 } td { border-color: #3a3a3a }
}
</style>"""
_FOOT = """<p class=foot>A partition-hour is one partition that waits for one hour, or two that wait for half
an hour. A partition waits from the last commit before a rebalance to the first one behind it; what
usually lies between two of its commits is left out. A commit tells when something was done, not when it was begun, so
times are as coarse as the group commits. The log does not say whether a member left or its session ran out. It is
compacted: of what lies before the part that was not cleaned yet it holds only the last record of each key, and the
generations that are missing are counted. All times are UTC. The tables lie beside this page as Parquet.</p>"""
