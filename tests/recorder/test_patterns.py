"""Patterns in the rebalances of a group: each with a case that has it, and one that nearly has it."""

from __future__ import annotations

from kohort.analytics.job import Settings
from kohort.group_events import Cause, MemberFacts
from kohort.recorder import (
    BURST_MS,
    RETURN_MS,
    PartitionChange,
    RebalanceRecord,
    Trigger,
    bursts,
    flapping,
    is_eager,
    is_follow_up,
    needless_moves,
    patterns,
    returns,
)

MINUTE = 60_000


def members(*names: str) -> tuple[MemberFacts, ...]:
    """Members by ID; what is before a digit is the client ID."""
    return tuple(MemberFacts(name, name.rstrip("0123456789"), "/10.0.0.1") for name in names)


def went_and_came(*stays: tuple[int, str, str], began: int = 0) -> list[RebalanceRecord]:
    """A group of `z` and others: (time, members before, members after), each separated by spaces."""
    return [
        RebalanceRecord("g", n, None, began + at, before=members(*before.split()), after=members(*after.split()))
        for n, (at, before, after) in enumerate(stays, 1)
    ]


def test_a_member_that_comes_back_under_a_new_id_is_recognised() -> None:
    [found] = returns(went_and_came((0, "a1 z", "z"), (MINUTE, "z", "a2 z")))
    assert (found.went.member.member_id, found.came.member.member_id, found.away_ms) == ("a1", "a2", MINUTE)


def test_a_member_that_comes_much_later_or_with_another_name_did_not_return() -> None:
    assert returns(went_and_came((0, "a1 z", "z"), (RETURN_MS + 1, "z", "a2 z"))) == []
    assert returns(went_and_came((0, "a1 z", "z"), (MINUTE, "z", "b1 z"))) == []


def test_a_replacement_within_one_rebalance_is_a_return() -> None:
    [found] = returns(went_and_came((0, "a1 z", "a2 z")))
    assert found.away_ms == 0


def test_nobody_came_in_the_first_record_of_a_history() -> None:
    # The members before are unknown, so these may have been there for weeks.
    assert returns(went_and_came((0, "a1 z", "z"), (MINUTE, "", "a2 z"))) == []


def test_three_returns_are_flapping_and_two_are_not() -> None:
    stays = [
        (n * MINUTE, "a z", "z") if n % 2 == 0 else (n * MINUTE, "z", "a z") for n in range(6)
    ]  # goes and comes three times
    [episode] = flapping(returns(went_and_came(*stays)))
    assert (episode.name, len(episode.returns), episode.mean_away_ms) == (("a", "/10.0.0.1"), 3, MINUTE)
    assert flapping(returns(went_and_came(*stays[:5]))) == []


def test_a_deployment_that_restarts_three_members_is_not_flapping() -> None:
    stays = []
    for n, name in enumerate("abc"):
        stays += [(n * MINUTE, f"{name}1 z", "z"), (n * MINUTE + 9_000, "z", f"{name}2 z")]
    found = returns(went_and_came(*stays))
    assert (len(found), flapping(found)) == (3, [])


def test_a_burst_thrashes_if_it_is_longer_than_a_restart_of_every_member() -> None:
    one_by_one = [(n * MINUTE, "a b", "a b") for n in range(6)]
    [burst] = bursts(went_and_came(*one_by_one))
    assert burst.thrashes
    [burst] = bursts(went_and_came(*one_by_one[:5]))  # two members may leave and come, and one more
    assert not burst.thrashes
    assert len(bursts(went_and_came((0, "a", "a"), (BURST_MS, "a", "a"), (2 * BURST_MS + 1, "a", "a")))) == 2


def test_a_follow_up_is_a_part_of_its_rebalance() -> None:
    first = RebalanceRecord("g", 1, None, 0, protocol="cooperative-sticky", before=members("a"), after=members("a"))
    assert is_follow_up(first)
    assert bursts([first]) == []
    joined = Trigger(Cause.MEMBER_JOINED.value, "b")
    caused = RebalanceRecord("g", 1, None, 0, (joined,), "cooperative-sticky", before=members("a"), after=members("a"))
    assert not is_follow_up(caused)
    assert not is_follow_up(RebalanceRecord("g", 1, None, 0, protocol="range"))


def test_eager_assignors() -> None:
    assert [is_eager(name) for name in ("range", "sticky", "cooperative-sticky", "stream", None)] == [
        True, True, False, False, False,
    ]  # fmt: skip


def test_moves_between_members_that_stayed_are_needless() -> None:
    moves = (
        PartitionChange("orders", 0, "a", "b"),  # both stayed
        PartitionChange("orders", 1, "a", "c"),  # c came
        PartitionChange("orders", 2, "d", "b"),  # d went
        PartitionChange("orders", 3, "a", "a"),
    )
    record = RebalanceRecord("g", 2, None, 0, before=members(*"abd"), after=members(*"abc"), partitions=moves)
    assert needless_moves(record) == moves[:1]
    assert needless_moves(record, newcomers=["b"]) == ()


def test_the_analysis_has_the_same_thresholds() -> None:
    settings = Settings()
    assert {name: getattr(settings, name) for name in settings.__slots__ if name != "window_ms"} == {
        "return_ms": patterns.RETURN_MS,
        "episode_ms": patterns.EPISODE_MS,
        "least_returns": patterns.LEAST_RETURNS,
        "burst_ms": patterns.BURST_MS,
        "least_rebalances": patterns.LEAST_REBALANCES,
        "per_restart": patterns.REBALANCES_PER_RESTART,
    }
