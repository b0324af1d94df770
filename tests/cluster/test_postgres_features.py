"""The level of transaction.version in a cluster over PostgreSQL: one for all brokers, and after a restart."""

from __future__ import annotations

import asyncio

from kohort.broker import Broker, BrokerOptions
from kohort.errors import ErrorCode
from tests.broker.apis.test_features import BAD, FEATURE, SAFE, UNSAFE, UPGRADE, features, update
from tests.broker.conftest import QUICK
from tests.broker.peer import Peer, talking_to
from tests.cluster.postgres import PostgresServer


def options(dsn: str, level: int, node_id: int) -> BrokerOptions:
    return BrokerOptions(port=0, postgres=dsn, node_id=node_id, settings={**QUICK, FEATURE: str(level)})


async def has_followed(peer: Peer, level: int, epoch: int) -> None:
    async with asyncio.timeout(60):
        while await features(peer) != (level, epoch):  # noqa: ASYNC110  # it follows the database
            await asyncio.sleep(0.01)


async def test_brokers_over_postgresql_have_one_level(postgres: PostgresServer) -> None:
    dsn = postgres.fresh_database()
    async with (
        Broker(options(dsn, 1, 1)) as one,
        Broker(options(dsn, 2, 2)) as other,
        talking_to(one) as first,
        talking_to(other) as second,
    ):
        assert await features(second) == (1, 0)  # the first broker made the cluster
        assert await update(first, {FEATURE: 2}) == ErrorCode.NONE
        # Each decides by the newest level, although it may not have followed yet.
        assert await update(second, {FEATURE: 1}, UPGRADE) == BAD
        assert await update(second, {FEATURE: 1}, SAFE) == ErrorCode.NONE
        await has_followed(first, 1, 2)
        # Of two at once, one is later, and each has an epoch of its own.
        answers = await asyncio.gather(update(first, {FEATURE: 0}, UNSAFE), update(second, {FEATURE: 2}, UPGRADE))
        assert list(answers) == [ErrorCode.NONE, ErrorCode.NONE]
        async with asyncio.timeout(60):
            while (level := await features(first)) != await features(second) or level[1] < 4:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert level in ((0, 4), (2, 4))
    async with Broker(options(dsn, 2, 3)) as later, talking_to(later) as peer:
        assert await features(peer) == level
