"""Names of topics that a gateway remembers for its journal."""

from uuid import UUID

import pytest

from kohort.gateway.observed import TopicNames, names
from kohort.model import NO_TOPIC_ID
from kohort.wire.messages.metadata import MetadataResponse, MetadataResponseTopic


def learn(known: TopicNames, *numbers: int) -> None:
    topics = [MetadataResponseTopic(name=f"t{number}", topic_id=UUID(int=number)) for number in numbers]
    known.learn(MetadataResponse(topics=topics))


def test_the_names_that_were_seen_last_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "_MOST", 3)
    known = TopicNames()
    learn(known, 1, 2, 3)
    learn(known, 1)
    learn(known, 4)
    assert [known.name_of(UUID(int=number)) for number in (1, 2, 3, 4)] == ["t1", None, "t3", "t4"]


def test_a_topic_without_a_name_or_an_id_is_not_remembered() -> None:
    known = TopicNames()
    topics = [MetadataResponseTopic(name=None, topic_id=UUID(int=1)), MetadataResponseTopic(name="old")]
    known.learn(MetadataResponse(topics=topics))
    assert known.name_of(UUID(int=1)) is known.name_of(NO_TOPIC_ID) is None
