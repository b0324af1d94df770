from kohort.assignor import ASSIGNORS
from kohort.assignor.range import RangeAssignor
from kohort.model import TopicPartition
from kohort.wire.messages.consumer_protocol import Subscription
from tests.assignor.groups import shares

RANGE, ROUND_ROBIN = ASSIGNORS["range"], ASSIGNORS["roundrobin"]

BOTH = Subscription(topics=["orders", "payments"])


def test_range_gives_the_longer_ranges_to_the_first_members() -> None:
    assert shares(RANGE, {"orders": 7}, dict.fromkeys("cab", BOTH)) == {
        "a": "orders-0 orders-1 orders-2",
        "b": "orders-3 orders-4",
        "c": "orders-5 orders-6",
    }


def test_range_gives_the_same_numbers_of_copartitioned_topics_to_one_member() -> None:
    assert shares(RANGE, {"orders": 3, "payments": 3}, {"a": BOTH, "b": BOTH}) == {
        "a": "orders-0 orders-1 payments-0 payments-1",
        "b": "orders-2 payments-2",
    }


def test_range_gives_surplus_members_nothing() -> None:
    assert shares(RANGE, {"orders": 1}, {"a": BOTH, "b": BOTH}) == {"a": "orders-0", "b": ""}


def test_range_cuts_a_topic_among_its_own_subscribers_only() -> None:
    orders_only = Subscription(topics=["orders"])
    assert shares(RANGE, {"orders": 2, "payments": 2}, {"a": orders_only, "b": BOTH}) == {
        "a": "orders-0",
        "b": "orders-1 payments-0 payments-1",
    }


def test_round_robin_continues_with_the_next_member_at_the_next_topic() -> None:
    assert shares(ROUND_ROBIN, {"orders": 3, "payments": 3}, {"a": BOTH, "b": BOTH}) == {
        "a": "orders-0 orders-2 payments-1",
        "b": "orders-1 payments-0 payments-2",
    }


def test_round_robin_passes_over_members_that_do_not_subscribe() -> None:
    members = {
        "a": Subscription(topics=["t0"]),
        "b": Subscription(topics=["t0", "t1"]),
        "c": Subscription(topics=["t0", "t1", "t2"]),
    }
    assert shares(ROUND_ROBIN, {"t0": 1, "t1": 2, "t2": 3}, members) == {
        "a": "t0-0",
        "b": "t1-0",
        "c": "t1-1 t2-0 t2-1 t2-2",
    }


def test_static_members_come_first_and_in_the_order_of_their_instance_ids() -> None:
    # A static member that returns has a new member id (KIP-345); its partitions must not wander for that.
    before = {"zz": "instance-1", "b": "instance-2", "a": None}
    after = {"yy": "instance-1", "b": "instance-2", "a": None}
    for assignor in (RANGE, ROUND_ROBIN):
        first = assignor.assign({"orders": 3}, dict.fromkeys(before, BOTH), before)
        then = assignor.assign({"orders": 3}, dict.fromkeys(after, BOTH), after)
        assert first["zz"].partitions == then["yy"].partitions == [("orders", 0)]
        assert first["b"].partitions == then["b"].partitions == [("orders", 1)]
        assert first["a"].partitions == then["a"].partitions == [("orders", 2)]


def test_missing_and_unsubscribed_topics_are_ignored() -> None:
    for assignor in ASSIGNORS.values():
        wants = Subscription(topics=["missing"])
        assert shares(assignor, {"orders": 2}, {"a": wants, "b": wants}) == {"a": "", "b": ""}
        assert shares(assignor, {"orders": 2}, {"a": Subscription(topics=[]), "b": wants}) == {"a": "", "b": ""}


def test_a_topic_that_appears_twice_is_assigned_once() -> None:
    for assignor in ASSIGNORS.values():
        wants = Subscription(topics=["orders", "orders"])
        assert shares(assignor, {"orders": 1}, {"a": wants}) == {"a": "orders-0"}


def test_a_group_without_members_gets_an_empty_assignment() -> None:
    for assignor in ASSIGNORS.values():
        assert assignor.assign({"orders": 2}, {}) == {}


def near(topics: dict[str, str], members: dict[str, str]) -> dict[str, str]:
    """Assignments by rack: of each partition's only replica, and of each member (`-`: none)."""
    subscriptions = {
        member_id: Subscription(topics=sorted(topics), rack_id=None if rack == "-" else rack)
        for member_id, rack in members.items()
    }
    racks = {TopicPartition(t, n): frozenset(rack) for t, placed in topics.items() for n, rack in enumerate(placed)}
    made = RangeAssignor().assign_near({t: len(placed) for t, placed in topics.items()}, subscriptions, None, racks)
    return {member_id: " ".join(map(str, assignment.partitions)) for member_id, assignment in made.items()}


def test_members_take_what_is_in_their_rack_first() -> None:
    assert near({"t": "BABA"}, {"a": "A", "b": "B"}) == {"a": "t-1 t-3", "b": "t-0 t-2"}


def test_evenness_comes_before_nearness() -> None:
    assert near({"t": "AAAB"}, {"a": "A", "b": "B"}) == {"a": "t-0 t-1", "b": "t-2 t-3"}


def test_members_without_a_rack_take_any_partition_and_distant_ones_the_rest() -> None:
    assert near({"t": "AABB"}, {"a": "-", "b": "B", "c": "Z"}) == {"a": "t-0 t-1", "b": "t-2", "c": "t-3"}
    assert near({"t": "AB"}, {"a": "Z", "b": "A"}) == {"a": "t-1", "b": "t-0"}


def test_copartitioned_topics_stay_together_though_one_is_far() -> None:
    # Each topic alone would go to whom it is near; joined by number they must not part.
    assert near({"t": "AB", "u": "BA"}, {"a": "A", "b": "B"}) == {"a": "t-0 u-0", "b": "t-1 u-1"}
    assert near({"t": "BA", "u": "BA"}, {"a": "A", "b": "B"}) == {"a": "t-1 u-1", "b": "t-0 u-0"}


def test_unknown_racks_leave_the_ranges_unchanged() -> None:
    plain = {"a": "t-0 t-1", "b": "t-2 t-3"}
    assert near({"t": "CDCD"}, {"a": "A", "b": "B"}) == plain  # no member is in the rack of a replica
    assert near({"t": "AAAA"}, {"a": "B", "b": "A"}) == plain  # everything is in one place
    assert near({"t": "BABA"}, {"a": "-", "b": "-"}) == plain
