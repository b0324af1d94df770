"""Report on one self-contained HTML page: which groups have problems, their causes, and their cost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from typing import TYPE_CHECKING

from kohort.analytics import plots
from kohort.analytics.findings import MOST_GROUPS, Findings, Row, gather

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kohort.analytics.places import Destination

HOUR_MS = 3_600_000
_MOST_RECORDED = 3


@dataclass(frozen=True, slots=True)
class WrittenReport:
    """Main facts of a report, in a few sentences."""

    headline: str
    span: str
    left_out: list[str]


def write_report(spark: SparkSession, out: Destination) -> WrittenReport:
    """Write report.html from the tables of an analysis, which are views of this session."""
    found = gather(spark)
    out.write(spark, "report.html", page(found).encode())
    return WrittenReport(headline(found), span(found), left_out(found))


def page(found: Findings) -> str:
    """Return the findings as HTML."""
    parts = [
        f"<h1>{escape(headline(found))}</h1>",
        f"<p class=lead>{escape(span(found))}</p>",
        *(f"<p class=warning>{escape(sentence)}</p>" for sentence in left_out(found)),
        _picture("Where the time went", plots.costs(found.groups[:MOST_GROUPS], found.causes)),
        "<h2>Groups with the most waiting time</h2>",
        _groups_table(found),
        _picture("When they rebalanced", plots.rebalances(found.times, [row["group_id"] for row in found.groups])),
        _flapping_table(found.flapping),
        _thrashing_table(found.thrashing),
        _picture("Lag of the groups, in time", plots.lag(found.lags)) if found.lags else "",
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
        return f"{rebalances:,} rebalances, and no partition waited longer than usual between commits"
    share, names = 0, []
    for row in found.groups:
        names.append(row["group_id"])
        share += row["excess_ms"] or 0
        if share >= total * 0.8 or len(names) == 5:
            break
    few = f"{len(names)} of {len(found.groups)} groups account for"
    if len(names) == 1:
        few = f"{names[0]}, one of {len(found.groups)} groups, accounts for"
    return f"Rebalances kept partitions waiting for {hours(total)} partition-hours; {few} {share / total:.0%}"


def span(found: Findings) -> str:
    """Return a sentence on the analysed period and data."""
    whole = found.whole
    rebalances = sum(row["rebalances"] for row in found.groups)
    return (
        f"{day(whole['begin_at'])} to {day(whole['end_at'])}: {whole['groups']:,} groups,"
        f" {whole['partitions']:,} partitions, {whole['commits'] or 0:,} commits, {rebalances:,} rebalances."
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
    first = causes[0]
    sentences = [f"{first['times']:,} times: {first['cause']}."]
    recorded = found.recorded.get(row["group_id"], ())
    if recorded and recorded[0]["cause"] != first["cause"]:
        causes_seen = (f"{row['times']:,} times {row['cause']}" for row in recorded[:_MOST_RECORDED])
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
                f"{row['group_type']}, {row['assignor'] or 'default'}",
                f"{row['members'] or 0:,}",
                f"{row['rebalances']:,}",
                f"{row['moved']:,}",
                hours(row["excess_ms"]),
                duration(row["longest_dark_ms"]),
                "-" if lag is None else duration(lag["lag_ms"]),
                "-" if saved is None else hours(max(saved["cooperative_saves_ms"], saved["consumer_saves_ms"])),
                why(row, found.causes[name], found),
            )
        )
    head = (
        *("group", "protocol", "members", "rebalances", "moves", "waited (partition-hours)", "longest dark"),
        *("worst lag", "could be saved (h)", "why"),
    )
    return table(head, rows)


def _flapping_table(rows: Sequence[Row]) -> str:
    if not rows:
        return "<h2>No member flaps</h2>"
    found = [
        (row["group_id"], row["member_name"], row["client_host"], f"{row['episodes']:,}", f"{row['returns']:,}",
         f"{day(row['begin_at'])} to {day(row['end_at'])}", duration(row["mean_away_ms"]))
        for row in rows
    ]  # fmt: skip
    head = ("group", "member", "host", "episodes", "returns", "between", "away each time")
    return f"<h2>Members that join and leave repeatedly</h2>{table(head, found)}"


def _thrashing_table(rows: Sequence[Row]) -> str:
    if not rows:
        return "<h2>No group thrashes</h2>"
    found = [
        (row["group_id"], day(row["begin_at"]), duration(row["end_at"] - row["begin_at"]), f"{row['rebalances']:,}",
         hours(row["excess_ms"]), row["mostly"])
        for row in rows
    ]  # fmt: skip
    head = ("group", "from", "for", "rebalances", "waited (partition-hours)", "mostly")
    return f"<h2>Groups that mostly rebalanced</h2>{table(head, found)}"


def _journal_table(rows: Sequence[Row]) -> str:
    if not rows:
        return ""
    found = [
        (row["group_id"], day(row["ended_at"]), row["cause"] or "-", row["reason"] or "-", duration(row["wall_ms"]),
         duration(row["dark_ms"]))
        for row in rows
    ]  # fmt: skip
    head = ("group", "at", "cause", "reason", "took", "dark, all partitions")
    return f"<h2>Rebalances with the longest dark time, from the journal</h2>{table(head, found)}"


def table(head: Iterable[str], rows: Iterable[Sequence[str]]) -> str:
    """Return an HTML table; all cells are escaped."""
    top = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def _picture(title: str, svg: str) -> str:
    return f"<h2>{escape(title)}</h2><figure>{svg}</figure>" if svg else ""


def hours(ms: int | None) -> str:
    """Format milliseconds as (partition-)hours."""
    return f"{(ms or 0) / HOUR_MS:,.1f}"


def duration(ms: float | None) -> str:
    """Format a duration for readers."""
    if ms is None:
        return "-"
    for size, unit in ((86_400_000, "d"), (HOUR_MS, "h"), (60_000, "min"), (1_000, "s")):
        if ms >= size:
            return f"{ms / size:.1f} {unit}"
    return f"{ms:.0f} ms"


def day(at: int | None) -> str:
    """Format a time in UTC, to the minute."""
    return "-" if at is None else datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%d %H:%M")


_HEAD = """<meta charset=utf-8><title>Consumer groups</title><style>
body { font: 15px/1.5 system-ui, sans-serif; color: #222; max-width: 1180px; margin: 2.5em auto; padding: 0 1.5em }
h1 { font-size: 1.7em; line-height: 1.25; margin-bottom: .3em } h2 { font-size: 1.2em; margin-top: 2.2em }
.lead { color: #555 } .warning { background: #fff3cd; padding: .5em .8em }
figure { margin: 0 } svg { width: 100%; height: auto }
table { border-collapse: collapse; width: 100%; font-size: .87em }
th { text-align: left; font-weight: 600; border-bottom: 2px solid #ccc; padding: .35em .6em; vertical-align: bottom }
td { border-bottom: 1px solid #e6e6e6; padding: .35em .6em; vertical-align: top; font-variant-numeric: tabular-nums }
.foot { color: #555; font-size: .87em; margin-top: 3em }
</style>"""
_FOOT = """<p class=foot>A partition waits from the last commit before a rebalance to the first one behind it; what
usually lies between two of its commits is left out. A commit tells when something was done, not when it was begun, so
times are as coarse as the group commits. The log does not say whether a member left or its session ran out. It is
compacted: of what lies before the part that was not cleaned yet it holds only the last record of each key, and the
generations that are missing are counted. All times are UTC. The tables lie beside this page as Parquet.</p>"""
