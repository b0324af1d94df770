"""The log message of a member that waits for its group's first rebalance."""

from __future__ import annotations

import asyncio
import logging

import pytest

from kohort import Cluster, Membership
from kohort.client import MembershipKeywords
from kohort.testing import Broker
from tests.client.conftest import broker_with, eventually

MESSAGE = "group.initial.rebalance.delay.ms=0"


def notices(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if MESSAGE in record.getMessage()]


async def test_the_first_join_of_a_group_logs_why_it_waits(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kohort.client.membership")
    settings = {"group.initial.rebalance.delay.ms": "60000"}
    async with Broker(settings=settings) as broker, Cluster.of(broker.bootstrap_servers) as cluster:
        joining = asyncio.create_task(Membership.join(cluster, "g", ["t"]))
        try:
            await eventually(lambda: bool(notices(caplog)))
        finally:
            joining.cancel()
            await asyncio.gather(joining, return_exceptions=True)
    [notice] = notices(caplog)
    assert notice.startswith("group g: waiting for other members to join.")


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_a_member_that_joins_at_once_logs_nothing(protocol: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kohort.client.membership")
    options: MembershipKeywords = {"group_protocol": protocol}
    async with broker_with(0) as broker, Cluster.of(broker.bootstrap_servers) as cluster:
        member = await Membership.join(cluster, "g", ["t"], options)
        await member.leave()
    assert notices(caplog) == []
