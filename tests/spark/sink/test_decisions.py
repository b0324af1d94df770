"""Crash points of a micro-batch in transactions, each as a case of what the next run owes to the last decision."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from kohort.errors import KohortError
from kohort.model import TopicPartition
from kohort.requests import ProducerId
from pyspark_kohort.sink.decision_log import DecisionLog
from pyspark_kohort.sink.decisions import (
    Decision,
    Duty,
    Fate,
    Outcome,
    TaskOutput,
    Transaction,
    check_rows,
    duty,
    next_decision,
)

COMMITTED, ABORTED = Outcome.COMMITTED, Outcome.ABORTED


def output(task: int, rows: int = 10, epoch: int = 0) -> TaskOutput:
    if not rows:
        return TaskOutput(task, {})
    place = TopicPartition("sums", task), 100
    return TaskOutput(task, {"sums": rows}, Transaction(f"sink-{task}-0", ProducerId(7 + task, epoch), place))


def by_task(*outputs: TaskOutput) -> dict[int, TaskOutput]:
    return {one.task: one for one in outputs}


def decided(batch: int, *outputs: TaskOutput, number: int = 0) -> Decision:
    return Decision(batch, number, outputs)


def ended(batch: int, *outcomes: Outcome) -> Decision:
    """A decision about a task for each outcome."""
    decision = decided(batch, *map(output, range(len(outcomes))))
    return decision.ended(dict(enumerate(outcomes)))


def decide(last: Decision | None, batch: int, written: Mapping[int, TaskOutput], tasks: int | None = None) -> Decision:
    found = next_decision(last, batch, range(len(written) if tasks is None else tasks), written)
    assert found is not None
    return found


def test_before_a_decision_a_batch_is_written() -> None:
    # The driver dies while tasks write: nothing is decided, and Spark runs the micro-batch again.
    assert duty(None, 0, 0) == Duty(writes=True)
    assert duty(ended(4, COMMITTED), 5, 0) == Duty(writes=True)
    assert decide(ended(4, COMMITTED), 5, by_task(output(0))) == decided(5, output(0))


def test_a_decision_without_outcomes_is_carried_out_before_anything_is_written() -> None:
    # The driver dies after the decision, before or between the ends of the transactions.
    last = decided(5, output(0), output(1), output(2, rows=0))
    assert last.fate is Fate.OPEN
    assert last.to_end.keys() == {0, 1}
    with pytest.raises(AssertionError):
        duty(last, 5, 0)


def test_a_batch_that_is_committed_is_dropped_when_it_comes_again() -> None:
    # The driver dies after the ends, before Spark has written its commit log.
    last = ended(5, COMMITTED, COMMITTED)
    assert duty(last, 5, 0) == duty(last, 5, 1) == Duty(writes=False)
    # Its rows may be divided among other tasks now, and all are dropped.
    assert duty(last, 5, 17) == Duty(writes=False)
    assert next_decision(last, 5, range(3), {}) is None


def test_a_batch_whose_transactions_all_expired_is_written_again() -> None:
    last = ended(5, ABORTED, ABORTED)
    assert last.fate is Fate.ABORTED
    assert duty(last, 5, 3) == Duty(writes=True)
    again = decide(last, 5, by_task(output(0, 30, epoch=2)))
    assert again == decided(5, output(0, 30, epoch=2), number=1)


def test_a_batch_of_which_some_transactions_expired_is_completed_with_the_same_rows() -> None:
    last = ended(5, COMMITTED, ABORTED, COMMITTED)
    assert last.fate is Fate.PARTIAL
    assert [duty(last, 5, task) for task in range(3)] == [
        Duty(writes=False, rows={"sums": 10}),
        Duty(writes=True, rows={"sums": 10}),
        Duty(writes=False, rows={"sums": 10}),
    ]
    again = decide(last, 5, by_task(output(1, epoch=2)), tasks=3)
    assert again.number == 1
    assert again.to_end == {1: output(1, epoch=2).transaction}
    assert again.fate is Fate.OPEN
    complete = again.ended({1: COMMITTED})
    assert complete.fate is Fate.COMMITTED
    assert duty(complete, 5, 0) == Duty(writes=False)
    # It expires again: the others are still committed.
    still = again.ended({1: ABORTED})
    assert still.fate is Fate.PARTIAL
    assert duty(still, 5, 0).writes is False
    assert duty(still, 5, 1).writes is True


def test_a_batch_is_not_completed_with_other_rows() -> None:
    last = ended(5, COMMITTED, ABORTED)
    for task in (0, 1):
        check_rows(duty(last, 5, task), last, task, {"sums": 10})
        with pytest.raises(KohortError, match=f"task {task} has 9 rows for sums now, and had 10 rows for sums"):
            check_rows(duty(last, 5, task), last, task, {"sums": 9})
    with pytest.raises(KohortError, match="it has a task 2 now"):
        duty(last, 5, 2)
    with pytest.raises(KohortError, match="it has 1 tasks now, and had 2"):
        next_decision(last, 5, [1], by_task(output(1)))


def test_a_task_that_had_no_rows_may_get_none_while_others_are_committed() -> None:
    last = decided(5, output(0), output(1), output(2, rows=0)).ended({0: COMMITTED, 1: ABORTED})
    check_rows(duty(last, 5, 2), last, 2, {})
    with pytest.raises(KohortError, match="task 2 has 1 rows for sums now, and had no rows"):
        check_rows(duty(last, 5, 2), last, 2, {"sums": 1})


def test_a_batch_without_rows_needs_no_decision_unless_an_earlier_one_failed() -> None:
    assert next_decision(ended(4, COMMITTED), 5, range(2), by_task(output(0, 0), output(1, 0))) is None
    empty = decide(ended(5, ABORTED), 5, by_task(output(0, 0)))
    assert empty.ended({}).fate is Fate.COMMITTED


def test_a_checkpoint_that_was_set_back_is_an_error() -> None:
    with pytest.raises(KohortError, match="Micro-batch 3 comes after 5, which this sink has committed: the checkpoint"):
        duty(ended(5, COMMITTED), 3, 0)


@pytest.mark.parametrize("outcomes", [(ABORTED,), (ABORTED, COMMITTED)])
def test_rows_that_are_missing_from_a_finished_batch_are_an_error(outcomes: tuple[Outcome, ...]) -> None:
    with pytest.raises(KohortError, match="whose rows are not all committed though the checkpoint has it as done"):
        duty(ended(5, *outcomes), 6, 0)


# -- files


def test_a_decision_is_read_as_it_was_written(tmp_path: Path) -> None:
    log = DecisionLog(tmp_path)
    assert log.last() is None
    first = Decision(5, 1, (output(0), output(1, rows=0)), frozenset({3}))
    log.decide(first)
    assert DecisionLog(tmp_path).last() == first
    log.end(first.ended({0: ABORTED}))
    assert DecisionLog(tmp_path).last() == first.ended({0: ABORTED})


def test_the_newest_decision_counts_and_older_ones_are_deleted(tmp_path: Path) -> None:
    log = DecisionLog(tmp_path)
    for batch, number in ((9, 0), (9, 1), (10, 0)):
        decision = decided(batch, output(0), number=number)
        log.decide(decision)
        assert log.last() == decision
        log.end(decision.ended({0: COMMITTED}))
    assert {entry.name for entry in (tmp_path / "kohort-sink").iterdir()} == {"10-0", "10-0.ended"}


def test_two_drivers_cannot_both_decide(tmp_path: Path) -> None:
    first, other = decided(5, output(0)), decided(5, output(0, epoch=1))
    DecisionLog(tmp_path).decide(first)
    with pytest.raises(KohortError, match="Another run of this query has decided about micro-batch 5"):
        DecisionLog(tmp_path).decide(other)
    assert DecisionLog(tmp_path).last() == first


def test_a_file_that_was_begun_is_no_decision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def dies(source: object, target: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "link", dies)
    with pytest.raises(KeyboardInterrupt):
        DecisionLog(tmp_path).decide(decided(5, output(0)))
    assert DecisionLog(tmp_path).last() is None


def test_a_foreign_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "kohort-sink").mkdir()
    (tmp_path / "kohort-sink" / "3-0").write_text('{"version": 2}')
    with pytest.raises(KohortError, match="3-0 is no decision of this sink, or one of a newer version"):
        DecisionLog(tmp_path).last()
