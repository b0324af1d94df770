"""A member by kafka-python."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any

import kafka
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.errors import KafkaError, NoOffsetForPartitionError

from tests.interop.mixed.clients.said import HEARTBEAT_MS, POLL_S, Owed, Pause, Said, first, spots
from tests.interop.mixed.kinds import Place

_ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}


def run(place: Place, said: Said) -> None:
    """Until SIGTERM."""
    pause = Pause(place.choices.pause_ms)
    owed = Owed()

    def settle() -> None:
        if owed.ends:
            offsets = {
                kafka.TopicPartition(topic, number): kafka.OffsetAndMetadata(end, place.choices.note, -1)
                for (topic, number), end in owed.ends.items()
            }
            try:
                consumer.commit(offsets)
                said.committed()
                owed.ends.clear()
            except KafkaError as error:
                said.committed(error)

    class Listener(kafka.ConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python has no types
        def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
            said.assigned(spots(assigned))
            if pause.begins():
                consumer.pause(*first(assigned))

        def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
            settle()
            owed.forget(spots(revoked))
            said.revoked(spots(revoked))
            if place.strategy != "cooperative-sticky":
                # Version 3.0.12 keeps its position of a revoked partition, and continues there if it gets it back:
                # what another member read in between it reads again. Java forgets all of it here, as this does.
                consumer._subscription.assign_from_subscribed([])

        def on_partitions_lost(self, lost: Iterable[Any]) -> None:
            owed.forget(spots(lost))
            said.lost(spots(lost))

    consumer = kafka.KafkaConsumer(
        bootstrap_servers=place.bootstrap,
        client_id=place.name,
        **(place.login.python() if place.login else {}),
        group_id=place.group,
        auto_offset_reset=place.choices.reset,
        metadata_max_age_ms=place.choices.metadata_ms,
        group_instance_id=place.choices.instance or None,
        enable_auto_commit=False,
        partition_assignment_strategy=[_ASSIGNORS[place.strategy]],
        heartbeat_interval_ms=HEARTBEAT_MS,
        session_timeout_ms=place.session_ms,
    )
    if place.choices.pattern:
        consumer.subscribe(pattern=place.topic, listener=Listener())
    else:
        consumer.subscribe([place.topic], listener=Listener())
    while not said.stopping.is_set():
        if consumer._coordinator.rejoining:
            # Version 3.0.12 forgets a join that it began for new topics if its poll ends between the answers to
            # JoinGroup and SyncGroup: it is never assigned anything then, with whatever broker.
            consumer._coordinator.request_rejoin()
        try:
            polled = consumer.poll(timeout_ms=POLL_S * 1000)
        except NoOffsetForPartitionError:
            said.no_offset()
            break
        if polled:
            records = list(chain(*polled.values()))
            said.read(((record.topic, record.partition), record.offset, record.value) for record in records)
            owed.add(((record.topic, record.partition), record.offset) for record in records)
        settle()
        if pause.ends():
            consumer.resume(*first(consumer.assignment()))
    said.leaves()
    consumer.close()
