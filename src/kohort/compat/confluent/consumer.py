"""Consumer with the methods of confluent-kafka's, over `kohort.blocking.Consumer`."""

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

from kohort.client import (
    AuthenticationError,
    ClosedError,
    ConcurrentUseError,
    ConfigError,
    ConsumerRecord,
    KohortError,
    OffsetOutOfRangeError,
    Partitions,
)
from kohort.compat.confluent.clients import OneRecordConsumer
from kohort.compat.confluent.cluster_metadata import ClusterClient
from kohort.compat.confluent.configuration import read_configuration
from kohort.compat.confluent.errors import KafkaError, KafkaException, cluster_error, error_of, not_supported, raising
from kohort.compat.confluent.offsets import OffsetStore, chosen_offsets, with_found_offset
from kohort.compat.confluent.statistics import Statistics
from kohort.compat.confluent.subscriptions import NamedTopics, wanted_topics
from kohort.compat.confluent.values import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    OFFSET_STORED,
    ConsumedMessage,
    Message,
    TopicPartition,
    partition_of,
    partitions_of,
    with_position,
)
from kohort.model import TopicPartition as Partition

Callback = Callable[["Consumer", list[TopicPartition]], Any]

_CLOSED = "Consumer closed"
_MOST_AT_ONCE = 1_000_000
_WAIT_S = 1.0
"""Longest wait for a message before a `poll` looks for commits that are due, and for errors."""
_EVENT_WAIT_S = 0.1
"""The same while the end of a partition, a statistic or the result of a commit may be due."""
_REPEATED_S = 1.0
"""Minimum time between two equal errors."""


class Consumer(ClusterClient):
    """Consumer of a group or of assigned partitions.

    Callbacks run in the thread that calls `poll`, `consume` or `close`. Only one thread at a time
    may use it.
    """

    def __init__(self, *configuration: Any, **options: Any) -> None:
        super().__init__(read_configuration(configuration, options, "consumer"))
        self._statistics = Statistics(self._configuration, self._adjust_statistics)
        with raising():
            self._client = OneRecordConsumer(self._delivered, **self._configuration.kohort, **self._statistics.options)
        self._intercepts = self._client.intercepts
        self._messages: Iterator[Message] = iter(())
        """Messages that are here."""
        self._offsets = OffsetStore(self._client, self._configuration)
        self._subscribed = False
        self._named = NamedTopics()
        self._in_callback = False
        self._starts: dict[Partition, int] = {}
        """Offsets that `assign` was given."""
        self._ends: dict[Partition, int] = {}
        """Positions at which the end of a partition was reported."""
        self._ends_at = 0.0
        """Time at which the ends of partitions are looked for, even if there are further messages of others."""
        self._last_error = ("", 0.0)

    # -- subscription and assignment

    def subscribe(
        self,
        topics: list[str],
        on_assign: Callback | None = None,
        on_revoke: Callback | None = None,
        on_lost: Callback | None = None,
    ) -> None:
        """Subscribe to topics in place of the previous subscription. A name that begins with ^ is an expression."""
        chosen = wanted_topics(topics)
        if any(callback is not None and not callable(callback) for callback in (on_assign, on_revoke, on_lost)):
            raise TypeError("a callback is not callable")
        with raising(_CLOSED):
            self._client.subscribe(
                chosen,
                on_assigned=lambda partitions: self._assigned(partitions, on_assign),
                on_revoked=lambda partitions: self._released(partitions, on_revoke, lost=False),
                on_lost=lambda partitions: self._released(partitions, on_lost or on_revoke, lost=True),
            )
        self._subscribed = True
        self._named.subscribe(chosen if isinstance(chosen, list) else ())

    def unsubscribe(self) -> None:
        """Release all partitions and leave the group."""
        with raising(_CLOSED):
            self._client.unsubscribe()
        self._subscribed = False
        self._named.subscribe(())
        self._offsets.keep_only(())

    def assign(self, partitions: list[TopicPartition]) -> None:
        """Read exactly these partitions, from their offsets if they have some.

        In on_assign it sets only the offsets: the group decides which partitions are assigned.
        """
        wanted = partitions_of(partitions)
        with raising(_CLOSED):
            if not self._in_callback:
                self._client.assign(wanted)
                self._offsets.keep_only(())
            self._start(partitions)

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        """Add partitions. In on_assign it sets only their offsets."""
        wanted = partitions_of(partitions)
        with raising(_CLOSED):
            if not self._in_callback:
                self._client.incremental_assign(wanted)
            self._start(partitions)

    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        """Remove partitions. In on_revoke and on_lost it has no effect, because they are removed anyway."""
        gone = partitions_of(partitions)
        if not self._in_callback:
            with raising(_CLOSED):
                self._client.incremental_unassign(gone)
            self._offsets.forget(gone)

    def unassign(self) -> None:
        """Remove all partitions. In on_revoke and on_lost it has no effect, because they are removed anyway."""
        if not self._in_callback:
            with raising(_CLOSED):
                self._client.assign([])
            self._offsets.keep_only(())

    def assignment(self) -> list[TopicPartition]:
        """Return the assigned partitions, sorted."""
        with raising(_CLOSED):
            self._check_open()
            return [
                TopicPartition(*each, self._starts.get(each, OFFSET_INVALID))
                for each in sorted(self._client.assignment)
            ]

    def _start(self, partitions: Sequence[TopicPartition]) -> None:
        for each in partitions:
            self._starts[partition_of(each)] = each.offset
            if each.offset not in (OFFSET_STORED, OFFSET_INVALID):
                self._seek(each)

    def _seek(self, to: TopicPartition) -> None:
        partition = partition_of(to)
        self._ends.pop(partition, None)
        if to.offset >= 0:
            self._client.seek(partition, to.offset)
        elif to.offset == OFFSET_BEGINNING:
            self._client.seek_to_beginning([partition])
        elif to.offset == OFFSET_END:
            self._client.seek_to_end([partition])
        else:
            raise not_supported(f"offset {to.offset}")

    # -- callbacks of rebalances

    def _assigned(self, partitions: Partitions, callback: Callback | None) -> None:
        self._offsets.forget(partitions)
        for partition in partitions:
            self._ends.pop(partition, None)
            self._starts.pop(partition, None)
        self._call_back(callback, partitions)

    def _released(self, partitions: Partitions, callback: Callback | None, *, lost: bool) -> None:
        self._call_back(callback, partitions)
        if not lost:
            self._offsets.commit_stored(partitions)
        self._offsets.forget(partitions)

    def _call_back(self, callback: Callback | None, partitions: Partitions) -> None:
        if callback is None:
            return
        self._in_callback = True
        try:
            callback(self, [TopicPartition(*partition) for partition in sorted(partitions)])
        finally:
            self._in_callback = False

    # -- messages

    def poll(self, timeout: float | None = -1) -> Message | None:
        """Return the next message, error or event, or None after `timeout` seconds. Call the callbacks meanwhile."""
        if self._intercepts:
            self._client.asked(1)
            message = self._poll(timeout)
            return None if message is None else next(iter(self._intercepted([message])), None)
        if time.monotonic() < self._client.poll_at:
            for ready in self._messages:
                return ready
        return self._poll(timeout)

    def _poll(self, timeout: float | None) -> Message | None:
        if time.monotonic() < self._client.poll_at:
            for ready in self._messages:
                return ready
        self._check_open()
        deadline = None if timeout is None or timeout < 0 else time.monotonic() + timeout
        while True:
            left = _WAIT_S if deadline is None else min(_WAIT_S, max(0.0, deadline - time.monotonic()))
            if (message := self._next(left)) is not None:
                return message
            if deadline is not None and time.monotonic() >= deadline:
                return None

    def consume(self, num_messages: int = 1, timeout: float | None = -1) -> list[Message]:
        """Return up to `num_messages` messages; fewer after `timeout` seconds."""
        if not 0 <= num_messages <= _MOST_AT_ONCE:
            raise ValueError("num_messages must be between 0 and 1000000 (1M)")
        deadline = None if timeout is None or timeout < 0 else time.monotonic() + timeout
        if self._intercepts:
            self._client.asked(num_messages)
        messages: list[Message] = []
        while len(messages) < num_messages:
            left = -1.0 if deadline is None else max(0.0, deadline - time.monotonic())
            if (message := self._poll(left)) is None:
                break
            messages.append(message)
            messages += islice(self._messages, num_messages - len(messages))
        return self._intercepted(messages) if self._intercepts else messages

    def _intercepted(self, messages: list[Message]) -> list[Message]:
        """Pass messages to the interceptors, except for errors and events."""
        records = [message.record for message in messages if isinstance(message, ConsumedMessage)]
        others = [message for message in messages if not isinstance(message, ConsumedMessage)]
        return [*map(ConsumedMessage, self._client.seen(records)), *others]

    def _next(self, wait_s: float) -> Message | None:
        self._serve()
        if not self._subscribed and not self._client.assignment:
            time.sleep(min(wait_s, _EVENT_WAIT_S))
            return None
        ends_due = self._configuration.partition_eof and time.monotonic() > self._ends_at
        if ends_due and (end := self._end_of_partition()) is not None:
            return end
        try:
            records = self._client.next_records(min(wait_s, _EVENT_WAIT_S) if self._events_due() else wait_s)
        except ClosedError:
            raise RuntimeError(_CLOSED) from None
        except (ConfigError, ConcurrentUseError) as problem:
            raise KafkaException(error_of(problem)) from problem
        except KohortError as problem:
            return self._failed(problem, wait_s)
        if records is not None:
            self._messages = map(ConsumedMessage, records)
            return next(self._messages)
        self._serve()
        if (rejected := self._named.next_error(self._client.rejected_topics())) is not None:
            return rejected
        return self._end_of_partition() if self._configuration.partition_eof else None

    def _delivered(self, record: ConsumerRecord) -> None:
        self._offsets.deliver(Partition(record.topic, record.partition), record.offset, record.leader_epoch)

    def _end_of_partition(self) -> Message | None:
        self._ends_at = time.monotonic() + _EVENT_WAIT_S
        for partition, position in self._client.ends_reached().items():
            if self._ends.get(partition) != position and partition not in self._client.paused:
                self._ends[partition] = position
                return Message(*partition, position, error=KafkaError(KafkaError._PARTITION_EOF))
        return None

    def _failed(self, problem: KohortError, wait_s: float) -> Message | None:
        """Return the error as a message, unless it is the last one again or error_cb receives it."""
        text, now = str(problem), time.monotonic()
        if self._last_error[0] == text and now - self._last_error[1] < _REPEATED_S:
            time.sleep(min(wait_s, _EVENT_WAIT_S))
            return None
        self._last_error = (text, now)
        error = error_of(problem)
        if isinstance(problem, AuthenticationError) and self._configuration.error_cb is not None:
            self._configuration.error_cb(error)
            return None
        if isinstance(problem, OffsetOutOfRangeError):
            return Message(*problem.partition, problem.position, error=error)
        return Message(error=error)

    def _events_due(self) -> bool:
        configuration = self._configuration
        return configuration.partition_eof or self._statistics.wanted or configuration.on_commit is not None

    def _adjust_statistics(self, document: dict[str, Any]) -> None:
        """Enter the offsets that the application stored itself."""
        if self._configuration.store_offsets:
            return
        stored = self._offsets.stored()
        for name, topic in document["topics"].items():
            for number, partition in topic["partitions"].items():
                at = stored.get(Partition(name, int(number)))
                offset = OFFSET_INVALID if at is None else at.offset
                end = partition["ls_offset" if self._reads_committed else "hi_offset"]
                partition["stored_offset"] = offset
                partition["stored_leader_epoch"] = -1 if at is None or at.leader_epoch is None else at.leader_epoch
                partition["consumer_lag_stored"] = -1 if at is None or end < 0 else max(0, end - offset)

    @property
    def _reads_committed(self) -> bool:
        return bool(self._configuration.kohort["isolation_level"] == "read_committed")

    def _serve(self) -> None:
        """Call the callbacks that are due, other than those of rebalances."""
        self._offsets.serve()
        self._statistics.serve()
        problem = self._client.problem
        if problem is not None and self._configuration.error_cb is not None and self._last_error[0] != str(problem):
            self._last_error = (str(problem), time.monotonic())
            self._configuration.error_cb(cluster_error(problem))

    # -- offsets

    def commit(
        self,
        message: Message | None = None,
        offsets: list[TopicPartition] | None = None,
        asynchronous: bool = True,
    ) -> list[TopicPartition] | None:
        """Commit the offset after a message, or these offsets, or those of the messages that were received."""
        self._check_open()
        chosen = chosen_offsets(message, offsets)
        if chosen is None:
            chosen = self._offsets.stored()
        if not chosen:
            if asynchronous:
                return None
            raise KafkaException(KafkaError(KafkaError._NO_OFFSET))
        if not asynchronous:
            return self._offsets.commit(chosen)
        self._offsets.commit_soon(chosen)
        return None

    def store_offsets(self, message: Message | None = None, offsets: list[TopicPartition] | None = None) -> None:
        """Store offsets for the next commit. Requires enable.auto.offset.store=False."""
        self._check_open()
        chosen = chosen_offsets(message, offsets)
        if chosen is None:
            raise ValueError("expected either message or offsets")
        self._offsets.store(chosen)

    def committed(self, partitions: list[TopicPartition], timeout: float | None = None) -> list[TopicPartition]:
        """Return the committed offsets of the group; OFFSET_INVALID where there is none."""
        wanted = partitions_of(partitions)
        with raising(_CLOSED), self._client.within(timeout):
            found = self._client.committed(wanted)
        return [with_position(partition, found[partition]) for partition in wanted]

    def position(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Return the offset after the last message received; OFFSET_INVALID before the first."""
        self._check_open()
        return [self._offsets.position(each) for each in partitions_of(partitions)]

    def seek(self, partition: TopicPartition) -> None:
        """Continue an assigned partition from an offset."""
        with raising(_CLOSED):
            if partition_of(partition) not in self._client.assignment:
                reason = f"{partition.topic} [{partition.partition}] is not assigned to this consumer"
                raise KafkaException(KafkaError(KafkaError._STATE, reason))
            self._seek(partition)

    def pause(self, partitions: list[TopicPartition]) -> None:
        """Stop returning messages of these partitions, as far as they are assigned."""
        with raising(_CLOSED):
            self._client.pause(set(partitions_of(partitions)) & self._client.assignment)

    def resume(self, partitions: list[TopicPartition]) -> None:
        """Return messages of these partitions again."""
        with raising(_CLOSED):
            self._client.resume(set(partitions_of(partitions)) & self._client.assignment)

    def get_watermark_offsets(
        self, partition: TopicPartition, timeout: float | None = None, cached: bool = False
    ) -> tuple[int, int]:
        """Return the first offset and the offset after the last message. Cached ones are those of the last fetch."""
        wanted = partition_of(partition)
        with raising(_CLOSED), self._client.within(timeout):
            if cached:
                high = self._client.highwater(wanted) if wanted in self._client.assignment else None
                return OFFSET_INVALID, OFFSET_INVALID if high is None else high
            return self._client.beginning_offsets([wanted])[wanted], self._client.end_offsets([wanted])[wanted]

    def offsets_for_times(self, partitions: list[TopicPartition], timeout: float | None = None) -> list[TopicPartition]:
        """Return the first offset at or after the time in each partition's `offset`; OFFSET_END if all are older."""
        times = dict(zip(partitions_of(partitions), (each.offset for each in partitions), strict=True))
        with raising(_CLOSED), self._client.within(timeout):
            found = self._client.offsets_for_times(times)
        return [with_found_offset(each, found[each]) for each in times]

    # -- cluster

    def memberid(self) -> str | None:
        """Return the id of this member, or None before it has joined its group."""
        self._check_open()
        return self._client.member_id or None

    def consumer_group_metadata(self) -> object:
        """Return the group and this member, for `Producer.send_offsets_to_transaction`."""
        with raising(_CLOSED):
            return self._client.group_metadata()

    def close(self) -> None:
        """Commit if enabled, release all partitions and leave the group. Closing twice is allowed."""
        with raising(_CLOSED):
            if self._in_callback or self._client.closed:
                self._client.close()
                return
            if not self._subscribed:
                self._offsets.commit_stored()
            self._offsets.finish()
            self._client.close()
            self._close_admin()

    def _check_open(self) -> None:
        if self._client.closed:
            raise RuntimeError(_CLOSED)
