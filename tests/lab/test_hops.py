"""Hops of moved partitions, from histories of a few lines, with milliseconds as the unit of time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from kohort.lab.broker_trace import BrokerTrace, Request, read_trace
from kohort.lab.events import Assigned, Event, Gone, Joining, Read, Ready, Revoked
from kohort.lab.hop_table import hops_html
from kohort.lab.hops import Move, moves, summarise_hops
from kohort.lab.lab_group import Trigger
from kohort.wire.messages.api_key import ApiKey

MS = 1_000_000

_LEAVE: list[Event] = [
    Revoked(110 * MS, "a", (1,)),
    Ready(115 * MS, "a"),
    Gone(150 * MS, "a", False),
    Assigned(135 * MS, "b", (1,)),
    Ready(136 * MS, "b"),
    Read(190 * MS, "b", ((1, 5, 5),)),
]


def test_a_leave_is_followed_from_the_trigger_to_the_first_record() -> None:
    requests = [
        _request(ApiKey.CONSUMER_GROUP_HEARTBEAT, "a", 117, 123, epoch=-1),
        _request(ApiKey.CONSUMER_GROUP_HEARTBEAT, "b", 50, 124, epoch=2, told=(0, 1)),
        _request(ApiKey.OFFSET_FETCH, "b", 140, 141, asked=(1,)),
        _request(ApiKey.FETCH, "b", 105, 146, told=()),
        _request(ApiKey.FETCH, "b", 150, 180, asked=(0, 1), told=(1,)),
    ]
    (move,) = _moves(_LEAVE, requests, syncs=[(60, 119), (120, 122)])
    assert (move.partition, move.before, move.after) == (1, "a", "b")
    assert _took(move) == {
        "old owner stops": 10,
        "callback of the old owner ends": 5,
        "release is received": 2,
        "decision is appended": 3,
        "decision is synced": 2,
        "assignment is answered": 2,
        "callback of the new owner begins": 11,
        "callback of the new owner ends": 1,
        "request for the position is received": 4,
        "position is answered": 1,
        "fetch of other partitions is answered": 5,
        "fetch is received": 4,
        "fetch is answered": 30,
        "first record is read": 10,
    }


def test_a_heartbeat_that_arrives_after_the_release_is_a_hop_of_the_new_owner() -> None:
    requests = [
        _request(ApiKey.CONSUMER_GROUP_HEARTBEAT, "a", 117, 123, epoch=-1),
        _request(ApiKey.CONSUMER_GROUP_HEARTBEAT, "b", 130, 131, epoch=2, told=(0, 1)),
    ]
    (move,) = _moves(_LEAVE, requests, syncs=[(120, 122)])
    took = _took(move)
    assert took["its request for the assignment is received"] == 13
    assert "decision is synced" not in took  # it was over before the request


def test_a_new_member_and_the_owner_that_must_give_up_are_followed_through_two_rebalances() -> None:
    events: list[Event] = [
        Joining(120 * MS, "b"),
        Revoked(150 * MS, "a", (1,)),
        Ready(152 * MS, "a"),
        Assigned(190 * MS, "b", (1,)),
        Ready(191 * MS, "b"),
        Read(200 * MS, "b", ((1, 5, 5),)),
    ]
    requests = [
        _request(ApiKey.HEARTBEAT, "a", 40, 132, code=27),
        _request(ApiKey.JOIN_GROUP, "b", 130, 140),
        _request(ApiKey.JOIN_GROUP, "a", 134, 140),
        _request(ApiKey.SYNC_GROUP, "a", 142, 145, told=(0,)),
        _request(ApiKey.SYNC_GROUP, "b", 143, 145, told=()),
        _request(ApiKey.HEARTBEAT, "b", 146, 157, code=27),
        _request(ApiKey.JOIN_GROUP, "a", 155, 165),
        _request(ApiKey.JOIN_GROUP, "b", 160, 165),
        _request(ApiKey.SYNC_GROUP, "b", 168, 180, told=(1,)),
    ]
    (move,) = _moves(events, requests, syncs=[(170, 178)])
    assert _took(move) == {
        "new member begins to join": 20,
        "its request to join is received": 10,
        "request of the old owner is received": 12,
        "old owner is answered": 3,
        "old owner stops": 5,
        "callback of the old owner ends": 2,
        "release is received": 3,
        "new owner is notified": 2,
        "its JoinGroup is received": 3,
        "its JoinGroup is answered": 5,
        "its request for the assignment is received": 3,
        "decision is appended": 2,
        "decision is synced": 8,
        "assignment is answered": 2,
        "callback of the new owner begins": 10,
        "callback of the new owner ends": 1,
        "first record is read": 9,
    }


def test_the_last_sync_before_the_assignment_is_that_of_the_decision() -> None:
    # The one before it is that of another group.
    requests = [
        _request(ApiKey.CONSUMER_GROUP_HEARTBEAT, "a", 117, 123, epoch=-1),
        _request(ApiKey.CONSUMER_GROUP_HEARTBEAT, "b", 50, 124, epoch=2, told=(0, 1)),
    ]
    (move,) = _moves(_LEAVE, requests, syncs=[(118, 119), (120, 122)])
    took = _took(move)
    assert (took["decision is appended"], took["decision is synced"]) == (3, 2)


def test_a_fetch_that_ends_after_the_next_one_has_arrived_did_not_delay_it() -> None:
    requests = [
        _request(ApiKey.FETCH, "b", 105, 160, told=()),
        _request(ApiKey.FETCH, "b", 150, 180, asked=(0, 1), told=(1,)),
    ]
    (move,) = _moves(_LEAVE, requests)
    took = _took(move)
    assert "fetch of other partitions is answered" not in took
    assert (took["fetch is received"], took["fetch is answered"]) == (14, 30)


def test_an_assignment_and_a_position_from_before_belong_to_something_else() -> None:
    requests = [
        _request(ApiKey.CONSUMER_GROUP_HEARTBEAT, "b", 101, 105, epoch=1, told=(1,)),
        _request(ApiKey.CONSUMER_GROUP_HEARTBEAT, "b", 118, 124, epoch=2, told=(1,)),
        _request(ApiKey.OFFSET_FETCH, "b", 123, 140, asked=(1,)),
        _request(ApiKey.OFFSET_FETCH, "b", 142, 143, asked=(1,)),
    ]
    (move,) = _moves(_LEAVE, requests)
    took = _took(move)
    assert took["assignment is answered"] == 6
    assert (took["request for the position is received"], took["position is answered"]) == (6, 1)


def test_a_move_begins_at_the_last_trigger_before_it() -> None:
    (move,) = moves(_with_owners(_LEAVE), [Trigger(40 * MS, "before"), Trigger(100 * MS, "a leaves")], None)
    assert _took(move)["old owner stops"] == 10


def test_a_partition_that_nobody_reads_again_has_not_moved() -> None:
    assert _moves([event for event in _LEAVE if not isinstance(event, Read)], []) == []


def test_an_old_owner_without_a_held_heartbeat_delays_the_news_itself() -> None:
    events: list[Event] = [
        Joining(105 * MS, "b"),
        Revoked(150 * MS, "a", (1,)),
        Assigned(170 * MS, "b", (1,)),
        Read(190 * MS, "b", ((1, 5, 5),)),
    ]
    requests = [
        _request(ApiKey.CONSUMER_GROUP_HEARTBEAT, "b", 107, 109, epoch=0, told=()),
        _request(ApiKey.CONSUMER_GROUP_HEARTBEAT, "a", 101, 104, epoch=1),
        _request(ApiKey.CONSUMER_GROUP_HEARTBEAT, "a", 137, 139, epoch=1, told=(0,)),
    ]
    (move,) = _moves(events, requests)
    took = _took(move)
    assert (took["request of the old owner is received"], took["old owner is answered"]) == (30, 2)
    assert took["old owner stops"] == 11


def test_hops_add_up_to_the_time_from_the_trigger_even_if_a_moment_is_out_of_order() -> None:
    # The position is requested before the old owner is done: it belongs to something else.
    requests = [_request(ApiKey.OFFSET_FETCH, "b", 112, 113, asked=(1,))]
    (move,) = _moves(_LEAVE, requests)
    assert "position is answered" not in _took(move)
    assert sum(_took(move).values()) == 90


def test_a_client_may_fetch_before_its_callback_ends() -> None:
    requests = [_request(ApiKey.FETCH, "b", 120, 121, asked=(1,), told=(1,))]
    (move,) = _moves(_LEAVE, requests)
    assert list(_took(move).items())[-5:] == [
        ("fetch is received", 5),
        ("fetch is answered", 1),
        ("callback of the new owner begins", 14),
        ("callback of the new owner ends", 1),
        ("first record is read", 54),
    ]


def test_without_a_trace_the_hops_are_those_between_events_of_members() -> None:
    (move,) = moves(_with_owners(_LEAVE), [Trigger(100 * MS, "a leaves")], None)
    assert list(_took(move)) == [
        "old owner stops",
        "callback of the old owner ends",
        "callback of the new owner begins",
        "callback of the new owner ends",
        "first record is read",
    ]


def test_a_partition_that_its_owner_gets_back_has_not_moved() -> None:
    events = [Revoked(110 * MS, "a", (1,)), Assigned(120 * MS, "a", (1,)), Read(190 * MS, "a", ((1, 5, 5),))]
    assert _moves(events, []) == []


def test_the_summary_has_median_largest_and_share_of_each_hop() -> None:
    (move,) = _moves(_LEAVE, [])
    slow = replace(move, hops=(replace(move.hops[0], begin=0, end=130 * MS),))
    first, *_ = summarise_hops([move, slow, slow])
    assert (first.step, first.count, first.median_ms, first.largest_ms) == ("old owner stops", 3, 130, 130)
    assert first.mean_ms == pytest.approx(90)
    assert first.share == pytest.approx(270 / 350)


def test_the_page_has_a_bar_for_each_hop() -> None:
    found = _moves(_LEAVE, [])
    page = hops_html(found)
    assert page.count("title=") == len(found[0].hops)
    assert "1: a to b, 90 ms" in page
    assert hops_html([]) == ""


def test_a_trace_survives_its_file_and_an_incomplete_line_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_text(
        '{"sync":[10,20]}\n'
        '{"api":1,"client":"b","received":10,"answered":50,"code":0,"epoch":null,"asked":[3],"told":null}\n'
        '{"sync":[30,60]}\n{"api":1,"cli'
    )
    request = Request(1, "b", 10, 50, 0, None, frozenset({3}), None)
    assert read_trace(path, since=0) == BrokerTrace((request,), ((10, 20), (30, 60)))
    later = read_trace(path, since=55)
    assert later == BrokerTrace((), ((30, 60),))
    assert BrokerTrace.of(read_trace(path, since=0).lines()) == read_trace(path, since=0)


def _moves(events: Sequence[Event], requests: Sequence[Request], syncs: Sequence[tuple[int, int]] = ()) -> list[Move]:
    trace = BrokerTrace(tuple(requests), tuple((begin * MS, end * MS) for begin, end in syncs))
    return moves(_with_owners(events), [Trigger(100 * MS, "a leaves")], trace)


def _with_owners(events: Sequence[Event]) -> list[Event]:
    """Return the events after those in which a becomes the owner of partition 1."""
    return [Joining(0, "a"), Assigned(MS, "a", (1,)), Ready(2 * MS, "a"), Read(3 * MS, "a", ((1, 0, 4),)), *events]


def _took(move: Move) -> dict[str, float]:
    return {hop.step: (hop.end - hop.begin) / MS for hop in move.hops}


def _request(
    api: ApiKey,
    client: str,
    received: int,
    answered: int,
    *,
    code: int = 0,
    epoch: int | None = None,
    asked: Sequence[int] | None = None,
    told: Sequence[int] | None = None,
) -> Request:
    named = [None if numbers is None else frozenset(numbers) for numbers in (asked, told)]
    return Request(api, client, received * MS, answered * MS, code, epoch, *named)
