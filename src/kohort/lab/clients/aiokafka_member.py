"""Member that uses aiokafka, which supports only eager groups."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

import aiokafka
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.errors import KafkaError

from kohort.lab.clients.application import POLL_S, Application
from kohort.lab.member_settings import MemberSettings


def run(settings: MemberSettings) -> None:
    """Run the member until SIGTERM."""
    asyncio.run(_run(settings))


async def _run(settings: MemberSettings) -> None:
    loop = asyncio.get_running_loop()
    # aiokafka's rebalances run in a separate task: the lock makes them wait for records that are being processed.
    working = asyncio.Lock()

    async def send(ends: Mapping[int, int]) -> bool:
        try:
            await consumer.commit(
                {aiokafka.TopicPartition(settings.topic, number): end for number, end in ends.items()}
            )
        except KafkaError:
            return False
        return True

    def commit(ends: Mapping[int, int]) -> bool:
        # The application runs in a thread, so that its restoring does not delay the client's heartbeats.
        return asyncio.run_coroutine_threadsafe(send(ends), loop).result()

    class Listener(aiokafka.ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types
        async def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
            async with working:
                await asyncio.to_thread(application.assigned, _numbers(assigned))

        async def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
            async with working:
                await asyncio.to_thread(application.revoked, _numbers(revoked))

    application = Application(settings, commit)
    consumer: Any = aiokafka.AIOKafkaConsumer(
        bootstrap_servers=settings.bootstrap,
        client_id=settings.name,
        group_id=settings.group,
        auto_offset_reset="earliest",
        metadata_max_age_ms=settings.metadata_ms,
        enable_auto_commit=False,
        partition_assignment_strategy=(RangePartitionAssignor,),
        heartbeat_interval_ms=settings.heartbeat_ms,
        session_timeout_ms=settings.session_ms,
    )
    application.joining()
    consumer.subscribe([settings.topic], listener=Listener())
    await consumer.start()
    while not application.stopping.is_set():
        polled = await consumer.getmany(timeout_ms=int(POLL_S * 1000))
        async with working:
            application.read((record.partition, record.offset, record.key or b"") for record in chain(*polled.values()))
            await asyncio.to_thread(application.polled)
    async with working:
        await asyncio.to_thread(application.leaving)
    await consumer.stop()


def _numbers(partitions: Iterable[Any]) -> list[int]:
    return [partition.partition for partition in partitions]
