from __future__ import annotations

from uuid import UUID

from kohort.coordinator.image import MetadataImage, TopicImage

ORDERS = TopicImage(UUID(int=1), "orders", 3)
PAYMENTS = TopicImage(UUID(int=2), "payments", 1, racks=(frozenset({"a"}),))
GROWN = TopicImage(UUID(int=1), "orders", 6)
MADE_AGAIN = TopicImage(UUID(int=9), "orders", 3)


def test_an_image_names_what_differs_from_the_one_before() -> None:
    first = MetadataImage().with_topics([ORDERS, PAYMENTS])
    assert first.version == 1
    assert first.changed == {"orders", "payments"}
    assert first.with_topics([GROWN, PAYMENTS]).changed == {"orders"}
    assert first.with_topics([PAYMENTS]).changed == {"orders"}
    assert first.with_topics([PAYMENTS, ORDERS]).changed == frozenset()


def test_one_topic_changes() -> None:
    first = MetadataImage().with_topics([ORDERS, PAYMENTS])
    for topic in (GROWN, MADE_AGAIN, None):
        following = first.with_topic("orders", topic)
        others = [PAYMENTS] if topic is None else [PAYMENTS, topic]
        assert following == first.with_topics(others)
    assert first.by_name["orders"] is ORDERS
    assert first.with_topic("orders", ORDERS).changed == frozenset()


def test_a_topic_that_was_made_again_is_no_longer_found_by_its_old_id() -> None:
    image = MetadataImage().with_topic("orders", ORDERS).with_topic("orders", MADE_AGAIN)
    assert list(image.by_id) == [MADE_AGAIN.topic_id]
