"""Rebalances as spans: the tree, its IDs, and when a record is final."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kohort import ConfigError
from kohort.group_events import Cause, MemberFacts
from kohort.recorder import PartitionChange, RebalanceRecord, RefusedMember, Trigger
from kohort.watch import traces_endpoint
from kohort.watch.traces import (
    HURTS_MS,
    MOST_DARK,
    MOST_MEMBERS,
    Earlier,
    Ended,
    FinalRecords,
    SpanValue,
    earlier_ones,
    ended,
    rebalance_spans,
    root_of,
)
from tests.recorder.stories import a_day

NOTHING = Earlier()


def spans_of(record: RebalanceRecord, earlier: Earlier = NOTHING) -> list[SpanValue]:
    return rebalance_spans(record, cluster_id="c1", earlier=earlier)


def tree(spans: list[SpanValue]) -> list[str]:
    """The spans as lines, with times since the start of the root, and steps below their members."""
    root = spans[0]
    lines: list[str] = []

    def show(span: SpanValue, depth: int) -> None:
        lines.append(f"{'  ' * depth}{span.name} {span.start - root.start}..{span.end - root.start}")
        for child in spans:
            if child.parent == span.id:
                show(child, depth + 1)

    show(root, 0)
    assert len(lines) == len(spans)
    return lines


def joined() -> RebalanceRecord:
    return next(record for record in a_day("range") if record.cause == Cause.MEMBER_JOINED.value)


def test_the_tree_has_members_with_their_steps_and_dark_partitions() -> None:
    assert tree(spans_of(joined())) == [
        "rebalance delays 0..71",
        "  member b 0..71",
        "    join 0..20",
        "    assign 20..21",
        "    first read 21..71",
        "  member a 0..56",
        "    revoke 0..20",
        "    join 20..20",
        "    assign 20..21",
        "    first read 21..56",
        "  dark flights-5 20..71",
        "  dark flights-4 20..66",
        "  dark flights-3 20..61",
        "  dark flights-2 20..56",
        "  dark flights-1 20..51",
        "  dark flights-0 20..46",
    ]


def test_the_root_says_why_and_what_it_cost() -> None:
    root = spans_of(joined(), Earlier(previous=Ended(1, 50)))[0]
    assert dict(root.attributes) == {
        "messaging.system": "kafka",
        "messaging.kafka.cluster.id": "c1",
        "messaging.consumer.group.name": "delays",
        "kohort.rebalance.generation": 2,
        "kohort.rebalance.cause": "member joined",
        "kohort.rebalance.assignor": "range",
        "kohort.rebalance.eager": True,
        "kohort.rebalance.members_before": 1,
        "kohort.rebalance.members_after": 2,
        "kohort.rebalance.members_came": 1,
        "kohort.rebalance.members_gone": 0,
        "kohort.rebalance.partitions_moved": 3,
        "kohort.rebalance.partitions_moved_needlessly": 0,
        "kohort.rebalance.wall_ms": 21,
        "kohort.rebalance.dark_partitions": 6,
        "kohort.rebalance.dark_ms_total": 231,
        "kohort.rebalance.dark_ms_longest": 51,
    }
    (event,) = root.events
    assert (event.name, event.at) == ("member joined", root.start)
    assert str(event.attributes["kohort.member.id"]).startswith("b-")
    assert root.links == ((root_of("c1", "delays", Ended(1, 50)), "previous rebalance"),)
    assert root.error is None


def test_a_member_that_waited_says_for_whom() -> None:
    waits = {span.attributes.get("kohort.step.waits_for") for span in spans_of(joined()) if span.name == "join"}
    assert {wait and str(wait)[0] for wait in waits} == {"a", None}


def test_ids_follow_from_the_rebalance_alone() -> None:
    record = joined()
    later = replace(record, partitions=record.partitions[:2], after=())
    ids, end = {span.id for span in spans_of(record)}, ended(record)
    assert len(ids) == len(spans_of(record))
    assert {span.id for span in spans_of(later)} <= ids
    assert spans_of(later)[0].id == root_of("c1", "delays", end)
    others = [root_of(*names, end) for names in (("c2", "delays"), ("c1", "delay"), ("c", "1delays"))]
    assert root_of("c", "g1", Ended(2, 5)) != root_of("c", "g", Ended(12, 5))
    others.append(root_of("c1", "delays", end._replace(generation=3)))
    others.append(root_of("c1", "delays", end._replace(at=end.at + 1)))  # the group was deleted and made again
    assert len({trace for trace, _ in [*others, *ids]}) == 6
    assert all(0 < trace < 1 << 128 and 0 < span < 1 << 64 for trace, span in ids)


def test_a_follow_up_links_to_the_rebalance_that_made_it_necessary() -> None:
    day = a_day("cooperative-sticky")
    place = next(place for place, each in enumerate(day) if each.follow_up_of is not None)
    links = dict(spans_of(day[place], earlier_ones(day[place], day))[0].links)
    assert links == {root_of("c1", "delays", ended(day[place - 1])): "made this rebalance necessary"}


def test_a_rebalance_links_to_the_one_before_it_although_generations_repeat() -> None:
    first, second, again = read(None, 1, 100), read(None, 2, 200), read(None, 1, 300)
    assert earlier_ones(second, [first, second, again]) == Earlier(Ended(1, 100))
    assert earlier_ones(again, [first, second, again]) == Earlier(Ended(2, 200))
    assert earlier_ones(first, [first, second, again]) == Earlier()
    follow_up = replace(again, generation=3, follow_up_of=1)
    assert earlier_ones(follow_up, [first, second]) == Earlier(Ended(2, 200), Ended(1, 100))
    later = replace(follow_up, ended_at=400)  # of the newest one with this generation
    assert earlier_ones(later, [first, second, again]).cause == Ended(1, 300)
    refused = RebalanceRecord("g", 0, None, 250, refused_members=(RefusedMember("", "", "", "", ""),))
    assert earlier_ones(again, [second, refused]) == Earlier(Ended(2, 200))  # that one has no trace


def test_it_is_an_error_if_a_partition_was_dark_for_long() -> None:
    record = joined()
    change = record.partitions[0]
    assert change.revoked_at is not None
    for dark, expected in ((HURTS_MS - 1, None), (HURTS_MS, "1 of 1 partitions were dark for 10 s or more.")):
        slow = replace(change, first_read_at=change.revoked_at + dark)
        assert spans_of(replace(record, partitions=(slow,)))[0].error == expected
    first = replace(slow, first_read_at=change.revoked_at + HURTS_MS)
    started = replace(record, partitions=(first,), triggers=(Trigger(Cause.FIRST_MEMBER.value),))
    assert spans_of(started)[0].error is None  # nobody waited for a group that had stopped
    missed = replace(record, gone=(Trigger(Cause.REBALANCE_TIMEOUT.value, "x"),))
    assert spans_of(missed)[0].error == "1 members were removed after the others had waited for them."


def test_a_record_of_the_log_alone_has_spans_without_unknown_times() -> None:
    a, b = MemberFacts("a", "a", ""), MemberFacts("b", "b", "")
    moved = PartitionChange("orders", 1, "a", "b", assigned_at=500)
    record = RebalanceRecord("g", 3, None, 500, leader_id="a", before=(a,), after=(a, b), partitions=(moved,))
    spans = spans_of(record)
    assert tree(spans) == ["rebalance g 0..0", "  member b 0..0", "    assign 0..0", "    first read 0..0"]
    assert [span.attributes.get("kohort.step.unknown") for span in spans[2:]] == ["start", "end"]
    assert tree(spans_of(RebalanceRecord("g", 3, None, 500))) == ["rebalance g 0..0"]


def test_a_large_group_has_a_bounded_number_of_spans() -> None:
    number = MOST_MEMBERS + 50
    members = tuple(MemberFacts(f"m{n}", f"m{n}", "") for n in range(number))
    changes = tuple(PartitionChange("t", n, f"m{n}", f"m{n}", 10, 20, 30 + n) for n in range(number))
    record = RebalanceRecord("g", 1, 0, 20, leader_id="m0", before=members, after=members, partitions=changes)
    spans = spans_of(record)
    assert sum(span.name.startswith("member ") for span in spans) == MOST_MEMBERS
    assert sum(span.name.startswith("dark ") for span in spans) == MOST_DARK
    assert spans[0].attributes["kohort.rebalance.members_omitted"] == 50
    assert spans[0].attributes["kohort.rebalance.dark_partitions_omitted"] == number - MOST_DARK
    assert f"dark t-{number - 1}" in {span.name for span in spans}  # the longest


def test_nothing_is_omitted_from_a_group_at_the_limit() -> None:
    changes = tuple(PartitionChange("t", n, "m", "m", 10, 20, 30 + n) for n in range(MOST_DARK))
    member = (MemberFacts("m", "m", ""),)
    record = RebalanceRecord("g", 1, 0, 20, leader_id="m", before=member, after=member, partitions=changes)
    assert not [name for name in spans_of(record)[0].attributes if name.endswith("_omitted")]


def test_text_from_the_cluster_is_bounded_and_valid() -> None:
    hostile = MemberFacts("\udcff" * 2, "c" * 5000, "")
    trigger = Trigger("x" * 999, hostile.member_id, "r" * 9999)
    record = RebalanceRecord("\ud800" + "g" * 999, 1, 0, 9, (trigger,), "\udcff", after=(hostile,), leader_id="l")
    for span in spans_of(record):
        values = [*span.attributes.values(), *(value for event in span.events for value in event.attributes.values())]
        names = [span.name, *(event.name for event in span.events)]
        texts = names + [value for value in values if isinstance(value, str)]
        for text in texts:
            assert len(text.encode()) < 600


# -- records that are final


def read(first_read_at: int | None, generation: int = 1, ended_at: int = 100) -> RebalanceRecord:
    change = PartitionChange("orders", 0, "a", "b", 50, ended_at, first_read_at)
    return RebalanceRecord("g", generation, 0, ended_at, partitions=(change,))


def test_a_record_is_final_when_all_its_partitions_are_read() -> None:
    final = FinalRecords(0, wait_ms=1000)
    final.add(read(None), 100)
    assert final.due(110) == []
    final.add(read(120), 120)
    assert final.due(120) == [read(120)]
    final.add(read(130), 130)
    assert final.due(5000) == []  # it is exported already


def test_a_group_that_is_made_again_repeats_generations() -> None:
    final = FinalRecords(0)
    for end in (100, 200):
        final.add(read(end + 20, ended_at=end), end)
    assert [record.ended_at for record in final.due(300)] == [100, 200]


@pytest.mark.parametrize("other", [{"source": "journal"}, {"polled": True}])
def test_two_sources_tell_of_the_same_rebalance(other: dict[str, Any]) -> None:
    final = FinalRecords(0)
    alone = replace(read(120, ended_at=95), **other)
    final.add(alone, 100)
    assert final.due(100) == [alone]
    final.add(read(120), 110)  # by the log, with another end
    assert final.due(5000) == []


def test_a_group_that_is_made_again_much_later_is_another_one_whichever_source_tells_it() -> None:
    final = FinalRecords(0)
    final.add(replace(read(120), source="journal"), 100)
    final.add(read(60_120, ended_at=60_100), 60_100)
    assert [record.ended_at for record in final.due(60_200)] == [100, 60_100]


def test_a_rebalance_that_is_forgotten_takes_no_newer_one_of_its_generation_along() -> None:
    final = FinalRecords(0, most=1)
    for end in (100, 200_000):
        final.add(read(end + 20, ended_at=end), end)
        assert [record.ended_at for record in final.due(end)] == [end]
    final.add(replace(read(200_020, ended_at=199_995), source="journal"), 200_100)
    assert final.due(300_000) == []


def test_a_record_waits_for_reads_for_a_bounded_time() -> None:
    final = FinalRecords(0, wait_ms=1000)
    final.add(read(None), 100)
    final.add(read(None), 900)  # an amended record does not wait anew
    assert final.due(1099) == []
    assert final.due(1100) == [read(None)]


def test_of_too_many_waiting_records_the_oldest_is_returned() -> None:
    final = FinalRecords(0, wait_ms=1000, most=2)
    for generation in (1, 2, 3):
        final.add(read(None, generation), 100)
    assert [record.generation for record in final.due(100)] == [1]
    assert [record.generation for record in final.rest()] == [2, 3]
    assert final.rest() == []


def test_records_are_returned_in_the_order_of_their_rebalances() -> None:
    final = FinalRecords(0)
    for generation, ended_at in ((2, 300), (1, 200)):  # the source of the second one was late
        final.add(read(None, generation, ended_at), 400)
    assert [record.ended_at for record in final.rest()] == [200, 300]


def test_history_and_refused_members_are_not_exported() -> None:
    final = FinalRecords(200)
    final.add(read(150, ended_at=199), 300)
    final.add(RebalanceRecord("g", 0, None, 300, refused_members=(RefusedMember("", "", "", "", ""),)), 300)
    assert final.rest() == []


# -- where to


@pytest.mark.parametrize(
    ("option", "environment", "expected"),
    [
        (None, {}, None),
        ("http://a.example.com:4318", {}, "http://a.example.com:4318/v1/traces"),
        ("http://a.example.com:4318/base/", {}, "http://a.example.com:4318/base/v1/traces"),
        ("http://a.example.com:4318/v1/traces", {}, "http://a.example.com:4318/v1/traces"),
        (None, {"OTEL_EXPORTER_OTLP_ENDPOINT": "https://b.example.com/otlp"}, "https://b.example.com/otlp/v1/traces"),
        (
            None,
            {
                "OTEL_EXPORTER_OTLP_ENDPOINT": "http://b.example.com",
                "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c.example.com/x",
            },
            "http://c.example.com/x",
        ),
        (
            "http://a.example.com",
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://b.example.com"},
            "http://a.example.com/v1/traces",
        ),
        (None, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://b.example.com", "OTEL_SDK_DISABLED": "TRUE"}, None),
        (None, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://b.example.com", "OTEL_TRACES_EXPORTER": "none"}, None),
        (None, {"OTEL_EXPORTER_OTLP_ENDPOINT": " "}, None),
    ],
)
def test_the_endpoint_is_that_of_the_option_or_of_the_environment(
    option: str | None, environment: dict[str, str], expected: str | None
) -> None:
    assert traces_endpoint(option, environment) == expected


def test_an_endpoint_that_cannot_be_used_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"must be a URL such as http://127.0.0.1:4318\."):
        traces_endpoint("127.0.0.1:4318", {})
    grpc = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://b.example.com:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
    with pytest.raises(ConfigError, match="OTEL_EXPORTER_OTLP_PROTOCOL is 'grpc'"):
        traces_endpoint(None, grpc)
    assert traces_endpoint(None, grpc | {"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf"}) is not None
