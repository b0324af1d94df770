"""Finds where to begin: the group's committed offset, else what auto_offset_reset or a seek says.

And checks, when a partition has another leader, that its log still has what was read."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from typing import TypedDict

from kohort.client.backoff import back_off
from kohort.client.cluster import Cluster
from kohort.client.committed import committed_offsets
from kohort.client.epochs import epoch_ends
from kohort.client.failures import LogTruncatedError, NoOffsetError
from kohort.client.fetcher import Fetcher
from kohort.client.leaders import leader_epoch
from kohort.client.offset_spec import OffsetSpec
from kohort.client.offsets import FoundOffset, list_offsets
from kohort.client.options import ConsumerOptions
from kohort.client.partition import PartitionState
from kohort.client.reset import ByDuration, Reset, reset_policy
from kohort.errors import ErrorCode, KafkaError, KohortError
from kohort.member import OffsetAndMetadata
from kohort.model import Millis, TopicPartition

_log = logging.getLogger(__name__)


_TOLD_EVERY = 10
"""Failures in a row: some ten seconds."""


class _Once(TypedDict):
    read_committed: bool
    timeout_ms: Millis
    on_some: Callable[[Mapping[TopicPartition, FoundOffset | None]], None]


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
        self._policy = reset_policy(options.auto_offset_reset)
        self._read_committed = options.isolation_level == "read_committed"

    def go_on(self) -> None:
        """See to it that everything gets a position."""
        if self._task is None and not self._closed and (self._missing() or self._fetcher.unchecked()):
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
        failures = 0
        try:
            while (missing := self._missing()) or (unchecked := self._fetcher.unchecked()):
                try:
                    await (self._find(missing) if missing else self._check(unchecked))
                except KafkaError as problem:
                    if not problem.retriable:
                        raise
                    failures += 1
                    if failures % _TOLD_EVERY == 0:
                        _log.warning("positions not found yet: %s", problem)
                    await asyncio.sleep(back_off(self._options, failures))
                else:
                    failures = 0
                self._fetcher.go_on()
        except KohortError as problem:
            self.error = problem
        finally:
            self._task = None
            self._on_news()

    async def _find(self, missing: list[PartitionState]) -> None:
        turns = {state: state.turn for state in missing}
        resets = {state: state.reset for state in missing if state.reset is not None}
        uncommitted = [state for state in missing if state.reset is None]
        committed = await self._committed(uncommitted)
        for state in uncommitted:
            position = committed.get(state.partition)
            if position is not None:
                if state.turn == turns[state]:
                    state.move(position.offset, position.leader_epoch)
            elif self._policy is not None:
                resets[state] = self._policy
            elif state.turn == turns[state] and self._fetcher.states.get(state.partition) is state:
                raise NoOffsetError(
                    f"{state.partition} has no committed offset and auto_offset_reset is none: seek, or set it."
                )
        if resets:
            await self._reset(resets, {state.partition: (state, turns[state]) for state in resets})

    async def _check(self, states: list[PartitionState]) -> None:
        """KIP-320: does the leader that there is now have what was fetched from the one before?"""
        asked = {state.partition: (state, state.turn, leader_epoch(self._cluster, state.partition)) for state in states}
        known = {state.partition: state.fetch_epoch for state in states if state.fetch_epoch is not None}

        def compare(ends: Mapping[TopicPartition, int | None]) -> None:
            for partition, end in ends.items():
                state, turn, epoch = asked[partition]
                if state.turn == turn and self._has(state, end):
                    state.checked_epoch = epoch
            self._fetcher.go_on()

        try:
            # Once, and each as soon as its leader has answered: one whose leader does not holds none of the others up.
            await epoch_ends(self._cluster, known, timeout_ms=0, on_some=compare)
        except KafkaError as problem:
            if problem.code is not ErrorCode.UNSUPPORTED_VERSION:
                raise
            compare({state.partition: state.fetch_at for state in states})  # a broker so old cannot say

    def _has(self, state: PartitionState, end: int | None) -> bool:
        """Whether a log that ends there for us has all that was fetched; if not, go back to where it ends."""
        position = state.position
        assert position is not None
        if end is not None and end >= state.fetch_at:
            return True
        if end is not None and end >= position:
            _log.warning("truncated: partition=%s at=%d, before it was handed out", state.partition, end)
            state.unfetch()
            return False
        if self._policy is None:
            raise LogTruncatedError(state.partition, position, end)
        _log.warning("truncated: partition=%s at=%s, behind the position %d", state.partition, end, position)
        if end is None:
            state.lose(self._policy)
        else:
            state.move(end)
        return False

    async def _committed(self, states: list[PartitionState]) -> dict[TopicPartition, OffsetAndMetadata | None]:
        if not states or not self._options.group_id:
            return {}
        return await committed_offsets(self._cluster, self._options.group_id, [state.partition for state in states])

    async def _reset(
        self, resets: dict[PartitionState, Reset], turns: dict[TopicPartition, tuple[PartitionState, int]]
    ) -> None:
        """Each goes where its reset says as soon as its leader has answered: one without a leader holds none up."""

        def place(found: Mapping[TopicPartition, FoundOffset | None]) -> None:
            for partition, one in found.items():
                state, turn = turns[partition]
                if one is not None and state.turn == turn:
                    state.move(one.offset)
            self._fetcher.go_on()

        now = int(time.time() * 1000)
        asked = {
            state.partition: max(0, now - reset.back_ms) if isinstance(reset, ByDuration) else reset
            for state, reset in resets.items()
        }
        # Asked once: what is to be found may be something else by the time it is asked again.
        once: _Once = {"read_committed": self._read_committed, "timeout_ms": 0, "on_some": place}
        found = await list_offsets(self._cluster, asked, **once)
        older = [partition for partition, one in found.items() if one is None]
        if older:  # every record there is older than a duration asks for
            await list_offsets(self._cluster, dict.fromkeys(older, OffsetSpec.LATEST), **once)
