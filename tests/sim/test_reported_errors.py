"""What counts as silence: an error that is answered again and again, and neither raised nor logged."""

from __future__ import annotations

import asyncio

import pytest

from kohort.errors import ErrorCode, KafkaError
from kohort.sim import Violation
from kohort.sim.checks.reported_errors import ErrorChecks
from kohort.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData

CODE = ErrorCode.NOT_LEADER_OR_FOLLOWER


def refused() -> FetchResponse:
    data = PartitionData(partition_index=0, error_code=CODE)
    return FetchResponse(responses=[FetchableTopicResponse(topic="orders", partitions=[data])])


def told(checks: ErrorChecks, how: str) -> None:
    if how == "logged":
        checks.logged(f"not fetched: orders-0: another broker leads it ({CODE.name})")
    elif how == "raised":
        checks.raised(KafkaError(CODE, "orders-0"))


@pytest.mark.parametrize(("how", "silent"), [("logged", False), ("raised", False), ("", True)])
def test_an_error_that_lasts_is_told(how: str, silent: bool) -> None:
    async def life() -> None:
        checks, loop = ErrorChecks(), asyncio.get_running_loop()
        checks.begins(loop)
        checks.answered(loop, "Fetch", refused(), 1.0)
        told(checks, how)
        for second in range(2, 20):
            checks.answered(loop, "Fetch", refused(), float(second))

    if silent:
        with pytest.raises(Violation, match="S19: Fetch is answered NOT_LEADER_OR_FOLLOWER for"):
            asyncio.run(life())
    else:
        asyncio.run(life())


def test_what_is_answered_now_and_then_may_come_too_late_to_count() -> None:
    async def life() -> None:
        checks, loop = ErrorChecks(), asyncio.get_running_loop()
        checks.begins(loop)
        for second in range(0, 600, 40):
            checks.answered(loop, "Fetch", refused(), float(second))

    asyncio.run(life())
