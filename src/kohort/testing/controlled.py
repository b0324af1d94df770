"""What a test does to its brokers besides faults: time, members, coordinators, leaders, topics, disks, snapshots.

These are the methods of `kohort.testing.Broker` and `Cluster` for it. Each may be called from any thread.
"""

from collections.abc import Callable, Collection, Coroutine
from typing import Any, Self, TypeVar
from uuid import UUID

from kohort.errors import KohortError
from kohort.model import Millis
from kohort.testing import snapshots
from kohort.testing.controls import Controls, Outage
from kohort.testing.taps import TappedBroker
from kohort.testing.waiting import PATIENCE_S, WaitTimeoutError, blocking_hint

_T = TypeVar("_T")


class Undoable:
    """Something that the kit took away or broke. It is as before after `undo`, and after the `with` block."""

    def __init__(self, brokers: "Controlled", outage: Outage) -> None:
        self._brokers = brokers
        self._outage = outage

    @property
    def hits(self) -> int:
        """Number of requests, or of writes of a disk, that it has affected so far."""
        return self._outage.hits.count

    def wait(self, hits: int = 1, timeout_s: float = PATIENCE_S) -> int:
        """Wait until it has affected that many, and return their number. Raise WaitTimeoutError."""
        return self._brokers._await(self._reach(hits, timeout_s, blocking_hint()))

    async def wait_async(self, hits: int = 1, timeout_s: float = PATIENCE_S) -> int:
        """As `wait`, for a test whose clients run on its own event loop."""
        return await self._brokers._awaited(self._reach(hits, timeout_s, ""))

    async def _reach(self, hits: int, timeout_s: float, hint: str) -> int:
        try:
            return await self._outage.hits.wait(hits, timeout_s)
        except TimeoutError as error:
            raise WaitTimeoutError(f"{error}{hint}") from None

    def undo(self) -> None:
        """Give it back, if that has not happened yet; on return it can be used."""
        self._brokers._await(self._outage.end())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.undo()


class Controlled:
    """Brokers that a test controls."""

    nodes: list[TappedBroker]

    _control: Controls | None = None

    def _run(self, function: Callable[[], _T]) -> _T:
        raise NotImplementedError

    def _await(self, work: Coroutine[Any, Any, _T]) -> _T:
        raise NotImplementedError

    async def _awaited(self, work: Coroutine[Any, Any, _T]) -> _T:
        raise NotImplementedError

    async def _settle(self, topic: str | None = None) -> None:
        raise NotImplementedError

    @property
    def _controls(self) -> Controls:
        if self._control is None:
            raise KohortError("The broker is not running: use it in a `with` block, or call `start` first.")
        return self._control

    # Time

    def advance(self, ms: Millis, *, dead: Collection[str] = ()) -> None:
        """Let the brokers' clock jump ahead: what becomes due happens at once, and members that live do not notice.

        So the session of a member that was killed ends without waiting, and offsets and records expire. A member lives
        if it is connected, and was heard within half its session, or within one and a half of its heartbeat intervals.
        `dead` names others that shall expire, by member ID, instance ID or client ID. Timestamps of records stay real.
        """
        self._await(self._controls.advance(ms, dead))

    def scale_time(self, rate: float) -> None:
        """Let one real second count as `rate` seconds for the brokers' timers; 0 freezes them, 1 is real time.

        Members of the consumer protocol are told shorter heartbeat intervals. Members of the classic protocol choose
        theirs: their sessions, divided by the rate, must be longer.
        """
        self._run(lambda: self._controls.scale_time(rate))

    # Groups

    def expire_member(self, group: str, member: str) -> str:
        """Remove a member (member ID, instance ID or client ID) as if its session had ended. Return its member ID."""
        return self._run(lambda: self._controls.expire_member(group, member))

    def fence_instance(self, group: str, instance_id: str) -> str:
        """Let another process take over a static membership, so that the present member is fenced.

        Return the ID of the new member, which sends nothing more: remove it by `expire_member`.
        """
        return self._run(lambda: self._controls.fence_instance(group, instance_id))

    def move_coordinator(self, group: str, *, ms: Millis = 0, to: int | None = None) -> None:
        """Move the group's coordinator to another broker, by default the next one; on return it is loaded there.

        A single broker gives it up, and coordinates it again after `ms`: its members get NOT_COORDINATOR.
        """
        self._await(self._controls.move_coordinator(group, ms=ms, to=to))

    def load_coordinator(self, group: str, ms: Millis | None = None) -> Undoable:
        """Answer COORDINATOR_LOAD_IN_PROGRESS for `ms`, or until it is undone. Without `ms`, use it in a `with` block.

        This concerns all groups in the same partition of `__consumer_offsets`.
        """
        return Undoable(self, self._run(lambda: self._controls.load_coordinator(group, ms)))

    # Topics

    def lose_leader(self, topic: str, partition: int, ms: Millis | None = None) -> Undoable:
        """Leave a partition of a single broker without a leader for `ms`, or until it is undone."""
        return Undoable(self, self._run(lambda: self._controls.lose_leader(topic, partition, ms)))

    def move_leader(self, topic: str, partition: int, to: int | None = None) -> None:
        """Let another broker of a cluster lead a partition, by default the next one; on return it does."""
        self._await(self._controls.move_leader(topic, partition, to))

    def grow_topic(self, topic: str, partitions: int) -> None:
        """Give a topic more partitions; `partitions` is their number afterwards. Raise KafkaError."""
        self._run(lambda: self._controls.grow_topic(topic, partitions))
        self._await(self._settle(topic))

    def delete_topic(self, topic: str) -> None:
        """Delete a topic, its records, and the offsets that were committed for it. Raise KafkaError."""
        self._run(lambda: self._controls.delete_topic(topic))

    def recreate_topic(self, topic: str, partitions: int | None = None) -> UUID:
        """Delete a topic and make another one under its name, without records. Return the new topic ID."""
        topic_id = self._await(self._controls.recreate_topic(topic, partitions))
        self._await(self._settle(topic))
        return topic_id

    # Disks

    def slow_disk(self, sync_ms: Millis, *, node_id: int | None = None, ms: Millis | None = None) -> Undoable:
        """Let each sync of the log take `sync_ms` longer, at one broker or all, for `ms` or until it is undone.

        Acknowledgements of records and commits wait for it.
        """
        return Undoable(self, self._run(lambda: self._controls.slow_disk(sync_ms, node_id=node_id, ms=ms)))

    def fill_disk(self, *, node_id: int | None = None, ms: Millis | None = None) -> Undoable:
        """Let all writes fail for want of space, at one broker or all, for `ms` or until it is undone.

        Producers get KAFKA_STORAGE_ERROR. Coordinators load their groups again, and refuse changes until there is room.
        """
        return Undoable(self, self._run(lambda: self._controls.fill_disk(node_id=node_id, ms=ms)))

    def fail_disk(self, *, node_id: int | None = None, ms: Millis | None = None) -> Undoable:
        """Let all writes fail with an I/O error, at one broker or all, for `ms` or until it is undone."""
        return Undoable(self, self._run(lambda: self._controls.fail_disk(node_id=node_id, ms=ms)))

    def undo_all(self) -> None:
        """Undo all that `load_coordinator`, `lose_leader` and the faults of disks have begun; on return it is over."""
        self._await(self._controls.end_outages())

    # Snapshots

    def snapshot(self) -> snapshots.Snapshot:
        """Return the contents of a single broker in memory: topics, records, configs, committed offsets and groups.

        No records are copied, so it takes milliseconds. Raise KohortError for a cluster, or a broker with `data`.
        """
        if len(self._started) != 1:
            raise KohortError("The brokers of a cluster share a directory, which has no snapshots: use Broker.")
        return self._await(snapshots.take(self._started[0]))

    def restore(self, snapshot: snapshots.Snapshot) -> None:
        """Return to the contents of a snapshot of this broker, which may be restored any number of times.

        Members of changed groups get UNKNOWN_MEMBER_ID or an error of that kind, and join again; restored members that
        are no longer connected are removed. A position behind the end of a restored partition is OFFSET_OUT_OF_RANGE.
        The journal of rebalances stays.
        """
        if snapshot.broker not in self._started:
            raise KohortError("This is a snapshot of another broker, or of an earlier run.")
        self._await(snapshots.restore(snapshot))

    @property
    def _started(self) -> list[TappedBroker]:
        self._controls  # noqa: B018  # raises an error if the brokers do not run
        return self.nodes
