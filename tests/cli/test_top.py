"""`kohort top`: its keys, and its screen for any size and any names."""

from __future__ import annotations

import logging
import re
from dataclasses import replace

import pytest
from rich.cells import cell_len
from rich.console import Console

from kohort.cli.top import _logged_later
from kohort.cli.top_keys import Tab, View, press, read_keys
from kohort.cli.top_rows import Order, ordered, rows
from kohort.cli.top_screen import Screen, draw, page_height, sparkline
from kohort.group_events import Cause, MemberFacts
from kohort.model import TopicPartition
from kohort.recorder import RebalanceRecord, RefusedMember, Trigger
from kohort.telemetry import ClientTelemetry
from kohort.watch import Live, SourceKind
from kohort.watch.changes import Committed, GenerationMember, GenerationWritten
from kohort.watch.findings import LagTrails
from kohort.watch.telemetry import IDLE_RATIO, LAST_POLL

NOW = 1_700_000_000_000
HOSTILE = "\x1b[2J\x1b]0;owned\x07\r\n\u202e[red]日本語" + "e\u0301" * 200

# Keys


def test_keys_are_read_from_what_a_terminal_sends() -> None:
    assert read_keys("q\x1b[A\x1bOB\x1b[5~\r\x7fé") == (["q", "up", "down", "page up", "enter", "backspace", "é"], "")
    assert read_keys("\x1b[200~x\x1b[1;5C") == (["x"], "")  # sequences that mean nothing here


def test_a_sequence_that_arrives_in_parts_is_kept_until_it_is_whole() -> None:
    assert read_keys("a\x1b[") == (["a"], "\x1b[")
    assert read_keys("\x1b[" + "B") == (["down"], "")
    assert read_keys("\x1b") == ([], "\x1b")  # alone, it becomes the Escape key


def typed(view: View, *keys: str, groups: tuple[str, ...] = ("a", "b", "c"), page: int = 2) -> View:
    for key in keys:
        view = press(view, key, groups, page)
    return view


def test_the_selection_moves_within_the_list() -> None:
    assert typed(View(), "down", "j").selected == "c"
    assert typed(View(), "down", "down", "down", "down").selected == "c"
    assert typed(View(), "up").selected == "a"
    assert typed(View(), "G").selected == "c"
    assert typed(View(), "page down", "home").selected == "a"
    assert typed(View(), "down", "enter", groups=()).opened is None


def test_a_selected_group_that_is_gone_gives_way_to_the_first() -> None:
    assert typed(View(selected="gone"), "down").selected == "b"


def test_a_group_is_opened_and_left() -> None:
    view = typed(View(), "down", "enter")
    assert (view.opened, view.tab) == ("b", Tab.FINDINGS)
    assert typed(view, "2").tab is Tab.MEMBERS
    assert typed(view, "left").tab is Tab.REBALANCES
    assert typed(view, "down", "right").scroll == 0
    assert typed(view, "escape").opened is None


def test_typing_into_the_filter_is_no_command() -> None:
    view = typed(View(), "/", "q", "s", "x", "backspace", "up")
    assert (view.wanted, view.over, view.order) == ("qs", False, Order.HURT)
    assert typed(view, "enter", "q").over
    assert typed(view, "escape").wanted == ""
    assert len(typed(View(), "/", *"x" * 1_000).wanted) == 60


def test_sorting_goes_round() -> None:
    view = View()
    seen = []
    for _ in Order:
        view = typed(view, "s")
        seen.append(view.order)
    assert set(seen) == set(Order)
    assert seen[-1] is Order.HURT
    assert typed(View(), "l").order is Order.LAG


# The screen


def a_cluster(groups: int = 3, name: str = "group", members: int = 2) -> Live:
    """Each group has members and a partition for each; the first has flapped and stands still."""
    live = Live()
    cause = Cause.MEMBER_GONE.value if name.isprintable() else name  # strangers may write the journal
    for number in range(groups):
        group_id = f"{name}-{number}"
        parts = [TopicPartition(f"orders-{group_id}", n) for n in range(members)]
        held = [
            GenerationMember(MemberFacts(f"{name}m{n}", name, name), frozenset({parts[n].topic}), frozenset({parts[n]}))
            for n in range(members)
        ]
        live.apply(
            [GenerationWritten(group_id, NOW - 4_000_000, 9, "consumer", "range", None, tuple(held))]
            + [Committed(group_id, NOW - 3_000, part, 10) for part in parts],
            NOW,
        )
        facts = tuple(member.facts for member in held)
        for n in range(12 if number == 0 else 0):
            record = RebalanceRecord(
                group_id, n, None, NOW - (13 - n) * 10_000, (Trigger(cause, f"{name}m0"),), name,
                before=facts, after=facts,
            )  # fmt: skip
            live.groups[group_id].rebalances.append(record)
        live.sampled(dict.fromkeys(parts, 10 + 5 * number), NOW)
    return live


def screen_of(live: Live, order: Order = Order.HURT, wanted: str = "") -> Screen:
    trails = LagTrails()
    found = rows(live, trails, NOW)
    listed = ordered(found, order, wanted)
    return Screen(live, trails, listed, len(found), sum(bool(row.hurts) for row in found), "kafka:9092", NOW)


def lines_of(screen: Screen, view: View, width: int = 120, height: int = 24) -> list[str]:
    console = Console(width=width, height=height, color_system=None, markup=False, highlight=False, emoji=False)
    lines, _ = draw(screen, view, console)
    return [line.plain for line in lines]


def test_groups_that_hurt_come_first() -> None:
    live = a_cluster()
    lines = lines_of(screen_of(live), View())
    assert "3 groups, 1 hurt" in lines[0]
    assert lines[2].startswith("●  group-0")
    assert "The group does little else" in lines[2]
    assert [row.group_id for row in screen_of(live, Order.LAG).listed] == ["group-2", "group-1", "group-0"]
    assert [row.group_id for row in screen_of(live, Order.NAME, "-1").listed] == ["group-1"]


def test_a_row_counts_the_rebalances_of_the_last_hour() -> None:
    live = a_cluster(1)
    group = live.groups["group-0"]
    a, b = (
        RebalanceRecord("group-0", n, None, NOW - age, (Trigger(f"cause {n}"),)) for n, age in ((1, 90_000), (2, 5))
    )
    old = replace(a, ended_at=NOW - 3_600_000)
    refused = replace(b, ended_at=NOW, refused_members=(RefusedMember("x", "x", "", "", ""),))
    for records, history_from, expected in (
        ((old,), None, (None, None, None)),
        ((old,), 0, (0, None, None)),
        ((old, a, b, refused), 0, (2, NOW - 5, "cause 2")),
    ):
        live.history_from = history_from
        group.rebalances.clear()
        group.rebalances.extend(records)
        [row] = rows(live, LagTrails(), NOW)
        assert (row.rebalances, row.last_at, row.last_cause) == expected
    shouting = replace(row, group_id="GROUP-0")
    assert ordered([row, shouting], Order.NAME, "Group") == [shouting, row]


def test_groups_that_keep_up_stay_in_their_places() -> None:
    # Their lags change between 0 and a few seconds, so an order by them would change with each drawing.
    found = rows(a_cluster(), LagTrails(), NOW)
    for lags in ((1.0, 3.0, 2.0), (9.0, 0.0, 3.0), (10.0, 19.0, 11.0)):
        listed = [replace(row, hurts=(), lag_seconds=lag) for row, lag in zip(found, lags, strict=True)]
        assert [row.group_id for row in ordered(listed, Order.HURT)] == ["group-0", "group-1", "group-2"]
    behind = [replace(row, hurts=(), lag_seconds=lag) for row, lag in zip(found, (9.0, 10.0, 20.0), strict=True)]
    assert [row.group_id for row in ordered(behind, Order.HURT)] == ["group-2", "group-1", "group-0"]


@pytest.mark.parametrize("tab", Tab)
def test_an_open_group(tab: Tab) -> None:
    live = a_cluster()
    lines = "\n".join(lines_of(screen_of(live), View(opened="group-0", tab=tab), height=40))
    shows = {
        Tab.FINDINGS: "→ Find the members that come and go",
        Tab.MEMBERS: "group   group  –",
        Tab.PARTITIONS: "orders-group-0-0  group         10   10    0",
        Tab.REBALANCES: "member left or expired: group",
    }
    assert shows[tab] in lines


def test_members_have_what_their_clients_push_about_themselves() -> None:
    live, view = a_cluster(), View(opened="group-0", tab=Tab.MEMBERS)
    assert "idle" not in "\n".join(lines_of(screen_of(live), view))
    client = ClientTelemetry(
        "instance", "group", "group", "apache-kafka-java", "4.3.1", NOW, 30_000, group_id="group-0",
        member_id="groupm0", metrics={IDLE_RATIO: 0.125, LAST_POLL: 42.0},
    )  # fmt: skip
    live.client_reported(client, NOW)
    shown = "\n".join(lines_of(screen_of(live), view))
    assert re.search(r"partitions +idle +last poll", shown)
    assert re.search(r"1 +12 % +42 s ago", shown)
    assert re.search(r"1 +– +–", shown), "the other member pushes nothing"


def test_a_group_that_is_gone() -> None:
    assert "The group is gone." in lines_of(screen_of(a_cluster()), View(opened="gone"))


VIEWS = [View(), View(help=True), View(wanted=HOSTILE), *(View(opened=f"{HOSTILE}-0", tab=tab) for tab in Tab)]


@pytest.mark.parametrize("size", [(10, 1), (20, 3), (60, 12), (200, 50)], ids=str)
@pytest.mark.parametrize("view", VIEWS, ids=range(len(VIEWS)))
def test_hostile_names_fit_any_screen_and_do_not_command_it(view: View, size: tuple[int, int]) -> None:
    width, height = size
    lines = lines_of(screen_of(a_cluster(name=HOSTILE)), view, width, height)
    assert len(lines) == height
    for line in lines:
        assert line == "" or line.isprintable(), ascii(line)
        assert cell_len(line) <= width


@pytest.mark.parametrize(
    ("states", "said"),
    [
        ({}, "the groups are being read"),
        ({SourceKind.LOG: "loading"}, "the groups are being read"),
        ({SourceKind.LOG: "failed"}, "no groups are known"),
        ({SourceKind.LOG: "following"}, "no groups"),
        ({SourceKind.LOG: "forbidden", SourceKind.ADMIN: "following"}, "no groups"),
    ],
)
def test_an_empty_list_says_whether_the_groups_are_known(states: dict[SourceKind, str], said: str) -> None:
    live = Live()
    for kind, state in states.items():
        live.source(kind, state, NOW)
    assert said in [line.strip() for line in lines_of(screen_of(live), View())]


def test_the_last_line_but_one_names_the_source_that_fails() -> None:
    live = a_cluster()
    live.source(SourceKind.LOG, "forbidden", NOW, "The log needs an ACL.")
    live.source(SourceKind.ADMIN, "failed", NOW, "No broker answers.")
    assert lines_of(screen_of(live), View())[-2].endswith("admin: failed, No broker answers.")
    live.source(SourceKind.ADMIN, "off", NOW)
    live.source(SourceKind.LOG, "following", NOW)
    assert lines_of(screen_of(live), View())[-2] == "sorted by hurt"


def test_what_is_wrong_is_shown_as_a_whole_if_there_is_room() -> None:
    live = a_cluster()
    detail = "Rebalances and times of commits need the ACLs Read and Describe on the topic __consumer_offsets."
    live.source(SourceKind.LOG, "forbidden", NOW, detail)
    live.problem("A cluster lists only groups that you may describe.", NOW)
    lines = lines_of(screen_of(live), View(), 80, 24)
    said = " ".join(line.strip() for line in lines[-4:-1])
    assert said == (f"sorted by hurt  log: forbidden, {detail}  A cluster lists only groups that you may describe.")
    assert len(lines) == 24
    cut = lines_of(screen_of(live), View(), 80, 4)
    assert cut[-2].startswith("sorted by hurt  log: forbidden") and cut[-2].endswith("…")
    assert len(cut) == 4


def test_what_is_logged_meanwhile_is_printed_once_and_when_the_screen_is_closed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    log = logging.getLogger("kohort.client.test")
    with _logged_later():
        for number in range(20):
            log.warning("late %s", number)
            log.warning("often")
            log.info("of no interest")
        assert capsys.readouterr().err == ""
    assert capsys.readouterr().err.splitlines() == [*(f"late {number}" for number in range(11, 20)), "often"]
    with pytest.raises(KeyboardInterrupt), _logged_later():
        log.warning("once")
        raise KeyboardInterrupt
    assert capsys.readouterr().err == "once\n"


def test_a_thousand_groups_are_scrolled() -> None:
    screen = screen_of(a_cluster(1_000, members=1), Order.NAME)
    names = [row.group_id for row in screen.listed]
    view = press(View(order=Order.NAME), "end", names, page_height(24))
    lines = lines_of(screen, view)
    assert lines[21].lstrip("● ").startswith(names[-1])
    assert not any(line.lstrip("● ").startswith(f"{names[0]} ") for line in lines)


def test_scrolling_ends_where_the_group_does() -> None:
    live = a_cluster(members=100)
    console = Console(width=80, height=20, color_system=None)
    view = View(opened="group-0", tab=Tab.PARTITIONS, scroll=10_000)
    lines, settled = draw(screen_of(live), view, console)
    assert settled.scroll == 101 - 15
    assert "lines 87 to 101 of 101" in lines[-2].plain


def test_a_trend() -> None:
    assert sparkline([0.0, 5.0, None, 10.0]) == "▁▅ █"
    assert sparkline([]) == ""
