"""A consumer's commits: explicit ones, and automatic ones every auto_commit_interval_ms."""

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from typing import Any

from kohort.client.arguments import seconds
from kohort.client.membership import GroupMetrics, MemberDriver, commit_outside, committed_positions, positions_of
from kohort.client.net import Cluster, FailureLog
from kohort.client.options import ConsumerOptions
from kohort.errors import ConfigError, ErrorCode, KafkaError, KohortError
from kohort.member import OffsetAndMetadata
from kohort.model import TopicPartition

_log = logging.getLogger(__name__)

Positions = dict[TopicPartition, OffsetAndMetadata]


class Commits:
    """Commits of one consumer.

    `positions` returns the offsets to commit. `driver` is set while the consumer is a member.
    """

    def __init__(self, cluster: Cluster, options: ConsumerOptions, positions: Callable[[], Positions]) -> None:
        self.driver: MemberDriver | None = None
        self.on_result: Callable[[Positions, Exception | None, float], None] | None = None
        """Function that learns of the result of each commit, and of its duration in seconds."""
        self.metrics = GroupMetrics(options.sampling)
        self.timeout = options.request_timeout_ms / 1000
        """Timeout of an automatic commit, in seconds."""
        self.automatic = options.enable_auto_commit and bool(options.group_id)
        self._cluster = cluster
        self._options = options
        self._positions = positions
        self._loop = asyncio.get_running_loop()
        self._due_at = self._loop.time() + options.auto_commit_interval_ms / 1000
        self._tasks: set[asyncio.Task[None]] = set()
        self.last: Positions = {}
        """Offsets that this consumer committed last; an automatic commit omits positions equal to them."""
        self._started: dict[TopicPartition, object] = {}
        """Latest commit that was started for each partition, unless `forget` removed it since."""
        self._failures = FailureLog(_log, self._loop.time, "auto commit failed", "auto commit works again")

    async def commit(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None,
        timeout: float | None,  # noqa: ASYNC109
    ) -> None:
        """Commit these offsets, or all positions, and wait until they are durable.

        Raises CommitFailedError.
        """
        wanted = self._positions() if offsets is None else positions_of(offsets)
        # The durable offset is unknown while a commit is in flight, and after one whose response
        # was lost.
        self.forget(wanted)
        this_commit = object()
        self._started.update(dict.fromkeys(wanted, this_commit))
        milliseconds = self._options.default_api_timeout_ms
        if timeout is not None:
            milliseconds = int(seconds("timeout", timeout) * 1000)
        began = self._loop.time()
        try:
            if self.driver is not None:
                await self.driver.commit(wanted, milliseconds)
            elif self._options.group_id:
                await commit_outside(self._cluster, self._options.group_id, wanted, milliseconds)
        except Exception as problem:
            if self.on_result is not None:
                self.on_result(wanted, problem, self._loop.time() - began)
            raise
        now = self._loop.time()
        self.metrics.commits.add((now - began) * 1000, now)
        if self.on_result is not None:
            self.on_result(wanted, None, now - began)
        for partition, position in wanted.items():
            if self._started.get(partition) is this_commit:
                self.last[partition] = position

    async def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the group's committed offset of each partition, or None where there is none."""
        found = await self.committed_positions(partitions)
        return {partition: at and at._replace(topic_id=None) for partition, at in found.items()}

    async def committed_positions(
        self, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return what `committed` returns, with the IDs of the topics to which the offsets belong."""
        granted = {} if self.driver is None else self.driver.member.ids
        return await committed_positions(self._cluster, self.group_id(), partitions, granted=granted)

    def group_id(self) -> str:
        """Return the group that commits belong to. Raises ConfigError if the consumer has none."""
        if not self._options.group_id:
            raise ConfigError("group_id is missing: only a group has committed offsets.")
        return self._options.group_id

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Discard what is known about the committed offsets of these partitions."""
        for partition in partitions:
            self.last.pop(partition, None)
            self._started.pop(partition, None)

    def in_background(self, commit: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Run a commit in a background task and return the task, which holds the result."""
        task = self._loop.create_task(commit, name="kohort-commit")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def commit_if_due(self) -> None:
        """Start an automatic commit if its interval has elapsed."""
        if self.automatic and self._loop.time() >= self._due_at:
            self._due_at = self._loop.time() + self._options.auto_commit_interval_ms / 1000
            self.in_background(self.commit_automatically(self._positions()))

    async def commit_automatically(self, offsets: Positions | None = None) -> None:
        """Commit the positions that changed since the last commit, if auto commit is enabled.

        A failure is logged and not raised; the next commit includes the same positions.
        """
        if not self.automatic:
            return
        positions = self._positions() if offsets is None else offsets
        moved = {partition: at for partition, at in positions.items() if self.last.get(partition) != at}
        if not moved:
            return
        try:
            await self.commit(moved, self.timeout)
        except KohortError as problem:
            code = problem.code if isinstance(problem, KafkaError) else ErrorCode.UNKNOWN_SERVER_ERROR
            why = problem.sentence if isinstance(problem, KafkaError) else str(problem)
            self._failures.failed([f"group={self._options.group_id}"], code, why)
        else:
            self._failures.succeeded([f"group={self._options.group_id}"])

    async def close(self) -> None:
        """Cancel all commits in flight."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
