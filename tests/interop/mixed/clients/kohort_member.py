"""A member by our own client."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kohort import KafkaError, OffsetAndMetadata, SubscriptionPattern, TopicPartition, blocking
from kohort.client import CommitFailedError, NoOffsetError
from tests.interop.mixed.clients.said import HEARTBEAT_MS, POLL_S, Owed, Pause, Said, first, spots
from tests.interop.mixed.kinds import Place


def run(place: Place, said: Said) -> None:
    """Until SIGTERM."""
    pause = Pause(place.choices.pause_ms)
    owed = Owed()

    def settle() -> None:
        if owed.ends:
            ends = {
                TopicPartition(topic, number): OffsetAndMetadata(end, place.choices.note)
                for (topic, number), end in owed.ends.items()
            }
            try:
                consumer.commit(ends)
                said.committed()
                owed.ends.clear()
            except (KafkaError, CommitFailedError) as error:
                said.committed(error)

    def assigned(partitions: Iterable[TopicPartition]) -> None:
        said.assigned(spots(partitions))
        if pause.begins():
            consumer.pause(first(partitions))

    def revoked(partitions: Iterable[TopicPartition]) -> None:
        settle()
        owed.forget(spots(partitions))
        said.revoked(spots(partitions))

    def lost(partitions: Iterable[TopicPartition]) -> None:
        owed.forget(spots(partitions))
        said.lost(spots(partitions))

    newer = place.choices.protocol == "consumer"
    classic = {
        "partition_assignment_strategy": place.strategy,
        "heartbeat_interval_ms": HEARTBEAT_MS,
        "session_timeout_ms": place.session_ms,
    }
    consumer = blocking.Consumer(
        bootstrap_servers=place.bootstrap,
        client_id=place.name,
        **(place.login.python() if place.login else {}),
        group_id=place.group,
        auto_offset_reset=place.choices.reset,
        metadata_max_age_ms=place.choices.metadata_ms,
        group_instance_id=place.choices.instance or None,
        enable_auto_commit=False,
        **({"group_protocol": "consumer", "group_remote_assignor": place.strategy} if newer else classic),
    )
    wanted: list[str] | re.Pattern[str] | SubscriptionPattern = [place.topic]
    if place.choices.pattern:
        wanted = SubscriptionPattern(place.topic) if newer else re.compile(place.topic)
    consumer.subscribe(wanted, on_assigned=assigned, on_revoked=revoked, on_lost=lost)
    while not said.stopping.is_set():
        try:
            records = consumer.poll(timeout=POLL_S)
        except NoOffsetError:
            said.no_offset()
            break
        if records:
            said.read(((record.topic, record.partition), record.offset, record.value) for record in records)
            owed.add(((record.topic, record.partition), record.offset) for record in records)
        settle()
        if pause.ends():
            consumer.resume(first(consumer.assignment))
    said.leaves()
    consumer.close()
