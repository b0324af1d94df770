"""On the driver: the query as a member of its group.

The membership lives in an event loop in a thread of its own, so heartbeats go on while Spark runs a batch and while
its calls block. That loop alone touches the ledger. Spark's calls come in one thread, one at a time:

    boundary    a batch is done: commit it, let go of what the group wants back, see what it gave us
    grant       go on with what was given
    plan        the next batch; from here on a revocation of what it reads waits for the next boundary
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import threading
import time
from collections.abc import Collection, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from kohort.client.cluster import Cluster as AsyncCluster
from kohort.client.membership import Membership
from kohort.client.options import GroupOptions, read_options
from kohort.errors import ErrorCode, KafkaError
from kohort.member import OffsetAndMetadata
from kohort.model import TopicPartition
from pyspark_kohort import checkpoint
from pyspark_kohort.ledger import Commit, Ledger
from pyspark_kohort.offsets import Offset, Positions
from pyspark_kohort.options import Options
from pyspark_kohort.plan import Range

_log = logging.getLogger(__name__)

T = TypeVar("T")

_CHECKPOINT_LOOK_S = 0.2
_NOT_OURS_NOW = frozenset(
    {
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.FENCED_INSTANCE_ID,
    }
)


class GroupSession:
    """One stay in the group. Every method blocks the caller; made and used by one thread, apart from `close`."""

    def __init__(self, options: Options, topics: Sequence[str]) -> None:
        assert options.group is not None
        self._options = options
        self._group = options.group
        self._topics = topics
        self._checkpoint = checkpoint.directory(options.checkpoint)
        self._ledger = Ledger(lambda: secrets.token_hex(6))
        self._planning = False
        self._leaving = False
        self._left = False
        self._leave_task: asyncio.Task[None] | None = None
        self._lost: list[TopicPartition] = []
        self._loop = asyncio.new_event_loop()
        self._turn = asyncio.Condition()  # at each of Spark's calls, and when a revocation is through
        self._revocations = 0
        self._membership: Membership | None = None
        self._cluster: AsyncCluster | None = None
        self._thread = threading.Thread(target=self._run, name=f"kohort {self._group.group_id}", daemon=True)
        self._thread.start()

    # -- what Spark's thread asks for

    def join(self, start: Offset, end: Offset | None = None) -> None:
        """Enter the group and wait for the first assignment.

        What the checkpoint says of this query's past: it got to `start`, and had planned the batch to `end`, if any.
        """
        self._ledger.resume(start, end)
        self._call(self._join())

    def boundary(self, start: Offset) -> dict[TopicPartition, Commit | None]:
        """All up to `start` is done. Returns what is newly ours, with the group's offsets where it has some.

        From here until `plan` no partition is given up. Raises KafkaError when the group has thrown us out for good.
        """
        return self._call(self._boundary(start))

    def granted(self) -> dict[TopicPartition, Commit | None]:
        """As `boundary`, before a replay: nothing is known to be done."""
        return self._call(self._granted())

    def grant(self, committed: Mapping[TopicPartition, Commit | None], first: Positions) -> dict[TopicPartition, int]:
        """Go on with these; `first` says where, for those without an offset. Returns where all that is ours begins."""
        return self._call(self._grant(committed, first))

    def plan(self, start: Offset, ends: Positions, rows: int | None) -> Offset:
        """The next batch; `start` itself where there is none."""
        return self._call(self._plan(start, ends, rows))

    def unclaimed(self, planned: Sequence[Range], name: str | None) -> list[TopicPartition]:
        """Those that are not ours, and that nobody has committed since the query of that name did."""
        return self._call(self._unclaimed(planned, name))

    def replay(self, start: Offset, end: Offset) -> list[Range]:
        """What is left to do of a batch that an earlier process planned."""
        return self._call(self._replay(start, end))

    def retained(self, planned: Sequence[Range]) -> list[Range]:
        """What of the planned batch is still ours."""
        return self._call(self._retained(planned))

    def planned_end(self) -> Offset | None:
        return self._ledger.end

    def take_lost(self) -> list[TopicPartition]:
        """Partitions that were lost while a batch read them, since the last call."""
        lost, self._lost = self._lost, []
        return lost

    def settle(self) -> bool:
        """Wait until no rebalance is under way; whether something is ours that `grant` has not seen."""
        return self._call(self._settle())

    def close(self, timeout: float = 10.0) -> None:
        """Commit what is proven, leave, end the thread. From any thread, and inside a signal's handler.

        The handler may have interrupted a `close` of the main thread, with any of its locks held: so it only polls.
        """
        self._leaving = True
        deadline = time.monotonic() + timeout
        with contextlib.suppress(RuntimeError):  # the loop is closed: an earlier call is through
            self._loop.call_soon_threadsafe(self._begin_to_leave, timeout)
        while self._thread.is_alive() and not self._left and time.monotonic() < deadline:
            time.sleep(0.005)
        if not self._left:
            _log.warning("group=%s: left without an answer", self._group.group_id)
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._loop.stop)

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    # -- in the loop

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._loop.close()

    async def _join(self) -> None:
        broker, group = self._options.broker, self._group
        given = {
            "bootstrap_servers": [f"{host}:{port}" for host, port in broker.bootstrap],
            "client_id": broker.client_id,
            "request_timeout_ms": broker.request_timeout_ms,
            "allow_auto_create_topics": False,
            "group_id": group.group_id,
            "group_instance_id": group.instance_id,
            "session_timeout_ms": group.session_timeout_ms,
            "heartbeat_interval_ms": group.heartbeat_interval_ms,
            "max_poll_interval_ms": group.rebalance_timeout_ms,
            "partition_assignment_strategy": group.assignors,
        }
        options = read_options(GroupOptions, given)
        self._cluster = AsyncCluster(options)
        self._membership = Membership(
            self._cluster,
            options,
            on_assigned=self._assigned,
            on_revoked=self._revoked,
            on_lost=self._on_lost,
        )
        self._membership.subscribe(self._topics)
        await self._membership.settled()

    async def _boundary(self, start: Offset) -> dict[TopicPartition, Commit | None]:
        self._ledger.complete(start)
        await self._commit()
        self._planning = False
        async with self._turn:
            self._turn.notify_all()
            await self._turn.wait_for(lambda: not self._revocations)
        return await self._granted()

    async def _granted(self) -> dict[TopicPartition, Commit | None]:
        self._planning = True
        return await self._committed(self._joined().assignment - self._ledger.owned.keys())

    async def _committed(self, tps: Collection[TopicPartition]) -> dict[TopicPartition, Commit | None]:
        found = await self._joined().committed(tps) if tps else {}
        return {tp: at and Commit(at.offset, at.metadata) for tp, at in found.items()}

    async def _unclaimed(self, planned: Sequence[Range], name: str | None) -> list[TopicPartition]:
        others = {part.tp for part in planned} - self._ledger.owned.keys()
        found = await self._committed(others)
        return [tp for tp, commit in found.items() if commit is None or commit.query == name]

    async def _grant(
        self, committed: Mapping[TopicPartition, Commit | None], first: Positions
    ) -> dict[TopicPartition, int]:
        ours = self._joined().assignment
        for tp in ours & committed.keys():
            self._ledger.grant(tp, committed[tp], first.get(tp, 0))
        return dict(self._ledger.owned)

    async def _plan(self, start: Offset, ends: Positions, rows: int | None) -> Offset:
        await self._commit()  # what was just won is ours from here on
        end = self._ledger.advance(start, ends, rows)
        await self._planned()
        return end

    async def _replay(self, start: Offset, end: Offset) -> list[Range]:
        todo = self._ledger.replay(start, end)
        await self._commit()
        await self._planned()
        return todo

    async def _planned(self) -> None:
        """What the batch does not read may go."""
        self._planning = False
        async with self._turn:
            self._turn.notify_all()

    async def _retained(self, planned: Sequence[Range]) -> list[Range]:
        return self._ledger.retained(planned)

    async def _settle(self) -> bool:
        membership = self._joined()
        await membership.settled()
        return bool(membership.assignment ^ self._ledger.owned.keys())

    def _begin_to_leave(self, seconds: float) -> None:
        if self._leave_task is None:
            self._leave_task = self._loop.create_task(self._leave(seconds), name="kohort-leave")

    async def _leave(self, seconds: float) -> None:
        try:
            async with self._turn:
                self._turn.notify_all()
            if self._membership is not None:
                self._look_into_checkpoint()
                try:
                    await self._commit()
                finally:
                    await self._membership.leave(timeout=seconds)
            if self._cluster is not None:
                await self._cluster.close()
        except KafkaError as error:
            _log.warning("group=%s: not everything was committed: %s", self._group.group_id, error)
        finally:
            self._left = True

    def _joined(self) -> Membership:
        membership = self._membership
        assert membership is not None
        if membership.error is not None:
            raise membership.error
        return membership

    async def _commit(self) -> None:
        """Tell the group what is proven. What it refuses because we are out stays uncommitted, for the next owner."""
        offsets = self._ledger.commits()
        if not offsets or self._membership is None:
            return
        try:
            named = {tp: OffsetAndMetadata(offset, self._ledger.query) for tp, offset in offsets.items()}
            await self._membership.commit(named)
        except KafkaError as error:
            if error.code not in _NOT_OURS_NOW:
                raise
            _log.warning("group=%s: not committed: %s", self._group.group_id, error)
        else:
            self._ledger.committed(offsets)

    # -- what the group tells us

    async def _assigned(self, tps: frozenset[TopicPartition]) -> None:
        """Claim at once what has an offset, by a commit under our name: a query that had it before may be looking.

        Partitions without an offset wait for Spark's next call, which finds out where they begin.
        """
        try:
            for tp, commit in (await self._committed(tps - self._ledger.owned.keys())).items():
                if commit is not None:
                    self._ledger.grant(tp, commit, commit.offset)
            await self._commit()
        except KafkaError as error:
            _log.warning("group=%s: not claimed yet: %s", self._group.group_id, error)

    async def _revoked(self, tps: frozenset[TopicPartition]) -> None:
        """Give partitions up, but not under a batch that reads them: others would read the same records."""
        self._revocations += 1
        try:
            async with self._turn:
                while not self._leaving and (self._planning or self._ledger.reading(tps)):
                    await self._wait_for_turn()
            if self._leaving:
                # Spark will not say any more whether the batch that read them is done; its checkpoint does.
                self._look_into_checkpoint()
            await self._commit()
            self._ledger.drop(tps)
        finally:
            self._revocations -= 1
            async with self._turn:
                self._turn.notify_all()

    async def _wait_for_turn(self) -> None:
        """Until Spark's next call; it may be minutes off, so see if the checkpoint shows that the batch is done."""
        try:
            async with asyncio.timeout(_CHECKPOINT_LOOK_S if self._checkpoint else None):
                await self._turn.wait()
        except TimeoutError:
            self._look_into_checkpoint()

    async def _on_lost(self, tps: frozenset[TopicPartition]) -> None:
        """Others may read them already; what of them is in our sink since the last commit comes twice."""
        self._lost += self._ledger.reading(tps)
        self._ledger.drop(tps)

    def _look_into_checkpoint(self) -> None:
        end = self._ledger.end
        if self._checkpoint is not None and end is not None and end.to_json() in checkpoint.last_done(self._checkpoint):
            self._ledger.complete(end)
