"""A member by aiokafka."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from itertools import chain
from typing import Any

import aiokafka
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.errors import KafkaError, NoOffsetForPartitionError

from tests.interop.mixed.clients.said import HEARTBEAT_MS, POLL_S, Pause, Said, first, spots
from tests.interop.mixed.kinds import Place


def run(place: Place, said: Said) -> None:
    """Until SIGTERM."""
    asyncio.run(_run(place, said))


async def _run(place: Place, said: Said) -> None:
    # Its rebalances run in a task of their own: the lock lets them wait for a commit that is under way.
    working = asyncio.Lock()
    pause = Pause(place.choices.pause_ms)

    class Listener(aiokafka.ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types
        async def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
            said.assigned(spots(assigned))
            if pause.begins():
                consumer.pause(*first(assigned))

        async def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
            async with working:
                said.revoked(spots(revoked))

    consumer: Any = aiokafka.AIOKafkaConsumer(
        bootstrap_servers=place.bootstrap,
        client_id=place.name,
        **(place.login.aiokafka() if place.login else {}),
        group_id=place.group,
        auto_offset_reset=place.choices.reset,
        metadata_max_age_ms=place.choices.metadata_ms,
        group_instance_id=place.choices.instance or None,
        enable_auto_commit=False,
        partition_assignment_strategy=(
            {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}[place.strategy],
        ),
        heartbeat_interval_ms=HEARTBEAT_MS,
        session_timeout_ms=place.session_ms,
    )
    if place.choices.pattern:
        consumer.subscribe(pattern=place.topic, listener=Listener())
    else:
        consumer.subscribe([place.topic], listener=Listener())
    await consumer.start()
    while not said.stopping.is_set():
        try:
            polled = await consumer.getmany(timeout_ms=int(POLL_S * 1000))
        except NoOffsetForPartitionError:
            said.no_offset()
            break
        if polled:
            async with working:
                said.read(
                    ((record.topic, record.partition), record.offset, record.value)
                    for record in chain(*polled.values())
                )
                ends = {
                    partition: (records[-1].offset + 1, place.choices.note) for partition, records in polled.items()
                }
                try:
                    await consumer.commit(ends)
                    said.committed()
                except KafkaError as error:
                    said.committed(error)
        if pause.ends():
            consumer.resume(*first(consumer.assignment()))
    said.leaves()
    await consumer.stop()
