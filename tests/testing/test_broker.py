"""The brokers of the kit: what a test starts, uses from its thread or its event loop, and stops."""

import asyncio
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

import kohort
from kohort import blocking
from kohort.errors import ErrorCode, KafkaError, KohortError
from kohort.log import MemoryStore
from kohort.testing import Broker, Cluster, ConnectionOpened, Event, RequestReceived
from kohort.wire.messages.metadata import MetadataRequest


def values_of(consumer: blocking.Consumer, count: int) -> list[bytes | None]:
    found: list[bytes | None] = []
    while len(found) < count:
        found += [record.value for record in consumer.poll()]
    return found


def test_a_blocking_client_uses_the_broker_from_the_thread_of_the_test() -> None:
    with Broker(topics={"orders": 3}) as broker:
        with blocking.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            producer.send("orders", b"first").result()
        with blocking.Consumer(
            "orders", bootstrap_servers=broker.bootstrap_servers, group_id="g", auto_offset_reset="earliest"
        ) as consumer:
            assert values_of(consumer, 1) == [b"first"]
            consumer.commit()
        assert broker.bootstrap_servers == f"{broker.host}:{broker.port}"


async def test_an_asyncio_client_uses_it_from_the_event_loop_of_the_test() -> None:
    before = set(threading.enumerate())  # a broker that tests share has such a thread, too
    async with Broker(topics={"orders": 1}) as broker:
        servers = broker.bootstrap_servers
        async with kohort.Producer(bootstrap_servers=servers) as producer:
            await (await producer.send("orders", b"first"))
        async with kohort.Consumer(
            "orders", bootstrap_servers=servers, group_id="g", auto_offset_reset="earliest"
        ) as consumer:
            assert [record.value for record in await consumer.poll()] == [b"first"]
        broker.create_topic("payments", 2)  # a call from the loop blocks it for less than a millisecond
    assert "kohort-testing" not in {thread.name for thread in set(threading.enumerate()) - before}


def test_a_broker_leaves_no_thread_and_can_be_started_again() -> None:
    before = set(threading.enumerate())
    broker = Broker()
    for _ in range(2):
        with broker:
            assert [thread.name for thread in set(threading.enumerate()) - before] == ["kohort-testing"]
        assert set(threading.enumerate()) == before


def test_a_stop_closes_the_connections_of_clients_that_are_still_there() -> None:
    broker = Broker(topics={"orders": 1}).start()
    with blocking.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        assert admin.list_topics() == ["orders"]
        broker.stop()
        broker.stop()


def test_a_call_without_a_running_broker_says_what_to_do() -> None:
    broker = Broker()
    with pytest.raises(KohortError, match="use it in a `with` block, or call `start` first"):
        broker.create_topic("orders")
    with broker, pytest.raises(KohortError, match="runs already"):
        broker.start()


def test_a_start_that_fails_leaves_nothing_behind() -> None:
    before = set(threading.enumerate())
    with Broker() as first:
        with pytest.raises(KohortError, match=f"Port {first.port} of 127.0.0.1 is taken"):
            Broker(port=first.port).start()
        with pytest.raises(KafkaError) as refused:
            Broker(topics={"a topic": 1}).start()
        assert refused.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION
        with pytest.raises(kohort.ConfigError, match=r"Unknown setting group\.initial"):
            Broker(settings={"group.initial": "1"}).start()
    assert set(threading.enumerate()) == before


def test_topics_are_created_while_it_runs() -> None:
    with Broker() as broker:
        topic_id = broker.create_topic("orders", 4, configs={"retention.ms": "1000"})
        with blocking.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            topic = admin.describe_topics(["orders"])["orders"]
            assert (topic.topic_id, len(topic.leaders)) == (topic_id, 4)
        with pytest.raises(KafkaError, match="already exists"):
            broker.create_topic("orders")


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_users_authenticate_by_their_passwords(mechanism: str) -> None:
    with Broker(users={"alice": r'won"der\land'}) as broker:
        options: kohort.AdminKeywords = {
            "bootstrap_servers": broker.bootstrap_servers,
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": mechanism,
            "sasl_plain_username": "alice",
            "sasl_plain_password": r'won"der\land',
        }
        with blocking.Admin(**options) as admin:
            assert admin.list_topics() == []
        options["sasl_plain_password"] = "x"
        with pytest.raises(kohort.AuthenticationError), blocking.Admin(**options) as admin:
            admin.list_topics()


def test_a_store_outlives_the_broker_that_is_given_it(tmp_path: Path) -> None:
    with Broker(data=tmp_path / "data", topics={"orders": 1}) as broker:
        topic_id = broker._run(lambda: broker.node.topics.named("orders"))
    with Broker(data=tmp_path / "data") as broker:
        assert broker._run(lambda: broker.node.topics.named("orders")) == topic_id
    with Broker(store=MemoryStore()) as broker:
        assert broker._run(lambda: dict(broker.node.topics.all())).keys() == {"__consumer_offsets"}


def test_an_observer_sees_what_happens_until_it_is_removed() -> None:
    seen: list[Event] = []
    later: list[Event] = []
    with Broker(observers=[seen.append]) as broker:
        broker.observe(later.append)
        with blocking.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.list_topics()
        assert isinstance(later[0], ConnectionOpened)  # `seen` has the start of the broker, too
        assert broker._run(lambda: later == seen[-len(later) :])
        asked = [event for event in seen if isinstance(event, RequestReceived)]
        assert any(isinstance(event.request, MetadataRequest) for event in asked)
        broker.unobserve(later.append)
        count = len(later)
        with blocking.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.list_topics()
        assert len(later) == count < len(seen)


def test_an_error_of_an_observer_is_raised_to_the_next_caller() -> None:
    def fails(event: Event) -> None:
        raise ZeroDivisionError("of the observer")

    broker = Broker().start()
    servers = broker.bootstrap_servers
    broker.observe(fails)
    with blocking.Admin(bootstrap_servers=servers) as admin:
        assert admin.list_topics() == []
    with pytest.raises(ZeroDivisionError, match="of the observer") as raised:
        broker.create_topic("orders")
    assert raised.value.__notes__ == ["It was raised on the event loop of kohort.testing."]
    with blocking.Admin(bootstrap_servers=servers) as admin:
        assert admin.list_topics() == []
    with pytest.raises(ZeroDivisionError, match="of the observer"):
        broker.stop()


def test_an_error_on_the_event_loop_is_raised_to_the_next_caller() -> None:
    def fails() -> None:
        raise ZeroDivisionError("on the loop")

    broker = Broker().start()
    broker._run(lambda: asyncio.get_running_loop().call_soon(fails))
    with pytest.raises(ZeroDivisionError, match="on the loop"):
        broker.stop()


def test_the_error_of_the_with_block_matters_more_than_those_of_the_stop() -> None:
    def fails() -> None:
        raise ZeroDivisionError("on the loop")

    with pytest.raises(LookupError), Broker() as broker:
        broker._run(lambda: asyncio.get_running_loop().call_soon(fails))
        raise LookupError("of the test")


def test_a_call_from_the_loop_of_the_broker_does_not_wait_for_itself() -> None:
    with Broker() as broker:
        assert broker._run(lambda: broker.port) == broker.port
        with pytest.raises(KohortError, match="cannot be made on it"):
            broker._run(lambda: broker.create_topic("orders"))


def test_the_journal_has_the_rebalances_that_are_complete() -> None:
    with Broker(topics={"orders": 1}) as broker:
        assert broker.journal == []
        with blocking.Consumer("orders", bootstrap_servers=broker.bootstrap_servers, group_id="g") as consumer:
            consumer.poll(timeout=0.1)
        node = broker.node
        broker._run(node.journal.close)  # does not wait until the time of the last rebalance is over
        assert {record.group_id for record in broker.journal} == {"g"}


def test_a_cluster_has_several_brokers_that_share_its_topics() -> None:
    with Cluster(2, topics={"orders": 4}) as cluster:
        assert len(cluster.bootstrap_servers.split(",")) == 2
        cluster.create_topic("payments", 4, replicas=2)
        with blocking.Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
            topics = admin.describe_topics()
            led = {leader.node_id for topic in topics.values() for leader in topic.leaders.values()}
            assert led == {1, 2}
        with blocking.Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            for number in range(20):
                producer.send("payments", b"%d" % number, key=b"%d" % number).result()
        with blocking.Consumer(
            "payments", bootstrap_servers=cluster.bootstrap_servers, group_id="g", auto_offset_reset="earliest"
        ) as consumer:
            assert len(values_of(consumer, 20)) == 20


def test_a_cluster_removes_its_temporary_directory_but_keeps_a_given_one(tmp_path: Path) -> None:
    with Cluster(2, racks=["a", "b"]) as cluster:
        directory = cluster._temporary
        assert directory is not None and directory.is_dir()
    assert not directory.exists()
    with Cluster(2, data=tmp_path / "data", users={"alice": "wonderland"}):
        pass
    assert (tmp_path / "data" / "cluster.json").exists()
    with pytest.raises(KohortError, match="Give ports one entry for each of the 3 brokers, not 2"):
        Cluster(3, ports=[0, 0])


def test_a_broker_that_nothing_stops_ends_with_its_program() -> None:
    program = """
        import warnings
        from kohort.testing import Broker
        warnings.simplefilter("always")
        print(Broker().start().bootstrap_servers)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.startswith("127.0.0.1:")
    assert "a broker of kohort.testing was not stopped" in done.stderr
