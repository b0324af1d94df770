"""`spark.readStream.format("kohort")` as a member of a consumer group, which assigns the partitions to read."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows

from kohort.errors import ConfigError, KohortError
from kohort.model import TopicPartition
from pyspark_kohort import checkpoint
from pyspark_kohort.member.ledger import GroupCommit
from pyspark_kohort.member.query_member import GroupSession
from pyspark_kohort.offsets import EARLIEST, Offset, narrowed, offset_from_json
from pyspark_kohort.options import OnLost, Options
from pyspark_kohort.source import Range, StreamReader, planned_ranges

_log = logging.getLogger(__name__)

_CLAIM_TIMEOUT_S = 10.0
"""Maximum wait for other members to commit, in seconds.

Queries commit as soon as they own a partition. Other members commit within their
auto.commit.interval.ms, 5 s by default.
"""


class MemberReader(StreamReader):
    """Reader of a query that is a member of a group.

    It joins when Spark first asks for offsets, not when it is created: Spark creates a second one to
    pickle it.
    """

    _session: GroupSession | None = None
    _known: frozenset[TopicPartition] = frozenset()
    _subscribed: Sequence[str] = ()
    _finished = False
    _location_checked = False
    _anew: frozenset[str] = frozenset()
    """Topics that were recreated since the query read them; they are read from their start."""

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        if self._finished:
            return start
        before = offset_from_json(start)
        self._check_location(start)
        session = self._joined(before)
        self._check_lost()
        self._look_again(session, before)
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        while True:
            begins = self._begins(session, session.boundary(before))
            ends = self._ends_of(begins)
            if cut_off := self._cut_off(begins, before):
                session.rewind(cut_off)
                begins |= cut_off
            elif self._too_few(begins, ends):
                ends = begins
            end = session.plan(before, ends, rows)
            self._reached = {tp: at for tp, at in end.positions.items() if tp in begins}
            if end is not before:
                return end.to_json()
            if self._target is None:
                return start
            if not session.settle():
                return self._finish(start)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        first, last = offset_from_json(start), offset_from_json(end)
        if self._finished:
            return []
        session = self._joined(first, last)
        planned = planned_ranges(first, last)
        if session.planned_end() == last:
            self._check_lost()
            return self._tasks(session.retained(planned))
        self._await_claims(session, planned, last.query)
        todo = session.replay(first, last)
        _log.info("replaying a batch: %d of %d ranges are still ours", len(todo), len(planned))
        return self._tasks(todo)

    def stop(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None
        super().stop()

    def _joined(self, start: Offset, end: Offset | None = None) -> GroupSession:
        if self._session is None:
            self._check_checkpoint(end or start)
            options = _static(self._options)
            self._known = frozenset(self._current_partitions())
            self._subscribed = _topics(self._known)
            if not self._subscribed:
                raise KohortError(f"No topic matches subscribePattern {options.topics.pattern}.")
            self._anew = self._made_anew(end or start)
            self._session = GroupSession(options)
            _leave_at_sigterm(self._session)
            self._session.join(self._subscribed, self._topic_ids, start, end)
        return self._session

    def _check_location(self, start: dict[str, Any]) -> None:
        """Warn once if the option checkpointLocation is of no use.

        The last batch before a stop may then be repeated.
        """
        location = self._options.checkpoint
        if location is None or self._location_checked or not start:
            return
        self._location_checked = True
        directory = checkpoint.directory(location)
        if directory is None:
            why = "is not on this host's file system"
        elif not checkpoint.has_done(directory, start):
            why = "is not this query's checkpoint: the query's last batch is not in it"
        else:
            return
        _log.warning(
            "checkpointLocation %s %s. The last batch before a stop may come twice. Give the source the location that"
            " the query's writer has, on the driver's own file system.",
            location,
            why,
        )

    def _look_again(self, session: GroupSession, before: Offset) -> None:
        """Find new topics that the pattern matches, and topics that were deleted or recreated."""
        found = _topics(self._current_partitions())
        self._anew |= self._made_anew(before)
        session.know(self._topic_ids)
        if found and found != self._subscribed:
            _log.info("subscribePattern matches %d topics now, it matched %d", len(found), len(self._subscribed))
            session.subscribe(found)
            self._subscribed = found

    def _begins(
        self, session: GroupSession, granted: dict[TopicPartition, GroupCommit | None]
    ) -> dict[TopicPartition, int]:
        """Return the position of every partition that this query owns, including those just granted."""
        granted = {tp: None if self._is_stale(session, tp, commit) else commit for tp, commit in granted.items()}
        without = [tp for tp, commit in granted.items() if commit is None]
        there = [tp for tp in without if tp in self._known and tp.topic not in self._anew]
        first = self._cluster.bound(narrowed(self._options.starting, there), there)
        # Partitions that were added later, and those of a recreated topic, are read from their first record,
        # whatever the bound says.
        first |= self._cluster.resolve(EARLIEST, set(without) - set(there))
        return session.grant(granted, first)

    def _is_stale(self, session: GroupSession, tp: TopicPartition, commit: GroupCommit | None) -> bool:
        """Return whether the group's offset belongs to a deleted topic of the same name.

        Raises KohortError if it does and failOnDataLoss is on.
        """
        if commit is None or not session.is_of_another(tp, commit):
            return False
        if self._options.fail_on_data_loss:
            raise KohortError(
                f"The group's offset of {tp} is of a topic that was deleted; the topic of that name is another one:"
                " reset the group's offsets. Or set failOnDataLoss=false: then the query reads it from its start."
            )
        self._anew |= {tp.topic}
        _log.warning("The group's offset of %s is of a topic that was deleted: it is read from its start.", tp)
        return True

    def _await_claims(self, session: GroupSession, planned: Sequence[Range], name: str | None) -> None:
        """Wait, before a replay, until each planned partition is owned by this query again, or by another member.

        Suppose that a partition is left out now and gained again before the batch is in the commit
        log. A second replay would then read it, and a sink that has the batch from the first replay
        would drop it.
        """
        deadline = time.monotonic() + _CLAIM_TIMEOUT_S
        while True:
            self._begins(session, session.granted())
            waiting = session.unclaimed(planned, name)
            if not waiting or time.monotonic() > deadline:
                break
            time.sleep(0.1)
        if waiting:
            _log.warning("replaying a batch without %s, which other members have not committed yet", waiting)

    def _finish(self, start: dict[str, Any]) -> dict[str, Any]:
        """Leave the group at the end of an available-now run, without waiting for SIGTERM.

        Everything that this query owns is committed up to the target.
        """
        self._finished = True
        self.stop()
        return start

    def _member_state(self) -> dict[str, Any]:
        return {"@member": self._session.member_state()} if self._session is not None else {}

    def _check_lost(self) -> None:
        assert self._session is not None
        lost = self._session.take_lost()
        if not lost:
            return
        group = self._options.group
        assert group is not None
        names = ", ".join(str(tp) for tp in lost[:5])
        sentence = (
            f"Group {group.group_id} took {names} away while a batch read them: this query did not answer for longer"
            " than kafka.session.timeout.ms, or its batch took longer than kafka.max.poll.interval.ms."
        )
        if self._options.on_lost is OnLost.FAIL:
            raise KohortError(
                f"{sentence} Restart the query: it replays what is still its own. Or set onLost=continue."
            )
        _log.warning("%s Its records may come twice.", sentence)


def _topics(tps: Iterable[TopicPartition]) -> list[str]:
    return sorted({tp.topic for tp in tps})


def _static(options: Options) -> Options:
    """Return the options with the query's id as the instance id if staticMembership is set.

    A restarted query is then the same member.
    """
    group, directory = options.group, checkpoint.directory(options.checkpoint)
    assert group is not None
    if not group.static:
        return options
    if directory is None:
        raise ConfigError("staticMembership needs a checkpointLocation on the driver's own file system.")
    return replace(options, group=replace(group, instance_id=f"spark-{checkpoint.query_id(directory)}"))


def _leave_at_sigterm(session: GroupSession) -> None:
    """Leave the group at SIGTERM, by which Spark ends the reader of a stopped query without a call to `stop`."""
    if threading.current_thread() is not threading.main_thread():
        return
    before = signal.getsignal(signal.SIGTERM)

    def leave(number: int, frame: object) -> None:
        session.close()
        signal.signal(signal.SIGTERM, before if callable(before) else signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)

    signal.signal(signal.SIGTERM, leave)
