"""Records that the brokers have at the end of a run, appended to its history."""

from __future__ import annotations

import base64
from collections.abc import Iterable

import confluent_kafka

from kohort.group_events import Cause
from kohort.model import Millis
from kohort.recorder.record import JOURNAL_TOPIC, RebalanceRecord
from kohort.sim.checks import pairs_of
from kohort.wire.batches import batches
from tests.chaos.history import History
from tests.chaos.raw import read_batches, topic_ids
from tests.interop.mixed.offsets_log import OFFSETS_TOPIC, read_group_log
from tests.interop.mixed.view import GroupWatch


def note_holdings(bootstrap: str, topic: str, groups: Iterable[str], history: History) -> None:
    """The records of the topic, as another library reads them; what the coordinators wrote and say of the groups."""
    _note_records(bootstrap, history)
    _note_removals(bootstrap, history)
    _note_logs(bootstrap, topic, history)
    for group in groups:
        _note_group(bootstrap, group, history)


def log_ends(bootstrap: str, topic: str) -> dict[int, int]:
    """Of each partition."""
    consumer = _judge(bootstrap)
    try:
        count = len(consumer.list_topics(topic, 30.0).topics[topic].partitions)
        places = [confluent_kafka.TopicPartition(topic, number) for number in range(count)]
        return {place.partition: consumer.get_watermark_offsets(place, timeout=30.0)[1] for place in places}
    finally:
        consumer.close()


def _note_logs(bootstrap: str, topic: str, history: History) -> None:
    written = read_batches(bootstrap, topic)
    for partition, end in log_ends(bootstrap, topic).items():
        headers = [header for piece in written[partition] for _, header in batches(piece)]
        history.note(
            "log",
            partition=partition,
            values=_values(bootstrap, topic, partition, end),
            batches=[
                [header.base_offset, header.leader_epoch, header.producer_id, header.producer_epoch]
                for header in headers
            ],
        )


def _values(bootstrap: str, topic: str, partition: int, end: int) -> list[int]:
    values: list[int] = []
    consumer = _judge(bootstrap)
    consumer.assign([confluent_kafka.TopicPartition(topic, partition, 0)])
    while len(values) < end:
        record = consumer.poll(30.0)
        if record is None or record.error():
            break
        assert record.offset() == len(values), f"partition {partition} has a gap at {len(values)}"
        values.append(int((record.value() or b"").rpartition(b":")[2]))
    consumer.close()
    return values


def _note_group(bootstrap: str, group: str, history: History) -> None:
    found = read_group_log(bootstrap, group)
    for generation in found.generations:
        owners = {name: sorted(owned) for name, owned in generation.owners}
        history.note("generation", group=group, number=generation.number, owners=owners)
    for partition, offsets in found.commits.items():
        history.note("commits", group=group, partition=partition, values=offsets)
    history.note("epochs", group=group, problems=found.owned_twice)
    for (_, partition), value in GroupWatch(bootstrap, group).committed().items():
        history.note("stands", group=group, partition=partition, value=value)


def _note_records(bootstrap: str, history: History) -> None:
    for name, topic_id in topic_ids(bootstrap).items():
        history.note("topic", topic=name, id=topic_id)
    for partition, pieces in read_batches(bootstrap, OFFSETS_TOPIC).items():
        for piece in pieces:
            history.note("records", partition=partition, data=base64.b64encode(piece).decode())


def _note_removals(bootstrap: str, history: History) -> None:
    for pieces in read_batches(bootstrap, JOURNAL_TOPIC).values():
        for _, value in pairs_of(b"".join(pieces)):
            rebalance = RebalanceRecord.from_json(value or b"")
            for member_id, client_id, closed_at in removals(rebalance):
                history.note(
                    "removed",
                    at=rebalance.ended_at,
                    group=rebalance.group_id,
                    member=client_id or member_id,
                    id=member_id,
                    since=closed_at,
                )


def removals(rebalance: RebalanceRecord) -> Iterable[tuple[str, str, Millis]]:
    """Yield the ID and client ID of each member removed as its connection closed, and the latest time of that."""
    client_ids = {member.member_id: member.client_id for member in rebalance.members()}
    closed = {change.previous_owner: change.revoked_at for change in rebalance.partitions}
    for gone in rebalance.gone:
        if gone.cause == Cause.CONNECTION_LOST.value:
            assert gone.member_id is not None
            closed_at = closed.get(gone.member_id)
            yield (
                gone.member_id,
                client_ids.get(gone.member_id, ""),
                rebalance.ended_at if closed_at is None else closed_at,
            )


def _judge(bootstrap: str) -> confluent_kafka.Consumer:
    return confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": "judge", "enable.auto.commit": False})
