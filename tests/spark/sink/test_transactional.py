"""A sink in transactions, driven in Spark's order without Spark. The driver dies at each step, and starts again.

A step that a driver took before it died is taken here by the parts that it uses, and the rest is left out.
"""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from kohort import blocking
from kohort.client import ClientQuotaEntity
from kohort.errors import ConfigError, KafkaError, KohortError
from pyspark_kohort.net import BlockingCluster
from pyspark_kohort.options import Topics
from pyspark_kohort.sink.coordinators import Coordinators
from pyspark_kohort.sink.decision_log import DecisionLog
from pyspark_kohort.sink.decisions import Decision, Outcome, Transaction, next_decision
from pyspark_kohort.sink.options import SinkOptions, parse_sink_options
from pyspark_kohort.sink.sink import StreamWriter
from pyspark_kohort.sink.transactional import TaskDone, TransactionalStreamWriter, TransactionEnd, write_task
from tests.interop.process import until
from tests.spark.conftest import Topic
from tests.spark.query import COMMITTED, read_once

NewTopic = Callable[[int], Topic]
Rows = Sequence[str]
Division = Sequence[Rows]
"""The rows of each task."""

FIRST: Division = (["a", "b", "c"], ["d", "e"], [], ["f"])
SECOND: Division = (["g"], ["h", "i"], ["j"])


class Job:
    """Spark's engine for one sink: a checkpoint, tasks, and the calls of the driver."""

    def __init__(self, topic: Topic, checkpoint: Path, **given: str) -> None:
        checkpoint.mkdir(exist_ok=True)
        (checkpoint / "metadata").write_text(json.dumps({"id": str(uuid.uuid4())}))
        self.topic = topic
        self.name = f"sink-{topic.name}"
        named = {name.replace("_", "."): value for name, value in given.items()}
        broker = {"kafka.bootstrap.servers": topic.bootstrap, "topic": topic.name}
        name = {"kafka.transactional.id": self.name, "checkpointLocation": str(checkpoint)}
        self.options: SinkOptions = parse_sink_options(broker | name | named)
        self.log = DecisionLog(checkpoint)
        self._writer = BlockingCluster(self.options.broker)
        self._reader = BlockingCluster(replace(self.options.broker, read_committed=True))
        self.coordinators = Coordinators(self._writer, 20_000)

    def run_tasks(self, batch: int, rows: Division) -> list[TaskDone]:
        """Plan a micro-batch and run its tasks: what the driver then has."""
        last = TransactionalStreamWriter(self.options).__getstate__()["_last"]
        return [self.task(last, batch, number, some) for number, some in enumerate(rows)]

    def task(self, last: Decision | None, batch: int, number: int, rows: Rows, attempt: int = 0) -> TaskDone:
        return write_task(batches(rows), self.options, last, batch=batch, task=number, attempt=attempt)

    def commit(self, batch: int, done: Sequence[TaskDone]) -> None:
        TransactionalStreamWriter(self.options).commit(list(done), batch)

    def run(self, batch: int, rows: Division) -> None:
        self.commit(batch, self.run_tasks(batch, rows))

    def decide(self, batch: int, done: Sequence[TaskDone]) -> Decision:
        """The first step of a commit, after which the driver dies."""
        written = {one.task: one.output for one in done if one.output is not None}
        decision = next_decision(self.log.last(), batch, [one.task for one in done], written)
        assert decision is not None
        self.log.decide(decision)
        return decision

    def end(self, *transactions: Transaction, commit: bool = True) -> None:
        self.coordinators.end(transactions, commit=commit)

    def await_expiry(self, *transactions: Transaction) -> None:
        until(20, "they expire", lambda: len(self.coordinators.not_open(transactions)) == len(transactions))

    def visible(self) -> Counter[str]:
        """How often each row is in the topic for readers of committed records, when no transaction is open."""
        until(20, "no transaction is open", lambda: not self.coordinators.open_ids(self.name))
        until(20, "markers are written", self._all_stable)
        return self.read()

    def read(self) -> Counter[str]:
        return Counter(value.decode() for _, _, value in read_once(self.topic, **COMMITTED))

    def _all_stable(self) -> bool:
        """Return whether every transaction has its markers, which follow a commit by some milliseconds."""
        tps = self._reader.partitions(Topics(names=(self.topic.name,)))
        return self._reader.ends(tps) == self._reader.high_watermarks(tps)

    def close(self) -> None:
        self._reader.close()
        self._writer.close()


def batches(rows: Rows) -> Iterator[pa.RecordBatch]:
    if rows:
        yield pa.record_batch({"key": pa.array(rows, pa.string()), "value": pa.array(rows, pa.string())})


def each_once(*divisions: Division) -> Counter[str]:
    return Counter(row for division in divisions for rows in division for row in rows)


@pytest.fixture
def job(new_topic: NewTopic, tmp_path: Path) -> Iterator[Job]:
    made = Job(new_topic(2), tmp_path / "checkpoint")
    yield made
    made.close()


@pytest.fixture
def short(new_topic: NewTopic, tmp_path: Path) -> Iterator[Job]:
    """Transactions expire after a second."""
    made = Job(new_topic(2), tmp_path / "checkpoint", kafka_transaction_timeout_ms="1000")
    yield made
    made.close()


def transactions(done: Sequence[TaskDone]) -> list[Transaction]:
    return [one.output.transaction for one in done if one.output is not None and one.output.transaction is not None]


def test_a_batch_becomes_visible_when_the_driver_commits_it(job: Job) -> None:
    job.run(0, FIRST)
    done = job.run_tasks(1, SECOND)
    assert job.read() - each_once(FIRST) == Counter()
    job.commit(1, done)
    assert job.visible() == each_once(FIRST, SECOND)


def test_a_driver_that_dies_before_its_decision_leaves_nothing(job: Job) -> None:
    job.run(0, FIRST)
    job.run_tasks(1, SECOND)
    job.run(1, SECOND)
    assert job.visible() == each_once(FIRST, SECOND)


@pytest.mark.parametrize("ended", [0, 1, 3])
def test_a_driver_that_dies_after_its_decision_has_committed(job: Job, ended: int) -> None:
    done = job.run_tasks(0, FIRST)
    decision = job.decide(0, done)
    job.end(*list(decision.to_end.values())[:ended])
    # Spark runs the micro-batch again, with its rows divided otherwise, as another driver may have other cores.
    again = job.run_tasks(0, [["a", "b", "c", "d"], ["e", "f"]])
    assert [one.output for one in again] == [None, None]
    assert job.visible() == each_once(FIRST)
    job.commit(0, again)
    job.run(1, SECOND)
    assert job.visible() == each_once(FIRST, SECOND)


def test_a_driver_that_dies_before_sparks_own_log_has_committed(job: Job) -> None:
    job.run(0, FIRST)
    job.run(0, FIRST)
    job.run(1, SECOND)
    assert job.visible() == each_once(FIRST, SECOND)


def test_a_batch_whose_transactions_have_expired_is_written_again(short: Job) -> None:
    # The driver is dead for longer than kafka.transaction.timeout.ms, right after its decision.
    done = short.run_tasks(0, FIRST)
    decision = short.decide(0, done)
    short.await_expiry(*decision.to_end.values())
    short.run(0, FIRST)
    assert short.visible() == each_once(FIRST)


def test_a_batch_of_which_a_part_has_expired_is_completed(short: Job) -> None:
    done = short.run_tasks(0, FIRST)
    decision = short.decide(0, done)
    first, *others = decision.to_end.values()
    short.end(first)
    short.await_expiry(*others)
    with pytest.raises(KohortError, match="task 0 has 2 rows"):
        short.run_tasks(0, (["a", "b"], *FIRST[1:]))
    short.run(0, FIRST)
    short.run(1, SECOND)
    assert short.visible() == each_once(FIRST, SECOND)


def test_a_batch_that_takes_too_long_is_not_committed_in_part(short: Job) -> None:
    done = short.run_tasks(0, FIRST)
    one = transactions(done)[1]
    short.await_expiry(one)
    with pytest.raises(KohortError, match=r"No transaction is committed now, as \d of 3 have"):
        short.commit(0, done)
    assert short.log.last() is None
    TransactionalStreamWriter(short.options).abort(list(done), 0)
    assert not short.visible()


def test_the_log_tells_what_the_coordinator_has_forgotten(job: Job) -> None:
    # After the decision, the IDs got other epochs: from somebody who uses the same name, or from a task of a lost
    # executor. One transaction was committed before, the others are aborted by it.
    done = job.run_tasks(0, FIRST)
    decision = job.decide(0, done)
    first, *others = decision.to_end.values()
    job.end(first)
    job.coordinators.begin([one.transactional_id for one in decision.to_end.values()], 60_000)
    assert job.coordinators.outcome(first) is Outcome.COMMITTED
    assert {job.coordinators.outcome(one) for one in others} == {Outcome.ABORTED}
    job.run(0, FIRST)
    assert job.visible() == each_once(FIRST)


def test_attempts_that_failed_do_not_hold_readers_up(job: Job) -> None:
    last = TransactionalStreamWriter(job.options).__getstate__()["_last"]
    lost = job.task(last, 0, 1, ["d"])  # its executor is lost before the driver learns that it is done
    done = [
        job.task(last, 0, 0, ["a", "b", "c"]),
        job.task(last, 0, 1, ["d", "e"], attempt=1),
        job.task(last, 0, 2, []),
        job.task(last, 0, 3, ["f"]),
    ]
    assert transactions([lost])[0].transactional_id != transactions(done)[1].transactional_id
    job.commit(0, done)
    assert job.visible() == each_once(FIRST)


def test_a_repeated_stage_does_not_fence_the_tasks_of_the_first_attempt(job: Job) -> None:
    # Spark repeats a stage that has lost its input, counts the attempts of its tasks from 0 again, and lets those of
    # the first stage attempt run on: whichever is done first is accepted.
    last = TransactionalStreamWriter(job.options).__getstate__()["_last"]
    accepted = [job.task(last, 0, number, rows) for number, rows in enumerate(FIRST)]
    late = job.task(last, 0, 1, FIRST[1])
    assert transactions([late])[0].transactional_id != transactions(accepted)[1].transactional_id
    job.commit(0, accepted)
    assert job.visible() == each_once(FIRST)


def test_a_query_needs_its_transactions_until_its_micro_batch_is_done(job: Job, tmp_path: Path) -> None:
    directory = tmp_path / "checkpoint"
    without = replace(job.options, transactional_id=None, idempotent=False)

    def starts_without() -> None:
        StreamWriter(without).__getstate__()

    starts_without()
    done = job.run_tasks(0, FIRST)
    decision = job.decide(0, done)
    with pytest.raises(KohortError, match="Micro-batch 0 is written in transactions, in part or as a whole"):
        starts_without()
    job.end(*decision.to_end.values())
    job.run(0, FIRST)
    with pytest.raises(KohortError, match="until this micro-batch is done"):
        starts_without()
    (directory / "commits").mkdir()
    (directory / "commits" / "0").touch()
    starts_without()


def test_a_task_that_fails_aborts_its_transaction(job: Job) -> None:
    def fails() -> Iterator[pa.RecordBatch]:
        yield from batches(["a"])
        raise RuntimeError("the query fails")

    with pytest.raises(RuntimeError, match="the query fails"):
        write_task(fails(), job.options, None, batch=0, task=0, attempt=0)
    assert not job.visible()


def test_a_driver_that_was_taken_for_dead_commits_nothing(job: Job) -> None:
    late = job.run_tasks(0, FIRST)
    job.run(0, FIRST)
    with pytest.raises(KohortError, match="Another run of this query has decided"):
        job.commit(0, late)
    # It comes between the tasks of the new run and their commit, and finds no decision yet.
    late = job.run_tasks(1, SECOND)
    done = job.run_tasks(1, SECOND)
    with pytest.raises(KohortError, match="No transaction is committed now, as 3 of 3 have ended"):
        job.commit(1, late)
    job.commit(1, done)
    assert job.visible() == each_once(FIRST, SECOND)


def test_an_abort_leaves_a_decision_alone(job: Job) -> None:
    # Spark calls abort after a commit that failed, also if it failed after the decision.
    done = job.run_tasks(0, FIRST)
    decision = job.decide(0, done)
    TransactionalStreamWriter(job.options).abort(list(done), 0)
    assert not job.coordinators.not_open(decision.to_end.values())
    job.run(0, FIRST)
    assert job.visible() == each_once(FIRST)


def test_a_timeout_that_the_brokers_do_not_allow_is_answered_by_one_sentence(
    new_topic: NewTopic, tmp_path: Path
) -> None:
    job = Job(new_topic(1), tmp_path, kafka_transaction_timeout_ms="900001")
    with pytest.raises(KohortError, match=r"^kafka.transaction.timeout.ms is 900001, more than the brokers'"):
        job.run_tasks(0, FIRST)
    job.close()


def test_a_broker_that_is_down_does_not_fail_what_is_committed(caplog: pytest.LogCaptureFixture) -> None:
    given = {"kafka.bootstrap.servers": "127.0.0.1:1", "kafka.request.timeout.ms": "100"}
    with TransactionEnd(parse_sink_options(given | {"kafka.transactional.id": "sink"})) as ending:
        ending.abort_others()
    assert "Transactions of failed tasks may stay open until the next micro-batch" in caplog.text


def test_a_checkpoint_that_the_driver_cannot_write_to_is_refused() -> None:
    options = parse_sink_options(
        {"kafka.bootstrap.servers": "127.0.0.1:1", "kafka.transactional.id": "x", "checkpointLocation": "s3a://a/b"}
    )
    with pytest.raises(ConfigError, match="on the driver's own file system"):
        TransactionalStreamWriter(options).__getstate__()


def test_an_outcome_waits_for_the_end_of_the_transaction(job: Job) -> None:
    one = transactions(job.run_tasks(0, FIRST))[0]
    with ThreadPoolExecutor(1) as pool, TransactionEnd(job.options) as ending:
        outcome = pool.submit(job.coordinators.outcome, one)
        with pytest.raises(TimeoutError):
            outcome.result(timeout=0.3)
        ending.commit({0: one})
        assert outcome.result(timeout=20) is Outcome.COMMITTED


def test_the_outcome_is_that_of_the_transaction_and_not_of_others_in_the_same_response(job: Job) -> None:
    # All write to one partition. One of them began before the transaction, another one is the next of its producer.
    before = transactions([job.task(None, 0, 1, ["a"])])[0]
    one = transactions([job.task(None, 0, 0, ["a"])])[0]
    job.end(one)
    job.end(before, commit=False)
    assert job.coordinators.outcome(one) is Outcome.COMMITTED
    after = transactions([job.task(None, 1, 0, ["a"])])[0]
    assert (after.transactional_id, after.producer.id) == (one.transactional_id, one.producer.id)
    job.end(after, commit=False)
    assert job.coordinators.outcome(after) is Outcome.ABORTED
    assert job.coordinators.outcome(one) is Outcome.COMMITTED


def test_open_transactions_are_those_of_all_tasks_and_attempts_and_of_no_other_sink(job: Job) -> None:
    done = [job.task(None, 0, number, ["a"], attempt) for number, attempt in [(2, 0), (3, 0), (12, 0), (4, 10)]]
    names = [f"{job.name}-{each}" for each in ("2-0", "3-0", "12-0", "4-10")]
    assert job.coordinators.open_ids(job.name) == sorted(names)
    assert job.coordinators.open_ids(job.name[:-1]) == []
    with TransactionEnd(job.options) as ending:
        ending.abort_others()
    assert len(job.coordinators.not_open(transactions(done))) == len(names)


def test_an_outcome_is_found_by_a_client_that_a_quota_throttles(new_topic: NewTopic, tmp_path: Path) -> None:
    # Such a client gets responses without any partition.
    topic, client = new_topic(1), f"sink-{uuid.uuid4()}"
    job = Job(topic, tmp_path / "checkpoint", kafka_client_id=client)
    one = transactions(job.run_tasks(0, [["a"]]))[0]
    job.end(one)
    with blocking.Admin(bootstrap_servers=topic.bootstrap) as admin:
        admin.alter_client_quotas({ClientQuotaEntity(client_id=client): {"consumer_byte_rate": 200.0}})
    assert {job.coordinators.outcome(one) for _ in range(12)} == {Outcome.COMMITTED}
    job.close()


def test_an_outcome_that_nobody_knows_is_an_error(job: Job) -> None:
    done = job.run_tasks(0, FIRST)
    decision = job.decide(0, done)
    one = decision.to_end[0]
    assert one.place is not None
    unknown = Transaction(one.transactional_id, one.producer._replace(id=one.producer.id + 100_000), one.place)
    job.end(*decision.to_end.values())
    until(10, "it is committed", lambda: job.coordinators.outcome(one) is Outcome.COMMITTED)
    with pytest.raises(KohortError, match="Nobody can tell whether transaction"):
        job.coordinators.outcome(unknown)
    with pytest.raises(KohortError, match="no response had the offset of a record"):
        job.coordinators.outcome(Transaction("x", one.producer, None))
    with pytest.raises(KafkaError):
        job.coordinators.add("x", one.producer, [one.place[0]])
