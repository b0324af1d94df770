"""`kohort.Consumer` for plain threads. Callbacks run in the thread that polls."""

import asyncio
import re
import threading
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Self, Unpack

from kohort.client.arguments import seconds
from kohort.client.blocking.loop import BlockingClient, T, Work, call_in_loop
from kohort.client.consume import Consumer as AsyncioConsumer
from kohort.client.consume import ConsumerRecord, PartitionBatch, Partitions, PartitionValues, UnreadRecords
from kohort.client.failures import ClosedError, ConcurrentUseError
from kohort.client.keywords import ConsumerKeywords
from kohort.client.metrics import MetricName, MetricValue
from kohort.client.options import ConsumerOptions
from kohort.client.subscription_pattern import SubscriptionPattern
from kohort.loading import LoadRequired
from kohort.member import OffsetAndMetadata, Phase
from kohort.member.transactions import ConsumerGroupMetadata
from kohort.model import Millis, TopicPartition
from kohort.requests import FoundOffset

if TYPE_CHECKING:
    import pyarrow as pa

Callback = Callable[[Partitions], None]
_CLOSE_S = 30.0
_AsyncCallback = Callable[[Partitions], Coroutine[Any, Any, None]]


class Consumer(BlockingClient):
    """Blocking version of `kohort.Consumer`.

    Use it as a context manager, or call `close`. Only one thread may use it at a time. A method
    called while another thread is inside one raises ConcurrentUseError, including `close`, as in
    Java; any thread may read the properties. To stop the consumer from outside, let its thread
    check an event between two polls.

    A forked process needs its own consumer; there the methods raise ConcurrentUseError. A consumer
    that is not closed emits a ResourceWarning when it is garbage collected; the coordinator removes
    the member after session_timeout_ms.
    """

    def __init__(
        self,
        *topics: str,
        on_assigned: Callback | None = None,
        on_revoked: Callback | None = None,
        on_lost: Callback | None = None,
        **options: Unpack[ConsumerKeywords],
    ) -> None:
        super().__init__("kohort-consumer")
        self._inbox: SimpleQueue[Callable[[], bool]] = SimpleQueue()
        """Functions for the polling thread to run.

        Each returns whether the call that the thread waits for has ended.
        """
        self._in_callback = False
        self._use = threading.RLock()
        """Lock of the thread that is inside a method; callbacks and signal handlers of that thread
        may enter again."""
        self._depth = 0
        self._user = 0
        self._close_asked = False
        try:
            callbacks = {
                "on_assigned": self._relayed(on_assigned),
                "on_revoked": self._relayed(on_revoked),
                "on_lost": self._relayed(on_lost),
            }
            self._consumer = self._call(lambda: call_in_loop(lambda: AsyncioConsumer(*topics, **callbacks, **options)))
            self._buffered = self._consumer.buffered
        except BaseException:
            self._stop()
            raise
        self._made = True

    def subscribe(
        self,
        topics: Iterable[str] | re.Pattern[str] | SubscriptionPattern,
        *,
        on_assigned: Callback | None = None,
        on_revoked: Callback | None = None,
        on_lost: Callback | None = None,
    ) -> None:
        """See `kohort.Consumer.subscribe`. The callbacks run in the thread that polls or closes."""
        wanted = topics if isinstance(topics, str | re.Pattern | SubscriptionPattern) else list(topics)
        self._do(
            lambda: self._consumer.subscribe(
                wanted,
                on_assigned=self._relayed(on_assigned),
                on_revoked=self._relayed(on_revoked),
                on_lost=self._relayed(on_lost),
            )
        )

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """See `kohort.Consumer.assign`."""
        self._do(lambda: self._consumer.assign(partitions))

    def incremental_assign(self, partitions: Iterable[TopicPartition]) -> None:
        """See `kohort.Consumer.incremental_assign`."""
        self._do(lambda: self._consumer.incremental_assign(partitions))

    def incremental_unassign(self, partitions: Iterable[TopicPartition]) -> None:
        """See `kohort.Consumer.incremental_unassign`."""
        self._do(lambda: self._consumer.incremental_unassign(partitions))

    def unsubscribe(self) -> None:
        """See `kohort.Consumer.unsubscribe`."""
        self._pump(self._consumer.unsubscribe)

    def set_weight(self, weight: float) -> None:
        """See `kohort.Consumer.set_weight`."""
        self._do(lambda: self._consumer.set_weight(weight))

    def enforce_rebalance(self, reason: str = "the application asked for it") -> None:
        """See `kohort.Consumer.enforce_rebalance`."""
        self._do(lambda: self._consumer.enforce_rebalance(reason))

    def tell_user_data(self) -> None:
        """See `kohort.Consumer.tell_user_data`."""
        self._do(self._consumer.tell_user_data)

    def poll(self, max_records: int | None = None, timeout: float = 1.0) -> list[ConsumerRecord]:
        """See `kohort.Consumer.poll`. Deserializers run in the calling thread."""
        self._consumer.note_asked(max_records)
        while True:
            records = self._pump(lambda: self._consumer.poll_bytes(max_records, timeout))
            try:
                ready = self._consumer.deserialization.of_all(
                    records, lambda left: self._do(lambda: self._consumer.put_back(left))
                )
                return self._consumer.interception.on_consume(ready)
            except LoadRequired as needed:
                needed.load()

    def poll_arrow(self, max_records: int | None = None, timeout: float = 1.0) -> "pa.Table":
        """See `kohort.Consumer.poll_arrow`."""
        return self._pump(lambda: self._consumer.poll_arrow(max_records, timeout))

    def poll_batches(self, max_records: int | None = None, timeout: float = 1.0) -> list[PartitionBatch]:
        """See `kohort.Consumer.poll_batches`."""
        return self._pump(lambda: self._consumer.poll_batches(max_records, timeout))

    def poll_values(self, max_records: int | None = None, timeout: float = 1.0) -> list[PartitionValues]:
        """See `kohort.Consumer.poll_values`."""
        return self._pump(lambda: self._consumer.poll_values(max_records, timeout))

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ConsumerRecord:
        """Return the next record; see `kohort.Consumer.poll`. Deserializers run in the calling thread."""
        for record in self._buffered.ready:
            return record
        return self._next_record()

    def _next_record(self) -> ConsumerRecord:
        self._check_process()
        self._consumer.note_asked()
        unread = self._consumer.next_unread
        while True:
            try:
                if (record := unread()) is not None:
                    return record
            except LoadRequired as needed:
                needed.load()
                continue
            try:
                more = self._pump(self._consumer.read_ahead)
            except ClosedError:  # before, or meanwhile by a signal handler
                raise StopIteration from None
            if not more:
                raise StopIteration

    def commit(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None,
        *,
        timeout: float | None = None,
    ) -> None:
        """See `kohort.Consumer.commit`."""
        self._call(lambda: self._consumer.commit(offsets, timeout=timeout))

    def commit_nowait(self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None) -> "Future[None]":
        """Start a commit without waiting. The returned future holds the result.

        Called in `on_revoked`, it is sent before the partitions are released, so the next owner
        starts after the committed offset.
        """
        if self._stopped:
            raise self._refusal()
        with self._alone():
            return self._thread.submit(lambda: self._consumer.commit(offsets))

    def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """See `kohort.Consumer.committed`."""
        return self._call(lambda: self._consumer.committed(partitions))

    def group_metadata(self) -> ConsumerGroupMetadata:
        """See `kohort.Consumer.group_metadata`."""
        return self._call(lambda: call_in_loop(self._consumer.group_metadata))

    def transaction_offsets(self) -> tuple[dict[TopicPartition, OffsetAndMetadata], ConsumerGroupMetadata]:
        """See `kohort.Consumer.transaction_offsets`."""
        return self._call(lambda: call_in_loop(self._consumer.transaction_offsets))

    def transaction_committed(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """See `kohort.Consumer.transaction_committed`."""
        self._do(lambda: self._consumer.transaction_committed(offsets))

    def transaction_aborted(self) -> None:
        """See `kohort.Consumer.transaction_aborted`."""
        self._do(self._consumer.transaction_aborted)

    def position(self, partition: TopicPartition) -> int:
        """See `kohort.Consumer.position`."""
        return self._call(lambda: self._consumer.position(partition))

    def positions(self) -> dict[TopicPartition, int]:
        """See `kohort.Consumer.positions`."""
        return self._do(self._consumer.positions)

    def lag(self, partition: TopicPartition) -> int | None:
        """See `kohort.Consumer.lag`."""
        return self._do(lambda: self._consumer.lag(partition))

    def highwater(self, partition: TopicPartition) -> int | None:
        """See `kohort.Consumer.highwater`."""
        return self._do(lambda: self._consumer.highwater(partition))

    def lags(self) -> dict[TopicPartition, int | None]:
        """See `kohort.Consumer.lags`."""
        return self._do(self._consumer.lags)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """See `kohort.Consumer.seek`."""
        self._do(lambda: self._consumer.seek(partition, offset))

    def seek_to_beginning(self, partitions: Collection[TopicPartition] = ()) -> None:
        """See `kohort.Consumer.seek_to_beginning`."""
        self._do(lambda: self._consumer.seek_to_beginning(partitions))

    def seek_to_end(self, partitions: Collection[TopicPartition] = ()) -> None:
        """See `kohort.Consumer.seek_to_end`."""
        self._do(lambda: self._consumer.seek_to_end(partitions))

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """See `kohort.Consumer.pause`."""
        self._do(lambda: self._consumer.pause(partitions))

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """See `kohort.Consumer.resume`."""
        self._do(lambda: self._consumer.resume(partitions))

    @property
    def paused(self) -> frozenset[TopicPartition]:
        """Partitions that are paused."""
        self._check_process()
        return self._consumer.paused

    @property
    def interceptors(self) -> tuple[Any, ...]:
        """Interceptors, in the order in which they are called."""
        return self._consumer.interceptors

    def intercept(self, make: Callable[[ConsumerOptions], Any]) -> None:
        """See `kohort.Consumer.intercept`."""
        self._do(lambda: self._consumer.intercept(make))
        self._buffered = self._consumer.buffered

    def metrics(self) -> dict[MetricName, MetricValue]:
        """See `kohort.Consumer.metrics`. Any thread may call it."""
        if self._stopped:
            raise self._refusal()
        # Not by `_call`, which notes what the thread that uses the consumer waits for.
        return self._thread.submit(lambda: call_in_loop(self._consumer.metrics)).result()

    def topics(self) -> frozenset[str]:
        """See `kohort.Consumer.topics`."""
        return self._call(self._consumer.topics)

    def partitions_for(self, topic: str) -> int:
        """See `kohort.Consumer.partitions_for`."""
        return self._call(lambda: self._consumer.partitions_for(topic))

    def beginning_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """See `kohort.Consumer.beginning_offsets`."""
        return self._call(lambda: self._consumer.beginning_offsets(partitions))

    def end_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """See `kohort.Consumer.end_offsets`."""
        return self._call(lambda: self._consumer.end_offsets(partitions))

    def offsets_for_times(self, times: Mapping[TopicPartition, Millis]) -> dict[TopicPartition, FoundOffset | None]:
        """See `kohort.Consumer.offsets_for_times`."""
        return self._call(lambda: self._consumer.offsets_for_times(times))

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """Partitions that are currently assigned."""
        self._check_process()
        return self._consumer.assignment

    @property
    def subscription(self) -> frozenset[str]:
        """Subscribed topics."""
        self._check_process()
        return self._consumer.subscription

    @property
    def state(self) -> Phase:
        """Phase of the group membership."""
        self._check_process()
        return self._consumer.state

    @property
    def member_id(self) -> str:
        """Member ID assigned by the coordinator; "" if there is none."""
        self._check_process()
        return self._consumer.member_id

    @property
    def generation(self) -> int | None:
        """Group generation or member epoch; None while this consumer is not a member."""
        self._check_process()
        return self._consumer.generation

    def close(self, *, timeout: float = _CLOSE_S, commit: bool = True) -> None:
        """See `kohort.Consumer.close`. Closing twice is allowed.

        If a signal handler calls it while its thread waits in another method, it only asks that
        method to end: the method closes the consumer and raises ClosedError, and an iteration ends.
        """
        seconds("timeout", timeout)
        self._check_process()
        if self._stopped:
            return
        with self._alone():
            if self._in_callback:
                self._close_asked = True
                self._do(self._consumer.close_after_callback)
            elif self._depth > 1:
                self._close_asked = True
                if self._thread.current is not None:
                    self._thread.current.cancel()
            else:
                self._close_now(timeout, commit=commit)

    def _close_now(self, timeout: float, *, commit: bool = True) -> None:
        self._close_asked = False
        self._consumer.note_asked()  # in the thread that processed the records
        try:
            self._pump(lambda: self._consumer.close(timeout=timeout, commit=commit))
        finally:
            self._stop()

    def _inherit(self) -> None:
        super()._inherit()
        if self._made:
            self._buffered = UnreadRecords()  # so that an iteration gets to `_check_process`

    def _abandon(self) -> None:
        self._thread.stop_soon(self._consumer.abandon)

    # -- callbacks run in the waiting thread

    def _relayed(self, callback: Callback | None) -> _AsyncCallback | None:
        if callback is None:
            return None

        async def relay(partitions: Partitions) -> None:
            ran: Future[None] = Future()

            def run() -> bool:
                self._in_callback = True
                try:
                    callback(partitions)
                except BaseException as problem:  # noqa: BLE001  passed to poll, which raises it
                    ran.set_exception(problem)
                else:
                    ran.set_result(None)
                finally:
                    self._in_callback = False
                return False

            self._inbox.put(run)
            await asyncio.wrap_future(ran)

        return relay

    def _pump(self, work: Work[T]) -> T:
        """Wait for `work`, and run the callbacks that it requests meanwhile."""
        if self._stopped:
            raise self._refusal()
        self._enter()
        try:
            return self._until_closed(lambda: self._pumped(work))
        finally:
            self._leave()

    def _pumped(self, work: Work[T]) -> T:
        future = self._thread.submit(work)
        future.add_done_callback(lambda _: self._inbox.put(future.done))

        def until(future: "Future[T]") -> T:
            while not future.done():
                # A stale entry of a nested or interrupted call only causes another check.
                self._inbox.get()()
            return future.result()

        return self._thread.wait(future, until)

    def _until_closed(self, wait: Callable[[], T]) -> T:
        """Wait; then close the consumer if a callback or a signal handler requested it meanwhile."""
        try:
            return wait()
        except CancelledError:
            if not self._close_asked:
                raise
            self._close_now(_CLOSE_S)
            raise self._refusal() from None
        finally:
            if self._close_asked and not self._in_callback:
                self._close_now(_CLOSE_S)

    # -- one thread at a time

    def _enter(self) -> None:
        if not self._use.acquire(blocking=False):
            names = [thread.name for thread in threading.enumerate() if thread.ident == self._user]
            raise ConcurrentUseError(
                f"the consumer is in use by {names[0] if names else 'another thread'}: one thread at a time may use"
                " it. Give each thread a consumer of its own, or let one thread poll and pass records on."
            )
        self._user = threading.get_ident()
        self._depth += 1

    def _leave(self) -> None:
        self._depth -= 1
        self._use.release()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        self._enter()
        try:
            yield
        finally:
            self._leave()

    def _call(self, work: Work[T], timeout_s: float | None = None) -> T:
        self._enter()
        try:
            return self._until_closed(lambda: super(Consumer, self)._call(work, timeout_s))
        finally:
            self._leave()

    def _do(self, action: Callable[[], T]) -> T:
        return self._call(lambda: call_in_loop(action))
