"""A shard of a coordinator and its partition: loaded from the log, appended to, and loaded again if an append fails.

An append is acknowledged with its commit. If the commit fails, the shard's state is discarded, because the log has
nothing that was replayed since, and loaded again from the contents of the log.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from kohort.broker.groups.loading import Contents, load
from kohort.broker.groups.timers import Timers
from kohort.broker.logs import GroupCommit, Writer
from kohort.errors import ErrorCode
from kohort.log import PartitionLog
from kohort.model import Millis
from kohort.wire.batches import Buffer, pack_batch, pack_record, signed_varints

_BATCH_RECORDS = 4_000
_LOAD_AGAIN_S = 0.2

log = logging.getLogger("kohort.broker")


class LogShardParts(Protocol):
    """The parts of the broker that this module uses."""

    timers: Timers
    writer: Writer

    def now(self) -> Millis: ...

    def wall(self) -> Millis: ...

    @property
    def stopping(self) -> bool: ...


class LogShard:
    """What shards of all coordinators have in common. Subclasses have the state machine."""

    topic: str
    """Name of the topic whose partition it is."""
    _log: PartitionLog  # set by `lead`

    def __init__(self, broker: LogShardParts, partition: int) -> None:
        self.partition = partition
        self.ready = False
        self.term = 0
        """Changes whenever the shard begins or ceases to be ready, so that late results are recognised."""
        self._parts = broker
        self._commit: GroupCommit | None = None
        """The last commit that this shard appended to; None once it is known to be settled."""
        self._packed: list[bytes] = []
        """Encoded records of the batch that is being collected."""
        self._loading: asyncio.Task[None] | None = None
        self._unready = ErrorCode.NOT_COORDINATOR
        """Error code for requests while the shard is not ready."""
        self._lost_at = -_LOAD_AGAIN_S
        """Loop time of the last load that followed a failed append."""

    # For subclasses

    def _renew(self) -> Contents:
        """Replace the state machine by an empty one, and return what replays the records of the log into it."""
        raise NotImplementedError

    def _begin(self) -> None:
        """Begin to coordinate with the loaded state machine."""
        raise NotImplementedError

    def _end(self) -> None:
        """Cancel all timers of the state machine, and answer all that wait."""
        raise NotImplementedError

    # The log

    def _append_pairs(self, pairs: Sequence[tuple[bytes, bytes | None]], *, in_a_hurry: bool = True) -> None:
        """Append records, together with others of the same turn of the event loop.

        Records that nobody waits for are not in a hurry: see `Writer.current_first`.
        """
        first = self._next_delta
        deltas = signed_varints(first, first + len(pairs))
        packed = [pack_record(delta, key, value) for delta, (key, value) in zip(deltas, pairs, strict=True)]
        self._append_packed(packed, in_a_hurry=in_a_hurry)

    @property
    def _next_delta(self) -> int:
        """Offset delta of the next record in the batch that is being collected."""
        return len(self._packed)

    def _append_packed(self, records: Sequence[bytes], *, in_a_hurry: bool = True) -> None:
        """Append encoded records, whose offset deltas begin with `_next_delta`; see `_append_pairs`.

        They are encoded at once, because all the objects of a turn's records would not fit into a processor's cache.
        """
        self._join_commit(in_a_hurry=in_a_hurry)
        if not self._packed:
            self._parts.writer.before_take(self._flush)
        self._packed += records
        # Before the next sync, this broker may cease to be the leader: no record is left out of the log until then.
        if len(self._packed) > _BATCH_RECORDS or not in_a_hurry:
            self._flush()

    def _append_batch(self, batch: Buffer) -> None:
        """Append a batch of its own, after all records that were appended before."""
        self._join_commit(in_a_hurry=True)
        self._flush()
        self._log.append(batch, self._log.leader_epoch)

    def _join_commit(self, *, in_a_hurry: bool) -> None:
        commit = self._parts.writer.current_first(in_a_hurry=in_a_hurry)
        if commit is not self._commit:
            self._commit = commit
            commit.then(_nothing, lambda: self._lost(commit))

    def _flush(self) -> None:
        if self._packed:
            records, self._packed = self._packed, []
            batch = pack_batch(b"".join(records), len(records), self._parts.wall())
            self._log.append(batch, self._log.leader_epoch)

    def _when_durable(self, settled: Callable[[], None], failed: Callable[[], None]) -> None:
        """Call `settled` once all that was appended is on disk, at once if it is, or `failed` if it cannot be."""
        commit = self._commit
        if commit is None or commit.done:
            self._commit = None
            settled()
        else:
            commit.then(settled, failed)
            self._parts.writer.hurry()

    def _lost(self, commit: GroupCommit) -> None:
        """Discard the machine's state after `commit` failed: the log has nothing that was replayed since."""
        if self._commit is commit:
            self._commit = None
            if not self.leads:
                return  # another broker takes the shard over, so this one need not reload it
            # A broker that stops does not load again, so clients must not wait for it.
            self.resign(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            contents = self._renew()
            if self._log.stopped is None and not self._parts.stopping:
                self._unready = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
                loop = asyncio.get_running_loop()
                # On a full disk the next append fails too, and a load is costly, so loads have a minimum interval.
                wait_s = max(0.0, self._lost_at + _LOAD_AGAIN_S - loop.time())
                self._lost_at = loop.time() + wait_s
                self._loading = loop.create_task(self._load(contents, wait_s))

    # Loading and stopping

    @property
    def leads(self) -> bool:
        """Whether this broker coordinates with this shard, even if it is still loading it."""
        return self._unready is not ErrorCode.NOT_COORDINATOR

    @property
    def unready(self) -> ErrorCode:
        """Error code for requests; NONE if the shard is ready."""
        return ErrorCode.NONE if self.ready else self._unready

    @property
    def _serves(self) -> bool:
        """Whether the shard is ready or being loaded."""
        return self._unready is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    def lead(self, partition_log: PartitionLog) -> None:
        """Replay the partition, in slices that let other work run; if it is empty, become ready at once."""
        self._log = partition_log
        self._log.sync_first()
        contents = self._renew()
        self._unready = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        if self._log.stable_offset == self._log.start_offset:
            self._loaded()
        else:
            self._loading = asyncio.get_running_loop().create_task(self._load(contents, 0))

    def resign(self, code: ErrorCode = ErrorCode.NOT_COORDINATOR) -> None:
        """Stop coordinating: requests that wait get NOT_COORDINATOR, later ones `code`."""
        self._unready = code
        if self._loading is not None:
            self._loading.cancel()
            self._loading = None
        if self.ready:
            self.ready = False
            self.term += 1
            self._end()

    async def loaded(self) -> None:
        """Wait until a load that is in progress is over."""
        while self._loading is not None:
            await asyncio.wait([self._loading])

    async def _load(self, contents: Contents, wait_s: float) -> None:
        while True:
            await asyncio.sleep(wait_s)
            try:
                count = await load(f"{self.topic}-{self.partition}", self._log, contents)
                break
            except OSError as error:
                log.error("cannot load %s-%d, trying again: %s", self.topic, self.partition, error)
                contents = self._renew()
                wait_s = _LOAD_AGAIN_S
        log.info("loaded %s-%d records=%d", self.topic, self.partition, count)
        self._loading = None
        self._loaded()

    def _loaded(self) -> None:
        self.ready = True
        self.term += 1
        self._begin()


def unexpected_timer(now: Millis) -> None:
    """Fail: a cancelled timer has fired."""
    raise AssertionError("a cancelled timer fired")


def _nothing() -> None:
    return None
