from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from kohort.assignor.server import TopicShape
from kohort.coordinator.consumer.member import NO_SUBSCRIPTION, Subscription
from kohort.coordinator.consumer.topics import ResolvedExpression, SubscribedTopics
from kohort.coordinator.topic_metadata import HASH_RANGE, MetadataImage, Topic, changed_names

NAMES = ["orders", "orders-eu", "payments", "refunds"]
EXPRESSIONS = ["orders.*", ".*s"]

subscriptions = st.builds(Subscription, st.frozensets(st.sampled_from(NAMES)), st.none() | st.sampled_from(EXPRESSIONS))
images = st.lists(
    st.builds(
        Topic, st.sampled_from(NAMES), st.integers(1, 9).map(lambda n: UUID(int=n)), st.integers(1, 3).map(TopicShape)
    ),
    unique_by=(lambda topic: topic.name, lambda topic: topic.topic_id),
).map(MetadataImage)
resolutions = st.frozensets(st.sampled_from(NAMES)).map(lambda topics: ResolvedExpression(topics, 1, 0))


def counted_anew(members: Sequence[Subscription], topics: SubscribedTopics, image: MetadataImage) -> int:
    wanted = {name for member in members for name in topics.topics_of(member)}
    return sum(image.by_name[name].digest for name in wanted if name in image.by_name) % HASH_RANGE


@given(st.data())
def test_the_incremental_hash_equals_the_recomputed_one(data: st.DataObject) -> None:
    topics, image, members = SubscribedTopics(), data.draw(images), [NO_SUBSCRIPTION] * 3
    for _ in range(data.draw(st.integers(1, 12))):
        step = data.draw(st.sampled_from(["member", "expression", "image"]))
        if step == "member":
            place, after = data.draw(st.integers(0, 2)), data.draw(subscriptions)
            told = topics.digest_after(image, topics.changes([members[place]], after))
            topics.replace(members[place], after)
            members[place] = after
        elif step == "expression":
            fresh = {data.draw(st.sampled_from(EXPRESSIONS)): data.draw(resolutions)}
            told = topics.digest_after(image, topics.changes_by(fresh))
            for expression, resolved in fresh.items():
                topics.resolve(expression, resolved)
        else:
            old, image = image, data.draw(images)
            topics.topics_changed(changed_names(old, image))
            told = counted_anew(members, topics, image)
        assert topics.digest(image) == told == counted_anew(members, topics, image)
        assert set(topics.counts) == {name for member in members for name in topics.topics_of(member)}
        for member in members:
            assert topics.ids_of(member, image) == image.ids_of(topics.topics_of(member))


def test_only_new_and_ended_subscriptions_are_returned() -> None:
    topics = SubscribedTopics()
    both, orders_only = Subscription(frozenset({"orders", "payments"})), Subscription(frozenset({"orders"}))
    assert topics.replace(NO_SUBSCRIPTION, orders_only) == {"orders"}
    assert topics.replace(NO_SUBSCRIPTION, orders_only) == set()
    assert topics.replace(orders_only, both) == {"payments"}
    assert topics.replace(both, NO_SUBSCRIPTION) == {"payments"}
    assert topics.replace(orders_only, NO_SUBSCRIPTION) == {"orders"}


def test_members_that_ask_for_the_same_share_one_value() -> None:
    topics = SubscribedTopics()
    first = Subscription(frozenset({"orders"}))
    topics.replace(NO_SUBSCRIPTION, first)
    assert topics.shared(Subscription(frozenset({"orders"}))) is first


def test_a_topic_is_another_when_its_id_its_size_or_its_racks_differ() -> None:
    racks = (frozenset({"a"}), frozenset({"b"}))
    topics = [
        Topic("orders", UUID(int=1), TopicShape(2)),
        Topic("orders", UUID(int=2), TopicShape(2)),
        Topic("orders", UUID(int=1), TopicShape(3)),
        Topic("orders", UUID(int=1), TopicShape(2, racks)),
        Topic("orders", UUID(int=1), TopicShape(2, racks[::-1])),
        Topic("payments", UUID(int=1), TopicShape(2)),
    ]
    assert len({topic.digest for topic in topics}) == len(topics)
    assert Topic("orders", UUID(int=1), TopicShape(2)).digest == topics[0].digest


def test_images_return_their_differences() -> None:
    orders, payments = (Topic(name, UUID(int=n), TopicShape(2)) for n, name in enumerate(("orders", "payments"), 1))
    grown = Topic("orders", UUID(int=1), TopicShape(3))
    old = MetadataImage([orders, payments])
    assert changed_names(old, MetadataImage([orders, payments])) == frozenset()
    assert changed_names(old, MetadataImage([grown, payments])) == {"orders"}
    assert changed_names(old, MetadataImage([orders])) == {"payments"}
    assert changed_names(MetadataImage(), old) == {"orders", "payments"}


def test_a_member_that_takes_the_subscription_of_others_ends_its_own() -> None:
    topics = SubscribedTopics()
    orders, payments = Subscription(frozenset({"orders"})), Subscription(frozenset({"payments"}))
    topics.replace(NO_SUBSCRIPTION, orders)
    topics.replace(NO_SUBSCRIPTION, payments)
    assert topics.changes([orders], payments) == {"orders": -1}
    assert topics.changes([NO_SUBSCRIPTION], payments) == {}


def test_an_expression_that_matches_other_topics_ends_the_subscriptions_to_those_before() -> None:
    topics = SubscribedTopics()
    expression = Subscription(frozenset(), "orders.*")
    topics.resolve("orders.*", ResolvedExpression(frozenset({"orders"}), 1, 0))
    topics.replace(NO_SUBSCRIPTION, expression)
    now = ResolvedExpression(frozenset({"orders-eu", "orders-us"}), 2, 0)
    assert topics.changes_by({"orders.*": now}) == {"orders": -1, "orders-eu": 1, "orders-us": 1}
    assert topics.changes_by({"other": now}) == {}


def test_the_hash_of_no_topics_is_0() -> None:
    # It is in the log: brokers of other versions must find the same.
    assert SubscribedTopics().digest(MetadataImage([])) == 0
