"""Screen of `kohort top`. Pure: it renders a view of the groups for a given size.

All names are strangers' input: `shown` takes the control characters out, and `Text` has no markup.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.style import Style
from rich.table import Table
from rich.text import Text

from kohort.cli.top_keys import Tab, View, position
from kohort.cli.top_rows import HOUR_MS, GroupRow
from kohort.model import Millis
from kohort.recorder import Return, is_follow_up, name_of, returns
from kohort.recorder.views import label_of, labels, seconds
from kohort.watch import IDLE_RATIO, LAST_POLL, Live, WatchedGroup
from kohort.watch.findings import Finding, LagTrails, Severity, counted, duration, findings, shown

_AROUND = 4
"""Lines of the list that are not groups: title, header of the table, status, keys."""
_LONGEST_SENTENCE = 300
_MOST_LINES = 2_000
_MOST_REBALANCES = 200
_BARS = "▁▂▃▄▅▆▇█"
_COLORS = {Severity.CRITICAL: "bold red", Severity.WARNING: "yellow", Severity.INFO: "cyan"}
_LIST_KEYS = "↑↓ select  ⏎ open  / filter  s sort  ? help  q quit"
_GROUP_KEYS = "←→ 1-4 tabs  ↑↓ scroll  esc back  ? help  q quit"
_HELP = """Keys

↑ ↓ j k, page up and down, g G   select or scroll
⏎ or →    open the selected group       esc   back; in the list: no filter
/         show groups whose name contains what you type; ⏎ keeps it, esc drops it
s         sort by the next of: hurt, lag, rebalances, members, name
h l b m n sort by hurt, lag, rebalances, members, name
1 2 3 4, ← →, tab   findings, members, partitions, rebalances of a group
q, ctrl-C quit

Columns

●         the group hurts; docs/watch-findings.md explains each reason
lag       records that are not committed; lag s is the age of the oldest one
/h        rebalances of the last hour
"""


@dataclass(frozen=True, slots=True)
class Screen:
    """Everything that is shown."""

    live: Live
    trails: LagTrails
    listed: Sequence[GroupRow]
    """Rows in the order of the list, without those that the filter leaves out."""
    total: int
    """Number of all groups."""
    hurting: int
    where: str
    """Address of the cluster."""
    now: Millis


def page_height(height: int) -> int:
    """Return the number of groups that a screen of this height lists."""
    return max(1, height - _AROUND)


def draw(screen: Screen, view: View, console: Console) -> tuple[list[Text], View]:
    """Return the lines of the screen, and the view with a scroll position that exists."""
    width, height = console.width, console.height
    if view.help:
        return _fitted([*map(Text, _HELP.splitlines())], width, height), view
    if view.opened is not None:
        return _group(screen, view, console)
    return _fitted(_list(screen, view, width, height, console), width, height), view


def snapshot_table(listed: Sequence[GroupRow], now: Millis, width: int) -> RenderableType:
    """Return the list for an output that is no terminal."""
    return _table(listed, None, now, width)


# -- the list


def _list(screen: Screen, view: View, width: int, height: int, console: Console) -> list[Text]:
    names = [row.group_id for row in screen.listed]
    at, page = position(view, names), page_height(height)
    first = max(0, min(at - page // 2, len(names) - page))
    visible = screen.listed[first : first + page]
    selected = names[at] if names else None
    body = rendered(_table(visible, selected, screen.now, width), console, width)
    empty = [] if names else [Text(_why_empty(screen, view), "dim")]
    lines = [_title(screen), *body, *empty]
    order = f"sorted by {view.order.label}"
    if view.typing or view.wanted:
        order = f"filter: {shown(view.wanted)}{'▏' if view.typing else ''}  {order}"
    return [*_with_status(lines, _status(screen, order), console, width, height), Text(_LIST_KEYS, "reverse")]


def _why_empty(screen: Screen, view: View) -> str:
    if screen.total:
        return f"no group matches {shown(view.wanted)}"
    states = {source.state for source in screen.live.group_sources}
    if "following" in states:
        return "no groups"
    return "no groups are known" if "failed" in states else "the groups are being read"


def _title(screen: Screen) -> Text:
    groups = f"{screen.total} group{'s' * (screen.total != 1)}"
    return Text.assemble(
        ("kohort top ", "bold"),
        f" {shown(screen.where)}  {groups}, ",
        (f"{screen.hurting} hurt", "bold red" if screen.hurting else "green"),
        f"  {_clock(screen.now)}",
    )


def _status(screen: Screen, order: str) -> Text:
    """Return the order, what is wrong with the sources, and the last problem."""
    text = Text(order, "dim")
    wrong = [source for source in screen.live.sources.values() if source.state not in ("following", "off")]
    # A log that may not be read is a lesser trouble than a source that fails.
    for source in sorted(wrong, key=lambda each: each.state != "failed")[:1]:
        text.append(f"  {source.kind.value}: {source.state}", "yellow")
        if source.detail:
            text.append(f", {shown(source.detail, _LONGEST_SENTENCE)}", "yellow")
    if screen.live.problems:
        text.append(f"  {shown(list(screen.live.problems)[-1], _LONGEST_SENTENCE)}", "yellow")
    return text


def _with_status(lines: list[Text], status: Text, console: Console, width: int, height: int) -> list[Text]:
    """Return all lines but the last one: the status at the end, whole if there is room for it, else cut."""
    whole = rendered(status, console, width)
    below = whole if len(lines) + len(whole) < height else [status]
    blank = [Text()] * (height - 1 - len(lines) - len(below))
    return [*lines[: height - 1 - len(below)], *blank, *below]


def _table(visible: Sequence[GroupRow], selected: str | None, now: Millis, width: int) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold", expand=True)
    table.add_column("", width=1, no_wrap=True)
    table.add_column("group", no_wrap=True, overflow="ellipsis", ratio=3, min_width=12)
    columns = _columns(width)
    for name, right in columns:
        table.add_column(name, justify="right" if right else "left", no_wrap=True, overflow="ellipsis")
    table.add_column("what", no_wrap=True, overflow="ellipsis", ratio=4, min_width=8)
    for row in visible:
        cells = _cells(row)
        what = Text(row.hurts[0], "yellow") if row.hurts else Text(_last(row, now), "dim")
        more = f" (+{len(row.hurts) - 1})" if len(row.hurts) > 1 else ""
        table.add_row(
            Text("●", "bold red") if row.hurts else Text(" "),
            Text(shown(row.group_id)),
            *(cells[name] for name, _ in columns),
            what.append(more),
            style=Style(reverse=True) if row.group_id == selected else None,
        )
    return table


_ALL_COLUMNS = (
    ("lag", True, 40), ("lag s", True, 50), ("/h", True, 60), ("members", True, 70), ("state", False, 80),
    ("trend", False, 100), ("partitions", True, 110), ("type", False, 120),
)  # fmt: skip
"""Columns with the least width of a terminal that shows them."""
_IN_ORDER = ("type", "state", "members", "partitions", "lag", "lag s", "trend", "/h")


def _columns(width: int) -> list[tuple[str, bool]]:
    fitting = {name: right for name, right, least in _ALL_COLUMNS if width >= least}
    return [(name, fitting[name]) for name in _IN_ORDER if name in fitting]


def _cells(row: GroupRow) -> dict[str, str]:
    return {
        "type": row.type or "–",
        "state": shown(row.state),
        "members": f"{row.members:,}",
        "partitions": f"{row.partitions:,}",
        "lag": "–" if row.lag is None else f"{row.lag:,}",
        "lag s": "–" if row.lag_seconds is None else f"{row.lag_seconds:,.0f}",
        "trend": sparkline([lag for _, lag in row.lags][-12:]),
        "/h": "–" if row.rebalances is None else str(row.rebalances),
    }


def _last(row: GroupRow, now: Millis) -> str:
    return "" if row.last_at is None else f"{_ago(now - row.last_at)} ago: {shown(row.last_cause or '')}"


def sparkline(values: Sequence[float | None]) -> str:
    """Return the values as bars from 0 to the largest; a space where one is unknown."""
    most = max((value for value in values if value is not None), default=0.0) or 1.0
    return "".join(" " if value is None else _BARS[round(value / most * (len(_BARS) - 1))] for value in values)


# -- one group


def _group(screen: Screen, view: View, console: Console) -> tuple[list[Text], View]:
    width, height = console.width, console.height
    assert view.opened is not None
    group = screen.live.groups.get(view.opened)
    head = [_title(screen), Text(f"{shown(view.opened)}", "bold")]
    if group is None:
        return _fitted([*head, Text("The group is gone.")], width, height), view
    lags = screen.trails.of(group.group_id)
    found = findings(
        group, group.rebalances, screen.now, ends=screen.live.ends, lags=lags, telemetry=screen.live.telemetry
    )
    head[1].append(f"  {group.shown_type or 'offsets only'}  {shown(group.state)}", "default")
    head[1].append(f"  {shown(group.protocol or '')}  {_epoch(group)}{counted(len(group.members), 'member')}", "dim")
    names = {Tab.FINDINGS: f"findings ({len(found)})", Tab.REBALANCES: f"rebalances ({len(group.rebalances)})"}
    tabs = Text()
    for number, tab in enumerate(Tab, 1):
        tabs.append(f" {number} {names.get(tab, tab.value)} ", "reverse" if tab is view.tab else "dim").append(" ")
    body = rendered(_body(screen, group, view.tab, found), console, width)
    space = max(1, height - len(head) - 3)
    scroll = max(0, min(view.scroll, len(body) - space))
    part = body[scroll : scroll + space]
    more = f"lines {scroll + 1} to {scroll + len(part)} of {len(body)}" if len(body) > space else ""
    lines = _with_status([*head, tabs, *part], _status(screen, more), console, width, height)
    lines.append(Text(_GROUP_KEYS, "reverse"))
    return _fitted(lines, width, height), replace(view, scroll=scroll)


def _epoch(group: WatchedGroup) -> str:
    if group.epoch is None:
        return ""
    return f"{'generation' if group.type == 'classic' else 'epoch'} {group.epoch}  "


def _body(screen: Screen, group: WatchedGroup, tab: Tab, found: Sequence[Finding]) -> RenderableType:
    match tab:
        case Tab.FINDINGS:
            return _findings(found)
        case Tab.MEMBERS:
            return _members(screen, group)
        case Tab.PARTITIONS:
            return _partitions(screen, group)
        case Tab.REBALANCES:
            return _rebalances(group)


def _findings(found: Sequence[Finding]) -> RenderableType:
    if not found:
        return Text("Nothing is known to be wrong.", "green")
    lines: list[RenderableType] = []
    for finding in found:
        color = _COLORS[finding.severity]
        lines += [
            Text.assemble(("● ", color), (finding.title, color), (f"  {finding.code}", "dim")),
            Padding(Text(finding.text), (0, 0, 0, 2)),
            Padding(Text(f"→ {finding.advice}", "dim"), (0, 0, 0, 2)),
            Text(),
        ]
    return Group(*lines)


def _members(screen: Screen, group: WatchedGroup) -> RenderableType:
    if not group.members:
        return Text("no members", "dim")
    returned = [each.came.member.member_id for each in _returns(group, screen.now)]
    pushed = {member_id: each.metrics for member_id in group.members if (each := screen.live.telemetry.get(member_id))}
    own = ("idle", "last poll") if pushed else ()
    table = _plain_table(
        "client", "host", "instance", "epoch", "partitions", *own, "", right=(3, 4, 5, 6)[: 2 + len(own)]
    )
    for _, member in sorted(group.members.items(), key=lambda each: name_of(each[1].facts))[:_MOST_LINES]:
        facts = member.facts
        back = "came back in the last hour" if facts.member_id in returned else ""
        epoch = "–" if member.epoch is None else str(member.epoch)
        table.add_row(
            *(Text(shown(each)) for each in (facts.client_id, facts.client_host, facts.instance_id or "–")),
            epoch,
            str(len(member.owned)),
            *(_own(pushed.get(facts.member_id, {})) if pushed else ()),
            Text("waits" if not member.stable else back, "yellow"),
        )
    return table


def _own(pushed: Mapping[str, float]) -> tuple[str, str]:
    """Return what a client says of itself (KIP-714): its share of idle time between polls, and its last poll's age."""
    idle, ago = pushed.get(IDLE_RATIO), pushed.get(LAST_POLL)
    return "–" if idle is None else f"{100 * idle:.0f} %", "–" if ago is None else f"{ago:.0f} s ago"


def _returns(group: WatchedGroup, now: Millis) -> list[Return]:
    return returns(record for record in group.rebalances if record.ended_at > now - HOUR_MS)


def _partitions(screen: Screen, group: WatchedGroup) -> RenderableType:
    progress = screen.live.snapshot(screen.now).progress(group)
    if not progress:
        return Text("no partitions", "dim")
    table = _plain_table("partition", "owner", "committed", "end", "lag", "lag s", "last commit", right=(2, 3, 4, 5))
    progress.sort(key=lambda each: (-(each.lag.seconds if each.lag else 0.0), each.partition))
    for each in progress[:_MOST_LINES]:
        member = group.members.get(each.owner or "")
        table.add_row(
            Text(shown(str(each.partition))),
            Text(shown(member.facts.client_id)) if member else Text("nobody", "red" if group.members else "dim"),
            *("–" if number is None else f"{number:,}" for number in (each.committed, each.end)),
            "–" if each.lag is None else f"{each.lag.records:,}",
            "–" if each.lag is None else f"{each.lag.seconds:,.0f}",
            "–" if each.committed_at is None else f"{_ago(screen.now - each.committed_at)} ago",
        )
    return table


def _rebalances(group: WatchedGroup) -> RenderableType:
    latest = list(group.rebalances)[-_MOST_REBALANCES:][::-1]
    if not latest:
        return Text("no rebalances in the history", "dim")
    known = labels(latest)
    table = _plain_table("time", "epoch", "took", "why", "members", "moved", "dark", right=(1, 2, 4, 5, 6))
    for record in latest:
        why = "follow-up" if is_follow_up(record) else record.cause or "unknown cause"
        who = next((trigger.member_id for trigger in record.triggers if trigger.member_id), None)
        table.add_row(
            _clock(record.ended_at),
            str(record.generation),
            seconds(record.wall_ms),
            Text(shown(why) if who is None else f"{shown(why)}: {shown(label_of(known, who))}"),
            str(record.members_after),
            str(len(record.moved)),
            seconds(sum(record.dark_times)) if record.dark_times else "–",
        )
    return table


# -- parts


def _plain_table(*names: str, right: Sequence[int] = ()) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for number, name in enumerate(names):
        justify = "right" if number in right else "left"
        table.add_column(name, justify="right" if justify == "right" else "left", no_wrap=True, overflow="ellipsis")
    return table


def rendered(renderable: RenderableType, console: Console, width: int) -> list[Text]:
    """Return the lines of something that rich renders."""
    options = console.options.update(width=width, height=None)
    lines = console.render_lines(renderable, options, pad=False)
    return [Text.assemble(*((each.text, each.style or "") for each in line), no_wrap=True) for line in lines]


def _fitted(lines: Iterable[Text], width: int, height: int) -> list[Text]:
    """Return as many lines as the screen has, none of them wider than it."""
    fitting = list(lines)[:height]
    for line in fitting:
        if cell_len(line.plain) > width:
            line.truncate(width, overflow="ellipsis")
    return fitting + [Text()] * (height - len(fitting))


def _ago(ms: Millis) -> str:
    return duration(max(0, ms) / 1000)


def _clock(at: Millis) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at / 1000))
