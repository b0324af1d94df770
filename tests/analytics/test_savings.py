"""Memberships replayed under other protocols: what would have had to stop."""

from kohort.analytics.savings import GroupMembership, replay


def _rolls(*members: str) -> list[GroupMembership]:
    return [GroupMembership({member: ["flights"] for member in here}) for here in members]


def test_a_member_that_joins_stops_only_what_it_is_given() -> None:
    stops = replay(_rolls("a", "ab"), {"flights": 12})
    assert (stops.changes, stops.cooperative, stops.consumer) == (2, 6, 6)


def test_a_member_that_leaves_stops_only_what_it_had() -> None:
    stops = replay(_rolls("abc", "ab"), {"flights": 12})
    assert (stops.cooperative, stops.consumer) == (4, 4)


def test_a_rebalance_without_a_change_stops_nothing() -> None:
    stops = replay(_rolls("ab", "ab", "ab"), {"flights": 12})
    assert (stops.changes, stops.cooperative, stops.consumer) == (1, 0, 0)


def test_a_rolling_restart_stops_what_each_member_had_and_gets_back() -> None:
    stops = replay(_rolls("abc", "bc", "bcd", "cd", "cde", "de", "def"), {"flights": 12})
    # Four when a member leaves, four when its successor joins, three times.
    assert (stops.changes, stops.cooperative, stops.consumer) == (7, 24, 24)


def test_a_topic_without_owners_stops_no_partition() -> None:
    rolls = [GroupMembership({"a": ["flights", "unknown"]}), GroupMembership({"a": ["unknown"]})]
    stops = replay(rolls, {"flights": 3})
    assert (stops.changes, stops.cooperative, stops.consumer) == (2, 3, 3)
