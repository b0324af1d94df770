"""Records of the brokers' journal, beside those that follow from the log or from two descriptions."""

from __future__ import annotations

from dataclasses import replace

from kohort.model import Millis, TopicPartition
from kohort.recorder import RebalanceRecord, RefusedMember, Trigger
from kohort.watch import Live, Rebalanced
from kohort.watch.changes import Committed, GenerationWritten, GroupDeleted
from kohort.watch.live import LiveEvent, SourceKind

ORDERS = TopicPartition("orders", 0)


def followed() -> tuple[Live, list[RebalanceRecord]]:
    live, told = Live(), list[RebalanceRecord]()

    def sink(event: LiveEvent, _now: Millis) -> None:
        if isinstance(event, Rebalanced):
            told.append(event.record)

    live.subscribe(sink)
    return live, told


def written(live: Live, generation: int, at: Millis, *, polled: bool = False) -> None:
    live.apply([GenerationWritten("g", at, generation, "consumer", "range", None, ())], at, polled=polled)


def kept(live: Live) -> list[tuple[int, Millis, str | None]]:
    return [(record.generation, record.ended_at, record.source) for record in live.groups["g"].rebalances]


def test_a_rebalance_that_the_log_does_not_have_is_reported_alone_after_some_seconds() -> None:
    live, told = followed()
    live.apply([Committed("g", 1, ORDERS, 1)], 1)
    live.journalled([RebalanceRecord("g", 4, 900, 1_000)], 1_100)
    live.expire_journal(11_000)
    assert not told
    live.expire_journal(11_100)
    live.expire_journal(20_000)
    assert [(record.generation, record.source) for record in told] == [(4, "journal")]
    assert kept(live) == [(4, 1_000, "journal")]
    # The log is read late: there is one record all the same, with the end that it has in the log.
    written(live, 4, 1_010)
    assert kept(live) == [(4, 1_010, "journal")]


def test_a_static_member_that_returns_repeats_a_generation_and_keeps_its_own_record() -> None:
    live, _ = followed()
    written(live, 1, 1_000)
    live.journalled([RebalanceRecord("g", 1, 900, 990), RebalanceRecord("g", 1, 20_900, 20_990)], 21_000)
    live.expire_journal(60_000)
    assert kept(live) == [(1, 1_000, "journal"), (1, 20_990, "journal")]


def test_what_two_descriptions_show_gives_way_to_the_journal() -> None:
    live, told = followed()
    written(live, 1, 5_000, polled=True)
    assert [record.polled for record in told] == [True]
    live.journalled([RebalanceRecord("g", 7, 3_000, 3_500)], 6_000)
    live.expire_journal(16_000)
    assert kept(live) == [(7, 3_500, "journal")]
    live.journalled([RebalanceRecord("g", 8, 40_000, 40_500)], 41_000)
    written(live, 2, 42_000, polled=True)
    live.expire_journal(60_000)
    assert kept(live) == [(7, 3_500, "journal"), (8, 40_500, "journal")]
    assert [record.generation for record in told if record.polled] == [1]


def test_a_refused_member_leaves_what_two_descriptions_show() -> None:
    refused = RefusedMember("m", "c", "/192.0.2.1", "INCONSISTENT_GROUP_PROTOCOL", "no common assignor")
    live, _ = followed()
    written(live, 1, 5_000, polled=True)
    live.journalled([RebalanceRecord("g", 1, 6_000, 6_000, refused_members=(refused,))], 6_000)
    written(live, 2, 7_000, polled=True)
    live.expire_journal(60_000)
    assert kept(live) == [(1, 5_000, None), (1, 6_000, "journal"), (2, 7_000, None)]


def test_a_refused_member_is_kept_beside_the_rebalances() -> None:
    live, _ = followed()
    written(live, 1, 1_000)
    refused = RefusedMember("m", "c", "/192.0.2.1", "INCONSISTENT_GROUP_PROTOCOL", "no common assignor")
    live.journalled([RebalanceRecord("g", 0, None, 1_200, refused_members=(refused,))], 1_300)
    live.expire_journal(11_300)
    assert [record.is_rebalance for record in live.groups["g"].rebalances] == [True, False]


def test_the_same_record_is_told_once_and_a_deleted_group_is_forgotten() -> None:
    live, told = followed()
    written(live, 1, 1_000)
    record = RebalanceRecord("g", 1, 900, 990, triggers=(Trigger("member left"),))
    for now in (1_100, 1_200):
        live.journalled([record], now)
    assert [each.source for each in told] == [None, "journal"]
    live.apply([GroupDeleted("g", 2_000, "classic")], 2_000)
    live.journalled([replace(record, generation=2)], 2_100)
    live.expire_journal(20_000)
    assert len(told) == 2
    assert not live._journal._records


def test_the_journal_of_very_many_groups_and_records_is_bounded() -> None:
    live, _ = followed()
    live.apply([Committed(f"group-{number}", 1, ORDERS, 1) for number in range(21_000)], 1)
    live.journalled([RebalanceRecord(f"group-{number}", 1, 1, 2) for number in range(21_000)], 2)
    assert len(live._journal._records) == 20_000
    live.journalled([RebalanceRecord("group-9", number, 1, number) for number in range(5_000)], 3)
    assert len(live._journal._records["group-9"]) == 50
    live.expire_journal(20_000)
    assert not live._journal._alone


def test_a_record_does_not_wait_for_a_log_that_may_not_be_read() -> None:
    live, told = followed()
    live.apply([Committed("g", 1, ORDERS, 1)], 1)
    live.source(SourceKind.LOG, "forbidden", 1)
    live.journalled([RebalanceRecord("g", 4, 900, 1_000)], 1_100)
    live.expire_journal(1_100)
    assert [(record.generation, record.source) for record in told] == [(4, "journal")]


def test_a_record_of_the_journal_is_of_no_rebalance_long_after_it_or_before_it() -> None:
    live, _ = followed()
    written(live, 1, 100_000)
    live.journalled([RebalanceRecord("g", 1, 900, 1_000), RebalanceRecord("g", 1, 199_900, 200_000)], 200_000)
    assert kept(live) == [(1, 100_000, None)]
    live.expire_journal(300_000)
    assert kept(live) == [(1, 1_000, "journal"), (1, 100_000, None), (1, 200_000, "journal")]
