"""Member that uses Kohort's own client."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kohort import KafkaError, TopicPartition, blocking
from kohort.client import CommitFailedError
from kohort.lab.clients.application import POLL_S, Application
from kohort.lab.clients.warm_store import WarmStore
from kohort.lab.member_settings import MemberSettings


def run(settings: MemberSettings) -> None:
    """Run the member until SIGTERM."""

    def commit(ends: Mapping[int, int]) -> bool:
        try:
            consumer.commit({TopicPartition(settings.topic, number): end for number, end in ends.items()})
        except (KafkaError, CommitFailedError):
            return False
        return True

    def hand_in(ends: Mapping[int, int]) -> bool:
        consumer.commit_nowait({TopicPartition(settings.topic, number): end for number, end in ends.items()})
        return True

    store = WarmStore(settings) if settings.board else None
    application = Application(settings, commit, store, commit if store is None else hand_in)
    consumer = blocking.Consumer(
        bootstrap_servers=settings.bootstrap,
        client_id=settings.name,
        group_id=settings.group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        metadata_max_age_ms=settings.metadata_ms,
        **(_protocol(settings) if store is None else _warm(settings, store)),
    )
    application.joining()
    consumer.subscribe(
        [settings.topic],
        on_assigned=lambda given: application.assigned(_numbers(given)),
        on_revoked=lambda gone: application.revoked(_numbers(gone)),
        on_lost=lambda gone: application.lost(_numbers(gone)),
    )
    while not application.stopping.is_set():
        records = consumer.poll(timeout=POLL_S)
        application.read((record.partition, record.offset, record.key or b"") for record in records)
        application.polled()
        if store is not None and store.copier.done:
            _tell(consumer, store)
    application.leaving()
    consumer.close()


def _protocol(settings: MemberSettings) -> dict[str, Any]:
    if settings.protocol == "consumer":
        return {"group_protocol": "consumer", "group_remote_assignor": "uniform"}
    return {
        "partition_assignment_strategy": "range" if settings.protocol == "eager" else "cooperative-sticky",
        "session_timeout_ms": settings.session_ms,
        "heartbeat_interval_ms": settings.heartbeat_ms,
    }


def _warm(settings: MemberSettings, store: WarmStore) -> dict[str, Any]:
    if settings.protocol == "consumer":
        return {"group_protocol": "consumer", "group_local_assignors": [store.assignor]}
    return {**_protocol(settings), "partition_assignment_strategy": [store.assignor]}


def _tell(consumer: blocking.Consumer, store: WarmStore) -> None:
    """Report the copies to the group, which then moves the partitions that wait for them."""
    wins = store.copier.can_win
    store.copier.note_announced()
    if wins:
        consumer.enforce_rebalance("what is to move here is copied")
    else:
        consumer.tell_user_data()


def _numbers(partitions: Iterable[TopicPartition]) -> list[int]:
    return [partition.partition for partition in partitions]
