"""When a group is at rest, as the laboratory sees it."""

from __future__ import annotations

from kohort.lab.events import Assigned, Event, Gone, Read, Revoked
from kohort.lab.view import View

_EVEN = {"a": 1.0, "b": 1.0}


def test_a_group_is_at_rest_once_all_is_shared_and_read() -> None:
    view = _told(Assigned(1, "a", (0, 1)), Assigned(2, "b", (2, 3)), Read(5, "a", ((0, 0, 0), (1, 0, 0))))
    assert view.settled_since(_EVEN, 4) is None  # b has read nothing yet
    view.handle(Read(7, "b", ((2, 0, 0), (3, 0, 0))))
    assert view.settled_since(_EVEN, 4) == 7
    view.handle(Read(9, "b", ((2, 1, 1),)))
    assert view.settled_since(_EVEN, 4) == 7  # that was nothing new


def test_a_group_with_uneven_shares_is_settled_only_with_weights() -> None:
    view = _told(
        Assigned(1, "a", (0, 1, 2)),
        Assigned(2, "b", (3,)),
        Read(5, "a", tuple((partition, 0, 0) for partition in range(3))),
    )
    view.handle(Read(6, "b", ((3, 0, 0),)))
    assert view.settled_since(_EVEN, 4) is None
    assert view.settled_since({"a": 3.0, "b": 1.0}, 4) == 6


def test_a_group_with_a_shared_partition_is_not_settled() -> None:
    view = _told(Assigned(1, "a", (0,)), Assigned(2, "b", (0,)), Read(3, "a", ((0, 0, 0),)), Read(4, "b", ((0, 0, 0),)))
    assert view.settled_since(_EVEN, 2) is None


def test_partitions_of_a_removed_member_have_no_owner() -> None:
    view = _told(Assigned(1, "a", (0,)), Read(2, "a", ((0, 0, 0),)), Assigned(3, "b", (1,)), Read(4, "b", ((1, 0, 0),)))
    view.handle(Gone(5, "a", True))
    assert view.settled_since({"b": 1.0}, 2) is None
    view.handle(Assigned(6, "b", (0,)))
    view.handle(Read(8, "b", ((0, 1, 1),)))
    assert view.settled_since({"b": 1.0}, 2) == 8


def test_after_an_outage_all_has_to_be_read_again() -> None:
    view = _told(Assigned(1, "a", (0,)), Read(2, "a", ((0, 0, 0),)))
    view.unread_all()
    assert view.settled_since({"a": 1.0}, 1) is None
    view.handle(Read(9, "a", ((0, 1, 1),)))
    assert view.settled_since({"a": 1.0}, 1) == 9


def test_revoking_nothing_is_not_a_change() -> None:
    view = _told(Assigned(1, "a", (0,)), Read(2, "a", ((0, 0, 0),)), Revoked(5, "a", ()), Assigned(6, "a", ()))
    assert view.settled_since({"a": 1.0}, 1) == 2


def _told(*events: Event) -> View:
    view = View()
    for event in events:
        view.handle(event)
    return view
