"""Topics to read, and members that read them."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Position
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kohort.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from pyspark_kohort.net.cluster import disconnect
from pyspark_kohort.net.connection import BlockingConnection
from tests.examples.postgres import Unavailable, running_postgres
from tests.interop.process import until

Rows = list[tuple[int, bytes | None, bytes | None]]
Member = Callable[..., Any]


@pytest.fixture
def spark_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Spark's own files in a place that is ours: executors of a local cluster work below it, in `work`."""
    home = tmp_path / "spark"
    home.mkdir()
    for entry in Path(pyspark.__file__).parent.iterdir():
        (home / entry.name).symlink_to(entry)
    monkeypatch.setenv("SPARK_HOME", str(home))
    return home


@pytest.fixture(autouse=True)
def known_to_this_thread(request: pytest.FixtureRequest) -> None:
    """Python's main thread can get another thread of the JVM in the middle of the tests, which knows no session."""
    if "spark" in request.fixturenames:
        from pyspark_kohort import register

        register(request.getfixturevalue("spark"))


@pytest.fixture(autouse=True)
def no_connections_left() -> Iterator[None]:
    """Tests play executors, whose connections live as long as their processes."""
    yield
    disconnect()


class Topic:
    """A topic of its own for a test: `produce` writes to it and returns what is in it, by partition and offset."""

    def __init__(self, bootstrap: str, partitions: int, name: str | None = None) -> None:
        self.bootstrap = bootstrap
        self.name = name or f"flights-{uuid.uuid4().hex[:8]}"
        self.partitions = partitions
        self.written: dict[tuple[int, int], tuple[bytes | None, bytes | None]] = {}
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "log_level": 0})
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        self.create()

    def create(self) -> None:
        for created in self._admin.create_topics([NewTopic(self.name, self.partitions, 1)]).values():
            created.result(10)

    def delete(self) -> None:
        """Gone for everybody when this returns."""
        for deleted in self._admin.delete_topics([self.name]).values():
            deleted.result(10)
        until(10, "the topic is gone", lambda: self.name not in self._admin.list_topics(timeout=10).topics)

    def produce(self, rows: Rows) -> None:
        """Write (partition, key, value) and wait until all are in the log; their offsets are remembered."""

        def delivered(key: bytes | None, value: bytes | None) -> Callable[[object, object], None]:
            def note(error: object, message: object) -> None:
                assert error is None
                self.written[message.partition(), message.offset()] = key, value  # type: ignore[attr-defined]

            return note

        for partition, key, value in rows:
            self._producer.produce(
                self.name,
                key=key,
                value=value,
                partition=partition,
                timestamp=1_700_000_000_000,
                headers=[("n", b"1")],
                on_delivery=delivered(key, value),
            )
            self._producer.poll(0)
        assert self._producer.flush(20) == 0

    def lag(self, group: str) -> int:
        """Records that the group has not committed; a partition without an offset counts in full."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": group, "log_level": 0})
        try:
            positions = consumer.committed([Position(self.name, n) for n in range(self.partitions)], timeout=10)
            ends = [consumer.get_watermark_offsets(position, timeout=10)[1] for position in positions]
        finally:
            consumer.close()
        return sum(end - max(0, position.offset) for end, position in zip(ends, positions, strict=True))

    def commit(self, group: str, offset: int, metadata: str) -> None:
        """For partition 0, as a client that is no member."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": group, "log_level": 0})
        try:
            consumer.commit(offsets=[Position(self.name, 0, offset, metadata)], asynchronous=False)
        finally:
            consumer.close()

    def members(self, group: str) -> list[str]:
        """The ids of the group's members."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        (described,) = admin.describe_consumer_groups([group]).values()
        return [member.member_id for member in described.result(10).members]

    def throw_out(self, group: str, member_id: str) -> None:
        """As a session that runs out, without the wait."""
        host, _, port = self.bootstrap.rpartition(":")
        with BlockingConnection(host, int(port), "tests", 10_000) as connection:
            leaving = LeaveGroupRequest(group_id=group, members=[MemberIdentity(member_id=member_id)])
            answer = connection.call(leaving, LeaveGroupResponse)
            assert not answer.error_code
            assert not any(member.error_code for member in answer.members)


@pytest.fixture(scope="session")
def bootstrap(request: pytest.FixtureRequest) -> str:
    """Our broker's address; Apache Kafka's with `--broker kafka`."""
    theirs = request.config.getoption("--broker") == "kafka"
    found: str = request.getfixturevalue("apache_kafka" if theirs else "kohort_broker").bootstrap
    return found


@pytest.fixture(scope="session")
def dsn() -> Iterator[str]:
    """A PostgreSQL, one per test process."""
    try:
        with running_postgres() as found:
            yield found
    except Unavailable as missing:
        pytest.skip(str(missing))


@pytest.fixture
def new_topic(bootstrap: str) -> Callable[[int], Topic]:
    return lambda partitions: Topic(bootstrap, partitions)


_numbers = itertools.count()


def rows(count: int, partitions: int) -> Rows:
    """Keys and values that differ from all others, spread over the partitions."""
    return [(n % partitions, b"key %d" % n, b"value %d" % n) for n in itertools.islice(_numbers, count)]


@pytest.fixture
def group() -> str:
    return f"readers-{uuid.uuid4().hex[:8]}"


@pytest.fixture(params=["classic", "consumer"])
def member(request: pytest.FixtureRequest, group: str) -> Member:
    """Makes readers that are members of the test's group, by each of the two protocols."""
    fast = {"kafka.heartbeat.interval.ms": "100"} if request.param == "classic" else {}
    fast |= {"kafka.group.id": group, "kafka.group.protocol": request.param, "groupMode": "member"}
    from tests.spark.query import reader

    return lambda topic, **options: reader(topic, **(fast | options))
