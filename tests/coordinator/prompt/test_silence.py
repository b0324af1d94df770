"""Responses without news, which need not wait until records are durable."""

from typing import Any

import pytest

from kohort.coordinator import has_no_news
from kohort.errors import ErrorCode
from kohort.wire.messages.consumer_group_heartbeat import (
    Assignment,
    Computation,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    OfferedAssignor,
)
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse


def heartbeat(**fields: Any) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(**{"group_id": "g", "member_id": "a", "member_epoch": 3, **fields})


def response(**fields: Any) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(**{"member_id": "a", "member_epoch": 3, **fields})


def test_a_heartbeat_without_news_may_get_an_empty_answer() -> None:
    assert has_no_news(heartbeat(), response())
    assert has_no_news(HeartbeatRequest(group_id="g"), HeartbeatResponse())
    assert not has_no_news(HeartbeatRequest(group_id="g"), HeartbeatResponse(error_code=ErrorCode.ILLEGAL_GENERATION))
    assert not has_no_news(ListGroupsRequest(), ListGroupsResponse())


@pytest.mark.parametrize(
    "answer",
    [
        response(error_code=ErrorCode.FENCED_MEMBER_EPOCH),
        response(member_epoch=4),
        response(assignment=Assignment()),
        response(computation=Computation()),
        response(refused="nobody asked"),
    ],
)
def test_any_news_in_the_answer_count(answer: ConsumerGroupHeartbeatResponse) -> None:
    assert not has_no_news(heartbeat(), answer)


@pytest.mark.parametrize(
    "fields",
    [
        {"topic_partitions": []},
        {"subscribed_topic_names": []},
        {"subscribed_topic_regex": ""},
        {"rebalance_timeout_ms": 1},
        {"server_assignor": "uniform"},
        {"offered_assignors": []},
        {"offered_assignors": [OfferedAssignor(name="range")]},
    ],
)
def test_an_answer_to_a_report_acknowledges_it(fields: dict[str, Any]) -> None:
    assert not has_no_news(heartbeat(**fields), response())


def test_a_joining_member_gets_a_full_answer() -> None:
    assert not has_no_news(heartbeat(member_epoch=0), response(member_epoch=0))
