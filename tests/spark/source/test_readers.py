"""The readers that Spark drives, driven in Spark's order without Spark, against our broker."""

from __future__ import annotations

import json
import pickle
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from kohort.errors import ConfigError, KafkaError, KohortError
from kohort.model import TopicPartition
from pyspark_kohort import DefaultSource
from pyspark_kohort.columns import COLUMNS
from pyspark_kohort.member.query_membership import QueryMembership
from pyspark_kohort.net.cluster import disconnect
from pyspark_kohort.offsets import offset_from_json
from tests.interop.process import until
from tests.spark.conftest import Member, Topic, rows
from tests.spark.query import Query, reader

NewTopic = Callable[[int], Topic]


def test_a_reader_is_pickled_without_a_connection(member: Member) -> None:
    topic = Topic.__new__(Topic)
    topic.bootstrap, topic.name = "127.0.0.1:1", "flights"
    for made in (reader(topic), member(topic)):
        copy = pickle.loads(pickle.dumps(made))
        assert list(copy.read(InputPartition(None))) == []
        assert list(copy.read(InputPartition(()))) == []


BARE = """
import sys
sys.modules["numba"] = None  # as if it were not installed
from pyspark.sql.datasource import InputPartition
from pyspark_kohort import DefaultSource
from pyspark_kohort.columns import COLUMNS
from pyspark_kohort.source.plan import Range
reader = DefaultSource({"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "flights"}).reader(COLUMNS)
reader.read(InputPartition((Range("flights", 0, 0, 1),)))
"""


def test_an_executor_without_dependencies_reports_it() -> None:
    done = subprocess.run([sys.executable, "-c", BARE], capture_output=True, text=True)
    last = done.stderr.splitlines()[-1]
    assert f"has no numba for {sys.executable}: executors need the extra `spark`" in last


def test_columns_are_checked_when_the_reader_is_made() -> None:
    source = DefaultSource({"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "flights"})
    narrow = type(COLUMNS)([COLUMNS["offset"], COLUMNS["value"]])
    source.reader(narrow)
    with pytest.raises(ConfigError, match="Column colour is unknown"):
        source.reader(type(COLUMNS)().add("colour", "string"))
    with pytest.raises(ConfigError, match="Column value is binary, not string; cast it"):
        source.streamReader(type(COLUMNS)().add("value", "string"))


def test_a_stream_of_its_own_reads_each_record_once_over_a_restart(new_topic: NewTopic) -> None:
    topic = new_topic(3)
    topic.produce(rows(100, 2))
    query = Query(lambda: reader(topic, maxOffsetsPerTrigger="30"))
    assert query.plan()
    query.reader.stop()
    query.restart()  # the batch was logged and not run
    query.run()
    query.drain()
    topic.produce(rows(100, 3))
    query.drain()
    query.reader.stop()
    assert query.sink == dict.fromkeys(topic.written, 1)


def test_latest_is_asked_for_once(new_topic: NewTopic) -> None:
    topic = new_topic(1)
    topic.produce(rows(10, 1))
    query = Query(lambda: reader(topic, startingOffsets="latest"))
    assert not query.plan()
    topic.produce(rows(5, 1))
    assert query.plan()
    query.reader.stop()
    query.restart()
    topic.produce(rows(5, 1))
    query.drain() if query.done else query.run()
    assert query.sink == dict.fromkeys([(0, n) for n in range(10, 15)], 1)
    query.reader.stop()


def test_records_that_are_gone_fail_the_query(new_topic: NewTopic) -> None:
    topic = new_topic(1)
    topic.produce(rows(10, 1))
    ahead = {topic.name: {"0": 50}}
    query = reader(topic)
    with pytest.raises(KohortError, match="created again or truncated"):
        query.latestOffset(ahead, ReadAllAvailable())
    query.stop()
    # The checkpoint does not know the topic's id, so the topic may be another one: it is read from its start.
    lenient = Query(lambda: reader(topic, failOnDataLoss="false"), logged=[ahead])
    lenient.drain()
    lenient.reader.stop()
    assert lenient.sink == dict.fromkeys(topic.written, 1)


def test_a_partition_that_was_cut_off_is_read_from_its_end(new_topic: NewTopic) -> None:
    topic = new_topic(1)
    topic.produce(rows(10, 1))
    first = Query(lambda: reader(topic))
    first.drain()
    first.reader.stop()
    cut_off = first.offset(1) | {topic.name: {"0": 50}}  # the same topic, which has lost what the query had read
    query = Query(lambda: reader(topic, failOnDataLoss="false", minOffsetsPerTrigger="5"), logged=[cut_off])
    assert query.step()
    assert not query.sink
    topic.produce(rows(5, 1))
    query.reader.stop()
    query.restart()
    query.drain()
    query.reader.stop()
    assert query.sink == dict.fromkeys([(0, n) for n in range(10, 15)], 1)


def read_all(query: Query, topic: Topic) -> None:
    """A member may have to wait for its group to give it the new topic."""
    until(20, "all is read", lambda: not query.step() and len(query.sink) == len(topic.written))
    assert query.sink == dict.fromkeys(topic.written, 1)


def test_a_recreated_topic_is_read_from_its_start_if_data_loss_is_allowed(
    new_topic: NewTopic, member: Member, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    options = {"failOnDataLoss": "false", "kafka.metadata.max.age.ms": "1", "startingOffsets": "earliest"}
    for make in (reader, member):
        topic = new_topic(2)
        topic.produce(rows(10, 2))
        query = Query(lambda make=make, topic=topic: make(topic, **options))  # type: ignore[misc]
        query.drain()
        for count in (24, 6):  # more records than there were, so that all offsets fit; and fewer
            topic.delete()
            topic.create()
            topic.written.clear()
            topic.produce(rows(count, 2))
            query.sink.clear()
            read_all(query, topic)
            assert f"Topic {topic.name} was deleted and created again" in caplog.text
            caplog.clear()
        if make is member:
            assert topic.lag(group) == 0
        query.reader.stop()
        # The same while the query is down: `latest` concerns a query that has read nothing yet.
        topic.delete()
        topic.create()
        topic.written.clear()
        topic.produce(rows(30, 2))
        query.sink.clear()
        options["startingOffsets"] = "latest"
        query.restart()
        read_all(query, topic)
        query.reader.stop()


def test_a_topic_recreated_while_a_query_is_down_ends_it(new_topic: NewTopic, member: Member) -> None:
    for make in (reader, member):
        topic = new_topic(1)
        topic.produce(rows(10, 1))
        query = Query(lambda make=make, topic=topic: make(topic))  # type: ignore[misc]
        query.drain()
        query.reader.stop()
        topic.delete()
        topic.create()
        topic.produce(rows(20, 1))
        query.restart()
        with pytest.raises(
            KohortError, match=f"Topic {topic.name} was deleted and created again since this query read"
        ):
            query.plan()
        query.reader.stop()


def test_a_batch_of_a_recreated_topic_reads_nothing_of_the_new_one(
    new_topic: NewTopic, member: Member, caplog: pytest.LogCaptureFixture
) -> None:
    # The batch is planned of the old topic; its tasks, and its replay, come after the new one is there.
    for make in (reader, member):
        for lenient in ("false", "true"):
            topic = new_topic(1)
            topic.produce(rows(10, 1))
            query = Query(lambda make=make, topic=topic, fail=lenient: make(topic, failOnDataLoss=fail))  # type: ignore[misc]
            assert query.plan()
            topic.delete()
            topic.create()
            topic.written.clear()
            topic.produce(rows(20, 1))
            if lenient == "true":
                with pytest.raises(KohortError, match="the topic was deleted and created again"):
                    query.run()
                query.reader.stop()
                continue
            query.run()
            assert not query.sink
            assert "offsets 0 to 10 are no longer there: the topic was deleted and created again" in caplog.text
            query.reader.stop()
            query.restart()
            query.done = 0
            query.run()
            assert not query.sink
            read_all(query, topic)
            query.reader.stop()


def test_a_group_offset_of_a_topic_that_is_gone_is_not_the_new_topics(
    new_topic: NewTopic, member: Member, group: str
) -> None:
    # Brokers delete a topic's offsets with it. A commit that was under way may come behind that.
    topic = new_topic(1)
    topic.produce(rows(30, 1))
    topic.commit(group, 10, "0a0b0c0d0e0f 0a0b0c0d0e0f.1 AAAAAAAAAAAAAAAAAAAAAQ")
    strict = member(topic)
    with pytest.raises(KohortError, match="is of a topic that was deleted; the topic of that name is another one"):
        strict.latestOffset({}, ReadAllAvailable())
    strict.stop()
    query = Query(lambda: member(topic, failOnDataLoss="false", startingOffsets="latest"))
    query.drain()
    query.reader.stop()
    assert query.sink == dict.fromkeys(topic.written, 1)
    assert topic.lag(group) == 0


def test_a_deleted_or_recreated_topic_ends_the_query(new_topic: NewTopic, member: Member) -> None:
    quick = {"kafka.metadata.max.age.ms": "1", "kafka.request.timeout.ms": "2000"}
    for make in (reader, member):
        topic = new_topic(1)
        topic.produce(rows(10, 1))
        query = Query(lambda make=make, topic=topic: make(topic, **quick))  # type: ignore[misc]
        query.drain()
        topic.delete()
        topic.create()
        # As many records as before: the offsets alone would not tell.
        topic.produce(rows(20, 1))
        with pytest.raises(KohortError, match=f"Topic {topic.name} was deleted and created again"):
            query.plan()
        query.reader.stop()
        query.logged.clear()  # with a checkpoint of its own
        query.done = 0
        query.restart()
        query.plan()
        topic.delete()
        with pytest.raises(KohortError, match=f"Topic {topic.name} does not exist"):
            query.plan()
        query.reader.stop()


def test_a_checkpoint_of_something_else_is_not_taken_for_this_querys(
    new_topic: NewTopic, member: Member, group: str
) -> None:
    topic = new_topic(2)
    topic.produce(rows(10, 2))
    other = {"flights-of-yore": {"0": 17}}
    theirs = {topic.name: {"0": 3, "1": 3}, "@group": "theirs"}
    for make in (reader, member):
        with pytest.raises(KohortError, match="has topic flights-of-yore, which the query does not read"):
            make(topic).latestOffset(other, ReadAllAvailable())
        with pytest.raises(KohortError, match="a member's of group theirs, and the query is"):
            make(topic).latestOffset(theirs, ReadAllAvailable())
    imported = member(topic, importOffsets="true")
    end = imported.latestOffset(theirs, ReadAllAvailable())
    assert {name: end[topic.name][name] for name in "01"} == {"0": 5, "1": 5}
    assert end["@group"] == group
    assert topic.lag(group) == 4, "it begins where the other group's checkpoint ends"
    imported.stop()


def test_progress_has_the_lag_and_the_members_state(new_topic: NewTopic, member: Member, group: str) -> None:
    topic = new_topic(2)
    topic.produce(rows(10, 2))
    query = member(topic, maxOffsetsPerTrigger="4")
    query.latestOffset({}, ReadMaxRows(4))
    told = query.reportLatestOffset()
    query.stop()
    assert told[topic.name] == {"0": 5, "1": 5}
    assert told["@lag"] == 6
    member_state = told["@member"]
    assert (member_state["group"], member_state["partitions"], member_state["state"]) == (group, 2, "Stable")
    assert member_state["generation"] >= 1


def test_few_records_wait_for_more(new_topic: NewTopic) -> None:
    topic = new_topic(1)
    topic.produce(rows(3, 1))
    query = Query(lambda: reader(topic, minOffsetsPerTrigger="5"))
    assert not query.plan()
    topic.produce(rows(2, 1))
    assert query.step()
    query.reader.stop()
    assert len(query.sink) == 5


def test_a_member_commits_what_the_next_call_proves(new_topic: NewTopic, member: Member, group: str) -> None:
    topic = new_topic(2)
    topic.produce(rows(10, 2))
    query = Query(lambda: member(topic))
    assert query.step()
    assert topic.lag(group) == 10, "a batch is done only when Spark goes on from its end"
    assert not query.plan()
    assert topic.lag(group) == 0
    query.reader.stop()
    assert not topic.members(group)


def test_a_member_without_committed_offsets_begins_at_the_starting_offsets(
    new_topic: NewTopic, member: Member, group: str
) -> None:
    topic = new_topic(2)
    topic.produce(rows(20, 2))
    starting = json.dumps({topic.name: {"0": 4, "1": -1}})
    query = Query(lambda: member(topic, startingOffsets=starting))
    query.drain()
    query.reader.stop()
    assert query.sink == dict.fromkeys([(0, n) for n in range(4, 10)], 1)
    again = Query(lambda: member(topic))
    topic.produce(rows(2, 2))
    again.drain()
    again.reader.stop()
    assert again.sink == dict.fromkeys([(0, 10), (1, 10)], 1)


def test_available_now_reads_existing_records_and_leaves(new_topic: NewTopic, member: Member, group: str) -> None:
    topic = new_topic(4)
    topic.produce(rows(50, 3))
    query = Query(lambda: member(topic, maxOffsetsPerTrigger="20"))
    query.reader.prepareForTriggerAvailableNow()
    there = set(topic.written)
    assert query.step()
    topic.produce(rows(7, 4))
    query.drain()
    assert query.sink == dict.fromkeys(there, 1)
    assert topic.lag(group) == 7
    assert not topic.members(group)


def test_a_batch_under_way_keeps_its_partitions(new_topic: NewTopic, member: Member, group: str) -> None:
    topic = new_topic(4)
    topic.produce(rows(40, 4))
    first, second = Query(lambda: member(topic)), Query(lambda: member(topic))
    assert first.plan()  # from here on a batch of all four partitions runs
    joined: list[bool] = []
    joining = threading.Thread(target=lambda: joined.append(second.plan()))
    joining.start()
    until(20, "the second member has joined", lambda: len(topic.members(group)) == 2)
    first.run()
    topic.produce(rows(40, 4))
    while joining.is_alive():
        first.step()
    if joined == [True]:
        second.run()

    def shared() -> bool:
        topic.produce(rows(4, 4))
        first.step()
        second.step()
        return bool(second.sink)

    until(20, "the second has its share", shared)
    until(20, "all is read", lambda: not (first.step() | second.step()) and topic.lag(group) == 0)
    second.reader.stop()
    topic.produce(rows(40, 4))
    until(20, "the first has all again", lambda: not first.step() and topic.lag(group) == 0)
    first.reader.stop()
    assert first.sink + second.sink == dict.fromkeys(topic.written, 1)


def test_a_stop_in_the_middle_of_a_batch_leaves_it_to_the_others(
    new_topic: NewTopic, member: Member, group: str
) -> None:
    topic = new_topic(2)
    topic.produce(rows(20, 2))
    first, second = Query(lambda: member(topic)), Query(lambda: member(topic))
    assert first.plan()
    first.reader.stop()  # its batch is logged and never ran
    second.drain()
    assert len(second.sink) == 20
    second.reader.stop()
    first.restart()
    first.run()  # what Spark does first
    assert not first.sink
    topic.produce(rows(10, 2))
    first.drain()
    first.reader.stop()
    assert first.sink + second.sink == dict.fromkeys(topic.written, 1)


def test_a_stop_that_meets_a_revocation_commits_the_batch_that_is_done(
    new_topic: NewTopic, member: Member, group: str, tmp_path: Path
) -> None:
    # A revocation between Spark's signal and the leave waits for nothing: the checkpoint decides first.
    topic = new_topic(2)
    topic.produce(rows(20, 2))
    home = tmp_path / "first"
    first = Query(lambda: member(topic, checkpointLocation=str(home)), home)
    second = Query(lambda: member(topic))
    assert first.plan()
    first.run()
    stay = stay_of(first)
    stay.leaving = True
    second.plan()
    until(20, "a partition is given up", lambda: stay.membership and len(stay.membership.assignment) == 1)
    first.reader.stop()
    assert topic.lag(group) == 0
    second.reader.stop()


def test_partitions_are_revoked_even_if_the_commit_fails(new_topic: NewTopic, member: Member, group: str) -> None:
    # Were it still taken for ours, both would read it.
    topic = new_topic(2)
    topic.produce(rows(20, 2))
    first, second = Query(lambda: member(topic)), Query(lambda: member(topic))
    assert first.plan()
    first.run()
    stay = stay_of(first)
    stay.ledger.query = "x" * 5_000  # more metadata than a broker takes
    stay.ledger.complete(offset_from_json(first.offset(1)))
    joining = threading.Thread(target=second.plan)
    joining.start()
    until(20, "a partition is given up", lambda: stay.membership and len(stay.membership.assignment) == 1)
    assert stay.membership is not None
    until(20, "the ledger knows", lambda: owned(first) == stay.membership.assignment)  # type: ignore[union-attr]
    joining.join(20)
    second.reader.stop()
    with pytest.raises(KafkaError, match="metadata"):
        first.plan()
    first.reader.stop()
    assert stay._cluster is not None
    assert not stay._cluster.connections, "they are closed though the last commit failed"


def test_an_unusable_checkpoint_location_is_logged_once(
    new_topic: NewTopic, member: Member, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    home = tmp_path / "home"
    for location, why in (
        (str(home), None),
        (str(tmp_path / "other"), "is not this query's checkpoint"),
        ("s3a://somewhere", "is not on this host's file system"),
    ):
        topic = new_topic(1)
        query = Query(lambda topic=topic, location=location: member(topic, checkpointLocation=location), home)  # type: ignore[misc]
        for _ in range(3):
            topic.produce(rows(5, 1))
            assert query.step()
        query.reader.stop()
        told = [line for line in caplog.messages if line.startswith("checkpointLocation")]
        assert len(told) == (why is not None)
        assert why is None or why in told[0]
        caplog.clear()


def test_a_limit_is_kept(new_topic: NewTopic) -> None:
    topic = new_topic(2)
    topic.produce(rows(40, 2))
    query = reader(topic)
    end = query.latestOffset({}, ReadMaxRows(10))
    assert {name: number for name, number in end[topic.name].items() if "@" not in name} == {"0": 5, "1": 5}
    query.stop()


@pytest.mark.parametrize("seconds", [2.0, pytest.param(10.0, marks=pytest.mark.long("three queries for ten seconds"))])
def test_queries_that_come_and_go_read_each_record_once(
    new_topic: NewTopic, member: Member, group: str, tmp_path: Path, seconds: float
) -> None:
    # Each stops wherever it is, also between the log and the tasks; what a stopped query had planned, others may do.
    topic = new_topic(8)

    def make(home: Path) -> Query:
        options = {"maxOffsetsPerTrigger": "500", "checkpointLocation": str(home)}
        return Query(lambda: member(topic, **options), home)

    queries = [make(tmp_path / name) for name in "abc"]
    quiet = threading.Event()
    failures: list[BaseException] = []

    def live(query: Query, dice: random.Random) -> None:
        try:
            while not quiet.is_set() or query.done < len(query.logged):
                if query.done < len(query.logged) or (query.plan() and dice.random() < 0.8):
                    query.run()
                if not quiet.is_set() and dice.random() < 0.1:
                    query.reader.stop()
                    query.restart()
        except BaseException as error:
            failures.append(error)
            raise
        finally:
            disconnect()

    threads = [
        threading.Thread(target=live, args=(query, random.Random(n)), daemon=True) for n, query in enumerate(queries)
    ]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not failures:
        topic.produce(rows(100, 8))
    quiet.set()
    for thread in threads:
        thread.join(30)
    assert not failures
    assert not any(thread.is_alive() for thread in threads)
    until(30, "all is read", lambda: not sum(query.step() for query in queries) and topic.lag(group) == 0)
    for query in queries:
        query.reader.stop()
    found: Counter[tuple[int, int]] = sum((query.sink for query in queries), Counter())
    # Compared by what differs: pytest would take minutes to lay tens of thousands of records side by side.
    assert sorted(topic.written.keys() - found.keys())[:20] == [], "records that nobody read"
    assert sorted(at for at, times in found.items() if times > 1)[:20] == [], "records that came twice"
    assert all(query.sink for query in queries)


def test_a_pattern_finds_topics_that_come_while_it_runs(new_topic: NewTopic, member: Member, group: str) -> None:
    topic = new_topic(2)
    topic.produce(rows(10, 2))
    pattern = {"subscribe": "", "subscribePattern": f"{topic.name}(-later)?", "startingOffsets": "latest"}
    query = Query(lambda: member(topic, **pattern, **{"kafka.metadata.max.age.ms": "50"}))
    query.drain()
    later = Topic(topic.bootstrap, 2, f"{topic.name}-later")
    later.produce(rows(10, 2))
    # Its records are older than the query's knowledge of it: `latest` would leave a gap.
    until(20, "the new topic is read", lambda: not query.step() and len(query.sink) == 10)
    query.reader.stop()
    assert query.sink == dict.fromkeys(later.written, 1)
    assert later.lag(group) == 0


def test_a_query_that_restarts_under_its_id_moves_nothing(
    new_topic: NewTopic, member: Member, group: str, tmp_path: Path
) -> None:
    topic = new_topic(4)
    topic.produce(rows(40, 4))
    homes = [tmp_path / name for name in "ab"]
    for home in homes:
        home.mkdir()
        (home / "metadata").write_text(json.dumps({"id": f"{group}-{home.name}"}))  # as Spark does

    def make(home: Path) -> Query:
        return Query(lambda: member(topic, staticMembership="true", checkpointLocation=str(home)), home)

    a, b = queries = [make(home) for home in homes]
    until(20, "all is read", lambda: not sum(query.step() for query in queries) and topic.lag(group) == 0)
    until(20, "both have a share", lambda: not sum(query.step() for query in queries) and len(owned(b)) == 2)
    before = generation(b), owned(a), owned(b)
    a.reader.stop()
    assert len(topic.members(group)) == 2, "it keeps its place"
    topic.produce(rows(40, 4))
    b.drain()
    assert topic.lag(group) == 20, "what is the other's waits for it"
    a.restart()
    until(20, "all is read", lambda: not sum(query.step() for query in queries) and topic.lag(group) == 0)
    assert (generation(b), owned(a), owned(b)) == before
    assert a.sink + b.sink == dict.fromkeys(topic.written, 1)
    for query in queries:
        query.reader.stop()


def owned(query: Query) -> frozenset[TopicPartition]:
    return frozenset(stay_of(query).ledger.owned)


def generation(query: Query) -> int | None:
    membership = stay_of(query).membership
    assert membership is not None
    return membership.generation


def stay_of(query: Query) -> QueryMembership:
    stay: QueryMembership = query.reader._session._membership  # type: ignore[attr-defined]
    return stay


RUNNER = """
import sys
from pyspark_kohort import DefaultSource
from pyspark_kohort.columns import COLUMNS
reader = DefaultSource(dict(pair.split("=", 1) for pair in sys.argv[1:])).streamReader(COLUMNS)
start = reader.latestOffset({}, reader.getDefaultReadLimit())
print("planned", flush=True)
sys.stdin.read()
reader.stop()
"""


@pytest.mark.parametrize("hang_up", [False, True], ids=["signal", "hang-up and signal"])
def test_a_runner_that_spark_ends_leaves_its_group(new_topic: NewTopic, hang_up: bool) -> None:
    # Spark closes the socket, on which the runner calls `stop`, and sends SIGTERM: in any order.
    topic = new_topic(2)
    topic.produce(rows(10, 2))
    options = {
        "kafka.bootstrap.servers": topic.bootstrap,
        "subscribe": topic.name,
        "kafka.group.id": f"ended-{hang_up}",
    }
    command = [sys.executable, "-c", RUNNER, *(f"{name}={value}" for name, value in options.items())]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as runner:
        assert runner.stdin is not None
        assert runner.stdout is not None
        assert runner.stdout.readline() == "planned\n"
        assert len(topic.members(f"ended-{hang_up}")) == 1
        if hang_up:
            runner.stdin.close()
        runner.terminate()
        assert runner.wait(20) == -signal.SIGTERM
    assert not topic.members(f"ended-{hang_up}")


@pytest.mark.parametrize("kept_on", [False, True], ids=["fail", "continue"])
def test_a_member_that_lost_its_batch_fails_or_continues(
    new_topic: NewTopic, member: Member, group: str, kept_on: bool
) -> None:
    topic = new_topic(2)
    topic.produce(rows(20, 2))
    query = Query(lambda: member(topic, onLost="continue" if kept_on else "fail"))
    assert query.plan()
    (before,) = topic.members(group)
    topic.throw_out(group, before)
    until(20, "it has joined again", lambda: stay_of(query)._lost and topic.members(group))
    if kept_on:
        query.run()
        until(20, "it has read all", lambda: not query.step() and topic.lag(group) == 0)
    else:
        with pytest.raises(KohortError, match=r"took flights-.* away while a batch read them"):
            query.run()
        query.reader.stop()
        query.restart()
        query.run()
        query.drain()
    query.reader.stop()
    assert query.sink == dict.fromkeys(topic.written, 1)
