"""Records in: as a member of a group, or of partitions that the application names."""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from typing import Any, Self

from kohort.client.closing import undisturbed
from kohort.client.cluster import Cluster
from kohort.client.commits import Commits
from kohort.client.committed import committed_offsets
from kohort.client.driver import MemberDriver
from kohort.client.failures import ClosedError
from kohort.client.fetcher import Fetcher
from kohort.client.membership import PartitionsCallback, call_back, member_config
from kohort.client.offsets import FoundOffset, OffsetSpec, list_offsets
from kohort.client.options import ConsumerOptions, read_options
from kohort.client.partition import ConsumerRecord, PartitionState
from kohort.client.positioner import Positioner
from kohort.client.rebalances import Rebalances
from kohort.client.unread import Unread
from kohort.errors import ConfigError, KohortError
from kohort.member import OffsetAndMetadata, Phase, PollEnded, PollStarted
from kohort.member.callbacks import CallbackKind
from kohort.model import Millis, TopicPartition

_LEAVE_TIMEOUT = 30.0
_NO_GROUP = "group_id is missing: only a group has committed offsets."


class Consumer:
    """Use it as an async context manager, or close it. All methods belong to the event loop it was made in.

    async with Consumer("orders", bootstrap_servers="127.0.0.1:9092", group_id="billing") as consumer:
        async for record in consumer:
            ...

    Callbacks (plain or async) run inside `poll`, so never while the application works on records that it returned:
    a commit of what was processed, in `on_revoked`, makes each record count once. `on_lost` is told what is gone
    already (default: `on_revoked`).
    """

    def __init__(
        self,
        *topics: str,
        on_assigned: PartitionsCallback | None = None,
        on_revoked: PartitionsCallback | None = None,
        on_lost: PartitionsCallback | None = None,
        **options: Any,
    ) -> None:
        self._options = read_options(ConsumerOptions, options)
        self.cluster = Cluster(self._options)
        """What it knows of the brokers, to look at."""
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()
        self._fetcher = Fetcher(self.cluster, self._options, self._news.set, self._find_positions)
        self._positioner = Positioner(self.cluster, self._options, self._fetcher, self._news.set)
        self._driver: MemberDriver | None = None
        self._topics: frozenset[str] = frozenset()
        self._callbacks: dict[CallbackKind, PartitionsCallback | None] = {}
        self._rebalances = Rebalances(self._carry_out, self._carried_out, self._news.set)
        self._commits = Commits(self.cluster, self._options, self._to_commit)
        self._unread = Unread()
        self._polling = False
        self._leaving = False
        self._close_asked = False
        """By a callback: close when it is done."""
        self._closed = False
        if topics:
            self.subscribe(topics, on_assigned=on_assigned, on_revoked=on_revoked, on_lost=on_lost)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    # -- what to consume

    def subscribe(
        self,
        topics: Iterable[str],
        *,
        on_assigned: PartitionsCallback | None = None,
        on_revoked: PartitionsCallback | None = None,
        on_lost: PartitionsCallback | None = None,
    ) -> None:
        """Share these topics with the other members of the group, instead of what was subscribed before."""
        self._check_open()
        wanted = frozenset([topics] if isinstance(topics, str) else topics)
        if not wanted:
            raise ConfigError("subscribe needs at least one topic; unsubscribe to want none.")
        if self._driver is None:
            if self._fetcher.states:
                raise KohortError("partitions were assigned by hand: a consumer does either that or subscribe.")
            self._driver = self._commits.driver = MemberDriver(
                self.cluster, member_config(self._options), self._rebalances.begin, self._member_changed
            )
        self._topics = wanted
        self._callbacks = {
            CallbackKind.ASSIGN: on_assigned,
            CallbackKind.REVOKE: on_revoked,
            CallbackKind.LOST: on_lost or on_revoked,
        }
        self._driver.subscribe(wanted)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Consume exactly these partitions, without being a member. Those kept keep their positions."""
        self._check_open()
        if self._driver is not None:
            raise KohortError("the consumer subscribed: it does either that or assign; unsubscribe first.")
        wanted = {TopicPartition(*partition) for partition in partitions}
        self._drop(self._fetcher.states.keys() - wanted)
        self._fetcher.add(wanted - self._fetcher.states.keys())
        self._positioner.go_on()

    async def unsubscribe(self) -> None:
        """Give everything up (`on_revoked` runs) and leave the group; or forget what was assigned by hand."""
        if self._rebalances.inside:
            raise KohortError("a callback cannot unsubscribe its consumer, which would wait for it: do so after poll.")
        if self._driver is not None:
            await self._leave("the application unsubscribed", _LEAVE_TIMEOUT)
            await self._driver.close()
            self._driver = self._commits.driver = None
        self._topics = frozenset()
        self._drop(list(self._fetcher.states))
        await self._close_if_asked()

    @property
    def subscription(self) -> frozenset[str]:
        """The topics that it subscribed to."""
        return self._topics

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """What it consumes now."""
        return frozenset(self._fetcher.states)

    @property
    def member_id(self) -> str:
        """As the coordinator named it; "" for none."""
        return self._driver.member.member_id if self._driver else ""

    @property
    def generation(self) -> int | None:
        """None while the group does not count this consumer."""
        return self._driver.member.generation if self._driver else None

    @property
    def state(self) -> Phase:
        """Where it stands in its group."""
        return self._driver.member.phase if self._driver else Phase.UNSUBSCRIBED

    # -- records

    async def poll(self, max_records: int | None = None, timeout: float = 1.0) -> list[ConsumerRecord]:  # noqa: ASYNC109
        """Up to `max_records` (default: max_poll_records) records; an empty list after `timeout` seconds.

        Must be called again within max_poll_interval_ms. Callbacks run in it, which may take longer than `timeout`;
        what they raise is raised here. Cancelling it loses no record.
        """
        self._check_open()
        if self._polling:
            raise KohortError("poll is already running in another task.")
        self._polling = True
        driver = self._driver
        if driver is not None:
            driver.handle(PollStarted())
        try:
            return await self._poll(max_records or self._options.max_poll_records, timeout)
        finally:
            self._polling = False
            if driver is not None:
                driver.handle(PollEnded())

    async def _poll(self, most: int, timeout: float) -> list[ConsumerRecord]:  # noqa: ASYNC109
        deadline = self._loop.time() + timeout
        while True:
            await self._rebalances.run_pending()
            await self._close_if_asked()
            if self._closed:
                return []
            self._raise_errors()
            self._commits.commit_if_due()
            records = self._take(most)
            if records:
                return records
            left = deadline - self._loop.time()
            if left <= 0:
                return []
            self._news.clear()
            try:
                async with asyncio.timeout(left):
                    await self._news.wait()
            except TimeoutError:
                pass

    def _take(self, most: int) -> list[ConsumerRecord]:
        return self._unread.take(most) if self._unread else self._fetcher.take(most)

    def __aiter__(self) -> AsyncIterator[ConsumerRecord]:
        return self

    async def __anext__(self) -> ConsumerRecord:
        """The next record, however long it takes. Ends when the consumer is closed."""
        while not self._unread:
            if self._closed:
                raise StopAsyncIteration
            await self.read_ahead()
        return self._unread.pop()

    async def read_ahead(self) -> None:
        """Poll for what `next_unread` hands out."""
        if not self._closed:
            self._unread.extend(await self.poll(timeout=60.0))

    def next_unread(self) -> ConsumerRecord | None:
        """The next of what was read ahead, which counts as handed out from now on; None for none."""
        return self._unread.pop() if self._unread else None

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Hand out nothing of these until `resume`; they stay assigned."""
        for partition in partitions:
            self._state(partition).paused = True

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Hand out their records again."""
        for partition in partitions:
            self._state(partition).paused = False
        self._fetcher.go_on()
        self._news.set()

    @property
    def paused(self) -> frozenset[TopicPartition]:
        """The partitions that are paused."""
        return frozenset(partition for partition, state in self._fetcher.states.items() if state.paused)

    # -- positions

    async def position(self, partition: TopicPartition) -> int:
        """The offset of the next record that it hands out; waits until that is known."""
        state = self._state(partition)
        while state.position is None:
            self._raise_errors()
            await self._positioner.settled()
            self._state(partition)
        return self._handed_out(state)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go on from that offset."""
        if offset < 0:
            raise ConfigError(f"there is no offset {offset}: offsets begin with 0.")
        self._unread.forget({TopicPartition(*partition)})
        self._state(partition).move(offset)
        self._fetcher.go_on()

    def seek_to_beginning(self, partitions: Collection[TopicPartition] = ()) -> None:
        """Go on from the first offset of these, or of all that is assigned."""
        self._reset(partitions, OffsetSpec.EARLIEST)

    def seek_to_end(self, partitions: Collection[TopicPartition] = ()) -> None:
        """Go on from the end of these, or of all that is assigned."""
        self._reset(partitions, OffsetSpec.LATEST)

    def _reset(self, partitions: Collection[TopicPartition], spec: OffsetSpec) -> None:
        wanted = {TopicPartition(*partition) for partition in partitions} or set(self._fetcher.states)
        self._unread.forget(wanted)
        for partition in wanted:
            self._state(partition).lose(spec)
        self._positioner.go_on()

    def positions(self) -> dict[TopicPartition, int]:
        """The known positions of all that is assigned: what `commit` commits."""
        return {
            partition: self._handed_out(state)
            for partition, state in self._fetcher.states.items()
            if state.position is not None
        }

    def lag(self, partition: TopicPartition) -> int | None:
        """Records between the position and the end as of the last fetch; None before that."""
        state = self._state(partition)
        if state.end is None or state.position is None:
            return None
        return max(0, state.end - self._handed_out(state))

    def _handed_out(self, state: PartitionState) -> int:
        assert state.position is not None
        unread = self._unread.first_offset(state.partition)
        return state.position if unread is None else unread

    # -- commits

    async def commit(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> None:
        """Commit these offsets, or the positions of all that is assigned, and wait until they are on disk.

        Raises CommitFailedError, which names the partitions that were refused.
        """
        self._check_open()
        if not self._options.group_id:
            raise ConfigError(_NO_GROUP)
        await self._commits.commit(offsets, timeout)

    def _to_commit(self) -> dict[TopicPartition, OffsetAndMetadata]:
        states = self._fetcher.states
        return {
            partition: OffsetAndMetadata(position, "", states[partition].leader_epoch)
            for partition, position in self.positions().items()
        }

    def commit_nowait(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None
    ) -> "asyncio.Task[None]":
        """As `commit`, without waiting; the task tells how it ended."""
        return self._commits.in_passing(self.commit(offsets))

    async def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed; None where nothing."""
        if not self._options.group_id:
            raise ConfigError(_NO_GROUP)
        return await committed_offsets(self.cluster, self._options.group_id, partitions)

    # -- offsets of the log

    async def beginning_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offset of each that can be read."""
        return await self._ends(partitions, OffsetSpec.EARLIEST)

    async def end_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset that the next record of each will have."""
        return await self._ends(partitions, OffsetSpec.LATEST)

    async def offsets_for_times(
        self, times: Mapping[TopicPartition, Millis]
    ) -> dict[TopicPartition, FoundOffset | None]:
        """The first record at or after each time; None where all are older."""
        return await list_offsets(self.cluster, times)

    async def _ends(self, partitions: Collection[TopicPartition], spec: OffsetSpec) -> dict[TopicPartition, int]:
        committed = self._options.isolation_level == "read_committed"
        found = await list_offsets(self.cluster, dict.fromkeys(partitions, spec), read_committed=committed)
        return {partition: one.offset for partition, one in found.items() if one is not None}

    async def partitions_for(self, topic: str) -> int:
        """How many partitions the topic has; 0 where it does not exist."""
        return (await self.cluster.refresh((topic,))).partitions(topic)

    # -- the end

    async def close(self, *, timeout: float = _LEAVE_TIMEOUT) -> None:  # noqa: ASYNC109
        """Commit (where auto commit is on), give everything up, leave, disconnect. Closing twice is fine.

        What the coordinator does not answer within `timeout` seconds is given up. Called by a callback, it is done
        when the callback is: by the poll that runs it.
        """
        if self._closed:
            return
        if self._rebalances.inside:
            self.close_after_callback()
            return
        self._closed = True
        self._news.set()
        try:
            if self._driver is not None:
                await self._leave("the consumer closes", timeout)
            else:
                self._commits.patience = min(self._commits.patience, timeout)
                await self._commits.commit_automatically()
        finally:
            await undisturbed(self._clean_up())
        self._rebalances.raise_error()

    def close_after_callback(self) -> None:
        """Close when the callback that runs is done."""
        self._close_asked = True

    async def _close_if_asked(self) -> None:
        if self._close_asked:
            await self.close()

    async def _clean_up(self) -> None:
        await self._commits.close()
        await self._rebalances.close()
        if self._driver is not None:
            await self._driver.close()
        await self._positioner.close()
        await self._fetcher.close()
        await self.cluster.close()

    async def _leave(self, reason: str, timeout: float) -> None:  # noqa: ASYNC109
        assert self._driver is not None
        self._leaving = True
        self._commits.patience = min(self._commits.patience, timeout)
        try:
            self._rebalances.start_at_once(True)
            await self._driver.leave(reason, int(timeout * 1000))
        finally:
            self._rebalances.start_at_once(False)
            self._leaving = False

    # -- rebalances

    async def _carry_out(self, kind: CallbackKind, partitions: frozenset[TopicPartition]) -> None:
        if kind is CallbackKind.ASSIGN:
            self._fetcher.add(partitions)
            self._positioner.go_on()
        try:
            if kind is CallbackKind.REVOKE:
                await self._commits.commit_automatically()
            await call_back(self._callbacks.get(kind), partitions)
        finally:
            if kind is not CallbackKind.ASSIGN:
                self._drop(partitions)

    def _carried_out(self) -> None:
        assert self._driver is not None
        self._driver.callback_done()

    def _member_changed(self) -> None:
        if self._driver is not None and self._driver.error is not None:
            self._news.set()

    def _raise_errors(self) -> None:
        self._rebalances.raise_error()
        if self._driver is not None and self._driver.error is not None:
            raise self._driver.error
        if self._positioner.error is not None:
            problem, self._positioner.error = self._positioner.error, None
            raise problem
        if self._fetcher.error is not None:
            refused, self._fetcher.error = self._fetcher.error, None
            raise refused

    # -- bookkeeping

    def _find_positions(self) -> None:
        self._positioner.go_on()

    def _state(self, partition: TopicPartition) -> PartitionState:
        try:
            return self._fetcher.states[TopicPartition(*partition)]
        except KeyError:
            raise KohortError(f"{TopicPartition(*partition)} is not assigned to this consumer.") from None

    def _drop(self, partitions: Iterable[TopicPartition]) -> None:
        gone = set(partitions)
        self._fetcher.remove(gone)
        self._unread.forget(gone)

    def _check_open(self) -> None:
        if self._closed and not self._leaving:
            raise ClosedError("the consumer is closed.")
