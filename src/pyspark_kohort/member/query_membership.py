"""Membership of a query in a group, inside its event loop: the calls of the group, the calls of Spark, the ledger.

Spark calls one coroutine at a time (`query_member` describes which, and when); callbacks of the
group run at any time. Both wait for each other at `_turn`: a revocation waits for the batch that
reads the revoked partitions, and planning a batch waits for the revocations that may complete first.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from kohort.client import Cluster, CommitFailedError, GroupOptions, Membership
from kohort.errors import ErrorCode, KafkaError
from kohort.member import OffsetAndMetadata
from kohort.model import TopicPartition
from pyspark_kohort import checkpoint
from pyspark_kohort.member.ledger import GroupCommit, Ledger
from pyspark_kohort.offsets import Offset, Positions, TopicIds, topic_id_of_text
from pyspark_kohort.options import Broker, Group, Options, Protocol
from pyspark_kohort.source import Range

_log = logging.getLogger(__name__)

_CHECKPOINT_LOOK_S = 0.2
_NOT_OURS_NOW = frozenset(
    {
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.STALE_MEMBER_EPOCH,
        # The topic was deleted or recreated: the reader detects that when it next checks the topics.
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)


class QueryMembership:
    """Membership of one query. It may be created in any thread, and is used in one event loop."""

    def __init__(self, options: Options) -> None:
        assert options.group is not None
        self._options = options
        self._group = options.group
        self._checkpoint = checkpoint.directory(options.checkpoint)
        self.ledger = Ledger(lambda: secrets.token_hex(6), self._group.group_id)
        self.leaving = False
        """Set before the member leaves: revocations no longer wait for Spark."""
        self.left = False
        self.membership: Membership | None = None
        self._cluster: Cluster | None = None
        self._planning = False
        self._lost: list[TopicPartition] = []
        self._turn = asyncio.Condition()  # notified at each of Spark's calls, and when a revocation completes
        self._revocations = 0
        self._leave_task: asyncio.Task[None] | None = None

    # -- calls of Spark

    async def join(self, topics: Sequence[str]) -> None:
        options = GroupOptions.read(_group_options(self._options.broker, self._group))
        self._cluster = Cluster(options)
        self.membership = Membership(
            self._cluster,
            options,
            on_assigned=self._assigned,
            on_revoked=self._revoked,
            on_lost=self._on_lost,
        )
        self.membership.subscribe(topics)
        await self.membership.settled()

    async def subscribe(self, topics: Sequence[str]) -> None:
        self._joined().subscribe(topics)

    async def know(self, topic_ids: TopicIds) -> None:
        self.ledger.know(topic_ids)

    async def rewind(self, positions: Positions) -> None:
        self.ledger.rewind(positions)

    async def boundary(self, start: Offset) -> dict[TopicPartition, GroupCommit | None]:
        self.ledger.complete(start)
        await self._commit()
        self._planning = False
        async with self._turn:
            self._turn.notify_all()
            await self._turn.wait_for(lambda: not self._revocations)
        return await self.granted()

    async def granted(self) -> dict[TopicPartition, GroupCommit | None]:
        self._planning = True
        return await self._committed(self._readable() - self.ledger.owned.keys())

    async def unclaimed(self, planned: Sequence[Range], name: str | None) -> list[TopicPartition]:
        others = {part.tp for part in planned} - self.ledger.owned.keys()
        found = await self._committed(others)
        return [tp for tp, commit in found.items() if commit is None or commit.query == name]

    async def grant(
        self, committed: Mapping[TopicPartition, GroupCommit | None], first: Positions
    ) -> dict[TopicPartition, int]:
        for tp in self._readable() & committed.keys():
            self.ledger.grant(tp, committed[tp], first.get(tp, 0))
        return dict(self.ledger.owned)

    async def plan(self, start: Offset, ends: Positions, rows: int | None) -> Offset:
        await self._commit()  # the partitions just gained are claimed from here on
        end = self.ledger.advance(start, ends, rows, self._joined().generation)
        await self._planned()
        return end

    async def replay(self, start: Offset, end: Offset) -> list[Range]:
        todo = self.ledger.replay(start, end)
        await self._commit()
        await self._planned()
        return todo

    async def retained(self, planned: Sequence[Range]) -> list[Range]:
        return self.ledger.retained(planned)

    async def settle(self) -> bool:
        await self._joined().settled()
        return bool(self._readable() ^ self.ledger.owned.keys())

    def member_state(self) -> dict[str, Any]:
        """Return the member's status for the query's progress."""
        found: dict[str, Any] = {"group": self._group.group_id, "partitions": len(self.ledger.owned)}
        if (membership := self.membership) is not None:
            found |= {
                "memberId": membership.member_id,
                "state": membership.state.value,
                "generation": membership.generation,
            }
        return found

    def take_lost(self) -> list[TopicPartition]:
        lost, self._lost = self._lost, []
        return lost

    def begin_to_leave(self, seconds: float) -> None:
        """Start to commit what is proven and to leave; `left` is set at the end. A second call has no effect."""
        if self._leave_task is None:
            self._leave_task = asyncio.get_running_loop().create_task(self._leave(seconds), name="kohort-leave")

    async def _leave(self, seconds: float) -> None:
        try:
            async with self._turn:
                self._turn.notify_all()
            try:
                if self.membership is not None:
                    self._look_into_checkpoint()
                    try:
                        await self._commit()
                    finally:
                        await self.membership.leave(timeout=seconds)
            finally:
                if self._cluster is not None:
                    await self._cluster.close()
        except KafkaError as error:
            _log.warning("group=%s: not everything was committed: %s", self._group.group_id, error)
        finally:
            self.left = True

    async def _planned(self) -> None:
        """Allow revocations of partitions that the batch does not read."""
        self._planning = False
        async with self._turn:
            self._turn.notify_all()

    # -- requests to the group

    def _joined(self) -> Membership:
        membership = self.membership
        assert membership is not None
        if membership.error is not None:
            raise membership.error
        return membership

    def _readable(self) -> frozenset[TopicPartition]:
        """Return the assigned partitions, without those of a topic that was recreated and is not assigned yet.

        A consumer group assigns topic ids. The coordinator takes the partitions of the deleted topic away
        and assigns those of the new one, perhaps to another member.
        """
        membership, known = self._joined(), self.ledger.topic_ids

        def is_current(topic: str) -> bool:
            assigned = membership.topic_id(topic)
            return assigned is None or topic not in known or assigned == topic_id_of_text(known[topic])

        return frozenset(tp for tp in membership.assignment if is_current(tp.topic))

    async def _committed(self, tps: Collection[TopicPartition]) -> dict[TopicPartition, GroupCommit | None]:
        found = await self._joined().committed(tps) if tps else {}
        return {tp: at and GroupCommit.of(at.offset, at.metadata) for tp, at in found.items()}

    async def _commit(self) -> None:
        """Commit what is proven.

        Offsets that the coordinator rejects because this member is no longer in the group remain
        uncommitted, for the next owner.
        """
        commits = self.ledger.commits()
        if not commits or self.membership is None:
            return
        named = {
            tp: OffsetAndMetadata(commit.offset, commit.metadata, topic_id=topic_id_of_text(commit.topic_id))
            for tp, commit in commits.items()
        }
        refused: Mapping[TopicPartition, ErrorCode] = {}
        try:
            await self.membership.commit(named)
        except CommitFailedError as error:
            refused = error.errors
            if not _NOT_OURS_NOW.issuperset(refused.values()):
                raise
            _log.warning("group=%s: not committed: %s", self._group.group_id, error)
        self.ledger.committed({tp: commit for tp, commit in commits.items() if tp not in refused})

    def is_of_another(self, tp: TopicPartition, commit: GroupCommit) -> bool:
        """Return whether the commit belongs to a deleted topic of the same name."""
        now = self.ledger.topic_ids.get(tp.topic)
        return commit.topic_id is not None and now is not None and commit.topic_id != now

    # -- callbacks of the group

    async def _assigned(self, tps: frozenset[TopicPartition]) -> None:
        """Claim partitions that have an offset, by a commit under this query's name.

        The commit is immediate because a query that owned the partition before may be waiting for
        it. Partitions without an offset, or with one of a recreated topic, wait for Spark's next
        call, which determines where they begin.
        """
        try:
            for tp, commit in (await self._committed(tps - self.ledger.owned.keys())).items():
                if commit is not None and not self.is_of_another(tp, commit):
                    self.ledger.grant(tp, commit, commit.offset)
            await self._commit()
        except KafkaError as error:
            _log.warning("group=%s: not claimed yet: %s", self._group.group_id, error)

    async def _revoked(self, tps: frozenset[TopicPartition]) -> None:
        """Give up partitions, but not while a batch reads them: other members would read the same records."""
        self._revocations += 1
        try:
            async with self._turn:
                while not self.leaving and (self._planning or self.ledger.reading(tps)):
                    await self._wait_for_turn()
            if self.leaving:
                # Spark will not report any more whether the batch that read them is done; its checkpoint
                # shows that.
                self._look_into_checkpoint()
            try:
                await self._commit()
            finally:
                # The group assigns them to other members whether or not the commit succeeded. If this member
                # continued to read them, each record would be read twice.
                self.ledger.drop(tps)
        finally:
            self._revocations -= 1
            async with self._turn:
                self._turn.notify_all()

    async def _wait_for_turn(self) -> None:
        """Wait for Spark's next call, or until the checkpoint shows that the batch is done.

        The next call may be minutes away.
        """
        try:
            async with asyncio.timeout(_CHECKPOINT_LOOK_S if self._checkpoint else None):
                await self._turn.wait()
        except TimeoutError:
            self._look_into_checkpoint()

    async def _on_lost(self, tps: frozenset[TopicPartition]) -> None:
        """Drop lost partitions, which other members may already read.

        Records that reached the sink since the last commit are read twice.
        """
        self._lost += self.ledger.reading(tps)
        self.ledger.drop(tps)

    def _look_into_checkpoint(self) -> None:
        end = self.ledger.end
        if self._checkpoint is not None and end is not None and end.to_json() in checkpoint.last_done(self._checkpoint):
            self.ledger.complete(end)


def _group_options(broker: Broker, group: Group) -> dict[str, Any]:
    """Return the client's options for a member. Each protocol has options that the other rejects."""
    given: dict[str, Any] = {
        **broker.security.by_name(),
        "bootstrap_servers": [f"{host}:{port}" for host, port in broker.bootstrap],
        "client_id": broker.client_id,
        "request_timeout_ms": broker.request_timeout_ms,
        "allow_auto_create_topics": False,
        "group_id": group.group_id,
        "group_instance_id": group.instance_id,
        "group_protocol": group.protocol.value,
        "max_poll_interval_ms": group.rebalance_timeout_ms,
    }
    if group.protocol is Protocol.CONSUMER:
        return given | {"group_remote_assignor": group.remote_assignor}
    return given | {
        "session_timeout_ms": group.session_timeout_ms,
        "heartbeat_interval_ms": group.heartbeat_interval_ms,
        "partition_assignment_strategy": group.assignors,
    }
