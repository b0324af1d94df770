from __future__ import annotations

import pytest

from kohort.coordinator import GroupState
from kohort.coordinator.classic.group import ClassicGroup
from kohort.coordinator.classic.member import Member, protocols_of
from kohort.errors import ErrorCode
from kohort.wire.messages.consumer_protocol import Subscription, encode_subscription
from kohort.wire.messages.join_group import JoinGroupRequestProtocol


def member(member_id: str, *protocols: str, instance_id: str | None = None, topics: tuple[str, ...] = ()) -> Member:
    metadata = encode_subscription(Subscription(topics))
    return Member(member_id, instance_id, "client", "/host", 10_000, 60_000, dict.fromkeys(protocols, metadata))


def group_of(*members: Member) -> ClassicGroup:
    group = ClassicGroup("g")
    group.transition_to(GroupState.PREPARING_REBALANCE)
    for member in members:
        group.add(member, "consumer")
    return group


@pytest.mark.parametrize(
    ("preferences", "winner"),
    [
        ([["range"]], "range"),
        ([["range", "sticky"], ["sticky", "range"], ["sticky", "range"]], "sticky"),
        ([["sticky", "range"], ["range"]], "range"),  # the only one that all support, whatever most prefer
        ([["a", "b", "c"], ["b", "c"], ["c", "b"]], "b"),
        ([["range", "sticky"], ["sticky", "range"]], "range"),  # in a tie, the older member's choice wins
    ],
)
def test_the_vote(preferences: list[list[str]], winner: str) -> None:
    group = group_of(*(member(str(number), *names) for number, names in enumerate(preferences)))
    assert group.vote() == winner


def test_a_candidate_must_share_an_assignor_with_everybody() -> None:
    group = group_of(member("a", "range", "sticky"), member("b", "range"))
    assert group.supports("consumer", {"range": b""})
    assert not group.supports("consumer", {"sticky": b""})
    assert not group.supports("connect", {"range": b""})
    group.remove("b")
    assert group.supports("consumer", {"sticky": b""})


def test_assignors_that_a_member_supported_before_no_longer_count() -> None:
    a, b = member("a", "range", "sticky"), member("b", "range", "sticky")
    group = group_of(a, b)
    group.set_protocols(a, {"sticky": b""})
    assert group.vote() == "sticky"
    assert not group.supports("consumer", {"range": b""})


def test_a_group_is_cooperative_as_soon_as_no_member_supports_another_assignor() -> None:
    group = group_of(member("a", "range", "cooperative-sticky"), member("b", "cooperative-sticky"))
    assert not group.is_cooperative
    group.remove("a")
    assert group.is_cooperative


def test_the_oldest_member_leads_and_its_successor_is_the_next_oldest() -> None:
    group = group_of(member("a", "range"), member("b", "range"), member("c", "range"))
    assert group.leader_id == "a"
    group.remove("a")
    assert group.leader_id == "b"
    group.remove("c")
    group.remove("b")
    assert group.leader_id is None


def test_a_static_member_keeps_its_place_under_a_new_id() -> None:
    group = group_of(member("i-1", "range", instance_id="i"), member("b", "range"))
    group.rename("i-1", "i-2")
    assert list(group.members) == ["i-2", "b"]
    assert group.leader_id == "i-2"
    assert group.check_member("i-2", "i") is ErrorCode.NONE
    assert group.check_member("i-1", "i") is ErrorCode.FENCED_INSTANCE_ID
    assert group.check_member("i-1", None) is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.check_member("i-2", "j") is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_first_entry_of_a_repeated_assignor_is_used() -> None:
    offered = [JoinGroupRequestProtocol(name="range", metadata=metadata) for metadata in (b"1", b"2")]
    assert protocols_of(offered) == {"range": b"1"}


def test_unreadable_subscriptions_count_as_subscribed_to_everything() -> None:
    # KIP-496: otherwise an admin could delete the offsets that a foreign client uses.
    readable = group_of(member("a", "range", topics=("orders",)), member("b", "range", topics=("payments",)))
    readable.protocol = "range"
    assert readable.subscribed_topics() == {"orders", "payments"}
    assert readable.is_subscribed()("orders")
    assert not readable.is_subscribed()("returns")
    readable.set_protocols(readable.members["a"], {"range": b"?"})
    assert readable.subscribed_topics() is None
    assert readable.is_subscribed()("returns")
