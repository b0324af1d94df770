"""A blocking face on the asyncio client: each object has an event loop in a daemon thread, and calls into it.

So heartbeats go on however long the application takes with its records. Callbacks run in the thread that polls.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, Self, TypeVar

import uvloop

from kohort.client import admin as asyncio_admin
from kohort.client import consumer as asyncio_consumer
from kohort.client import producer as asyncio_producer
from kohort.client.admin import NewTopic
from kohort.client.batches import Delivery, RecordMetadata
from kohort.client.configs import ConfigKind, ConfigValue
from kohort.client.failures import BufferFullError, ClosedError
from kohort.client.groups import GroupDescription, GroupListing, GroupOffset, MemberDescription
from kohort.client.logs import LogDirectory
from kohort.client.metadata import ClusterMetadata, TopicMetadata
from kohort.client.offsets import FoundOffset, OffsetSpec
from kohort.client.partition import ConsumerRecord
from kohort.errors import KohortError
from kohort.member import OffsetAndMetadata
from kohort.model import UUID, Millis, TopicPartition
from kohort.wire.records import Header

_T = TypeVar("_T")

Callback = Callable[[frozenset[TopicPartition]], None]
_AsyncCallback = Callable[[frozenset[TopicPartition]], Coroutine[Any, Any, None]]

_MOST_HANDED_OVER = 20_000
"""Records that a producer's threads may be ahead of its loop."""


class _LoopThread:
    """An event loop in a daemon thread."""

    def __init__(self, name: str) -> None:
        self.loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def submit(self, work: Coroutine[Any, Any, _T]) -> "Future[_T]":
        if threading.current_thread() is self._thread:
            work.close()
            raise KohortError("a blocking call from inside the event loop would wait for itself.")
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def call(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run it there and wait; an interrupt (Ctrl-C) cancels it."""
        future = self.submit(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def stop(self) -> None:
        if self._thread.is_alive():
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join()
            self.loop.close()


class _Face:
    """What the three have in common: a loop to call into, until it is stopped."""

    def __init__(self, name: str) -> None:
        self._thread = _LoopThread(name)
        self._stopped = False

    def _call(self, work: Coroutine[Any, Any, _T]) -> _T:
        if self._stopped:
            work.close()
            raise ClosedError("the client is closed.")
        return self._thread.call(work)

    def _stop(self) -> None:
        self._stopped = True
        self._thread.stop()


class Consumer(_Face):
    """`kohort.Consumer` for plain threads; one thread at a time may use it."""

    def __init__(
        self,
        *topics: str,
        on_assigned: Callback | None = None,
        on_revoked: Callback | None = None,
        on_lost: Callback | None = None,
        **options: Any,
    ) -> None:
        super().__init__("kohort-consumer")
        self._inbox: SimpleQueue[Callable[[], bool]] = SimpleQueue()
        """What the thread that polls has to run; each says whether the call that it waits for has ended."""
        try:
            self._consumer = self._call(_made(lambda: asyncio_consumer.Consumer(**options)))
        except BaseException:
            self._stop()
            raise
        if topics:
            self.subscribe(topics, on_assigned=on_assigned, on_revoked=on_revoked, on_lost=on_lost)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def subscribe(
        self,
        topics: Iterable[str],
        *,
        on_assigned: Callback | None = None,
        on_revoked: Callback | None = None,
        on_lost: Callback | None = None,
    ) -> None:
        """See `kohort.Consumer.subscribe`. The callbacks run in the thread that polls, or closes."""
        wanted = [topics] if isinstance(topics, str) else list(topics)
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

    def unsubscribe(self) -> None:
        """See `kohort.Consumer.unsubscribe`."""
        self._pump(self._consumer.unsubscribe())

    def poll(self, max_records: int | None = None, timeout: float = 1.0) -> list[ConsumerRecord]:
        """See `kohort.Consumer.poll`."""
        return self._pump(self._consumer.poll(max_records, timeout))

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ConsumerRecord:
        unread = self._consumer.next_unread
        while (record := unread()) is None:
            if self._stopped:
                raise StopIteration
            self._pump(self._consumer.read_ahead())
        return record

    def commit(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None,
        *,
        timeout: float | None = None,
    ) -> None:
        """See `kohort.Consumer.commit`."""
        self._call(self._consumer.commit(offsets, timeout=timeout))

    def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """See `kohort.Consumer.committed`."""
        return self._call(self._consumer.committed(partitions))

    def position(self, partition: TopicPartition) -> int:
        """See `kohort.Consumer.position`."""
        return self._call(self._consumer.position(partition))

    def positions(self) -> dict[TopicPartition, int]:
        """See `kohort.Consumer.positions`."""
        return self._do(self._consumer.positions)

    def lag(self, partition: TopicPartition) -> int | None:
        """See `kohort.Consumer.lag`."""
        return self._do(lambda: self._consumer.lag(partition))

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

    def beginning_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """See `kohort.Consumer.beginning_offsets`."""
        return self._call(self._consumer.beginning_offsets(partitions))

    def end_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """See `kohort.Consumer.end_offsets`."""
        return self._call(self._consumer.end_offsets(partitions))

    def offsets_for_times(self, times: Mapping[TopicPartition, Millis]) -> dict[TopicPartition, FoundOffset | None]:
        """See `kohort.Consumer.offsets_for_times`."""
        return self._call(self._consumer.offsets_for_times(times))

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """What it consumes now."""
        return self._consumer.assignment

    @property
    def subscription(self) -> frozenset[str]:
        """The topics that it subscribed to."""
        return self._consumer.subscription

    @property
    def member_id(self) -> str:
        """As the coordinator named it; "" for none."""
        return self._consumer.member_id

    @property
    def generation(self) -> int | None:
        """None while the group does not count this consumer."""
        return self._consumer.generation

    def close(self, *, timeout: float = 30.0) -> None:
        """See `kohort.Consumer.close`. Closing twice is fine."""
        if self._stopped:
            return
        try:
            self._pump(self._consumer.close(timeout=timeout))
        finally:
            self._stop()

    # -- callbacks come to the thread that waits

    def _relayed(self, callback: Callback | None) -> _AsyncCallback | None:
        if callback is None:
            return None

        async def relay(partitions: frozenset[TopicPartition]) -> None:
            ran: Future[None] = Future()

            def run() -> bool:
                try:
                    callback(partitions)
                except BaseException as problem:  # noqa: BLE001  handed to poll, which raises it
                    ran.set_exception(problem)
                else:
                    ran.set_result(None)
                return False

            self._inbox.put(run)
            await asyncio.wrap_future(ran)

        return relay

    def _pump(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Wait for `work`, and meanwhile run the callbacks that it asks for."""
        if self._stopped:
            work.close()
            raise ClosedError("the consumer is closed.")
        future = self._thread.submit(work)
        future.add_done_callback(lambda _: self._inbox.put(future.done))
        try:
            while not future.done():
                # An end that a nested or interrupted call left behind only makes this look again.
                self._inbox.get()()
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def _do(self, action: Callable[[], _T]) -> _T:
        return self._call(_made(action))


class BlockingDelivery:
    """The fate of one record; `result` waits for it."""

    __slots__ = ("_delivery", "_error", "_producer")

    def __init__(self, producer: "Producer") -> None:
        self._producer = producer
        self._delivery: Delivery | None = None
        self._error: BaseException | None = None

    def done(self) -> bool:
        """Whether it is decided."""
        return self._error is not None or (self._delivery is not None and self._delivery.done())

    def result(self) -> RecordMetadata:
        """Where it was written. Raises the KafkaError that kept it from being written."""
        if self._delivery is None and self._error is None:
            self._producer.hand_over()
        if self._error is not None:
            raise self._error
        assert self._delivery is not None
        if self._delivery.done():
            return self._delivery.result()
        return self._producer.wait_for(self._delivery)

    def take(self, delivery: Delivery) -> None:
        """The loop queued the record."""
        self._delivery = delivery

    def fail(self, error: BaseException) -> None:
        """The loop could not queue it."""
        self._error = error


_Waiting = tuple[BlockingDelivery, str, bytes | None, bytes | None, Millis | None, Sequence[Header], int | None]


class Producer(_Face):
    """`kohort.Producer` for plain threads; any number of threads may use one."""

    def __init__(self, **options: Any) -> None:
        super().__init__("kohort-producer")
        try:
            self._producer = self._call(_made(lambda: asyncio_producer.Producer(**options)))
        except BaseException:
            self._stop()
            raise
        self._queue: deque[_Waiting] = deque()
        self._woken = False
        self._handing: asyncio.Task[None] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        timestamp: Millis | None = None,
        headers: Sequence[Header] = (),
        partition: int | None = None,
    ) -> BlockingDelivery:
        """Queue a record; waits only while the producer is far behind. See `kohort.Producer.send`."""
        if self._stopped:
            raise ClosedError("the producer is closed.")
        delivery = BlockingDelivery(self)
        self._queue.append((delivery, topic, value, key, timestamp, headers, partition))
        if not self._woken:
            self._woken = True
            self._thread.loop.call_soon_threadsafe(self._wake)
        if len(self._queue) > _MOST_HANDED_OVER:
            self.hand_over()
        return delivery

    def flush(self) -> None:
        """Wait until everything sent so far is written or has failed."""
        self.hand_over()
        self._call(self._producer.flush())

    def partitions_for(self, topic: str) -> int:
        """How many partitions the topic has."""
        return self._call(self._producer.partitions_for(topic))

    def close(self, *, timeout: float | None = None) -> None:
        """Flush, then disconnect. Closing twice is fine."""
        if self._stopped:
            return
        try:
            self.hand_over()
            self._call(self._producer.close(timeout=timeout))
        finally:
            self._stop()

    def hand_over(self) -> None:
        """Wait until the loop has queued all records sent so far."""
        if self._queue or self._handing is not None:
            self._call(self._handed_over())

    def wait_for(self, delivery: Delivery) -> RecordMetadata:
        """Wait until it is decided."""

        async def wait() -> RecordMetadata:
            return await delivery

        return self._call(wait())

    # -- in the loop

    def _wake(self) -> None:
        self._woken = False
        if self._handing is None and self._queue:
            self._handing = self._thread.loop.create_task(self._hand())

    async def _handed_over(self) -> None:
        self._wake()
        if self._handing is not None:
            await asyncio.shield(self._handing)

    async def _hand(self) -> None:
        queue, send = self._queue, self._producer.send_nowait
        try:
            while queue:
                delivery, topic, value, key, timestamp, headers, partition = queue[0]
                try:
                    delivery.take(
                        send(topic, value, key=key, timestamp=timestamp, headers=headers, partition=partition)
                    )
                except BufferFullError:
                    try:
                        await self._producer.ready(topic)
                    except KohortError as problem:
                        delivery.fail(problem)
                        queue.popleft()
                    continue
                except Exception as problem:  # noqa: BLE001  raised again by result
                    delivery.fail(problem)
                queue.popleft()
                if not len(queue) % 1000:
                    await asyncio.sleep(0)
        finally:
            self._handing = None


class Admin(_Face):
    """`kohort.Admin` for plain threads."""

    def __init__(self, **options: Any) -> None:
        super().__init__("kohort-admin")
        try:
            self._admin = self._call(_made(lambda: asyncio_admin.Admin(**options)))
        except BaseException:
            self._stop()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def describe_cluster(self) -> ClusterMetadata:
        """See `kohort.Admin.describe_cluster`."""
        return self._call(self._admin.describe_cluster())

    def list_topics(self, *, internal: bool = False) -> list[str]:
        """See `kohort.Admin.list_topics`."""
        return self._call(self._admin.list_topics(internal=internal))

    def describe_topics(self, names: Iterable[str] | None = None) -> dict[str, TopicMetadata]:
        """See `kohort.Admin.describe_topics`."""
        return self._call(self._admin.describe_topics(names))

    def create_topics(self, topics: Iterable[NewTopic], *, validate_only: bool = False) -> dict[str, UUID]:
        """See `kohort.Admin.create_topics`."""
        return self._call(self._admin.create_topics(topics, validate_only=validate_only))

    def delete_topics(self, names: Iterable[str]) -> None:
        """See `kohort.Admin.delete_topics`."""
        self._call(self._admin.delete_topics(names))

    def list_offsets(
        self, wanted: Mapping[TopicPartition, OffsetSpec | Millis]
    ) -> dict[TopicPartition, FoundOffset | None]:
        """See `kohort.Admin.list_offsets`."""
        return self._call(self._admin.list_offsets(wanted))

    def list_groups(self, states: Collection[str] = ()) -> list[GroupListing]:
        """See `kohort.Admin.list_groups`."""
        return self._call(self._admin.list_groups(states))

    def describe_groups(self, group_ids: Iterable[str]) -> dict[str, GroupDescription]:
        """See `kohort.Admin.describe_groups`."""
        return self._call(self._admin.describe_groups(group_ids))

    def group_offsets(
        self, group_id: str, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """See `kohort.Admin.group_offsets`."""
        return self._call(self._admin.group_offsets(group_id, partitions))

    def group_lag(self, group_id: str) -> list[GroupOffset]:
        """See `kohort.Admin.group_lag`."""
        return self._call(self._admin.group_lag(group_id))

    def alter_group_offsets(self, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata | int]) -> None:
        """See `kohort.Admin.alter_group_offsets`."""
        self._call(self._admin.alter_group_offsets(group_id, offsets))

    def create_partitions(self, topic: str, total: int) -> None:
        """See `kohort.Admin.create_partitions`."""
        self._call(self._admin.create_partitions(topic, total))

    def describe_configs(self, kind: ConfigKind, name: str) -> dict[str, ConfigValue]:
        """See `kohort.Admin.describe_configs`."""
        return self._call(self._admin.describe_configs(kind, name))

    def alter_configs(self, kind: ConfigKind, name: str, changes: Mapping[str, str | None]) -> None:
        """See `kohort.Admin.alter_configs`."""
        self._call(self._admin.alter_configs(kind, name, changes))

    def delete_groups(self, group_ids: Iterable[str]) -> None:
        """See `kohort.Admin.delete_groups`."""
        self._call(self._admin.delete_groups(group_ids))

    def remove_members(self, group_id: str, members: Iterable[str], *, instances: Iterable[str] = ()) -> None:
        """See `kohort.Admin.remove_members`."""
        self._call(self._admin.remove_members(group_id, members, instances=instances))

    def remove_all_members(self, group_id: str) -> tuple[MemberDescription, ...]:
        """See `kohort.Admin.remove_all_members`."""
        return self._call(self._admin.remove_all_members(group_id))

    def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """See `kohort.Admin.delete_records`."""
        return self._call(self._admin.delete_records(before))

    def describe_log_dirs(self, topics: Collection[str] | None = None) -> list[LogDirectory]:
        """See `kohort.Admin.describe_log_dirs`."""
        return self._call(self._admin.describe_log_dirs(topics))

    def delete_group_offsets(self, group_id: str, partitions: Collection[TopicPartition]) -> None:
        """See `kohort.Admin.delete_group_offsets`."""
        self._call(self._admin.delete_group_offsets(group_id, partitions))

    def close(self) -> None:
        """Closing twice is fine."""
        if self._stopped:
            return
        try:
            self._call(self._admin.close())
        finally:
            self._stop()


async def _made(make: Callable[[], _T]) -> _T:
    return make()
