from __future__ import annotations

from dataclasses import replace

from kohort.group_events import MemberFacts
from kohort.model import Millis, TopicPartition
from kohort.recorder import PartitionChange, RebalanceRecord, Trigger
from kohort.watch import GroupsChanged, Live
from kohort.watch.changes import (
    AssignmentWritten,
    Committed,
    EpochRaised,
    GenerationMember,
    GenerationWritten,
    MemberDeleted,
    MemberWritten,
    TargetComputed,
)
from kohort.watch.history import DARK, LAG_POINTS, MOST_CHANGES, MOST_SPANS, Histories, LagSeries, Span
from tests.watch.log import ORDERS

FACTS = {name: MemberFacts(name, f"client-{name}", f"/10.0.0.{ord(name)}") for name in "abc"}


def generation(at: Millis, number: int, **members: tuple[int, ...]) -> GenerationWritten:
    made = tuple(
        GenerationMember(
            FACTS[name],
            frozenset(["orders"]),
            frozenset(TopicPartition("orders", partition) for partition in partitions),
        )
        for name, partitions in members.items()
    )
    return GenerationWritten("g", at, number, "consumer", "range", next(iter(members), None), made)


def made(*changes: GenerationWritten | Committed, history_from: Millis | None = 0) -> Histories:
    live = Live(history_from=history_from)
    histories = Histories(live)
    live.subscribe(histories.sink)
    for change in changes:
        live.apply([change], change.at)
    return histories


def spans(histories: Histories, partition: int, start: Millis = 0, end: Millis = 100_000) -> list[Span]:
    return list(histories.timeline("g", start, end).partitions[TopicPartition("orders", partition)])


def record(
    histories: Histories,
    *changes: PartitionChange,
    at: Millis,
    number: int = 2,
    after: str = "ab",
    source: str | None = None,
) -> None:
    """Put a record in place of the last one, as a source does that knows more."""
    rebalances = histories.live.groups["g"].rebalances
    members = tuple(FACTS[name] for name in after)
    known = RebalanceRecord(
        "g", number, at, at, (Trigger("member joined"),), after=members, partitions=changes, source=source
    )
    rebalances[-1] = known
    histories.live.rebalanced([known], at)


def test_each_generation_begins_a_span_of_each_partition_that_moves() -> None:
    histories = made(generation(1_000, 1, a=(0, 1)), generation(5_000, 2, a=(0,), b=(1,)))
    assert spans(histories, 0) == [(0, 1_000, None), (1_000, None, "a")]
    assert spans(histories, 1) == [(0, 1_000, None), (1_000, 5_000, "a"), (5_000, None, "b")]


def test_a_partition_is_dark_between_its_revocation_and_the_first_read() -> None:
    histories = made(generation(1_000, 1, a=(0,)), generation(5_000, 2, b=(0,)))
    record(histories, PartitionChange("orders", 0, "a", "b", 4_000, 5_000, 5_500), at=5_000)
    assert spans(histories, 0) == [(0, 1_000, None), (1_000, 4_000, "a"), (4_000, 5_500, DARK), (5_500, None, "b")]


def test_without_a_first_read_it_is_dark_until_the_assignment() -> None:
    histories = made(generation(1_000, 1, a=(0,)), generation(5_000, 2, b=(0,)))
    record(histories, PartitionChange("orders", 0, "a", "b", 4_000, 5_000), at=5_000, source="journal")
    assert spans(histories, 0)[2:] == [(4_000, 5_000, DARK), (5_000, None, "b")]


def test_a_quiet_partition_is_not_dark_since_its_last_commit() -> None:
    # The log does not show when its owner stopped: it had nothing to commit.
    histories = made(generation(1_000, 1, a=(0,)), generation(5_000, 2, b=(0,)))
    record(histories, PartitionChange("orders", 0, "a", "b", 1_500, 5_000), at=5_000)
    assert spans(histories, 0)[1:] == [(1_000, 5_000, "a"), (5_000, None, "b")]


def test_a_group_that_does_not_commit_is_not_dark_between_two_owners() -> None:
    # Nothing shows that the owner before ever read: it "stopped" when it began.
    histories = made(generation(1_000, 1, a=(0,)), generation(5_000, 2, b=(0,)))
    record(histories, PartitionChange("orders", 0, "a", "b", 1_000, 5_000), at=5_000, source="journal")
    assert spans(histories, 0)[1:] == [(1_000, 5_000, "a"), (5_000, None, "b")]


def test_the_first_members_of_a_group_end_no_dark_time() -> None:
    histories = made(generation(5_000, 2, b=(0,)))
    change = PartitionChange("orders", 0, "a", "b", 1_500, 5_000, 5_500)
    first = RebalanceRecord("g", 2, 5_000, 5_000, (Trigger("first member"),), after=(FACTS["b"],), partitions=(change,))
    histories.live.groups["g"].rebalances[-1] = first
    assert spans(histories, 0) == [(0, 5_000, None), (5_000, None, "b")]


def test_a_read_before_the_revocation_makes_no_dark_time() -> None:
    histories = made(generation(1_000, 1, a=(0,)), generation(5_000, 2, b=(0,)))
    record(histories, PartitionChange("orders", 0, "a", "b", 4_500, 4_000, 4_200), at=5_000)
    assert spans(histories, 0)[1:] == [(1_000, 4_200, "a"), (4_200, None, "b")]


def test_a_partition_without_an_owner_is_dark_until_another_generation() -> None:
    histories = made(generation(1_000, 1, a=(0, 1)), generation(5_000, 2, a=(0,), b=()))
    record(histories, PartitionChange("orders", 1, "a", None, 4_000), at=5_000)
    assert spans(histories, 1)[1:] == [(1_000, 4_000, "a"), (4_000, None, DARK)]


def test_an_empty_group_is_not_dark() -> None:
    histories = made(generation(1_000, 1, a=(0,)), generation(5_000, 2), generation(9_000, 3, b=(0,)))
    assert spans(histories, 0) == [
        (0, 1_000, None),
        (1_000, 5_000, "a"),
        (5_000, 9_000, None),
        (9_000, None, "b"),
    ]


def test_partitions_that_no_record_mentions_have_no_owner_when_the_group_becomes_empty() -> None:
    histories = made(generation(1_000, 1, a=(0, 1)), generation(5_000, 2))
    record(histories, PartitionChange("orders", 0, "a", None, 4_000), at=5_000, after="")
    assert spans(histories, 1)[1:] == [(1_000, 5_000, "a"), (5_000, None, None)]


def test_a_first_read_after_the_start_belongs_to_a_rebalance_before_it() -> None:
    histories = made(generation(1_000, 1, a=(0,)), generation(5_000, 2, b=(0,)))
    record(histories, PartitionChange("orders", 0, "a", "b", 4_000, 5_000, 8_000), at=5_000)
    assert spans(histories, 0, 6_000) == [(6_000, 8_000, DARK), (8_000, None, "b")]


def test_a_timeline_is_cut_at_both_ends() -> None:
    histories = made(
        generation(1_000, 1, a=(0,)),
        generation(5_000, 2, b=(0,)),
        # Without a commit, it would count as dark until the next owner.
        Committed("g", 5_100, TopicPartition("orders", 0), 7),
        Committed("g", 8_900, TopicPartition("orders", 0), 9),
        generation(9_000, 3, c=(0,)),
        history_from=500,
    )
    assert spans(histories, 0, 2_000, 6_000) == [(2_000, 5_000, "a"), (5_000, None, "b")]
    assert spans(histories, 0, 6_000, 7_000) == [(6_000, None, "b")]
    assert spans(histories, 0, 0, 700) == [(500, None, None)]
    timeline = histories.timeline("g", 2_000, 6_000)
    assert [each.generation for each in timeline.records] == [2]
    assert list(timeline.members) == ["a", "b"]


def test_a_group_that_did_not_change_has_one_owner_for_as_long_as_it_was_watched() -> None:
    histories = made(generation(40_000, 7, a=(0,)), history_from=None)
    histories.live.groups["g"].rebalances.clear()
    assert spans(histories, 0) == [(40_000, None, "a")]


def test_what_no_record_reports_yet_is_shown_as_it_was_seen() -> None:
    histories = made(generation(1_000, 1, a=(0, 1)))
    group = histories.live.groups["g"]
    group.members["a"].owned = frozenset([TopicPartition("orders", 0)])
    histories.live.apply([Committed("g", 3_000, TopicPartition("orders", 0), 1)], 3_000)
    assert spans(histories, 1) == [(0, 1_000, None), (1_000, 3_000, "a"), (3_000, None, DARK)]
    histories.live.apply([generation(5_000, 2, a=(0,), b=(1,))], 5_000)
    assert spans(histories, 1) == [(0, 1_000, None), (1_000, 5_000, "a"), (5_000, None, "b")]


def test_an_owner_that_was_seen_after_the_end_is_not_that_of_the_time_before() -> None:
    histories = made(generation(1_000, 1, a=(0,)))
    group = histories.live.groups["g"]
    group.rebalances.clear()
    histories.groups["g"].changes.clear()  # as if it was watched from its first generation on
    group.members["c"] = replace(group.members["a"], facts=FACTS["c"])
    group.members["a"].owned = frozenset()
    histories.live.apply([Committed("g", 3_000, TopicPartition("orders", 0), 1)], 3_000)
    assert spans(histories, 0, 0, 9_000) == [(0, 3_000, None), (3_000, None, "c")]
    assert spans(histories, 0, 0, 2_000) == [(0, None, None)]


def test_an_owner_that_no_record_tells_follows_an_empty_group() -> None:
    histories = made(generation(1_000, 1, a=(0,)))
    members = histories.live.groups["g"].members
    member = replace(members["a"], facts=FACTS["b"])
    histories.live.apply([generation(5_000, 2)], 5_000)
    histories.live.groups["g"].members["b"] = member
    assert spans(histories, 0)[1:] == [(1_000, 5_000, "a"), (5_000, None, "b")]


def test_a_member_that_is_in_no_record_keeps_its_name_when_it_is_gone() -> None:
    histories = made(generation(1_000, 1, a=(0,)))
    live, orders = histories.live, TopicPartition("orders", 0)
    members = live.groups["g"].members
    passing = replace(members["a"], facts=FACTS["c"])
    members["a"].owned, members["c"] = frozenset(), passing
    live.apply([Committed("g", 2_000, orders, 1)], 2_000)
    del members["c"]
    members["a"].owned = frozenset([orders])
    live.apply([Committed("g", 3_000, orders, 2)], 3_000)
    timeline = histories.timeline("g", 0, 9_000)
    assert [owner for _, _, owner in timeline.partitions[orders]] == [None, "a", "c", "a"]
    assert timeline.members["c"] == FACTS["c"]


def test_a_record_replaces_what_was_seen() -> None:
    histories = made(generation(1_000, 1, a=(0,)))
    # The log's records are older than the time at which they are read.
    histories.live.apply([generation(5_000, 2, b=(0,))], 8_000)
    assert spans(histories, 0)[1:] == [(1_000, 5_000, "a"), (5_000, None, "b")]
    assert not histories.groups["g"].changes


def test_the_owners_in_json_are_indexes_of_members() -> None:
    histories = made(generation(1_000, 1, a=(0,)), generation(5_000, 2, b=(0,)))
    record(histories, PartitionChange("orders", 0, "a", "b", 4_000, 5_000, 5_500), at=5_000)
    told = histories.timeline("g", 0, 9_000).to_json()
    assert told["members"] == [
        {"member_id": "a", "client_id": "client-a", "client_host": "/10.0.0.97"},
        {"member_id": "b", "client_id": "client-b", "client_host": "/10.0.0.98"},
    ]
    assert told["partitions"] == [
        {
            "topic": "orders",
            "partition": 0,
            "spans": [[0, 1_000, None], [1_000, 4_000, 0], [4_000, 5_500, -1], [5_500, None, 1]],
        }
    ]


def test_a_timeline_with_too_many_spans_begins_later() -> None:
    everything = tuple(range(1_000))
    changes = [
        generation(number * 1_000, number, **{"ab"[number % 2]: everything})
        for number in range(1, MOST_SPANS // 1_000 + 10)
    ]
    timeline = made(*changes).timeline("g", 0, 1_000_000)
    assert timeline.start > 0
    assert 0 < sum(map(len, timeline.partitions.values())) <= MOST_SPANS
    assert timeline.records[-1].generation == changes[-1].generation


def test_changes_without_a_record_are_bounded() -> None:
    histories = made(generation(1_000, 1, a=(0,)))
    member = histories.live.groups["g"].members["a"]
    for at in range(2_000, 2_000 + MOST_CHANGES):
        member.owned = frozenset([TopicPartition("orders", at % 2)])
        histories.live.apply([Committed("g", at, TopicPartition("orders", 0), 1)], at)
    assert len(histories.groups["g"].changes) == MOST_CHANGES


def test_the_lag_series_has_the_largest_lag_of_each_minute_of_an_hour() -> None:
    series = LagSeries()
    for second in range(0, 7_200, 10):
        series.add(second * 1_000, float(second % 60 + second // 60))
    assert len(series.points) == LAG_POINTS
    assert series.points[-1] == (119 * 60_000, 50.0 + 119)


def test_a_constant_lag_is_two_points() -> None:
    series = LagSeries()
    for minute in range(10):
        series.add(minute * 60_000, 0.0 if minute else None)
    assert series.since(60_000) == [(60_000, 0.0), (540_000, 0.0)]
    assert series.since(0)[0] == (0, None)


def test_a_lag_that_is_unknown_does_not_hide_that_of_the_same_minute() -> None:
    series = LagSeries()
    for seconds in (None, 3.0, None):
        series.add(60_000, seconds)
    assert list(series.points) == [(60_000, 3.0)]


def test_each_groups_lag_is_sampled_in_turn() -> None:
    histories = made(generation(1_000, 1, a=(0,)))
    live, orders = histories.live, TopicPartition("orders", 0)
    live.apply([Committed("g", 1_000, orders, 5)], 1_000)
    for second in range(1, 200):
        live.sampled({orders: 5 + second}, second * 1_000)
    points = histories.groups["g"].lags.points
    assert [at for at, _ in points] == [0, 60_000, 120_000, 180_000]
    assert all(seconds is not None and seconds > 0 for _, seconds in list(points)[1:])


def test_the_history_of_a_deleted_group_is_forgotten() -> None:
    histories = made(generation(1_000, 1, a=(0,)))
    histories.live.watcher.groups.clear()
    histories.live.apply([Committed("other", 2_000, TopicPartition("orders", 0), 1)], 2_000)
    histories.sink(GroupsChanged(frozenset(["g"])), 3_000)
    assert set(histories.groups) == {"other"}


def test_a_static_member_that_is_away_leaves_its_partitions_dark() -> None:
    live = Live(history_from=0)
    live.watcher.name_topics({ORDERS: "orders"})
    histories = Histories(live)
    live.subscribe(histories.sink)

    def step(at: Millis, name: str, epochs: tuple[int, int]) -> None:
        one = frozenset({(ORDERS, 0)})
        live.apply([AssignmentWritten("g", at, name, epochs[1], epochs[0], True, one, frozenset())], at)

    live.apply([MemberWritten("g", 1_000, FACTS["a"], frozenset({"orders"})), EpochRaised("g", 1_000, 1)], 1_000)
    live.apply([TargetComputed("g", 1_000, 1)], 1_000)
    step(1_000, "a", (0, 1))
    for at in (2_000, 3_000, 4_000, 4_900):  # the last one as it leaves
        live.apply([Committed("g", at, TopicPartition("orders", 0), at)], at)
    step(5_000, "a", (1, -2))
    assert spans(histories, 0)[-2:] == [(1_000, 5_000, "a"), (5_000, None, DARK)]
    live.apply([MemberDeleted("g", 9_000, "a"), MemberWritten("g", 9_000, FACTS["b"], frozenset({"orders"}))], 9_000)
    step(9_000, "b", (0, 1))
    live.apply([Committed("g", 10_000, TopicPartition("orders", 0), 10_000)], 10_000)
    assert [record.dark_times for record in live.groups["g"].rebalances][-1] == [4_050]
    assert spans(histories, 0)[-2:] == [(4_950, 9_000, DARK), (9_000, None, "b")]
