"""Estimate of what another protocol would have saved: each classic group's history, replayed with Kohort's assignors.

The same members join and leave at the same times; the partitions that have to stop differ. Under
the cooperative protocol, these are the partitions that an assignor takes from a member. Under the
consumer protocol, they are those that the coordinator's target moves. All other partitions
continue. The saved time is estimated from the average cost of a stop in this group.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kohort.analytics.arrow_functions import applied
from kohort.assignor import find_assignor
from kohort.assignor.server import MemberShape, TopicShape, find_server_assignor
from kohort.model import UUID, TopicPartition
from kohort.wire.messages.consumer_protocol import Subscription

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_REPLAYED = "group_id STRING, changes BIGINT, cooperative_stops BIGINT, consumer_stops BIGINT"
_GENERATIONS = """
    SELECT group_id, position, ids, transform(members, m -> m.subscribed) AS subscribed,
      flatten(transform(members, m -> m.assigned)) AS assigned
    FROM _generations"""
_SAVINGS = """
    SELECT r.group_id, a.assignor, a.rebalances, r.changes, a.stops, r.cooperative_stops, r.consumer_stops,
      a.excess_ms,
      CAST(a.excess_ms * greatest(0, 1 - r.cooperative_stops / greatest(a.stops, 1)) AS BIGINT) AS cooperative_saves_ms,
      CAST(a.excess_ms * greatest(0, 1 - r.consumer_stops / greatest(a.stops, 1)) AS BIGINT) AS consumer_saves_ms
    FROM _replayed r JOIN (
      SELECT group_id, mode(assignor) AS assignor, count(*) AS rebalances, sum(stopped) AS stops,
        sum(excess_ms) AS excess_ms
      FROM rebalances WHERE group_type = 'classic' GROUP BY group_id
    ) a ON r.group_id = a.group_id"""


def savings(spark: SparkSession) -> DataFrame:
    """Return the table, one row per classic group, from the views of the other tables."""
    replayed = applied(spark.sql(_GENERATIONS), "group_id", _replay_table, _REPLAYED)
    replayed.createOrReplaceTempView("_replayed")
    return spark.sql(_SAVINGS)


@dataclass(frozen=True, slots=True)
class GroupMembership:
    """Members of the group after a rebalance, with their subscriptions."""

    topics: Mapping[str, Sequence[str]]


@dataclass(slots=True)
class StoppedPartitions:
    """Number of partitions that had to stop, over all changes of membership."""

    changes: int = 0
    cooperative: int = 0
    consumer: int = 0


class _Replay:
    """Replay of a group under both protocols at once. `partitions` has the partition count of each topic."""

    def __init__(self, partitions: Mapping[str, int]) -> None:
        self.partitions = partitions
        self.stops = StoppedPartitions()
        self.owned: dict[str, frozenset[TopicPartition]] = {}
        self.target: dict[str, frozenset[TopicPartition]] = {}
        self.members: dict[str, tuple[str, ...]] = {}
        self._plan = find_server_assignor("uniform").plan()
        self._ids = {topic: UUID(int=n + 1) for n, topic in enumerate(partitions)}
        self._topics = {topic_id: topic for topic, topic_id in self._ids.items()}
        for topic, topic_id in self._ids.items():
            self._plan.set_topic(topic_id, TopicShape(partitions[topic], name=topic))

    def step(self, roll: GroupMembership) -> None:
        """Apply the members after one more rebalance; nothing stops if members and subscriptions are unchanged."""
        members = {member: tuple(topics) for member, topics in roll.topics.items()}
        if members == self.members:
            return
        self.stops.changes += 1
        self.stops.consumer += self._by_consumer_protocol(members)
        self.stops.cooperative += self._cooperatively(members)
        self.members = members

    def _by_consumer_protocol(self, members: Mapping[str, tuple[str, ...]]) -> int:
        for member in self.members.keys() - members.keys():
            self._plan.remove_member(member)
        for member, topics in members.items():
            if self.members.get(member) != topics:
                asked = frozenset(self._ids[topic] for topic in topics if topic in self._ids)
                self._plan.set_member(member, MemberShape(asked))
        after = {member: held for member, held in self.target.items() if member in members}
        for member, target in self._plan.update().items():
            after[member] = frozenset(
                TopicPartition(self._topics[topic_id], n) for topic_id, numbers in target.items() for n in numbers
            )
        stopped = _lost(self.target, after)
        self.target = after
        return stopped

    def _cooperatively(self, members: Mapping[str, tuple[str, ...]]) -> int:
        # Two rounds: the first revokes partitions from their owners, the follow-up assigns them.
        before = self.owned
        for generation in range(2):
            asked = {
                member: Subscription(
                    topics=topics,
                    owned_partitions=sorted(self.owned.get(member, ())),
                    generation_id=generation,
                )
                for member, topics in sorted(members.items())
            }
            made = find_assignor("cooperative-sticky").assign(self.partitions, asked)
            self.owned = {member: frozenset(made[member].partitions) for member in members}
        return _lost(before, self.owned)


def _lost(before: Mapping[str, frozenset[TopicPartition]], after: Mapping[str, frozenset[TopicPartition]]) -> int:
    """Return the number of partitions that are no longer owned by the same member."""
    return sum(len(held - after.get(member, frozenset())) for member, held in before.items())


def replay(rolls: Sequence[GroupMembership], partitions: Mapping[str, int]) -> StoppedPartitions:
    """Replay all rebalances of one group, in order."""
    group = _Replay(partitions)
    for roll in rolls:
        group.step(roll)
    return group.stops


def _replay_table(table: pa.Table) -> pa.Table:
    """Replay one group's generations, on an executor."""
    import pyarrow as pa

    rows = table.sort_by("position").to_pylist()
    partitions: dict[str, int] = {}
    for topic, number in _assigned(rows):
        partitions[topic] = max(partitions.get(topic, 0), number + 1)
    stops = replay([GroupMembership(dict(zip(row["ids"], row["subscribed"], strict=True))) for row in rows], partitions)
    row: dict[str, Any] = {
        "group_id": [rows[0]["group_id"]],
        "changes": [stops.changes],
        "cooperative_stops": [stops.cooperative],
        "consumer_stops": [stops.consumer],
    }
    return pa.table(row)


def _assigned(rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, int]]:
    for row in rows:
        for name in row["assigned"] or ():
            topic, _, number = name.rpartition("-")
            yield topic, int(number)
