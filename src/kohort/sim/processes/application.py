"""Application with one member: it processes records, commits, and is sometimes slow or killed.

Records are numbers here: a partition has as many as the world counts as produced. The application
reports each processed record to the progress, which tracks what every group has processed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from kohort.client import (
    ClosedError,
    Cluster,
    CommitFailedError,
    GroupOptions,
    KafkaError,
    Membership,
    OffsetAndMetadata,
    SubscriptionPattern,
)
from kohort.client.membership import MemberDriver
from kohort.errors import ErrorCode
from kohort.member.consumer import ConsumerState
from kohort.model import UUID, Millis, TopicPartition
from kohort.requests import ClusterMetadata
from kohort.sim.checks import REFUSALS
from kohort.sim.plans import ApplicationSettings
from kohort.sim.processes.killable_clients import KillableMembership

Partitions = frozenset[TopicPartition]
_REPEATED = REFUSALS | {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
"""Errors of a look-up of positions after which it tries again, although they may last."""


class Observer(Protocol):
    """Observer of what applications do, implemented by `GroupProgress`."""

    def end_of(self, topic_id: UUID | None, partition: TopicPartition) -> int:
        """Return the number of records of the partition; 0 if that topic was deleted."""
        ...

    def processed(
        self, application: Application, topic_id: UUID | None, partition: TopicPartition, first: int, end: int
    ) -> None:
        """Record that these offsets were delivered."""
        ...

    def committed(self, application: Application, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
        """Record that a commit was acknowledged."""
        ...

    def asks(self, application: Application, topic_id: UUID | None, partition: TopicPartition) -> int:
        """Record that a lookup of the group's committed offset begins.

        Return a value to pass to `found` as `since`.
        """
        ...

    def found(
        self,
        application: Application,
        topic_id: UUID | None,
        partition: TopicPartition,
        offset: OffsetAndMetadata | None,
        since: int,
    ) -> None:
        """Record the result of the lookup; `since` is the value that `asks` returned."""
        ...

    def owns(self, application: Application) -> None:
        """Record that the assignment changed."""
        ...


@dataclass(eq=False)
class Application:
    """Application in one run of its process. `run` does all its work."""

    name: str
    settings: ApplicationSettings
    bootstrap: str
    observer: Observer
    metadata_age: Millis
    """metadata.max.age.ms: maximum age of metadata, after which it detects new partitions."""
    login: dict[str, Any] = field(default_factory=dict)
    """Options with which it authenticates."""
    positions: dict[TopicPartition, int] = field(default_factory=dict)
    """Partitions that it processes, with its positions."""
    topic_ids: dict[TopicPartition, UUID | None] = field(default_factory=dict)
    """Topic id of each position: a topic that is deleted and recreated is another topic."""
    polls: bool = True
    """Whether it still polls; otherwise the group removes it after max.poll.interval.ms."""
    over: KafkaError | None = None
    """Error that ended the membership for good."""
    left: bool = False
    started: float = 0.0
    """Start of this run, in seconds of the world."""
    waits: float = 20.0
    """Maximum time that it waits for a commit, in seconds."""
    backs_off: Millis = 1_000
    """Maximum time between two attempts after a failure.

    A machine that is disconnected for an hour need not retry every second.
    """

    def __post_init__(self) -> None:
        self.membership: Membership | None = None
        self._leaving = False
        self._cluster: Cluster | None = None
        self._metadata: ClusterMetadata | None = None
        """Metadata with which the topic ids of the positions were last compared."""
        self._unpositioned: set[TopicPartition] = set()
        """Partitions whose positions are being looked up."""
        self.seen: object = None
        """Generation and assignment that the observer saw last."""
        self._committed: dict[TopicPartition, int] = {}
        self._tags = 0
        self._commits_at = 0.0
        self._next_poll: asyncio.TimerHandle | None = None
        self._done: asyncio.Future[None] | None = None

    def _driver(self) -> MemberDriver | None:
        return None if self.membership is None else self.membership._driver

    def owned_by_id(self) -> dict[tuple[UUID, int], TopicPartition]:
        """Return the partitions that a member of the consumer protocol owns, by topic id."""
        driver = self._driver()
        assert driver is not None
        member = driver.member
        assert isinstance(member, ConsumerState)
        return {(member.ids[owned.topic], owned.partition): owned for owned in member.owned}

    # Calls from the world

    def leave(self) -> None:
        """Give up all partitions and end."""
        self._leaving = True
        if self._next_poll is not None:  # otherwise it is about to begin, or it commits
            self._next_poll.cancel()
            self._end()

    def stays(self, member_id: str) -> bool:
        """Return whether it is that member, and does not leave."""
        current = None if self._leaving or self.over is not None else self.membership
        return current is not None and current.member_id == member_id

    def subscribe(self, topics: tuple[str, ...]) -> None:
        """Subscribe to other topics."""
        self.settings.topics, self.settings.pattern = topics, ""
        if self.membership is not None and not self._leaving:
            self.membership.subscribe(topics)

    def set_weight(self, weight: int) -> None:
        """Change the weight relative to other members."""
        self.settings.weight = weight
        if self.membership is not None and not self._leaving:
            self.membership.set_weight(weight)

    def rest_takes(self) -> float:
        """Return how much longer the rest may take because it arrives in small parts, in seconds."""
        return 0.0

    # Run

    async def run(self) -> None:
        settings = self.settings
        cluster = self._cluster = Cluster.of(
            self.bootstrap,
            client_id=self.name,
            request_timeout_ms=10_000,
            metadata_max_age_ms=self.metadata_age,
            retry_backoff_max_ms=self.backs_off,
            reconnect_backoff_max_ms=self.backs_off,
            **self.login,
        )
        membership = self.membership = KillableMembership(
            cluster,
            GroupOptions.read(self._options()),
            on_revoked=self._revoked,
            on_assigned=self._assigned,
            on_lost=self._lost,
            on_change=lambda _: self.observer.owns(self),
        )
        membership.subscribe(SubscriptionPattern(settings.pattern) if settings.pattern else settings.topics)
        await self._work(membership)
        await membership.leave(timeout=15.0)
        await cluster.close()
        self.left = True

    def _options(self) -> dict[str, object]:
        settings = self.settings
        options: dict[str, object] = {
            "bootstrap_servers": self.bootstrap,
            "group_id": settings.group,
            "group_protocol": settings.protocol,
            "group_instance_id": settings.instance,
            "max_poll_interval_ms": settings.max_poll,
            "default_api_timeout_ms": 20_000,
            "retry_backoff_max_ms": self.backs_off,
            **self.login,
        }
        if settings.protocol == "classic":
            options["partition_assignment_strategy"] = settings.assignors
            options["session_timeout_ms"] = settings.session
            options["heartbeat_interval_ms"] = settings.heartbeat
            return options
        if settings.remote:
            options["group_remote_assignor"] = settings.remote
        if settings.local:
            options["group_local_assignors"] = settings.local
        if settings.weight:
            options["group_member_weight"] = float(settings.weight)
        return options

    async def _work(self, membership: Membership) -> None:
        """Poll until it leaves, or is removed from its group.

        A poll is a single event, because most events are polls.
        """
        if self._leaving:
            return
        loop = asyncio.get_running_loop()
        self._done = loop.create_future()
        self._commits_at = loop.time()
        self._poll_later(loop)
        await self._done

    def _poll_later(self, loop: asyncio.AbstractEventLoop) -> None:
        self._next_poll = loop.call_later(self.settings.poll_every / 1000, self._poll, loop)

    def _poll(self, loop: asyncio.AbstractEventLoop) -> None:
        membership = self.membership
        assert membership is not None
        self._next_poll = None
        if membership.error is not None:
            self.over = membership.error
            self._end()
            return
        if self.polls:
            membership.alive()
            self._process()
            if loop.time() >= self._commits_at:
                self._commits_at = loop.time() + self.settings.commit_every / 1000
                loop.create_task(self._commit_and_go_on(loop), name="commit")
                return
        self._poll_later(loop)

    async def _commit_and_go_on(self, loop: asyncio.AbstractEventLoop) -> None:
        await self._commit(self.positions)
        if self._leaving:
            self._end()
        else:
            self._poll_later(loop)

    def _end(self) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_result(None)

    def _process(self) -> None:
        assert self._cluster is not None
        if self._metadata is not self._cluster.metadata:
            self._metadata = self._cluster.metadata
            self._begin_created_topics(self._metadata)
        for partition, position in self.positions.items():
            topic_id = self.topic_ids[partition]
            end = min(position + self.settings.batch, self.observer.end_of(topic_id, partition))
            if end > position:
                self.observer.processed(self, topic_id, partition, position, end)
                self.positions[partition] = end

    def _begin_created_topics(self, metadata: ClusterMetadata) -> None:
        """Look up the positions of topics that were deleted and recreated, as a consumer's fetcher does.

        A member of the consumer protocol waits until the new topic is assigned.
        """
        assert self.membership is not None
        created = {
            partition
            for partition in self.positions
            if self.membership.topic_id(partition.topic) is None
            and metadata.topic_id(partition.topic) not in (None, self.topic_ids[partition])
        }
        for partition in created:
            self._forget(partition)
        if created:
            self._unpositioned |= created
            asyncio.get_running_loop().create_task(self._position(frozenset(created)), name="positions")

    async def _commit(self, positions: Mapping[TopicPartition, int]) -> None:
        changed = {
            partition: positions[partition]
            for partition in sorted(positions)
            if positions[partition] != self._committed.get(partition)
        }
        if not changed or self.membership is None:
            return
        self._tags += 1
        offsets = {
            partition: OffsetAndMetadata(
                position, f"{self.name}#{self._tags}", position % 7, self.topic_ids.get(partition)
            )
            for partition, position in changed.items()
        }
        try:
            await self.membership.commit(offsets)
        except CommitFailedError as problem:
            offsets = {
                partition: position for partition, position in offsets.items() if partition not in problem.errors
            }
        except (ClosedError, KafkaError):
            return  # the next owner of the partitions processes their records again
        self._committed.update((partition, changed[partition]) for partition in offsets)
        self.observer.committed(self, offsets)

    # Callbacks of the membership

    async def _revoked(self, partitions: Partitions) -> None:
        self._unpositioned -= partitions
        given_up = {tp: self.positions.pop(tp) for tp in sorted(partitions) if tp in self.positions}
        if self.settings.callback:
            await asyncio.sleep(self.settings.callback / 1000)
        await self._commit(given_up)
        self._drop(partitions)

    async def _lost(self, partitions: Partitions) -> None:
        self._drop(partitions)

    async def _assigned(self, partitions: Partitions) -> None:
        self._unpositioned |= partitions
        await self._position(partitions)

    async def _position(self, partitions: Partitions) -> None:
        """Look up the group's offsets, for those partitions that are not revoked or lost meanwhile."""
        while (missing := partitions & self._unpositioned) and self.membership is not None:
            topic_ids = self._known_ids(missing)
            since = {partition: self.observer.asks(self, topic_ids[partition], partition) for partition in missing}
            try:
                found = await self.membership.committed(sorted(missing))
            except KafkaError as problem:
                if not problem.retriable and problem.code not in _REPEATED:
                    raise
                self._unpositioned &= self.membership.assignment  # the others were lost meanwhile
                await asyncio.sleep(0.5)
                continue
            if topic_ids != self._known_ids(missing):
                continue  # a topic was recreated, so it is unknown to which one the response refers
            for partition in sorted(missing & self._unpositioned):
                topic_id = topic_ids[partition]
                if topic_id is not None:  # otherwise the response is for any topic of that name, and is requested again
                    self.observer.found(self, topic_id, partition, found[partition], since[partition])
                self._begin(partition, topic_id, found[partition])

    def _known_ids(self, partitions: Partitions) -> dict[TopicPartition, UUID | None]:
        assert self._cluster is not None and self.membership is not None
        metadata, granted = self._cluster.metadata, self.membership.topic_id
        return {partition: granted(partition.topic) or metadata.topic_id(partition.topic) for partition in partitions}

    def _begin(self, partition: TopicPartition, topic_id: UUID | None, offset: OffsetAndMetadata | None) -> None:
        self._unpositioned.discard(partition)
        self.topic_ids[partition] = topic_id
        self.positions[partition] = self._committed[partition] = 0 if offset is None else offset.offset
        self._metadata = None  # compare the topic id with the current metadata

    def _drop(self, partitions: Partitions) -> None:
        self._unpositioned -= partitions
        for partition in partitions:
            self._forget(partition)

    def _forget(self, partition: TopicPartition) -> None:
        self.positions.pop(partition, None)
        self.topic_ids.pop(partition, None)
        self._committed.pop(partition, None)
