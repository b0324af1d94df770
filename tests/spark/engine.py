"""Spark's micro-batch engine and a consumer group, as small as they get, to drive ledgers through everything at once.

The order of calls is the one that Spark was traced at: `latestOffset(start)`, the write-ahead log, `partitions`, tasks,
the sink's commit, the commit log; after a restart, `partitions` of the batch that was logged and not committed. A
crash can come between any two of these, and takes the ledger but not the checkpoint, the sink or the group.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kohort.model import TopicPartition
from pyspark_kohort.member.ledger import GroupCommit, Ledger
from pyspark_kohort.offsets import Offset, offset_from_json
from pyspark_kohort.source import plan
from pyspark_kohort.source.plan import Range


class Crashed(Exception):
    """The process is gone."""


@dataclass
class Group:
    """Owners of partitions, the target, and the commits."""

    ends: dict[TopicPartition, int]
    owner: dict[TopicPartition, Query] = field(default_factory=dict)
    target: dict[TopicPartition, Query] = field(default_factory=dict)
    committed: dict[TopicPartition, GroupCommit] = field(default_factory=dict)

    def aim(self, dice: random.Random, members: list[Query]) -> None:
        """A rebalance: everything gets an owner among the members, as chance has it."""
        self.target = {tp: dice.choice(members) for tp in self.ends} if members else {}
        for query in members:
            query.give_up_what_may_go()
        self.hand_out()

    def hand_out(self) -> None:
        """Give free partitions to their members in the target, which claim them at once."""
        for tp, query in self.target.items():
            if tp not in self.owner and query.ledger is not None:
                self.owner[tp] = query
                query.ledger.grant(tp, self.committed.get(tp), 0)
                query.commit()

    def commit(self, query: Query, commits: Mapping[TopicPartition, GroupCommit]) -> None:
        for tp, commit in commits.items():
            assert self.owner[tp] is query, "a commit for a partition that is another's"
            assert commit.offset >= self.offset(tp), "a commit goes backwards"
            assert commit.claim is not None
            before = self.committed.get(tp)
            assert before is None or before.claim is None or commit.claim.number >= before.claim.number
            self.committed[tp] = GroupCommit.of(commit.offset, commit.metadata)

    def offset(self, tp: TopicPartition) -> int:
        return self.committed[tp].offset if tp in self.committed else 0

    def release(self, query: Query, tps: list[TopicPartition]) -> None:
        for tp in tps:
            assert self.owner.pop(tp) is query
        self.hand_out()

    def leave(self, query: Query) -> None:
        self.owner = {tp: owner for tp, owner in self.owner.items() if owner is not query}
        self.target = {tp: owner for tp, owner in self.target.items() if owner is not query}


@dataclass(eq=False)
class Query:
    """One streaming query: its checkpoint and its sink survive a crash, its ledger does not."""

    name: str
    group: Group
    dice: random.Random
    crash_rate: float = 0.0
    stop_rate: float = 0.0
    logged: list[str] = field(default_factory=list)
    done: int = -1
    sink: dict[int, list[Range]] = field(default_factory=dict)
    ledger: Ledger | None = None
    stopped: bool = False

    @property
    def alive(self) -> bool:
        return self.ledger is not None

    def start(self) -> None:
        self.ledger, self.stopped = Ledger(lambda: f"{self.name}{self.dice.random()}"), False
        pending = self.done + 1 < len(self.logged)
        self.ledger.resume(self._offset(self.done), self._offset(self.done + 1) if pending else None)

    def step(self) -> None:
        """One micro-batch, or the replay of one."""
        assert self.ledger is not None
        try:
            if self.done + 1 < len(self.logged):
                self._replay()
            else:
                self._batch()
        except Crashed:
            self.ledger = None
            self.group.leave(self)

    def stop(self) -> None:
        """SIGTERM: commit what is proven and leave."""
        assert self.ledger is not None
        self.group.commit(self, self.ledger.commits())
        self.ledger = None
        self.group.leave(self)

    def give_up_what_may_go(self) -> None:
        """Run a revocation callback: at once if no batch reads the partition, else at the next boundary."""
        ledger = self.ledger
        if ledger is None:
            return
        owned = [tp for tp, owner in self.group.owner.items() if owner is self]
        going = [tp for tp in owned if self.group.target.get(tp) is not self and not ledger.reading([tp])]
        self.group.commit(self, ledger.commits())
        ledger.drop(going)
        self.group.release(self, going)

    def commit(self) -> None:
        ledger = self.ledger
        assert ledger is not None
        offsets = ledger.commits()
        self.group.commit(self, offsets)
        ledger.committed(offsets)

    def _batch(self) -> None:
        ledger = self.ledger
        assert ledger is not None
        start = self._offset(self.done)
        ledger.complete(start)
        self.commit()
        self.give_up_what_may_go()
        ends = {tp: self.group.ends[tp] for tp in ledger.owned}
        end = ledger.advance(start, ends, self.dice.choice([None, 1, 7, 30]))
        if end is start:
            return
        text = json.dumps(end.to_json())
        assert not self.logged or text != self.logged[-1], "Spark would not see this batch"
        self._may_die()
        self.logged.append(text)
        self._may_die()
        self._run(len(self.logged) - 1, ledger.retained(plan.planned_ranges(start, self._offset(self.done + 1))))

    def _replay(self) -> None:
        ledger = self.ledger
        assert ledger is not None
        batch = self.done + 1
        start, end = self._offset(self.done), self._offset(batch)
        self.group.hand_out()
        if any(self._may_come_back(part.tp, end.query) for part in plan.planned_ranges(start, end)):
            return  # ask again later
        self._run(batch, ledger.replay(start, end))

    def _may_come_back(self, tp: TopicPartition, name: str | None) -> bool:
        """Return whether it is not ours, and no query has claimed it since the plan to read it."""
        ledger, known = self.ledger, self.group.committed.get(tp)
        assert ledger is not None
        return tp not in ledger.owned and (known is None or known.query == name)

    def _run(self, batch: int, ranges: list[Range]) -> None:
        self._may_die()
        if self.dice.random() < 0.3:  # the group rebalances while the batch runs
            self.group.aim(self.dice, [query for query in {*self.group.target.values(), self} if query.alive])
        self._may_die()
        self.sink.setdefault(batch, ranges)  # a batch that the sink has, it skips
        self._may_die(after_sink=True)
        self.done = batch

    def _may_die(self, *, after_sink: bool = False) -> None:
        if not after_sink and self.dice.random() < self.stop_rate:
            self.stop()
            self.stopped = True
            raise Crashed
        if self.dice.random() < self.crash_rate:
            raise Crashed

    def _offset(self, batch: int) -> Offset:
        data: Any = json.loads(self.logged[batch]) if batch >= 0 else {}
        return offset_from_json(data)


def deliveries(queries: list[Query]) -> Counter[tuple[TopicPartition, int]]:
    """How often each record got into a sink."""
    return Counter(
        (part.tp, offset)
        for query in queries
        for ranges in query.sink.values()
        for part in ranges
        for offset in range(part.start, part.until)
    )
