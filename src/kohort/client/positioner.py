"""Finds where to begin: the group's committed offset, else what auto_offset_reset or a seek says."""

import asyncio
import logging
from collections.abc import Callable

from kohort.client.cluster import Cluster
from kohort.client.committed import committed_offsets
from kohort.client.failures import NoOffsetError
from kohort.client.fetcher import Fetcher
from kohort.client.offsets import OffsetSpec, list_offsets
from kohort.client.options import ConsumerOptions
from kohort.client.partition import PartitionState
from kohort.errors import KafkaError, KohortError

_log = logging.getLogger(__name__)


class Positioner:
    """Call `go_on` whenever a partition lost its position; a task of its own finds it, however long that takes.

    Were this done inside `poll`, a short timeout could cut it off each time and the partition would be stranded.
    """

    def __init__(
        self, cluster: Cluster, options: ConsumerOptions, fetcher: Fetcher, on_news: Callable[[], None]
    ) -> None:
        self.error: KohortError | None = None
        self._cluster = cluster
        self._options = options
        self._fetcher = fetcher
        self._on_news = on_news
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None
        self._closed = False
        policy = options.auto_offset_reset
        self._policy = None if policy == "none" else OffsetSpec[policy.upper()]
        self._read_committed = options.isolation_level == "read_committed"

    def go_on(self) -> None:
        """See to it that everything gets a position."""
        if self._task is None and not self._closed and self._missing():
            self._task = self._loop.create_task(self._run(), name="kohort-positions")

    async def settled(self) -> None:
        """Wait until it has nothing to do, or has failed."""
        if self._task is not None:
            await asyncio.shield(self._task)
        else:
            self.go_on()
            await asyncio.sleep(self._options.retry_backoff_ms / 1000)

    async def close(self) -> None:
        """Stop."""
        self._closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _missing(self) -> list[PartitionState]:
        return [state for state in self._fetcher.states.values() if state.position is None]

    async def _run(self) -> None:
        try:
            while missing := self._missing():
                try:
                    await self._find(missing)
                except KafkaError as problem:
                    if not problem.retriable:
                        raise
                    _log.warning("positions not found yet: %s", problem)
                    await asyncio.sleep(self._options.retry_backoff_max_ms / 1000)
                self._fetcher.go_on()
        except KohortError as problem:
            self.error = problem
        finally:
            self._task = None
            self._on_news()

    async def _find(self, missing: list[PartitionState]) -> None:
        turns = {state: state.turn for state in missing}
        resets: dict[PartitionState, OffsetSpec] = {}
        uncommitted = [state for state in missing if state.reset is None]
        resets.update((state, state.reset) for state in missing if state.reset is not None)
        if uncommitted and self._options.group_id:
            wanted = [state.partition for state in uncommitted]
            committed = await committed_offsets(self._cluster, self._options.group_id, wanted)
        else:
            committed = {}
        for state in uncommitted:
            position = committed.get(state.partition)
            if position is not None:
                if state.turn == turns[state]:
                    state.move(position.offset)
            elif self._policy is None:
                if state.turn == turns[state] and self._fetcher.states.get(state.partition) is state:
                    raise NoOffsetError(
                        f"{state.partition} has no committed offset and auto_offset_reset is none: seek, or set it."
                    )
            else:
                resets[state] = self._policy
        if not resets:
            return
        found = await list_offsets(
            self._cluster,
            {state.partition: spec for state, spec in resets.items()},
            read_committed=self._read_committed,
        )
        for state in resets:
            start = found[state.partition]
            if state.turn == turns[state]:
                state.move(0 if start is None else start.offset)
