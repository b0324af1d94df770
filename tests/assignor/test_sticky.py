from collections.abc import Callable

import pytest

from kohort.assignor import ASSIGNORS, Assignor
from kohort.assignor.user_data import Claim, encode_claim, encode_generation
from kohort.wire.messages.consumer_protocol import Subscription
from tests.assignor.groups import Group, parts, shares

STICKY, COOPERATIVE = ASSIGNORS["sticky"], ASSIGNORS["cooperative-sticky"]


def eager(owned: str, generation: int, topics: str = "orders") -> Subscription:
    return Subscription(topics=topics.split(), user_data=encode_claim(Claim(parts(owned), generation)))


def cooperative(owned: str, generation: int, topics: str = "orders") -> Subscription:
    return Subscription(topics=topics.split(), owned_partitions=parts(owned), generation_id=generation)


def test_a_member_that_joins_gets_its_share_from_those_that_have_more() -> None:
    group = Group(STICKY, {"orders": 6}, {"a": ["orders"], "b": ["orders"]})
    assert group.rebalance() == {"a": parts("orders-0 orders-2 orders-4"), "b": parts("orders-1 orders-3 orders-5")}
    group.topics["c"] = ["orders"]
    assert group.rebalance() == {
        "a": parts("orders-0 orders-2"),
        "b": parts("orders-1 orders-3"),
        "c": parts("orders-4 orders-5"),
    }


def test_only_the_partitions_of_a_member_that_left_move() -> None:
    group = Group(STICKY, {"orders": 6}, {member_id: ["orders"] for member_id in "abc"})
    before = dict(group.rebalance())
    del group.topics["b"]
    after = group.rebalance()
    assert set(after["a"]) > set(before["a"]) and set(after["c"]) > set(before["c"])


def test_a_cooperative_assignment_leaves_a_moving_partition_unassigned_first() -> None:
    group = Group(COOPERATIVE, {"orders": 4}, {"a": ["orders"]})
    group.rebalance()
    group.topics["b"] = ["orders"]
    assert group.rebalance() == {"a": parts("orders-0 orders-1"), "b": []}
    assert group.rebalance() == {"a": parts("orders-0 orders-1"), "b": parts("orders-2 orders-3")}


def test_unowned_partitions_are_assigned_at_once() -> None:
    members = {"a": cooperative("orders-0", 3), "b": cooperative("", -1)}
    assert shares(COOPERATIVE, {"orders": 2}, members) == {"a": "orders-0", "b": "orders-1"}


@pytest.mark.parametrize(("assignor", "member"), [(STICKY, eager), (COOPERATIVE, cooperative)])
def test_the_newest_claim_to_a_partition_wins(assignor: Assignor, member: Callable[[str, int], Subscription]) -> None:
    # KAFKA-12984, KAFKA-14639: b missed a generation and still believes that it owns orders-1.
    members = {"b": member("orders-1 orders-2", 4), "a": member("orders-0 orders-1", 5)}
    assert shares(assignor, {"orders": 4}, members) == {"a": "orders-0 orders-1", "b": "orders-2 orders-3"}


def test_members_that_both_missed_generations_do_not_end_with_one_partition_twice() -> None:
    # KAFKA-7026: before generations stood in the user data, each of the two kept it.
    group = Group(STICKY, {"orders": 2}, {"a": ["orders"], "b": ["orders"]})
    group.owned, group.since = {"a": parts("orders-0 orders-1"), "b": parts("orders-0")}, {"a": 7, "b": 6}
    given = group.rebalance()
    assert sorted(given["a"] + given["b"]) == parts("orders-0 orders-1")


def test_two_claims_of_one_generation_are_both_void() -> None:
    # KAFKA-13419: both may be processing orders-1, so a cooperative assignment must give it to neither yet.
    members = {"a": cooperative("orders-0 orders-1", 5), "b": cooperative("orders-1 orders-2", 5)}
    assert shares(COOPERATIVE, {"orders": 3}, members) == {"a": "orders-0", "b": "orders-2"}
    afterwards = {"a": cooperative("orders-0", 6), "b": cooperative("orders-2", 6)}
    assert shares(COOPERATIVE, {"orders": 3}, afterwards) == {"a": "orders-0 orders-1", "b": "orders-2"}


def test_a_newer_claim_settles_a_quarrel_of_older_ones() -> None:
    for order in ("abc", "cab", "acb"):
        claims = {"a": 4, "b": 4, "c": 5}
        members = {member_id: cooperative("orders-0", claims[member_id]) for member_id in order}
        assert shares(COOPERATIVE, {"orders": 1}, members)["c"] == "orders-0"


def test_below_version_2_the_generation_is_read_from_the_user_data() -> None:
    def old(owned: str, generation: int) -> Subscription:
        return Subscription(
            topics=["orders"], owned_partitions=parts(owned), user_data=encode_generation(generation), generation_id=-1
        )

    members = {"a": old("orders-0 orders-1", 5), "b": old("orders-1 orders-2", 4)}
    assert shares(COOPERATIVE, {"orders": 3}, members) == {"a": "orders-0 orders-1", "b": "orders-2"}


def test_from_version_2_the_field_is_used_and_not_the_user_data() -> None:
    members = {
        "a": Subscription(["orders"], encode_generation(1), parts("orders-0"), generation_id=5),
        "b": Subscription(["orders"], encode_generation(9), parts("orders-0"), generation_id=4),
    }
    assert shares(COOPERATIVE, {"orders": 1}, members) == {"a": "orders-0", "b": ""}


def test_a_claim_to_partitions_that_no_longer_exist_falls_away() -> None:
    members = {"a": eager("orders-0 orders-9 gone-0", 5, "orders gone"), "b": eager("", 5, "orders gone")}
    assert shares(STICKY, {"orders": 2}, members) == {"a": "orders-0", "b": "orders-1"}


def test_a_member_that_gave_up_a_topic_does_not_get_it_back() -> None:
    members = {"a": eager("orders-0 orders-1", 5, "payments"), "b": eager("", 5, "orders payments")}
    made = shares(STICKY, {"orders": 2, "payments": 2}, members)
    assert made == {"a": "payments-0 payments-1", "b": "orders-0 orders-1"}


def test_a_member_may_ask_for_nothing() -> None:
    # Java's leader takes the first empty subscription for everybody's, and hands a member what it did not ask for.
    members = {"a": eager("", -1, ""), "b": eager("", -1)}
    assert shares(STICKY, {"orders": 2}, members) == {"a": "", "b": "orders-0 orders-1"}


def test_a_member_without_alternatives_keeps_the_scarce_topic() -> None:
    # KIP-54's second example: round robin gives c four of the six.
    members = {"a": eager("", -1, "t0"), "b": eager("", -1, "t0 t1"), "c": eager("", -1, "t0 t1 t2")}
    made = shares(STICKY, {"t0": 1, "t1": 2, "t2": 3}, members)
    assert made == {"a": "t0-0", "b": "t1-0 t1-1", "c": "t2-0 t2-1 t2-2"}


def test_user_data_has_the_last_assignment_and_its_generation() -> None:
    assert STICKY.user_data(["orders"], None, -1) is None
    assert STICKY.user_data(["orders"], parts("orders-1"), 5) == encode_claim(Claim(parts("orders-1"), 5))
    assert COOPERATIVE.user_data(["orders"], None, -1) == b"\xff\xff\xff\xff"
    assert COOPERATIVE.user_data(["orders"], parts("orders-1"), 5) == b"\x00\x00\x00\x05"


@pytest.mark.parametrize(("generation", "kept"), [(6, "orders-0 orders-3"), (5, "orders-0 orders-1")])
def test_the_coordinators_record_of_owned_partitions_wins_if_it_is_newer(generation: int, kept: str) -> None:
    # In a consumer group, user data is that of the member's last heartbeat: a does not know its target yet.
    told = encode_claim(Claim(parts("orders-0 orders-1"), 5))
    members = {
        "a": Subscription(["orders"], told, parts("orders-0 orders-3"), generation_id=generation),
        "b": Subscription(["orders"], None, parts("orders-2"), generation_id=6),
    }
    assert shares(STICKY, {"orders": 4}, members)["a"] == kept
