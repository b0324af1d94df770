"""Decisions to commit the transactions of a micro-batch, and what a later run owes to them. Pure.

Kafka has no prepared transactions, so a micro-batch of several tasks is several transactions. The
driver decides once, in a file, that all of them commit, and then ends them. A run that finds the
decision of an earlier one ends them again, with the producer IDs and epochs that the file has.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from enum import Enum

from kohort.errors import KohortError
from kohort.model import TopicPartition
from kohort.requests import ProducerId


class Outcome(Enum):
    """How a transaction ended."""

    COMMITTED = "committed"
    ABORTED = "aborted"


class Fate(Enum):
    """What has become of a decision."""

    OPEN = "its transactions may not have ended"
    COMMITTED = "all its transactions are committed"
    ABORTED = "all its transactions are aborted, so nothing of the micro-batch is visible"
    PARTIAL = "some of its transactions are aborted: they expired before the driver could commit them"


@dataclass(frozen=True, slots=True)
class Transaction:
    """Transaction of one task, which the driver ends."""

    transactional_id: str
    producer: ProducerId
    place: tuple[TopicPartition, int] | None
    """A partition and the offset of the transaction's first record in it; None if no response had one."""


@dataclass(frozen=True, slots=True)
class TaskOutput:
    """Rows that a task wrote, by topic, and the transaction that has them. A task without rows has none."""

    task: int
    rows: Mapping[str, int]
    transaction: Transaction | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """Promise to commit these transactions. It has a number among the decisions about its micro-batch."""

    batch: int
    number: int
    outputs: tuple[TaskOutput, ...]
    committed_before: frozenset[int] = frozenset()
    """Tasks whose transactions were committed by the decision before this one."""
    outcomes: Mapping[int, Outcome] | None = None
    """Outcome of each task with a transaction; None until all are known."""

    @property
    def to_end(self) -> Mapping[int, Transaction]:
        """The transactions to commit, by task."""
        return {
            output.task: output.transaction
            for output in self.outputs
            if output.transaction is not None and output.task not in self.committed_before
        }

    @property
    def fate(self) -> Fate:
        if self.outcomes is None:
            return Fate.OPEN
        found = {self.outcomes[task] for task in self.to_end}
        if self.committed_before:
            found.add(Outcome.COMMITTED)
        if Outcome.ABORTED not in found:
            return Fate.COMMITTED
        return Fate.PARTIAL if Outcome.COMMITTED in found else Fate.ABORTED

    @property
    def committed(self) -> frozenset[int]:
        """Tasks whose rows are visible."""
        known = self.outcomes or {}
        return self.committed_before | {task for task, outcome in known.items() if outcome is Outcome.COMMITTED}

    def ended(self, outcomes: Mapping[int, Outcome]) -> Decision:
        assert outcomes.keys() == self.to_end.keys()
        return replace(self, outcomes=outcomes)


@dataclass(frozen=True, slots=True)
class Duty:
    """What a task does with its rows."""

    writes: bool
    """False: the rows are committed already, so the task computes and drops them."""
    rows: Mapping[str, int] | None = None
    """Number of rows by topic that the task must have, because others of the micro-batch are committed."""


def duty(last: Decision | None, batch: int, task: int) -> Duty:
    """Return what a task of a micro-batch does after the newest decision. Raises KohortError."""
    if last is None or batch != last.batch:
        if last is not None:
            _check_order(last, batch)
        return Duty(writes=True)
    assert last.fate is not Fate.OPEN, "tasks run before the last decision is carried out"
    match last.fate:
        case Fate.COMMITTED:
            return Duty(writes=False)
        case Fate.ABORTED:
            return Duty(writes=True)
    known = {output.task: output.rows for output in last.outputs}
    if task not in known:
        raise KohortError(_different(last, f"it has a task {task} now"))
    return Duty(writes=task not in last.committed, rows=known[task])


def _check_order(last: Decision, batch: int) -> None:
    if batch < last.batch:
        raise KohortError(
            f"Micro-batch {batch} comes after {last.batch}, which this sink has committed: the checkpoint was set back."
            " Delete the directory kohort-sink in it, and the rows since then are written again."
        )
    if last.fate is not Fate.COMMITTED:
        raise KohortError(
            f"Micro-batch {batch} comes after {last.batch}, whose rows are not all committed though the checkpoint has"
            f" it as done: {last.fate.value}."
        )


def check_rows(duty: Duty, last: Decision | None, task: int, rows: Mapping[str, int]) -> None:
    """Check that a task has the same number of rows as when others of its micro-batch were committed.

    Raises KohortError.
    """
    if duty.rows is not None and {**duty.rows} != {**rows}:
        assert last is not None
        raise KohortError(_different(last, f"task {task} has {_counted(rows)} now, and had {_counted(duty.rows)}"))


def next_decision(
    last: Decision | None, batch: int, tasks: Collection[int], written: Mapping[int, TaskOutput]
) -> Decision | None:
    """Return the decision about a micro-batch, or None if there is nothing to commit.

    `tasks` are all tasks of the micro-batch, `written` the outputs of those that did not drop their
    rows. Raises KohortError.
    """
    if last is None or last.batch != batch:
        outputs = tuple(written[task] for task in sorted(written))
        decision = Decision(batch, 0, outputs)
    elif last.fate is Fate.COMMITTED:
        assert not written, "a task wrote what is committed"
        return None
    elif last.fate is Fate.ABORTED:
        decision = Decision(batch, last.number + 1, tuple(written[task] for task in sorted(written)))
    else:
        before = {output.task: output for output in last.outputs}
        if set(tasks) != before.keys():
            raise KohortError(_different(last, f"it has {len(tasks)} tasks now, and had {len(before)}"))
        outputs = tuple(written.get(task, before[task]) for task in sorted(before))
        decision = Decision(batch, last.number + 1, outputs, last.committed)
    # A micro-batch with a decision needs another one also if it has no rows now: the next one checks it.
    return decision if decision.to_end or decision.number else None


def _different(last: Decision, what: str) -> str:
    return (
        f"Micro-batch {last.batch} has other rows than before: {what}. Some of its transactions expired before the"
        " driver could commit them, and the others are committed. Only the same rows can complete it: see"
        " docs/spark-guarantees.md."
    )


def _counted(rows: Mapping[str, int]) -> str:
    return ", ".join(f"{count} rows for {topic}" for topic, count in sorted(rows.items())) or "no rows"
