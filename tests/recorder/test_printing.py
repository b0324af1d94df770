from __future__ import annotations

from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console, RenderableType

from kohort.group_events import MemberFacts, Refused, Weighed
from kohort.printable import printable
from kohort.recorder import PartitionChange, RebalanceRecord, Trigger
from kohort.recorder.views.member_labels import label_of, labels, seconds
from kohort.recorder.views.printing import headline, partitions_table, rebalances_table, summary, weighed_table
from tests.recorder.stories import a_day, facts


def rendered(what: RenderableType) -> list[str]:
    out = StringIO()
    Console(file=out, width=160).print(what)
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_a_line_has_cause_members_moves_and_dark_time() -> None:
    header, *lines = rendered(rebalances_table(a_day()))
    assert header.split() == ["time", "gen", "took", "why", "members", "moved", "median", "longest"]
    # Without the time of day, which depends on where the test runs.
    assert [" ".join(line.split()[1:]) for line in lines] == [
        "1 11 ms first member: a 1 (+1) 0 – –",
        "2 21 ms member joined: b 2 (+1) 3 to move – –",
        "3 21 ms └ follow-up of generation 2: owned partitions changed: a 2 3 56 ms 61 ms",
        "4 31 ms member joined: c 3 (+1) 2 to move – –",
        "5 31 ms └ follow-up of generation 4: owned partitions changed: a 3 2 64 ms 66 ms",
        "6 21 ms session expired: a 2 (−1) 2 54 ms 61 ms",
    ]


def test_several_groups_are_distinguished() -> None:
    record = RebalanceRecord("other", 1, None, 5)
    lines = rendered(rebalances_table([*a_day(), record]))
    assert lines[0].startswith("group") and lines[1].startswith("delays") and lines[-1].startswith("other")
    assert "unknown" in lines[-1]


def test_partitions_have_their_darkness_as_bars_on_one_scale() -> None:
    records = a_day("range")
    lines = rendered(partitions_table(records[-1], labels(records)))
    assert lines[0].split() == ["partition", "from", "to", "dark"]
    first = lines[1].split()
    assert first[:3] == ["flights-0", "a", "b"] and first[3].isdigit() and "━" in lines[1] and "╌" in lines[1]
    assert len(lines) == 7


def test_the_weights_of_the_assignor_are_printed_beside_the_member() -> None:
    member = MemberFacts("app-1-id", "app-1", "/a")
    weighed = (Weighed("app-1-id", "5 partitions; its fair share by weight 5 is 5.0"),)
    record = RebalanceRecord("g", 3, 1_000, 2_000, protocol="weighted", after=(member,), weighed=weighed)
    known = labels([record])
    assert "by weighted" in headline(record, known).plain
    assert [" ".join(line.split()) for line in rendered(weighed_table(record, known))] == [
        "member weighed",
        "app-1 5 partitions; its fair share by weight 5 is 5.0",
    ]


def test_the_summary_names_the_longest_darkness() -> None:
    records = a_day()
    longest = max((change.dark_ms or 0, str(change)) for record in records for change in record.partitions)
    assert summary(records).endswith(f"the longest for {longest[0]} ms ({longest[1]}).")
    assert summary([]) == "No rebalance is recorded."
    assert summary(records[:1]) == "1 rebalance, 0 partitions moved, none was dark."


def test_a_label_is_the_client_id_unless_two_members_share_it() -> None:
    record = RebalanceRecord(
        "g",
        1,
        None,
        5,
        after=(
            MemberFacts("rdkafka-1111", "rdkafka", "h"),
            MemberFacts("rdkafka-2222", "rdkafka", "h"),
            MemberFacts("rdkafka-3333", "rdkafka", "h", "static-3"),
            facts("a"),
        ),
    )
    known = labels([record])
    assert list(known.values()) == ["rdkafka/1111", "rdkafka/2222", "rdkafka/static-3", "a"]


def test_a_member_that_never_was_in_a_generation_has_the_client_id_of_its_member_id() -> None:
    assert label_of({}, facts("stranger").member_id) == "stranger"
    assert label_of({}, "short") == "short"
    assert label_of({}, None) == "–"


def test_durations_have_three_places() -> None:
    assert [seconds(ms) for ms in (None, 0, 999, 1000, 12_345, 100_000, 3_600_000)] == [
        "–",
        "0 ms",
        "999 ms",
        "1.00 s",
        "12.35 s",
        "100 s",
        "3,600 s",
    ]


def test_a_rejected_target_is_printed_with_its_reason() -> None:
    member = MemberFacts("app-1-id", "app-1", "/a")
    by_member = Refused("mine", "app-1-id", "it assigns orders-0 to no member")
    by_broker = Refused("theirs", None, "The assignor 'theirs' failed.")
    record = RebalanceRecord("g", 3, 1_000, 2_000, after=(member,), refused=(by_member, by_broker))
    assert (
        "unknown; then target of app-1 refused (it assigns orders-0 to no member); then target refused (The"
        in headline(record, labels([record])).plain
    )


def test_the_partitions_of_a_group_that_was_stopped_were_not_dark() -> None:
    member = MemberFacts("app-1-id", "app-1", "/a")
    change = PartitionChange("flights", 0, "old-id", "app-1-id", 1_000, 61_000, 61_005)
    back = RebalanceRecord(
        "g", 3, 61_000, 61_000, (Trigger("first member", "app-1-id"),), after=(member,), partitions=(change,)
    )
    assert rendered(rebalances_table([back]))[1].split()[-2:] == ["–", "–"]
    assert rendered(partitions_table(back, {}))[1].split() == ["flights-0", "old-id", "app-1-id", "–"]
    assert summary([back]) == "1 rebalance, 1 partition moved, none was dark."


HOSTILE = ("[red]x[/]", "[/]", ":smiley:", "\x1b[31mred\x1b[0m", "two\nlines\r", "\u202egnp.exe", "\x9b2J", "\ud800")


@pytest.mark.parametrize("name", HOSTILE)
def test_names_of_strangers_are_neither_markup_nor_commands(name: str) -> None:
    member = MemberFacts(f"{name}-id", name, name)
    record = RebalanceRecord(
        name, 2, 1_000, 2_000, (Trigger("member left", f"{name}-id", name),), name, before=(member,), after=(member,),
        partitions=(PartitionChange(name, 0, f"{name}-id", f"{name}-id", 1_000, 1_100, 1_200),),
        weighed=(Weighed(f"{name}-id", name),), refused=(Refused(name, f"{name}-id", name),),
    )  # fmt: skip
    other = replace(record, group_id="other")
    known = labels([record])
    tables = (rebalances_table([record, other]), partitions_table(record, known), weighed_table(record, known))
    for made in (*tables, headline(record, known)):
        out = StringIO()
        Console(file=out, width=400).print(made)  # with markup, which is rich's default
        assert printable(name) in out.getvalue()
        assert out.getvalue().replace("\n", "").isprintable()
    assert summary([record]).isprintable()
