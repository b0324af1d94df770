"""Driver's side of a query's membership in its group, for callers that block.

The membership runs in an event loop in its own thread, so heartbeats continue while Spark runs a
batch and while its calls block. Only that loop accesses the ledger. Spark calls from one thread, one
call at a time:

    boundary    a batch is done: commit it, release revoked partitions, return newly assigned ones
    grant       continue with the assigned partitions
    plan        plan the next batch; from here on, revoking partitions that it reads waits for the next boundary
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from kohort.model import TopicPartition
from pyspark_kohort.member.ledger import GroupCommit
from pyspark_kohort.member.query_membership import QueryMembership
from pyspark_kohort.offsets import Offset, Positions, TopicIds
from pyspark_kohort.options import Options
from pyspark_kohort.source import Range

_log = logging.getLogger(__name__)

T = TypeVar("T")


class GroupSession:
    """Membership of a query in a group.

    Every method blocks the caller. One thread creates and uses it; `close` may be called from any
    thread.
    """

    def __init__(self, options: Options) -> None:
        assert options.group is not None
        self._group_id = options.group.group_id
        self._membership = QueryMembership(options)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=f"kohort {self._group_id}", daemon=True)
        self._thread.start()

    def join(self, topics: Sequence[str], ids: TopicIds, start: Offset, end: Offset | None = None) -> None:
        """Join the group and wait for the first assignment.

        `start` and `end` are the checkpoint's record of this query's progress: it reached `start`,
        and planned a batch to `end`, if any. `ids` are the current ids of the topics.
        """
        self._membership.ledger.know(ids)
        self._membership.ledger.resume(start, end)
        self._call(self._membership.join(topics))

    def subscribe(self, topics: Sequence[str]) -> None:
        """Subscribe to these topics; the group assigns partitions of new topics after a rebalance."""
        self._call(self._membership.subscribe(topics))

    def know(self, ids: TopicIds) -> None:
        """Set the current topic ids. Progress in a topic that was recreated is forgotten."""
        self._call(self._membership.know(ids))

    def is_of_another(self, tp: TopicPartition, commit: GroupCommit) -> bool:
        """Return whether the group's offset belongs to a deleted topic of the same name."""
        return self._membership.is_of_another(tp, commit)

    def rewind(self, positions: Positions) -> None:
        """Continue from these positions in partitions that were truncated before what was read."""
        self._call(self._membership.rewind(positions))

    def boundary(self, start: Offset) -> dict[TopicPartition, GroupCommit | None]:
        """Mark everything up to `start` as done; return the newly owned partitions with the group's offsets, if any.

        From here until `plan` no partition is given up. Raises KafkaError if the group has
        permanently removed this member.
        """
        return self._call(self._membership.boundary(start))

    def granted(self) -> dict[TopicPartition, GroupCommit | None]:
        """Return the newly owned partitions before a replay, when no batch is known to be done. See `boundary`."""
        return self._call(self._membership.granted())

    def grant(
        self, committed: Mapping[TopicPartition, GroupCommit | None], first: Positions
    ) -> dict[TopicPartition, int]:
        """Continue with these partitions; return the positions of all owned partitions.

        `first` has the positions of partitions without a committed offset.
        """
        return self._call(self._membership.grant(committed, first))

    def plan(self, start: Offset, ends: Positions, rows: int | None) -> Offset:
        """Plan the next batch; return `start` itself if there is none."""
        return self._call(self._membership.plan(start, ends, rows))

    def unclaimed(self, planned: Sequence[Range], name: str | None) -> list[TopicPartition]:
        """Return planned partitions that this query does not own and that are not committed under another name.

        `name` is that of the query that planned them.
        """
        return self._call(self._membership.unclaimed(planned, name))

    def replay(self, start: Offset, end: Offset) -> list[Range]:
        """Return what is left to do of a batch that an earlier process planned."""
        return self._call(self._membership.replay(start, end))

    def retained(self, planned: Sequence[Range]) -> list[Range]:
        """Return the ranges of the planned batch that this query still owns."""
        return self._call(self._membership.retained(planned))

    def planned_end(self) -> Offset | None:
        return self._membership.ledger.end

    def member_state(self) -> dict[str, Any]:
        """Return the member's status for the query's progress; it may be slightly out of date."""
        return self._membership.member_state()

    def take_lost(self) -> list[TopicPartition]:
        """Return and clear the partitions that were lost while a batch read them."""
        return self._membership.take_lost()

    def settle(self) -> bool:
        """Wait until no rebalance is in progress; return whether the assignment differs from what `grant` has seen."""
        return self._call(self._membership.settle())

    def close(self, timeout: float = 10.0) -> None:
        """Commit what is proven, leave the group and end the thread.

        May be called from any thread, and inside a signal handler. The handler may have interrupted
        a `close` in the main thread, which may hold any of the locks; so this method only polls.
        """
        self._membership.leaving = True
        deadline = time.monotonic() + timeout
        with contextlib.suppress(RuntimeError):  # the loop is closed: an earlier call has completed
            self._loop.call_soon_threadsafe(self._membership.begin_to_leave, timeout)
        while self._thread.is_alive() and not self._membership.left and time.monotonic() < deadline:
            time.sleep(0.005)
        if not self._membership.left:
            _log.warning("group=%s: left the group, but the coordinator did not answer", self._group_id)
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._loop.stop)

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._loop.close()
