"""A client used where it cannot be says so at once: by two threads, after a fork, in another event loop."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
import threading
from collections.abc import Awaitable, Callable

import pytest

from kohort import Admin, ConcurrentUseError, Consumer, NewTopic, Producer, TopicPartition, blocking
from tests.interop.broker import Broker

METHODS: dict[str, Callable[[blocking.Consumer, str], object]] = {
    "poll": lambda consumer, topic: consumer.poll(timeout=0.1),
    "iterate": lambda consumer, topic: next(consumer),
    "commit": lambda consumer, topic: consumer.commit(),
    "commit_nowait": lambda consumer, topic: consumer.commit_nowait(),
    "seek": lambda consumer, topic: consumer.seek(TopicPartition(topic, 0), 0),
    "subscribe": lambda consumer, topic: consumer.subscribe([topic]),
    "unsubscribe": lambda consumer, topic: consumer.unsubscribe(),
    "position": lambda consumer, topic: consumer.position(TopicPartition(topic, 0)),
    "close": lambda consumer, topic: consumer.close(),
}


def test_a_second_thread_in_a_consumer_fails_at_once_and_the_first_continues(any_broker: Broker, fresh: str) -> None:
    inside, done = threading.Event(), threading.Event()

    def assigned(partitions: object) -> None:
        consumer.positions()  # the thread that is in poll may go in once more
        inside.set()
        assert done.wait(30)

    with blocking.Admin(bootstrap_servers=any_broker.bootstrap) as admin:
        admin.create_topics([NewTopic(fresh, 1)])
    consumer = blocking.Consumer(
        fresh,
        bootstrap_servers=any_broker.bootstrap,
        group_id=fresh,
        on_assigned=assigned,
        auto_offset_reset="earliest",
    )
    read: list[bytes | None] = []
    thread = threading.Thread(target=lambda: read.append(next(consumer).value), name="the-reader")
    thread.start()
    assert inside.wait(30)
    for name, use in METHODS.items():
        with pytest.raises(ConcurrentUseError, match="in use by the-reader: one thread at a time"):
            use(consumer, fresh)
        assert name
    assert consumer.assignment == {TopicPartition(fresh, 0)}  # properties are for all threads
    done.set()
    with blocking.Producer(bootstrap_servers=any_broker.bootstrap) as producer:
        producer.send(fresh, b"x").result()
    thread.join(30)
    assert read == [b"x"]
    consumer.close()


FORK = """
    import os, sys
    from kohort import ConcurrentUseError
    from kohort.blocking import Admin, Consumer, Producer
    bootstrap, topic = sys.argv[1:]
    admin = Admin(bootstrap_servers=bootstrap)
    producer = Producer(bootstrap_servers=bootstrap)
    producer.send(topic, b"before").result()
    consumer = Consumer(topic, bootstrap_servers=bootstrap, group_id=topic, auto_offset_reset="earliest")
    assert next(consumer).value == b"before"
    delivery = producer.send(topic, b"on its way")
    child = os.fork()
    if child == 0:
        uses = [
            lambda: admin.list_topics(),
            lambda: producer.send(topic, b"x"),
            lambda: producer.flush(),
            lambda: consumer.poll(timeout=0.1),
            lambda: next(consumer),
            lambda: consumer.commit_nowait(),
            lambda: consumer.lags(),
            lambda: consumer.paused,
            lambda: consumer.assignment,
            lambda: consumer.state,
            admin.close,
            producer.close,
            consumer.close,
        ]
        for use in uses:
            try:
                use()
            except ConcurrentUseError as error:
                print(error, flush=True)
        with admin, producer, consumer:
            sys.exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    delivery.result()
    producer.send(topic, b"after").result()
    assert topic in admin.list_topics()
    print([next(consumer).value for _ in range(2)])
    for client in (admin, producer, consumer):
        client.close()
    """


def test_a_client_raises_after_a_fork_and_its_parent_continues(any_broker: Broker, fresh: str) -> None:
    command = [sys.executable, "-W", "ignore:This process:DeprecationWarning", "-c", textwrap.dedent(FORK)]
    ran = subprocess.run([*command, any_broker.bootstrap, fresh], capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stderr) == (0, "")
    *told, last = ran.stdout.splitlines()
    assert len(told) == 13
    assert all("was made before the process forked" in line and "make another here" in line for line in told)
    assert last == "[b'on its way', b'after']"


ASYNCIO: dict[str, Callable[[str, str], tuple[Admin | Consumer | Producer, Callable[[], Awaitable[object]]]]] = {
    "Producer.send": lambda at, topic: ((client := Producer(bootstrap_servers=at)), lambda: client.send(topic, b"x")),
    "Producer.flush": lambda at, topic: ((client := Producer(bootstrap_servers=at)), client.flush),
    "Producer.close": lambda at, topic: ((client := Producer(bootstrap_servers=at)), client.close),
    "Consumer.poll": lambda at, topic: ((client := Consumer(bootstrap_servers=at)), client.poll),
    "Admin.list_topics": lambda at, topic: ((client := Admin(bootstrap_servers=at)), client.list_topics),
}


@pytest.mark.parametrize("kind", ASYNCIO)
async def test_a_client_is_refused_outside_of_its_event_loop(any_broker: Broker, fresh: str, kind: str) -> None:
    client, use = ASYNCIO[kind](any_broker.bootstrap, fresh)

    async def elsewhere() -> None:
        async with asyncio.timeout(10):
            with pytest.raises(ConcurrentUseError, match="can only be used in the event loop that created it"):
                await use()

    async with client:
        await asyncio.to_thread(lambda: asyncio.run(elsewhere()))


CLOSED_BY_A_HANDLER = """
    import os, signal, sys, threading
    from kohort.client import ClosedError
    from kohort.blocking import Consumer
    consumer = Consumer(sys.argv[2], bootstrap_servers=sys.argv[1], group_id=sys.argv[2])
    signal.signal(signal.SIGTERM, lambda *_: consumer.close())
    consumer.poll(timeout=0.1)
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGTERM)).start()
    """

LOOPS = {
    "iterating": "for record in consumer: pass\nprint('ended')",
    "polling": "try:\n    while True: consumer.poll(timeout=60.0)\nexcept ClosedError: print('ended')",
}


@pytest.mark.parametrize("how", LOOPS)
def test_a_signal_handler_may_close_the_consumer_that_its_thread_waits_in(
    how: str, any_broker: Broker, fresh: str
) -> None:
    with blocking.Admin(bootstrap_servers=any_broker.bootstrap) as admin:
        admin.create_topics([NewTopic(fresh, 1)])
    text = textwrap.dedent(CLOSED_BY_A_HANDLER) + LOOPS[how]
    done = subprocess.run(
        [sys.executable, "-c", text, any_broker.bootstrap, fresh], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "ended\n", "")
