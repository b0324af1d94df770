"""Unreported errors: an error that is returned again and again, and neither raised nor logged."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from kohort.errors import ErrorCode, KafkaError
from kohort.sim import Violation
from kohort.sim.checks.reported_errors import ErrorChecks
from kohort.wire.codec import Message
from kohort.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from kohort.wire.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kohort.wire.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse

CODE = ErrorCode.NOT_LEADER_OR_FOLLOWER


def refused() -> FetchResponse:
    data = PartitionData(partition_index=0, error_code=CODE)
    return FetchResponse(responses=[FetchableTopicResponse(topic="orders", partitions=[data])])


def report(checks: ErrorChecks, how: str) -> None:
    if how == "logged":
        checks.logged(f"not fetched: orders-0: another broker leads it ({CODE.name})")
    elif how == "raised":
        checks.raised(KafkaError(CODE, "orders-0"))


@pytest.mark.parametrize(("how", "silent"), [("logged", False), ("raised", False), ("", True)])
def test_a_persistent_error_must_be_reported(how: str, silent: bool) -> None:
    async def life() -> None:
        checks, loop = ErrorChecks(), asyncio.get_running_loop()
        checks.begins(loop, 20.0)
        checks.answered(loop, "Fetch", refused(), 1.0)
        report(checks, how)
        for second in range(2, 20):
            checks.answered(loop, "Fetch", refused(), float(second))

    if silent:
        with pytest.raises(Violation, match="S19: Fetch gets NOT_LEADER_OR_FOLLOWER for"):
            asyncio.run(life())
    else:
        asyncio.run(life())


def commits(code: ErrorCode) -> OffsetCommitResponse:
    data = OffsetCommitResponsePartition(partition_index=0, error_code=code)
    return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="orders", partitions=[data])])


def produced(code: ErrorCode) -> ProduceResponse:
    data = PartitionProduceResponse(index=0, error_code=code)
    return ProduceResponse(responses=[TopicProduceResponse(name="orders", partition_responses=[data])])


@pytest.mark.parametrize(("name", "answer"), [("OffsetCommit", commits), ("Produce", produced)])
@pytest.mark.parametrize("succeeds", [False, True])
def test_an_error_of_what_an_application_waits_for_is_told_or_ends(
    name: str, answer: Callable[[ErrorCode], Message], succeeds: bool
) -> None:
    async def life() -> None:
        checks, loop = ErrorChecks(), asyncio.get_running_loop()
        checks.begins(loop, 20.0)
        for second in range(0, 60, 5):
            assert checks.waits(loop) is (second > 0 and not (succeeds and second == 30))
            checks.answered(loop, name, answer(CODE), float(second))
            if succeeds and second == 25:
                checks.answered(loop, name, answer(ErrorCode.NONE), float(second))

    if succeeds:
        asyncio.run(life())
    else:
        with pytest.raises(Violation, match=f"S19: {name} gets NOT_LEADER_OR_FOLLOWER for .* since 0.000"):
            asyncio.run(life())


def test_an_intermittent_error_need_not_be_reported() -> None:
    async def life() -> None:
        checks, loop = ErrorChecks(), asyncio.get_running_loop()
        checks.begins(loop, 20.0)
        for second in range(0, 600, 40):
            checks.answered(loop, "Fetch", refused(), float(second))

    asyncio.run(life())
