"""Watch a running cluster: its log as a stream, its groups as they are described, and its ends as samples."""

import asyncio
from collections.abc import Coroutine, Mapping
from types import TracebackType
from typing import Any, Self

from kohort.client import KafkaError
from kohort.model import Millis
from kohort.watch.live import Live, SourceKind
from kohort.watch.source.clients import DENIED, admin, clock, cluster, sentence
from kohort.watch.source.dating import LagDater
from kohort.watch.source.describing import Describer
from kohort.watch.source.ends import EndsSampler
from kohort.watch.source.following import LogFollower
from kohort.watch.source.held import HeldLog
from kohort.watch.source.journal import JournalSource
from kohort.watch.source.log_stream import OFFSETS_TOPIC, Ends, LogStream
from kohort.watch.source.offsets import OffsetQuestions
from kohort.watch.source.polling import Poller
from kohort.watch.source.states import RebalancingStates
from kohort.watch.source.telemetry import TelemetrySource
from kohort.watch.source.unread import FirstUnread

_CHECK_S = 5.0
"""Interval between checks whether the log is followed."""
_ABSENT_S = 1.0
"""Interval between questions for a log that does not exist yet, because no group ever did."""
_JOURNAL_S = 15.0
"""Longest time for which the start waits for the journal of rebalances."""
_FETCHED_S = 2.0
"""Time within which a broker answers a fetch of a log that may not be read. A shorter time proves nothing."""
_MOST_PAUSE_S = 30.0
_READ_WITHIN_MS: Millis = 5_000
"""Time within which a record of the log is read while the source follows it, for differences of clocks as well."""

_JOURNAL = "the journal"
_LIST = "the list of groups"

NO_LOG = (
    f"Rebalances and times of commits need the ACLs Read and Describe on the topic {OFFSETS_TOPIC}, which are denied."
)
NO_GROUPS = "A cluster lists only groups that you may describe: others need the ACL Describe on the group."


class Watching:
    """Source of a running cluster. While it is open, it tells `live` what happens.

    Use it as an async context manager. It survives failures of brokers: then the state of its source
    is `failed`, with the reason, until the cluster answers again.
    """

    def __init__(
        self,
        options: Mapping[str, Any],
        *,
        history_ms: Millis,
        live: Live | None = None,
        sampling_ms: Millis = 1_000,
        polling_ms: Millis = 5_000,
        permission_ms: Millis = 30_000,
        held_ms: Millis = 60_000,
        log_topic: str = OFFSETS_TOPIC,
    ) -> None:
        """Create the source.

        - `options`: Options of the client, such as bootstrap_servers. Those of Consumer and Admin
          may be mixed.
        - `history_ms`: Age of the history to read first; 0 starts at the end.
        - `live`: State to which to report (default: a new one).
        - `sampling_ms`: Interval between samples of end offsets.
        - `polling_ms`: Interval between descriptions of all groups while the log may not be read.
        - `permission_ms`: Interval between attempts to read it nevertheless.
        - `held_ms`: Time after which an open transaction in the log is reported as a problem.
        - `log_topic`: Topic with the log of the groups, if it is a copy.
        """
        self.live = Live() if live is None else live
        self.live.history_from = max(0, clock() - history_ms) if history_ms else None
        self._sampling_s = sampling_ms / 1000
        self._polling_s = polling_ms / 1000
        self._permission_s = permission_ms / 1000
        self._admin = admin(options)
        self._stream = LogStream(log_topic, options, self._admin)
        self._cluster = cluster(options)
        self._follower = LogFollower(self._stream, self.live, self._cluster)
        self._describer = Describer(self._admin, self.live, self._stream, self._follower)
        self._held = HeldLog(self._admin, self.live, held_ms)
        self._unread = FirstUnread(options)
        questions = OffsetQuestions(self._cluster, self.live)
        self._ends = EndsSampler(questions, LagDater(questions, self._unread, self.live), self.live)
        self._states = RebalancingStates(self._cluster, self.live)
        self._telemetry = TelemetrySource(options, self._admin, self.live)
        self._journal = JournalSource(options, self._admin, self.live)
        self._journal_from = self.live.history_from
        self._groups_known = asyncio.Event()
        """Set when the groups are known, so that the journal can be read."""
        self._started = asyncio.Event()
        self._ready = False
        self._described = False
        self._asked_again_at = 0.0
        self._problem: KafkaError | None = None
        self._failures = 0
        self._news = asyncio.Event()
        """Set when `caught_up` must look again."""
        self._task: asyncio.Task[None] | None = None
        self._user: asyncio.Task[Any] | None = None

    async def __aenter__(self) -> Self:
        self._user = asyncio.current_task()
        self._task = asyncio.create_task(self._run(), name="kohort-watching")
        self._task.add_done_callback(self._ended)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._task is not None and self._user is not None
        broken = self._task.done()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        try:
            await self._stream.close()
            await self._telemetry.close()
            await self._journal.close()
        finally:
            await self._ends.close()
            await self._unread.close()
            await self._cluster.close()
            await self._admin.close()
        if broken:
            self._user.uncancel()
            self._task.result()  # raises

    def _ended(self, task: asyncio.Task[None]) -> None:
        """End the user's block if the source broke by an error of this program."""
        if not task.cancelled() and self._user is not None:
            self._user.cancel()

    async def caught_up(self) -> None:
        """Wait until the history is read, the groups are described, and lags are known.

        Raises the KafkaError of the first attempt that fails meanwhile. The source goes on trying;
        call it again to wait on.
        """
        while not self._ready:
            if self._problem is not None:
                problem, self._problem = self._problem, None
                raise problem
            self._news.clear()
            await self._news.wait()

    # -- by the log

    async def _run(self) -> None:
        await _until_first_ends(self._watch_groups(), self._telemetry.run(), self._read_journal())

    async def _read_journal(self) -> None:
        await self._groups_known.wait()
        await self._journal.run(self._journal_from)

    async def _watch_groups(self) -> None:
        while True:
            await _until_first_ends(self._follow(), self._check(), self._look())
            await _until_first_ends(self._await_permission(), self._poll())

    async def _follow(self) -> None:
        """Read the log until that is forbidden."""
        self.live.source(SourceKind.LOG, "loading", clock())
        failures = 0
        while True:
            try:
                if self._started.is_set():
                    await self._follower.step()
                # A log that did not exist is read from its beginning.
                elif await self._stream.open(0 if self._ready else self.live.history_from):
                    self._started.set()
                else:
                    self._groups_known.set()
                    self._caught_up()
                    await asyncio.sleep(_ABSENT_S)
                failures = 0
            except KafkaError as problem:
                if problem.code in DENIED:
                    return
                failures += 1
                self._failed(problem)
                await asyncio.sleep(_pause(0.5, failures))

    async def _look(self) -> None:
        """Describe the groups once, then sample the ends, for ever."""
        await self._started.wait()
        failures = 0
        while True:
            try:
                if not self._described:
                    await self._follower.reach(await self._stream.ends())
                await self._look_once()
                failures = 0
            except KafkaError as problem:
                failures += 1
                self._failed(problem)
            await asyncio.sleep(_pause(self._sampling_s, failures))

    async def _look_once(self) -> None:
        if not self._described:
            await self._describer.describe_all()
            await self._follower.name_again()
            self._described = True
            self._asked_again_at = asyncio.get_running_loop().time()
        began = clock()
        await self._ends.sample()
        await self._states.look()
        self.live.poll_ms = clock() - began
        await self._ask_again()
        if not self._ready:
            await self._read_known_journal()
            self._caught_up()
        elif self.live.sources[SourceKind.LOG].state == "following":
            self.live.expire(clock() - _READ_WITHIN_MS, clock())

    async def _read_known_journal(self) -> None:
        """Read what the journal has of the history, if there is one and its brokers hand it out."""
        self._groups_known.set()
        try:
            async with asyncio.timeout(_JOURNAL_S):
                await self._journal.caught_up()
        except TimeoutError:
            late = "The journal of rebalances is still being read, so causes may be missing."
            self.live.problem(late, clock(), about=_JOURNAL)

    async def _ask_again(self) -> None:
        """Ask again for what could not be read or described: a permission may be granted meanwhile."""
        if _JOURNAL in self.live.unsolved and self._journal.is_caught_up:
            self.live.solved(_JOURNAL, clock())
        now = asyncio.get_running_loop().time()
        if now - self._asked_again_at < self._permission_s:
            return
        self._asked_again_at = now
        await self._follower.name_again()
        await self._describer.describe_denied()

    async def _check(self) -> None:
        """Ask for the log's ends now and then: an idle stream looks like one whose brokers do not answer."""
        await self._started.wait()
        while True:
            failures = self._failures
            before, positions = await self._asked(), self._stream.positions()
            await asyncio.sleep(_CHECK_S)
            if before is not None and self._stream.behind(before) and self._stream.positions() == positions:
                detail = f"{OFFSETS_TOPIC} has records that its brokers do not hand out. See their logs."
                self.live.source(SourceKind.LOG, "failed", clock(), detail)
            elif before is not None and self._ready and self._failures == failures:
                self.live.source(SourceKind.LOG, "following", clock())

    async def _asked(self) -> Ends | None:
        try:
            await self._stream.add_partitions()
            ends = await self._stream.ends()
            await self._held.look(ends)
            return ends
        except KafkaError as problem:
            if problem.code not in DENIED:  # `_follow` will hear the same
                self._failed(problem)
            return None

    # -- by the admin APIs

    async def _await_permission(self) -> None:
        """Wait until the log may be read."""
        self.live.history_from = None
        while True:
            self.live.source(SourceKind.LOG, "forbidden", clock(), NO_LOG)
            await asyncio.sleep(self._permission_s)
            try:
                if await self._stream.open(None):
                    await self._stream.probe(_FETCHED_S)
                    self._started.set()
            except KafkaError as problem:
                if problem.code not in DENIED:
                    self._failed(problem)
                continue
            self.live.source(SourceKind.ADMIN, "off", clock())
            self.live.solved(_LIST, clock())
            self._described = False  # the log does not tell what changed since the last poll
            return

    async def _poll(self) -> None:
        """Describe all groups periodically, and sample the ends in between."""
        poller, failures = Poller(self._cluster, self.live), 0
        poll_at = 0.0
        loop = asyncio.get_running_loop()
        while True:
            try:
                began, polls = clock(), loop.time() >= poll_at
                if polls:
                    poll_at = loop.time() + self._polling_s
                    await poller.poll()
                    self.live.source(SourceKind.ADMIN, "following", clock())
                    if self.live.groups:
                        self.live.solved(_LIST, clock())
                    else:
                        self.live.problem(NO_GROUPS, clock(), about=_LIST)
                await self._ends.sample()
                if polls:
                    self.live.poll_ms = clock() - began
                if not self._ready:
                    await self._read_known_journal()
                    self._caught_up()
                failures = 0
            except KafkaError as problem:
                failures += 1
                self._failed(problem, SourceKind.ADMIN)
            await asyncio.sleep(_pause(min(self._sampling_s, self._polling_s), failures))

    # -- states

    def _caught_up(self) -> None:
        self._ready = True
        if self.live.sources[SourceKind.LOG].state != "forbidden":
            self.live.source(SourceKind.LOG, "following", clock())
        self._news.set()

    def _failed(self, problem: KafkaError, kind: SourceKind = SourceKind.LOG) -> None:
        self.live.source(kind, "failed", clock(), sentence(problem))
        self._problem = problem
        self._failures += 1
        self._news.set()


def _pause(usual: float, failures: int) -> float:
    return min(_MOST_PAUSE_S, usual * float(2**failures))


async def _until_first_ends(first: Coroutine[Any, Any, None], *others: Coroutine[Any, Any, None]) -> None:
    """Run all until the first ends, or any fails."""
    async with asyncio.TaskGroup() as tasks:
        rest = [tasks.create_task(other) for other in others]
        await first
        for task in rest:
            task.cancel()
