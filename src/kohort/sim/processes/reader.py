"""Processes that read records with production's `Consumer`, in worlds that have records."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from random import Random
from typing import Any, cast

from kohort.client import (
    Cluster,
    Consumer,
    ConsumerOptions,
    ConsumerRecord,
    KafkaError,
    KohortError,
    Membership,
    OffsetAndMetadata,
    SubscriptionPattern,
)
from kohort.client import Partitions as Told
from kohort.client.consume import Commits
from kohort.client.membership import MemberDriver, positions_of
from kohort.errors import ErrorCode
from kohort.model import UUID, Millis, TopicPartition
from kohort.sim.checks import REFUSALS, Reading, Records
from kohort.sim.plans import ApplicationSettings
from kohort.sim.processes.application import Application, Observer
from kohort.sim.processes.killable_clients import KillableConsumer

_OVER = frozenset(
    {
        ErrorCode.UNRELEASED_INSTANCE_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.SASL_AUTHENTICATION_FAILED,
    }
)
"""Errors that end a membership for good."""
_CLOSES_WITHIN = 15.0
_REQUEST_TIMEOUT_MS = 10_000
_RECORD_BYTES = 100
"""Size of a record in bytes, if its batch has no other."""


def fetching(rng: Random) -> dict[str, Any]:
    """Return options of a consumer's fetches, which are small so that there are many."""
    return {
        "auto_offset_reset": "earliest",
        "fetch_max_wait_ms": rng.choice([2_000, 5_000, 10_000]),
        "max_partition_fetch_bytes": rng.choice([200, 1_000, 1_048_576]),
        "fetch_max_bytes": rng.choice([500, 52_428_800]),
        "isolation_level": rng.choice(["read_uncommitted", "read_committed"]),
    }


def rest_takes(size: int, options: Mapping[str, Any]) -> float:
    """Return how long reading the rest may take because fetches are small, in seconds; `size` is that of the rest.

    Each fetch brings some records of a partition. While the application reads them, the next fetch has only the
    other partitions, and is held if these have been read to their end. As in Kafka, the partition waits for it.
    """
    fetches = size / min(options["fetch_max_bytes"], options["max_partition_fetch_bytes"])
    return float(fetches * options["fetch_max_wait_ms"] / 1000)


class _ObservedCommits(Commits):
    """Production's commits, which report acknowledged offsets to the observer, including automatic commits."""

    def __init__(
        self,
        cluster: Cluster,
        options: ConsumerOptions,
        positions: Callable[[], dict[TopicPartition, OffsetAndMetadata]],
        application: Application,
    ) -> None:
        super().__init__(cluster, options, positions)
        self._application = application

    async def commit(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None,
        timeout: float | None,  # noqa: ASYNC109
    ) -> None:
        wanted = self._positions() if offsets is None else positions_of(offsets)
        await super().commit(wanted, timeout)
        self._application.observer.committed(self._application, wanted)

    async def committed_positions(
        self, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        observer = self._application.observer
        ids = self._ids(partitions)
        since = {partition: observer.asks(self._application, ids[partition], partition) for partition in partitions}
        found = await super().committed_positions(sorted(partitions))  # the order of a set would depend on hashes
        for partition in sorted(found):
            topic_id, position = ids[partition], found[partition]
            # If the topic was recreated during the request, the answer may be that of the new one.
            if topic_id is not None and topic_id == (topic_id if position is None else position.topic_id):
                plain = None if position is None else position._replace(topic_id=None)
                observer.found(self._application, topic_id, partition, plain, since[partition])
        return found

    def _ids(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, UUID | None]:
        granted = {} if self.driver is None else self.driver.member.ids
        known = self._cluster.metadata
        return {partition: granted.get(partition.topic) or known.topic_id(partition.topic) for partition in partitions}


class _ObservedConsumer(KillableConsumer):
    """Production's consumer; each of its commits has distinct metadata."""

    def __init__(self, application: Application, options: Mapping[str, object]) -> None:
        self._application = application
        super().__init__(**cast("dict[str, Any]", options))

    def do(self, what: Callable[[Consumer], None]) -> None:
        """Call a function in the process of the consumer."""
        self._loop.call_soon(what, self)

    def driver(self) -> MemberDriver | None:
        """Return the driver of its member."""
        return self._group.driver

    def _new_commits(self) -> Commits:
        return _ObservedCommits(self.cluster, self._options, self._offsets_to_commit, self._application)

    def _offsets_to_commit(self) -> dict[TopicPartition, OffsetAndMetadata]:
        name = self._application.name
        return {
            partition: position._replace(metadata=f"{name}#{position.offset}", topic_id=self._topic_id(partition))
            for partition, position in self._partitions.offsets_to_commit().items()
        }

    def topic_ids(self) -> dict[TopicPartition, UUID | None]:
        """Return the topic id of each position."""
        return {partition: self._topic_id(partition) for partition in self.positions()}

    def _topic_id(self, partition: TopicPartition) -> UUID | None:
        return self._partitions.state(partition).topic_id or self.cluster.metadata.topic_id(partition.topic)


class Reader(Application):
    """Application whose member is a `Consumer`, which fetches its records from the brokers."""

    def __init__(
        self,
        name: str,
        settings: ApplicationSettings,
        bootstrap: str,
        progress: Observer,
        age: Millis,
        records: Records,
        rng: Random,
        login: dict[str, Any],
    ) -> None:
        super().__init__(name, settings, bootstrap, progress, age, login)
        self.reading = Reading(name)
        self._records = records
        self._fetching = fetching(rng)
        self._automatic = rng.random() < 0.3
        if self._automatic:
            self.waits = _REQUEST_TIMEOUT_MS / 1000
        self._consumer: _ObservedConsumer | None = None

    def leave(self) -> None:
        self._leaving = True

    def _driver(self) -> MemberDriver | None:
        return None if self._consumer is None else self._consumer.driver()

    def subscribe(self, topics: tuple[str, ...]) -> None:
        self.settings.topics, self.settings.pattern = topics, ""
        if self._consumer is not None and not self._leaving:
            self._consumer.do(self._subscribe)

    def set_weight(self, weight: int) -> None:
        self.settings.weight = weight
        if self._consumer is not None and not self._leaving:
            self._consumer.do(lambda consumer: consumer.set_weight(weight))

    def _subscribe(self, consumer: Consumer) -> None:
        settings = self.settings
        consumer.subscribe(
            SubscriptionPattern(settings.pattern) if settings.pattern else settings.topics,
            on_assigned=self._take_over,
            on_revoked=self._give_up,
            on_lost=self._lose,
        )

    def rest_takes(self) -> float:
        ends = {tp: self.observer.end_of(self.topic_ids[tp], tp) for tp in self.positions}
        left = max((ends[tp] - position for tp, position in self.positions.items()), default=0)
        return rest_takes(max(left, 0) * _RECORD_BYTES, self._fetching)

    async def run(self) -> None:
        options = {
            **self._options(),
            **self._fetching,
            "client_id": self.name,
            "request_timeout_ms": _REQUEST_TIMEOUT_MS,
            "metadata_max_age_ms": self.metadata_age,
            "enable_auto_commit": self._automatic,
            "auto_commit_interval_ms": self.settings.commit_every,
        }
        consumer = self._consumer = _ObservedConsumer(self, options)
        self.membership = cast("Membership", consumer)
        self._subscribe(consumer)
        loop = asyncio.get_running_loop()
        self._commits_at = loop.time()
        while not self._leaving and self.over is None:
            await self._turn(consumer, loop)
        with suppress(KohortError):
            await consumer.close(timeout=_CLOSES_WITHIN)
        self.left = True

    async def _turn(self, consumer: _ObservedConsumer, loop: asyncio.AbstractEventLoop) -> None:
        wait = self.settings.poll_every / 1000
        if not self.polls:
            await asyncio.sleep(wait)
            return
        try:
            records = await consumer.poll(self.settings.batch, wait)
        except KohortError as problem:
            self._raised(problem)
            await asyncio.sleep(1.0)
            return
        self._take(records)
        self.positions, self.topic_ids = consumer.positions(), consumer.topic_ids()
        self.observer.owns(self)
        if not self._automatic and loop.time() >= self._commits_at:
            self._commits_at = loop.time() + self.settings.commit_every / 1000
            await self._commit_all(consumer)

    def _raised(self, problem: KohortError) -> None:
        self._records.errors.raised(problem)
        driver = self._driver()
        is_out = driver is not None and driver.error is not None and driver.error.code in REFUSALS
        if isinstance(problem, KafkaError) and (problem.code in _OVER or (is_out and problem.code in REFUSALS)):
            self.over = problem

    def _take(self, records: list[ConsumerRecord]) -> None:
        for record in records:
            topic_id = self._records.was_delivered(self.reading, record)
            partition = TopicPartition(record.topic, record.partition)
            self.observer.processed(self, topic_id, partition, record.offset, record.offset + 1)

    async def _commit_all(self, consumer: Consumer) -> None:
        try:
            await consumer.commit()
        except KohortError as problem:  # the next owner of the partitions reads them again
            self._records.errors.raised(problem)

    async def _take_over(self, partitions: Told) -> None:
        self.reading.begin(partitions.offsets)

    async def _give_up(self, partitions: Told) -> None:
        if self.settings.callback:
            await asyncio.sleep(self.settings.callback / 1000)
        if not self._automatic and self._consumer is not None:
            await self._commit_all(self._consumer)
        self._lose(partitions)

    def _lose(self, partitions: Told) -> None:
        self.reading.end(partitions)
        for partition in partitions:
            self.positions.pop(partition, None)
            self.topic_ids.pop(partition, None)


class LoneReader:
    """Consumer without a group; some of its partitions may not exist."""

    waits = 0.0
    """It commits nothing."""

    def __init__(
        self,
        name: str,
        partitions: tuple[TopicPartition, ...],
        bootstrap: str,
        age: Millis,
        records: Records,
        rng: Random,
        login: dict[str, Any],
    ) -> None:
        self.name = name
        self.partitions = partitions
        self.reading = Reading(name)
        self.positions: dict[TopicPartition, int] = {}
        self.leaves = self.left = False
        self._records = records
        self._options = {
            **fetching(rng),
            "bootstrap_servers": bootstrap,
            "client_id": name,
            "request_timeout_ms": 10_000,
            "metadata_max_age_ms": age,
            **login,
        }
        self._batch = rng.choice([1, 10, 500])
        self._consumer: KillableConsumer | None = None

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Continue from that offset."""
        if self._consumer is not None:
            self._consumer.seek(partition, offset)
            self.reading.begin({partition: offset})

    def seek_to_beginning(self, partition: TopicPartition) -> None:
        """Continue from the beginning, which is looked up."""
        if self._consumer is not None:
            self._consumer.seek_to_beginning([partition])
            self.reading.begin({partition: 0})

    async def run(self) -> None:
        consumer = self._consumer = KillableConsumer(**self._options)
        consumer.assign(self.partitions)
        self.reading.begin(dict.fromkeys(self.partitions, 0))
        while not self.leaves:
            try:
                records = await consumer.poll(self._batch, 1.0)
            except KohortError as problem:
                self._records.errors.raised(problem)
                await asyncio.sleep(1.0)
                continue
            for record in records:
                self._records.was_delivered(self.reading, record)
            self.positions = consumer.positions()
        await consumer.close(timeout=_CLOSES_WITHIN)
        self.left = True
