"""One group moves behind a gateway member by member, and away from it again, as in docs/gateway.md."""

from __future__ import annotations

import asyncio

import pytest

from kohort.client import Admin
from kohort.gateway import Address, Gateway, GatewayOptions
from tests.gateway.outages import LibrdkafkaMember, Member, OurMember, busy_group, until
from tests.interop.kohort import running_kohort

QUICK = {"group_initial_rebalance_delay_ms": "0", "group_disconnect_grace_ms": "30000"}


async def generation(bootstrap: str, group: str, protocol: str, members: list[Member]) -> int | None:
    if protocol == "consumer":
        async with Admin(bootstrap_servers=bootstrap) as admin:
            return (await admin.describe_groups([group]))[group].epoch
    (ours,) = (member for member in members if isinstance(member, OurMember))
    return ours.consumer.generation


@pytest.mark.timeout(120)
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_a_group_moves_behind_a_gateway_and_away_again(protocol: str) -> None:
    with running_kohort(**QUICK) as broker:
        host, _, port = broker.bootstrap.rpartition(":")
        gateway = Gateway(GatewayOptions([Address(host, int(port))], Address("127.0.0.1", 0)))
        async with gateway, busy_group(broker.bootstrap, protocol) as group:
            for bootstrap in (str(gateway.address), broker.bootstrap):
                for kind in (OurMember, LibrdkafkaMember):
                    (before,) = (member for member in group.members if isinstance(member, kind))
                    await before.stop()
                    group.members.remove(before)
                    after = group.join(kind, bootstrap)
                    after.acknowledged |= before.acknowledged
                    await group.progress()
                    group.check_ownership()
                through = {one for link in gateway.links for one in link.members.values()}
                assert through == ({group.name} if bootstrap == str(gateway.address) else set())
            async with asyncio.timeout(20):
                await until(lambda: not gateway.links)
            settled = await generation(broker.bootstrap, group.name, protocol, group.members)
            await gateway.stop()
            await group.progress()
            # Nobody uses it any more: when it stops, the group does not rebalance.
            assert await generation(broker.bootstrap, group.name, protocol, group.members) == settled
            await group.check_commits(broker.bootstrap)
