"""The log message of a member that waits for its group's first rebalance."""

from __future__ import annotations

import asyncio
import logging

import pytest

from kohort import Cluster, Membership
from kohort.client import MembershipKeywords
from tests.client.conftest import eventually
from tests.client.link import linked_broker

MESSAGE = "group.initial.rebalance.delay.ms=0"


def notices(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if MESSAGE in record.getMessage()]


async def test_the_first_join_of_a_group_logs_why_it_waits(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kohort.client.membership")
    async with linked_broker(group_initial_rebalance_delay_ms="60000") as (broker, link):
        broker.topics.create("t", 1)
        async with Cluster.of(f"127.0.0.1:{link.port}") as cluster:
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
    async with linked_broker(group_initial_rebalance_delay_ms="0") as (broker, link):
        broker.topics.create("t", 1)
        async with Cluster.of(f"127.0.0.1:{link.port}") as cluster:
            member = await Membership.join(cluster, "g", ["t"], options)
            await member.leave()
    assert notices(caplog) == []
