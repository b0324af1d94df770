"""Source of changes: the offsets topic of a running cluster, and what only its brokers can tell.

It reads and describes, and never writes: it is not a member of a group, and commits nothing.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Self

from kohort.client import (
    Admin,
    AdminOptions,
    Consumer,
    ConsumerOptions,
    ErrorCode,
    GroupDescription,
    KafkaError,
    OffsetSpec,
)
from kohort.group_events import MemberFacts
from kohort.model import Millis, TopicPartition
from kohort.recorder import RebalanceRecord
from kohort.watch.group import GroupFound, WatchedMember
from kohort.watch.lag import EndOffsets, EndPoint
from kohort.watch.reader import LogReader, unnamed_topics
from kohort.watch.snapshot import Snapshot
from kohort.watch.watcher import Watcher

OFFSETS_TOPIC = "__consumer_offsets"

_AT_ONCE = 32
"""Number of groups that are described at the same time."""
_MOST_RECORDS = 10_000
_MOST_QUESTIONS = 64
"""Number of rounds of ListOffsets for lags in seconds. Records with sensible timestamps need about twenty."""


class ClusterSource:
    """Groups of a running cluster. Use it as an async context manager.

    `catch_up` reads the log; call it again for what was written since. `describe` adds what precedes
    the log, and `take_ends` the ends of the partitions. Take the ends last, so that no end is older
    than the commits that it is compared with.
    """

    def __init__(self, options: Mapping[str, Any], *, history_ms: Millis) -> None:
        """Create the source.

        - `options`: Options of the client, such as bootstrap_servers. Those of Consumer and Admin
          may be mixed.
        - `history_ms`: Age of the history to read first; 0 starts at the end.
        """
        self.watcher = Watcher()
        self.ends: dict[TopicPartition, EndOffsets] = {}
        self.problems: dict[str, None] = {}
        """What could not be read, in the order of its discovery."""
        self._reader = LogReader()
        self._unknown_ids = frozenset[Any]()
        """Topic IDs that no topic has: those of deleted topics."""
        self._history_from = _now() - history_ms if history_ms else None
        # A transaction's commits count when it is committed, as for the members of the group.
        reset = f"by_duration:PT{history_ms / 1000:.3f}S" if history_ms else "latest"
        reading = {"group_id": None, "auto_offset_reset": reset, "isolation_level": "read_committed"}
        self._consumer = Consumer(**(_for(ConsumerOptions, options) | reading))
        self._admin = Admin(**_for(AdminOptions, options))
        self._partitions: list[TopicPartition] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._consumer.close()
        finally:
            await self._admin.close()

    async def catch_up(self) -> list[RebalanceRecord]:
        """Read the log up to its present end, and return the records of the rebalances that were completed.

        The client follows changes of leaders. Where the log was truncated, it goes on at the first
        record that differs. Raises KafkaError if the topic may not be read.
        """
        if not await self._assign():
            return []
        for partition in self._partitions:
            await self._consumer.position(partition)  # the start, before the end is taken
        ends = await self._consumer.end_offsets(self._partitions)
        records: list[RebalanceRecord] = []
        while any([await self._consumer.position(partition) < end for partition, end in ends.items()]):
            changes = self._reader.read(await self._consumer.poll(_MOST_RECORDS))
            await self._name_topics(unnamed_topics(changes, self.watcher.topic_names))
            records += self.watcher.apply(changes)
        return records

    async def _assign(self) -> bool:
        """Assign all partitions of the offsets topic. Returns False if there is none, because no group ever was."""
        try:
            topic = (await self._admin.describe_topics([OFFSETS_TOPIC]))[OFFSETS_TOPIC]
        except KafkaError as problem:
            if problem.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                return False
            raise
        self._partitions = [TopicPartition(OFFSETS_TOPIC, number) for number in sorted(topic.leaders)]
        self._consumer.assign(self._partitions)
        return True

    async def _name_topics(self, ids: Iterable[Any]) -> None:
        wanted = set(ids) - self._unknown_ids
        if wanted:
            topics = (await self._admin.describe_topics()).values()
            self.watcher.name_topics({topic.topic_id: topic.name for topic in topics})
            self._unknown_ids |= wanted - self.watcher.topic_names.keys()

    async def describe(self) -> None:
        """Ask the coordinators for the state, the members and the offsets of all classic and consumer groups.

        A group that may not be described is a problem, and keeps what the log tells.
        """
        turn = asyncio.Semaphore(_AT_ONCE)
        listed = [group for group in await self._admin.list_groups() if group.type in (None, "classic", "consumer")]
        await asyncio.gather(*(self._describe(group.group_id, turn) for group in listed))

    async def _describe(self, group_id: str, turn: asyncio.Semaphore) -> None:
        async with turn:
            try:
                described = (await self._admin.describe_groups([group_id]))[group_id]
                offsets = await self._admin.group_offsets(group_id)
            except KafkaError as problem:
                self.problems[f"Group {group_id} cannot be described: {problem}"] = None
                return
        if described.state != "Dead":
            commits = {partition: found.offset for partition, found in offsets.items() if found is not None}
            self.watcher.found(_found(described, commits), _now())

    async def take_ends(self) -> None:
        """Take the end offset of each partition that a group owns or has committed to, in batches."""
        groups = self.watcher.groups.values()
        wanted = {partition for group in groups for partition in (*group.commits, *group.owners)}
        for partition in self.ends.keys() - wanted:
            del self.ends[partition]
        for partition, found in (await self._list_offsets(dict.fromkeys(wanted, OffsetSpec.LATEST))).items():
            if found is not None:
                self.ends.setdefault(partition, EndOffsets()).add(_now(), found.end)

    async def date_lags(self) -> None:
        """Ask for timestamps of records, until each lag in seconds is known where the samples do not reach."""
        committed = defaultdict[TopicPartition, set[int]](set)
        for group in self.watcher.groups.values():
            for partition, commit in group.commits.items():
                if partition in self.ends:
                    committed[partition].add(commit.offset)
        for _ in range(_MOST_QUESTIONS):
            wanted = {}
            for partition, offsets in committed.items():
                times = (self.ends[partition].next_time(offset) for offset in offsets)
                if (asked := next((time for time in times if time is not None), None)) is not None:
                    wanted[partition] = asked
            if not wanted:
                return
            answers = await self._list_offsets(wanted)
            for partition, asked in wanted.items():
                if partition in answers:
                    self.ends[partition].insert(asked, answers[partition])
                else:
                    del committed[partition]
        self.problems["The timestamps of some records are not in order, so some lags in seconds are estimates."] = None

    async def _list_offsets(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, EndPoint | None]:
        """Return what could be found. Partitions of topics that are deleted or may not be described are problems."""
        try:
            found = await self._admin.list_offsets(wanted) if wanted else {}
        except KafkaError:
            return await self._list_by_topic(wanted)
        return {
            partition: None if offset is None else EndPoint(offset.timestamp or 0, offset.offset)
            for partition, offset in found.items()
        }

    async def _list_by_topic(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, EndPoint | None]:
        by_topic = defaultdict[str, dict[TopicPartition, int]](dict)
        for partition, asked in wanted.items():
            by_topic[partition.topic][partition] = asked
        answers: dict[TopicPartition, EndPoint | None] = {}
        for topic, asked_for in by_topic.items():
            try:
                found = await self._admin.list_offsets(asked_for)
            except KafkaError as problem:
                self.problems[f"The ends of topic {topic} cannot be read: {problem}"] = None
                continue
            for partition, offset in found.items():
                answers[partition] = None if offset is None else EndPoint(offset.timestamp or 0, offset.offset)
        return answers

    def snapshot(self) -> Snapshot:
        """Return the present state."""
        return Snapshot(_now(), self.watcher, self.ends, self._history_from, self._reader.counts, tuple(self.problems))


def _found(described: GroupDescription, commits: Mapping[TopicPartition, int]) -> GroupFound:
    members = tuple(
        WatchedMember(
            MemberFacts(member.member_id, member.client_id, member.client_host, member.instance_id),
            member.topics,
            member.expression,
            member.epoch,
            owned=member.assignment,
        )
        for member in described.members
    )
    return GroupFound(
        described.group_id,
        described.type,
        described.state,
        described.epoch,
        described.target_epoch,
        described.assignor or None,
        described.protocol_type or None,
        members,
        commits,
    )


def _for(kind: type[Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that clients of this kind have."""
    return {name: value for name, value in options.items() if name in kind.__dataclass_fields__}


def _now() -> Millis:
    return time.time_ns() // 1_000_000
