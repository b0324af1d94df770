"""`spark.readStream.format("kohort")` as a member of a consumer group: the group says what the query reads."""

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
from pyspark_kohort import checkpoint, plan
from pyspark_kohort.ledger import Commit
from pyspark_kohort.member import GroupSession
from pyspark_kohort.offsets import EARLIEST, Offset, narrowed, offset_from_json
from pyspark_kohort.options import OnLost, Options
from pyspark_kohort.plan import Range
from pyspark_kohort.stream import StreamReader

_log = logging.getLogger(__name__)

_CLAIM_PATIENCE_S = 10.0
"""Queries claim at once; other members of the group commit within their auto.commit.interval.ms, 5 s by default."""


class MemberReader(StreamReader):
    """Joins when Spark first asks for offsets, never when it is made: Spark makes it once more to pickle it."""

    _session: GroupSession | None = None
    _known: frozenset[TopicPartition] = frozenset()
    _subscribed: Sequence[str] = ()
    _finished = False
    _location_checked = False
    _anew: frozenset[str] = frozenset()
    """Topics that were made anew since the query read them: they begin at their start."""

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
        planned = plan.ranges(first, last)
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
        """Say once where the option checkpointLocation is of no use: the last batch before a stop is then repeated."""
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
        """A pattern may match topics that were made since; and a topic may have been deleted, or made anew."""
        found = _topics(self._current_partitions())
        self._anew |= self._made_anew(before)
        session.know(self._topic_ids)
        if found and found != self._subscribed:
            _log.info("subscribePattern matches %d topics now, it matched %d", len(found), len(self._subscribed))
            session.subscribe(found)
            self._subscribed = found

    def _begins(self, session: GroupSession, granted: dict[TopicPartition, Commit | None]) -> dict[TopicPartition, int]:
        """Where everything that is ours goes on, what was just granted included."""
        granted = {tp: None if self._is_stale(session, tp, commit) else commit for tp, commit in granted.items()}
        without = [tp for tp, commit in granted.items() if commit is None]
        there = [tp for tp in without if tp in self._known and tp.topic not in self._anew]
        first = self._cluster.bound(narrowed(self._options.starting, there), there)
        # Partitions that were added since, and those of a topic that was made anew, are read from their first record,
        # whatever the bound says.
        first |= self._cluster.resolve(EARLIEST, set(without) - set(there))
        return session.grant(granted, first)

    def _is_stale(self, session: GroupSession, tp: TopicPartition, commit: Commit | None) -> bool:
        """Whether the group's offset is of a topic that had the name before. Raises KohortError unless records may be
        lost."""
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
        """Before a replay: wait until what we planned is ours again or somebody else's for certain.

        Were it left out now and won back before the batch is in the commit log, a second replay would read it, and a
        sink that has the batch from the first would drop it.
        """
        deadline = time.monotonic() + _CLAIM_PATIENCE_S
        while True:
            self._begins(session, session.granted())
            waiting = session.unclaimed(planned, name)
            if not waiting or time.monotonic() > deadline:
                break
            time.sleep(0.1)
        if waiting:
            _log.warning("replaying a batch without %s, which other members have not committed yet", waiting)

    def _finish(self, start: dict[str, Any]) -> dict[str, Any]:
        """Available-now is through: all that is ours is committed up to the target, so leave now, not at SIGTERM."""
        self._finished = True
        self.stop()
        return start

    def _standing(self) -> dict[str, Any]:
        return {"@member": self._session.standing()} if self._session is not None else {}

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
    """With staticMembership the query's id for the instance id: whoever restarts the query is the same member."""
    group, directory = options.group, checkpoint.directory(options.checkpoint)
    assert group is not None
    if not group.static:
        return options
    if directory is None:
        raise ConfigError("staticMembership needs a checkpointLocation on the driver's own file system.")
    return replace(options, group=replace(group, instance_id=f"spark-{checkpoint.query_id(directory)}"))


def _leave_at_sigterm(session: GroupSession) -> None:
    """Spark ends a stopped query's reader by SIGTERM, without a call of `stop`."""
    if threading.current_thread() is not threading.main_thread():
        return
    before = signal.getsignal(signal.SIGTERM)

    def leave(number: int, frame: object) -> None:
        session.close()
        signal.signal(signal.SIGTERM, before if callable(before) else signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)

    signal.signal(signal.SIGTERM, leave)
