"""On the driver: the query as a member of its group, for callers that block.

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
import threading
import time
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from kohort.model import TopicPartition
from pyspark_kohort.ledger import Commit
from pyspark_kohort.offsets import Offset, Positions, TopicIds
from pyspark_kohort.options import Options
from pyspark_kohort.plan import Range
from pyspark_kohort.stay import Stay

_log = logging.getLogger(__name__)

T = TypeVar("T")


class GroupSession:
    """One stay in the group. Every method blocks the caller; made and used by one thread, apart from `close`."""

    def __init__(self, options: Options) -> None:
        assert options.group is not None
        self._group_id = options.group.group_id
        self._stay = Stay(options)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=f"kohort {self._group_id}", daemon=True)
        self._thread.start()

    def join(self, topics: Sequence[str], ids: TopicIds, start: Offset, end: Offset | None = None) -> None:
        """Enter the group and wait for the first assignment.

        What the checkpoint says of this query's past: it got to `start`, and had planned the batch to `end`, if any.
        `ids` are those of the topics as they are now.
        """
        self._stay.ledger.know(ids)
        self._stay.ledger.resume(start, end)
        self._call(self._stay.join(topics))

    def subscribe(self, topics: Sequence[str]) -> None:
        """Want these topics from now on; the group gives of the new ones when it has rebalanced."""
        self._call(self._stay.subscribe(topics))

    def know(self, ids: TopicIds) -> None:
        """The topics' ids, as of now: of a topic that is another one now, what was reached is forgotten."""
        self._call(self._stay.know(ids))

    def is_of_another(self, tp: TopicPartition, commit: Commit) -> bool:
        """Whether the group's offset is of a topic that had the name before."""
        return self._stay.is_of_another(tp, commit)

    def rewind(self, positions: Positions) -> None:
        """Go on from these in partitions that were cut off before what was read."""
        self._call(self._stay.rewind(positions))

    def boundary(self, start: Offset) -> dict[TopicPartition, Commit | None]:
        """All up to `start` is done. Returns what is newly ours, with the group's offsets where it has some.

        From here until `plan` no partition is given up. Raises KafkaError when the group has thrown us out for good.
        """
        return self._call(self._stay.boundary(start))

    def granted(self) -> dict[TopicPartition, Commit | None]:
        """As `boundary`, before a replay: nothing is known to be done."""
        return self._call(self._stay.granted())

    def grant(self, committed: Mapping[TopicPartition, Commit | None], first: Positions) -> dict[TopicPartition, int]:
        """Go on with these; `first` says where, for those without an offset. Returns where all that is ours begins."""
        return self._call(self._stay.grant(committed, first))

    def plan(self, start: Offset, ends: Positions, rows: int | None) -> Offset:
        """The next batch; `start` itself where there is none."""
        return self._call(self._stay.plan(start, ends, rows))

    def unclaimed(self, planned: Sequence[Range], name: str | None) -> list[TopicPartition]:
        """Those that are not ours, and that nobody has committed since the query of that name did."""
        return self._call(self._stay.unclaimed(planned, name))

    def replay(self, start: Offset, end: Offset) -> list[Range]:
        """What is left to do of a batch that an earlier process planned."""
        return self._call(self._stay.replay(start, end))

    def retained(self, planned: Sequence[Range]) -> list[Range]:
        """What of the planned batch is still ours."""
        return self._call(self._stay.retained(planned))

    def planned_end(self) -> Offset | None:
        return self._stay.ledger.end

    def standing(self) -> dict[str, Any]:
        """Of the member, for who looks at a query's progress: what was true a moment ago."""
        return self._stay.standing()

    def take_lost(self) -> list[TopicPartition]:
        """Partitions that were lost while a batch read them, since the last call."""
        return self._stay.take_lost()

    def settle(self) -> bool:
        """Wait until no rebalance is under way; whether something is ours that `grant` has not seen."""
        return self._call(self._stay.settle())

    def close(self, timeout: float = 10.0) -> None:
        """Commit what is proven, leave, end the thread. From any thread, and inside a signal's handler.

        The handler may have interrupted a `close` of the main thread, with any of its locks held: so it only polls.
        """
        self._stay.leaving = True
        deadline = time.monotonic() + timeout
        with contextlib.suppress(RuntimeError):  # the loop is closed: an earlier call is through
            self._loop.call_soon_threadsafe(self._stay.begin_to_leave, timeout)
        while self._thread.is_alive() and not self._stay.left and time.monotonic() < deadline:
            time.sleep(0.005)
        if not self._stay.left:
            _log.warning("group=%s: left without an answer", self._group_id)
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._loop.stop)

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._loop.close()
