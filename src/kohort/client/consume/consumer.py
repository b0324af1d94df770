"""Consumer of records, as a member of a group or of manually assigned partitions."""

import asyncio
import re
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

from kohort.client.arguments import partition_of, record_count, seconds
from kohort.client.consume.acceleration import columns_loading
from kohort.client.consume.assigned_partitions import AssignedPartitions
from kohort.client.consume.commits import Commits
from kohort.client.consume.consumer_record import ConsumerRecord
from kohort.client.consume.consumer_statistics import consumer_document
from kohort.client.consume.deserialization import Deserialization
from kohort.client.consume.group_subscription import GroupSubscription, check_callbacks
from kohort.client.consume.interceptors import ConsumeInterception
from kohort.client.consume.partition_batch import PartitionBatch, PartitionValues
from kohort.client.consume.partition_events import OffsetsCallback
from kohort.client.consume.poller import Poller
from kohort.client.consume.unread import UnreadRecords
from kohort.client.failures import ClosedError, NotAssignedError
from kohort.client.keywords import ConsumerKeywords
from kohort.client.loops import check_loop, warn_unclosed
from kohort.client.membership import positions_of
from kohort.client.metrics import Document, Measurements, MetricName, MetricValue, Report, StatisticsTimer
from kohort.client.net import Cluster, copied_error, list_offsets, run_to_end
from kohort.client.offset_spec import OffsetSpec
from kohort.client.options import ConsumerOptions
from kohort.client.subscription_pattern import SubscriptionPattern
from kohort.errors import ConfigError, KohortError
from kohort.loading import LoadRequired
from kohort.member import OffsetAndMetadata, Phase
from kohort.member.transactions import ConsumerGroupMetadata
from kohort.model import Millis, TopicPartition
from kohort.requests import FoundOffset

if TYPE_CHECKING:
    import pyarrow as pa

_T = TypeVar("_T")

_LEAVE_TIMEOUT = 30.0
"""Default timeout for leaving a group, in seconds."""
_READ_AHEAD_S = 60.0
"""Timeout of each poll of an iteration without an end, in seconds."""
_MAX_ROWS = 100_000
"""Default maximum number of rows; a fetch usually returns fewer."""


class Consumer:
    """Consumer of topics or partitions.

    Use it as an async context manager, or call `close`.

    async with Consumer("orders", bootstrap_servers="127.0.0.1:9092", group_id="billing") as consumer:
        async for record in consumer:
            ...

    Callbacks (plain or async) run inside `poll`, so never while the application processes records
    that `poll` returned. Committing processed records in `on_revoked` therefore makes each record
    count once. `on_lost` is called for partitions that are already lost (default: `on_revoked`).
    Callbacks receive `Partitions`: a set with an attribute `offsets`, which holds the committed
    offset of each assigned partition or the position of each revoked or lost partition.

    All methods belong to the event loop in which the consumer was created. Only one task may poll
    at a time. Another thread, another loop or a forked process needs its own consumer; otherwise
    ConcurrentUseError is raised. Plain threads use `kohort.blocking.Consumer`.

    A consumer that is not closed emits a ResourceWarning when it is garbage collected, which
    happens once its loop has ended. It does not leave its group; the coordinator removes the member
    after session_timeout_ms.
    """

    def __init__(
        self,
        *topics: str,
        on_assigned: OffsetsCallback | None = None,
        on_revoked: OffsetsCallback | None = None,
        on_lost: OffsetsCallback | None = None,
        **options: Unpack[ConsumerKeywords],
    ) -> None:
        """Create a consumer, which subscribes if topics are given.

        - `topics`: Names of topics to subscribe to; without them, call `subscribe` or `assign`.
        - `on_assigned`: Function called with the partitions that the member gets, before their
          records are returned. It may be async.
        - `on_revoked`: Function called with the partitions that the member gives up. It may be
          async.
        - `on_lost`: Function called with the partitions that the member has lost (default:
          `on_revoked`). It may be async.
        - `options`: Options such as bootstrap_servers.
        """
        check_callbacks(topics, on_assigned, on_revoked, on_lost)
        self._options = ConsumerOptions.read(options)
        self.deserialization = Deserialization(self._options.key_deserializer, self._options.value_deserializer)
        self.interception = ConsumeInterception(self._options.interceptors, self._options)
        self.cluster = Cluster(self._options)
        """Client's view of the cluster, for inspection."""
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()
        """Event that makes a waiting poll check again."""
        self._partitions = AssignedPartitions(self.cluster, self._options, self._news.set)
        converts = self.deserialization.configured or bool(self.interception)
        self.buffered = UnreadRecords() if converts else self._partitions.unread
        """Records that an iteration may take without further steps: none if there are deserializers or
        interceptors."""
        self._intercepted: deque[ConsumerRecord] = deque()
        """Records that interceptors made of the last one of an iteration."""
        self._commits = self._new_commits()
        if self.interception:
            self._commits.on_result = self.interception.committed
        self._group = GroupSubscription(self.cluster, self._options, self._partitions, self._commits, self._news.set)
        self._poller = Poller(
            self._options, self._group, self._commits, self._news, self._raise_errors, self._close_if_requested
        )
        self._closed = False
        self._statistics: StatisticsTimer | None = None
        if self._options.on_statistics is not None:
            self.cluster.metrics.sampled = True
            every_s = self._options.statistics_interval_ms / 1000
            self._statistics = StatisticsTimer(
                "consumer", self._options.client_id, every_s, self._options.on_statistics, self._document
            )
        if topics:
            try:
                self.subscribe(topics, on_assigned=on_assigned, on_revoked=on_revoked, on_lost=on_lost)
            except BaseException:
                self._closed = True  # nothing was opened
                self._stop_statistics()
                raise

    def _new_commits(self) -> Commits:
        return Commits(self.cluster, self._options, self._partitions.offsets_to_commit)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    def __del__(self) -> None:
        if not getattr(self, "_closed", True):
            warn_unclosed(self)

    # -- subscription and assignment

    def subscribe(
        self,
        topics: Iterable[str] | re.Pattern[str] | SubscriptionPattern,
        *,
        on_assigned: OffsetsCallback | None = None,
        on_revoked: OffsetsCallback | None = None,
        on_lost: OffsetsCallback | None = None,
    ) -> None:
        """Subscribe to these topics in place of the previous subscription, and share them with the group.

        Without group_id, the consumer reads all partitions of the topics, and there are no callbacks.
        A pattern covers all topics whose whole names match it, including topics created later. The
        client looks for them every metadata_max_age_ms and before a rebalance. The broker evaluates
        a SubscriptionPattern.

        - `topics`: Names of topics, a compiled regular expression, or a SubscriptionPattern.
        - `on_assigned`: Function called with the partitions that the member gets, before their
          records are returned. It may be async.
        - `on_revoked`: Function called with the partitions that the member gives up. It may be
          async.
        - `on_lost`: Function called with the partitions that the member has lost (default:
          `on_revoked`). It may be async.
        """
        self._check_open()
        self._group.subscribe(topics, on_assigned, on_revoked, on_lost)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Consume exactly these partitions, without joining a group. Retained partitions keep their positions.

        - `partitions`: All partitions to read; an empty list ends reading.
        """
        self._check_open()
        if self._group.subscribed:
            raise KohortError("the consumer has subscribed, which excludes assign: call unsubscribe first.")
        self._commits.forget(self._partitions.replace({partition_of(partition) for partition in partitions}))

    def incremental_assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Add partitions to the manual assignment.

        - `partitions`: Partitions to read in addition.
        """
        self.assign(self.assignment | {partition_of(partition) for partition in partitions})

    def incremental_unassign(self, partitions: Iterable[TopicPartition]) -> None:
        """Remove partitions from the manual assignment.

        - `partitions`: Assigned partitions that the consumer no longer reads.
        """
        gone = {partition_of(partition) for partition in partitions}
        for partition in gone:
            self._partitions.state(partition)
        self.assign(self.assignment - gone)

    async def unsubscribe(self) -> None:
        """Release all partitions (`on_revoked` runs) and leave the group, or clear the manual assignment."""
        if self._group.rebalances.inside:
            raise KohortError("a callback cannot unsubscribe its consumer: do so after poll.")
        await self._group.unsubscribe(_LEAVE_TIMEOUT)
        self._commits.forget(self._partitions.replace(set()))
        await self._close_if_requested()

    def set_weight(self, weight: float) -> None:
        """Set the member's weight at run time; group_member_weight sets the initial weight.

        With the broker's assignor `weighted`, a member of weight 2 gets twice as much as one of
        weight 1. Weight 0 drains the member under any assignor: it stays in the group without
        partitions until another weight is set. Requires group_protocol consumer, a subscription and
        a Kohort broker. Weights set by an operator take precedence.

        - `weight`: Share relative to other members: 0, or between 1e-9 and 1e9.
        """
        self._check_open()
        self._group.required_driver("a weight").weigh(weight)

    def enforce_rebalance(self, reason: str = "the application asked for it") -> None:
        """Ask the group to compute its assignment again (KIP-568), because the assignor's inputs
        have changed.

        Returns immediately; the rebalance proceeds as any other. In a consumer group this works
        only if its members compute the assignment (`group_local_assignors`).

        - `reason`: Text for the logs of this client and of the broker.
        """
        self._rejoin(reason)

    def tell_user_data(self) -> None:
        """Send this member's current assignor user data immediately, without requesting a rebalance.

        In a classic group, members send it at every rebalance, and this method does nothing.
        """
        self._rejoin(None)

    def _rejoin(self, reason: str | None) -> None:
        self._check_open()
        self._group.required_driver("a group").rejoin(reason)

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """Partitions that are currently assigned."""
        return self._partitions.all()

    @property
    def subscription(self) -> frozenset[str]:
        """Subscribed topics; for a pattern, the topics that currently match."""
        return self._group.topics

    @property
    def member_id(self) -> str:
        """Member ID assigned by the coordinator; "" if there is none."""
        driver = self._group.driver
        return driver.member.member_id if driver else ""

    @property
    def generation(self) -> int | None:
        """Group generation or member epoch; None while this consumer is not a member."""
        driver = self._group.driver
        return driver.member.generation if driver else None

    @property
    def state(self) -> Phase:
        """Phase of the group membership."""
        driver = self._group.driver
        return driver.member.phase if driver else Phase.UNSUBSCRIBED

    # -- commits

    async def commit(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> None:
        """Commit these offsets, or the positions of all assigned partitions, and wait until they are durable.

        Raises CommitFailedError, which names the rejected partitions, and NotAssignedError for
        partitions that are not assigned to this consumer.

        - `offsets`: Offset of the next record to process, by partition (default: the position of
          each assigned partition).
        - `timeout`: Longest time to wait, in seconds (default: default_api_timeout_ms).
        """
        with self._measured(self._poller.metrics.commits):
            await self._commit(offsets, timeout)

    async def _commit(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None,
        timeout: float | None,  # noqa: ASYNC109
    ) -> None:
        self._check_open()
        self._commits.group_id()  # raises
        if offsets is None:
            positions = self._partitions.offsets_to_commit()
            await self._commits.commit(None, timeout)
            self._partitions.committed(positions)
            return
        if self._group.driver is not None:
            others = {partition_of(partition) for partition in offsets} - self.assignment
            if others:
                raise NotAssignedError(others)
        positions = self._partitions.with_topic_ids(positions_of(offsets))
        await self._commits.commit(positions, timeout)
        self._partitions.committed(positions)

    # -- transactions of a producer

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return the group and the member for `Producer.send_offsets_to_transaction` (KIP-447)."""
        self._check_open()
        group_id = self._commits.group_id()
        if self._group.driver is None:
            return ConsumerGroupMetadata(group_id)
        generation = self.generation
        return ConsumerGroupMetadata(
            group_id,
            -1 if generation is None else generation,
            self.member_id,
            self._options.group_instance_id,
        )

    def transaction_offsets(self) -> tuple[dict[TopicPartition, OffsetAndMetadata], ConsumerGroupMetadata]:
        """Return the positions that have changed since the last commit, and `group_metadata`, for a transaction.

        Raises NotAssignedError if partitions were lost whose records this consumer returned, because
        another member returns them, too. Raises ConfigError with automatic commits.
        """
        if self._options.enable_auto_commit:
            raise ConfigError("a consumer whose offsets a transaction commits needs enable_auto_commit=False.")
        group, offsets = self.group_metadata(), self._partitions.uncommitted()
        driver = self._group.driver
        lost = self._partitions.released | (set() if driver is None else offsets.keys() - driver.member.owned)
        if lost:
            raise NotAssignedError(lost)
        return offsets, group

    def transaction_committed(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Begin again at these offsets after a later abort. `Producer.transaction` calls it.

        - `offsets`: Committed offset by partition.
        """
        self._partitions.committed(offsets)

    def transaction_aborted(self) -> None:
        """Continue from the last commit, or where reading began, so that `poll` returns the same records again.

        `Producer.transaction` calls it.
        """
        self._partitions.restart()

    def commit_nowait(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None
    ) -> "asyncio.Task[None]":
        """Start a commit as `commit` does, without waiting. The returned task holds the result.

        - `offsets`: Offsets as in `commit`.
        """
        return self._commits.in_background(self._commit(offsets, None))

    async def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the group's committed offset of each partition, or None where there is none.

        The offset of an assigned partition is that of the assigned topic, even if another topic has
        its name now.

        - `partitions`: Partitions to ask for; they need not be assigned.
        """
        with self._measured(self._poller.metrics.committed):
            return await self._commits.committed(partitions)

    @contextmanager
    def _measured(self, durations: Measurements) -> Iterator[None]:
        began = self._loop.time()
        try:
            yield
        finally:
            now = self._loop.time()
            durations.add(now - began, now)

    # -- positions

    async def position(self, partition: TopicPartition) -> int:
        """Return the offset of the next record to be returned, waiting until it is known.

        - `partition`: An assigned partition.
        """
        while (position := self._partitions.position(partition)) is None:
            self._raise_errors()
            await self._partitions.position_progress()
        return position

    def positions(self) -> dict[TopicPartition, int]:
        """Return the known positions of all assigned partitions, which `commit` commits."""
        return self._partitions.positions()

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Continue from this offset.

        - `partition`: An assigned partition.
        - `offset`: Offset of the next record to return.
        """
        self._partitions.seek(partition, offset)

    def seek_to_beginning(self, partitions: Collection[TopicPartition] = ()) -> None:
        """Continue from the first offset of these partitions, or of all assigned ones.

        - `partitions`: Assigned partitions (default: all).
        """
        self._partitions.reset(partitions, OffsetSpec.EARLIEST)

    def seek_to_end(self, partitions: Collection[TopicPartition] = ()) -> None:
        """Continue from the end of these partitions, or of all assigned ones.

        - `partitions`: Assigned partitions (default: all).
        """
        self._partitions.reset(partitions, OffsetSpec.LATEST)

    def lag(self, partition: TopicPartition) -> int | None:
        """Return the number of records after the position as of the last fetch; None before that.

        - `partition`: An assigned partition.
        """
        return self._partitions.lag(partition)

    def highwater(self, partition: TopicPartition) -> int | None:
        """Return the high watermark of the partition as of the last fetch; None before that.

        - `partition`: An assigned partition.
        """
        return self._partitions.state(partition).high_watermark

    def lags(self) -> dict[TopicPartition, int | None]:
        """Return the lag of all assigned partitions."""
        return self._partitions.lags()

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop returning records of these partitions until `resume`; they stay assigned.

        - `partitions`: Assigned partitions.
        """
        self._partitions.pause(partitions)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Return records of these partitions again.

        - `partitions`: Assigned partitions; those that are not paused remain as they are.
        """
        self._partitions.resume(partitions)

    @property
    def paused(self) -> frozenset[TopicPartition]:
        """Partitions that are paused."""
        return self._partitions.paused()

    # -- offsets of the logs

    async def beginning_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the first readable offset of each partition.

        - `partitions`: Partitions to ask for; they need not be assigned.
        """
        return await self._ends(partitions, OffsetSpec.EARLIEST)

    async def end_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the offset of the next record to be appended to each partition.

        With the isolation level read_committed, it is the last stable offset: that of the first record
        that belongs to an open transaction, if there is one.

        - `partitions`: Partitions to ask for; they need not be assigned.
        """
        return await self._ends(partitions, OffsetSpec.LATEST)

    async def offsets_for_times(
        self, times: Mapping[TopicPartition, Millis]
    ) -> dict[TopicPartition, FoundOffset | None]:
        """Return the offset of the first record at or after each timestamp; None if all are older.

        With the isolation level read_committed, only records before the last stable offset count.

        - `times`: Timestamp by partition, in milliseconds since 1970.
        """
        return await list_offsets(self.cluster, times, read_committed=self._reads_committed)

    @property
    def _reads_committed(self) -> bool:
        return self._options.isolation_level == "read_committed"

    async def _ends(self, partitions: Collection[TopicPartition], spec: OffsetSpec) -> dict[TopicPartition, int]:
        wanted = dict.fromkeys(partitions, spec)
        found = await list_offsets(self.cluster, wanted, read_committed=self._reads_committed)
        return {partition: offset.offset for partition, offset in found.items() if offset is not None}

    async def topics(self) -> frozenset[str]:
        """Return the names of all topics, including internal ones."""
        return frozenset((await self.cluster.metadata_of(None)).topics)

    async def partitions_for(self, topic: str) -> int:
        """Return the topic's partition count; 0 if it does not exist.

        - `topic`: Name of the topic.
        """
        return (await self.cluster.refresh((topic,))).partitions(topic)

    # -- records

    async def poll(self, max_records: int | None = None, timeout: float = 1.0) -> list[ConsumerRecord]:  # noqa: ASYNC109
        """Return up to `max_records` records, or an empty list after `timeout` seconds.

        `max_records` defaults to max_poll_records. Call `poll` again within max_poll_interval_ms.
        Callbacks run inside it and may take longer than `timeout`; it raises their exceptions.
        Raises RecordDeserializationError if the next record cannot be deserialized. Cancelling it
        loses no records.

        - `max_records`: Largest number of records to return (default: max_poll_records).
        - `timeout`: Longest time to wait for records, in seconds; 0 returns without waiting.
        """
        self.note_asked(max_records)
        while True:
            records = await self.poll_bytes(max_records, timeout)
            try:
                return self.interception.on_consume(self.deserialization.of_all(records, self.put_back))
            except LoadRequired as needed:
                await asyncio.to_thread(needed.load)

    @property
    def unread(self) -> UnreadRecords:
        """Records that may be taken before deserializers and interceptors see them."""
        return self._partitions.unread

    def note_asked(self, max_records: int | None = 1) -> None:
        """Report to interceptors that the application asks for records, or closes the consumer."""
        if self.interception:
            self.interception.on_poll(self._options.max_poll_records if max_records is None else max_records)

    async def poll_bytes(self, max_records: int | None, timeout: float) -> list[ConsumerRecord]:  # noqa: ASYNC109
        """Poll for records with keys and values as bytes."""
        limit = self._options.max_poll_records if max_records is None else record_count(max_records)
        return await self._poll(lambda: self._partitions.take(limit), timeout)

    def put_back(self, records: list[ConsumerRecord]) -> None:
        """Return these records again before all others."""
        self._partitions.unread.put_back(records)

    async def poll_arrow(self, max_records: int | None = None, timeout: float = 1.0) -> "pa.Table":  # noqa: ASYNC109
        """Return records as one Arrow table: key, value, topic, partition, offset, timestamp, headers.

        Behaves as `poll`, but creates no object per record, which is several times as fast. By
        default it returns all fetched records. Requires the extra `fast`.

        - `max_records`: Largest number of rows to return (default: 100,000).
        - `timeout`: Longest time to wait for records, in seconds; 0 returns without waiting.
        """
        batches = await self.poll_batches(max_records, timeout)

        import pyarrow as pa

        from kohort.columns import SCHEMA

        return pa.Table.from_batches([batch.records for batch in batches], schema=SCHEMA)

    async def poll_batches(
        self,
        max_records: int | None = None,
        timeout: float = 1.0,  # noqa: ASYNC109
    ) -> list[PartitionBatch]:
        """Return records as Arrow batches of one partition each, with the columns of `poll_arrow`.

        - `max_records`: Largest number of rows to return (default: 100,000).
        - `timeout`: Longest time to wait for records, in seconds; 0 returns without waiting.
        """
        limit = _MAX_ROWS if max_records is None else record_count(max_records)
        loading = columns_loading("poll_arrow and poll_batches")
        if not loading.done():
            await asyncio.shield(asyncio.wrap_future(loading))
        loading.result()
        return await self._poll(lambda: self._partitions.take_columns(limit), timeout)

    async def poll_values(
        self,
        max_records: int | None = None,
        timeout: float = 1.0,  # noqa: ASYNC109
    ) -> list[PartitionValues]:
        """Return only the values of records, as bytes: deserializers do not apply.

        Behaves as `poll`, but creates no object per record, which is twice as fast without further
        packages. By default it returns all fetched records.

        - `max_records`: Largest number of values to return (default: 100,000).
        - `timeout`: Longest time to wait for records, in seconds; 0 returns without waiting.
        """
        limit = _MAX_ROWS if max_records is None else record_count(max_records)
        return await self._poll(lambda: self._partitions.take_values(limit), timeout)

    async def _poll(self, take: Callable[[], list[_T]], timeout: float) -> list[_T]:  # noqa: ASYNC109
        timeout = seconds("timeout", timeout)
        self._check_open()
        if not self._group.subscribed and not self._partitions.fetcher.states:
            raise KohortError("the consumer has neither subscribed nor been assigned partitions.")
        return await self._poller.poll(take, timeout)

    def __aiter__(self) -> AsyncIterator[ConsumerRecord]:
        return self

    async def __anext__(self) -> ConsumerRecord:
        """Return the next record. Iteration ends when the consumer is closed, or after consumer_timeout_ms."""
        for record in self.buffered.ready:
            return record
        return await self._next_record()

    async def _next_record(self) -> ConsumerRecord:
        self.note_asked()
        while True:
            try:
                if (record := self.next_unread()) is not None:
                    return record
            except LoadRequired as needed:
                await asyncio.to_thread(needed.load)
            else:
                if not await self.read_ahead():
                    raise StopAsyncIteration

    async def read_ahead(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109
        """Poll for the records that `next_unread` returns. Return whether iteration continues.

        It may be called while there are such records, which then remain the first. `timeout`
        replaces consumer_timeout_ms.
        """
        if self._closed:
            return False
        limit_ms = self._options.consumer_timeout_ms
        if timeout is None:
            timeout = _READ_AHEAD_S if limit_ms is None else limit_ms / 1000
        most = self._options.max_poll_records
        unread = await self._poll(lambda: self._partitions.read_ahead(most), timeout)
        return bool(unread) or (limit_ms is None and not self._closed)

    def next_unread(self) -> ConsumerRecord | None:
        """Return the next record that was read ahead, or None. It counts as handed out from then on.

        Raises RecordDeserializationError or LoadRequired.
        """
        while not self._intercepted:
            record = self._partitions.unread.pop()
            if record is None:
                return None
            record = self.deserialization.of(record, self.put_back)
            if not self.interception:
                return record
            self._intercepted.extend(self.interception.on_consume([record]))
        return self._intercepted.popleft()

    # -- interceptors

    @property
    def interceptors(self) -> tuple[Any, ...]:
        """Interceptors, in the order in which they are called."""
        return self.interception.interceptors

    def intercept(self, make: Callable[[ConsumerOptions], Any]) -> None:
        """Add an interceptor after the others.

        - `make`: Function that returns the interceptor for the options of this consumer.
        """
        self.interception.add([make(self._options)])
        self._commits.on_result = self.interception.committed
        self.buffered = UnreadRecords()

    # -- metrics

    def metrics(self) -> dict[MetricName, MetricValue]:
        """Return the metrics, with the names and groups of Java's consumer.

        Rates, averages and extremes cover the last metrics_num_samples windows of
        metrics_sample_window_ms; an average of nothing is NaN.
        """
        report = Report(self._options.client_id, self._loop.time())
        self._poller.metrics.report(report)
        if self._options.group_id is not None:
            classic = self._options.group_protocol == "classic"
            self._commits.metrics.report(report, assigned=len(self.assignment), classic=classic)
        self._partitions.fetcher.report(report)
        self.cluster.report(report, "consumer")
        return report.finished()

    def _document(self, now: float) -> Document:
        fetcher = self._partitions.fetcher
        return consumer_document(
            self.cluster,
            now,
            fetcher.states,
            self._partitions.positions(),
            self._commits.last,
            fetcher.metrics,
            self._group.driver,
        )

    def _stop_statistics(self) -> None:
        if self._statistics is not None:
            self._statistics.close()

    # -- closing

    async def close(self, *, timeout: float = _LEAVE_TIMEOUT, commit: bool = True) -> None:  # noqa: ASYNC109
        """Commit if auto commit is enabled, release all partitions, leave the group and disconnect.

        With `commit=False` there is no automatic commit.

        Requests that the coordinator does not answer within `timeout` seconds are abandoned. If a
        callback calls it, the poll that runs the callback closes the consumer once the callback has
        finished. Closing twice is allowed.

        - `timeout`: Longest time to wait for the coordinator, in seconds.
        - `commit`: Whether to commit automatically for the last time.
        """
        timeout = seconds("timeout", timeout)
        if self._closed:
            return
        if self._group.rebalances.inside:
            self.close_after_callback()
            return
        self.note_asked()
        self._closed = True
        self._commits.automatic &= commit
        self._news.set()
        self._group.stop_matching()
        try:
            if self._group.driver is not None:
                await self._group.leave("the consumer closes", timeout)
            else:
                self._commits.timeout = min(self._commits.timeout, timeout)
                await self._commits.commit_automatically()
        finally:
            await run_to_end(self._clean_up())
            self.interception.tell("close")
        self._group.rebalances.raise_error()

    async def abandon(self) -> None:
        """Disconnect without committing or leaving the group, after the application dropped the consumer."""
        self._closed = True
        self._group.stop_matching()
        await run_to_end(self._clean_up())

    def close_after_callback(self) -> None:
        """Close the consumer once the running callback has finished."""
        self._poller.close_requested = True

    async def _close_if_requested(self) -> bool:
        """Close the consumer if a callback asked for it. Return whether it is closed."""
        if self._poller.close_requested:
            await self.close()
        return self._closed

    async def _clean_up(self) -> None:
        self._stop_statistics()
        await self._commits.close()
        await self._group.close()
        await self._partitions.close()
        await self.cluster.close()

    # -- errors

    def _raise_errors(self) -> None:
        self._group.rebalances.raise_error()
        problem = self.cluster.problem  # it is more specific than the member's error
        if problem is not None and not problem.retriable:
            raise copied_error(problem)
        self._group.raise_error()
        self._partitions.raise_error()

    def _check_open(self) -> None:
        check_loop(self._loop, "consumer")
        if self._closed and not self._group.leaving:
            raise ClosedError("the consumer is closed.")
