"""The version of a request: the newest one that both sides support and that can express the request."""

from __future__ import annotations

from uuid import UUID

import pytest

from kohort.client.net.versions import NEWEST_SPOKEN, common_versions, version_for
from kohort.wire.api import APIS
from kohort.wire.codec import Message
from kohort.wire.messages.api_versions import ApiVersion
from kohort.wire.messages.metadata import MetadataRequest
from kohort.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestTopic
from kohort.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics

METADATA, FETCH = 3, 1
ID = UUID(int=1)


def agreed(key: int, oldest: int, newest: int) -> dict[int, int]:
    return common_versions([ApiVersion(api_key=key, min_version=oldest, max_version=newest)])


def test_the_newest_version_of_both_is_agreed_on() -> None:
    newest = NEWEST_SPOKEN[METADATA]
    assert agreed(METADATA, 0, 99) == {METADATA: newest}
    assert agreed(METADATA, newest, 99) == {METADATA: newest}
    assert agreed(METADATA, 0, 2) == {METADATA: 2}


def test_a_request_without_a_common_version_is_left_out() -> None:
    assert agreed(METADATA, NEWEST_SPOKEN[METADATA] + 1, 99) == {}
    oldest = APIS[FETCH].min_version
    assert oldest > 0
    assert agreed(FETCH, 0, oldest - 1) == {}
    assert agreed(FETCH, 0, oldest) == {FETCH: oldest}
    offers = [ApiVersion(api_key=9_999, max_version=3), ApiVersion(api_key=METADATA, max_version=3)]
    assert common_versions(offers) == {METADATA: 3}


def commit(*ids: UUID) -> Message:
    return OffsetCommitRequest(topics=[OffsetCommitRequestTopic(topic_id=topic_id) for topic_id in ids])


def fetch(*groups: list[UUID] | None) -> Message:
    def topics(ids: list[UUID] | None) -> list[OffsetFetchRequestTopics] | None:
        return None if ids is None else [OffsetFetchRequestTopics(topic_id=topic_id) for topic_id in ids]

    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(topics=topics(ids)) for ids in groups])


NO_ID = UUID(int=0)


@pytest.mark.parametrize(
    ("request_", "named"),
    [
        (commit(ID), False),
        (commit(ID, NO_ID), True),
        (commit(NO_ID), True),
        (fetch([ID], [ID, ID]), False),
        (fetch([ID], [ID, NO_ID]), True),
        (fetch([NO_ID], [ID]), True),
        (fetch(None), True),  # the response would have unknown ids
        (MetadataRequest(), False),
    ],
)
def test_offsets_of_a_topic_without_an_id_go_by_name(request_: Message, named: bool) -> None:
    assert version_for(request_, 10) == (9 if named else 10)
    assert version_for(request_, 11) == (9 if named else 11)
    assert version_for(request_, 8) == 8
