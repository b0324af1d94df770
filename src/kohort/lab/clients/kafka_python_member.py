"""Member that uses kafka-python, which has no consumer protocol."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

import kafka
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata, TopicPartition

from kohort.lab.clients.application import POLL_S, Application
from kohort.lab.member_settings import MemberSettings


def run(settings: MemberSettings) -> None:
    """Run the member until SIGTERM."""

    inside: list[Any] = []
    """Commits sent in a callback. It runs on the client's I/O loop, so it can wait only with `await`."""
    calling_back = False

    def commit(ends: Mapping[int, int]) -> bool:
        offsets = {
            TopicPartition(settings.topic, number): OffsetAndMetadata(end, "", -1) for number, end in ends.items()
        }
        try:
            if calling_back:
                inside.append(consumer.commit_async(offsets))
            else:
                consumer.commit(offsets)
        except KafkaError:
            return False
        return True

    class Listener(kafka.AsyncConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python has no types
        async def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
            application.assigned(_numbers(assigned))

        async def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
            nonlocal calling_back
            calling_back = True
            application.revoked(_numbers(revoked))
            calling_back = False
            while inside:
                with contextlib.suppress(KafkaError):  # rejected: the next owner reads the records again
                    await inside.pop()
            if settings.protocol == "eager":
                # Version 3.0.12 keeps the positions of revoked partitions and resumes there if it gets a partition
                # back: it rereads records that another member read in between. The Java client forgets all positions
                # here, as this code does.
                consumer._subscription.assign_from_subscribed([])

        async def on_partitions_lost(self, lost: Iterable[Any]) -> None:
            application.lost(_numbers(lost))

    application = Application(settings, commit)
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=settings.bootstrap,
        client_id=settings.name,
        group_id=settings.group,
        auto_offset_reset="earliest",
        metadata_max_age_ms=settings.metadata_ms,
        enable_auto_commit=False,
        partition_assignment_strategy=[
            RangePartitionAssignor if settings.protocol == "eager" else CooperativeStickyAssignor
        ],
        heartbeat_interval_ms=settings.heartbeat_ms,
        session_timeout_ms=settings.session_ms,
    )
    # A member that joins before it knows its topic joins again at once, and version 3.0.12 loses an assignment whose
    # SyncGroup is answered between two calls of `poll`: one of fifteen members got nothing.
    consumer.partitions_for_topic(settings.topic)
    application.joining()
    consumer.subscribe([settings.topic], listener=Listener())
    while not application.stopping.is_set():
        polled = consumer.poll(timeout_ms=POLL_S * 1000)
        application.read((record.partition, record.offset, record.key or b"") for record in chain(*polled.values()))
        application.polled()
    application.leaving()
    consumer.close()


def _numbers(partitions: Iterable[Any]) -> list[int]:
    return [partition.partition for partition in partitions]
