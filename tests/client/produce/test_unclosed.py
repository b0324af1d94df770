"""A producer that is not closed writes its records, or standard error shows how many were lost."""

from __future__ import annotations

import asyncio
import gc
import itertools
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from types import CodeType, FrameType

import pytest

from kohort import Admin, Consumer, Membership, Producer, blocking
from kohort.client import Cluster
from kohort.client.blocking.loop import BlockingClient, LoopThread
from kohort.client.produce import unclosed
from tests.client.conftest import eventually
from tests.client.produce.test_producer import read
from tests.interop.broker import Broker
from tests.interop.kohort import kohort_to_kill

Ran = subprocess.CompletedProcess[str]


def program(text: str, *arguments: str) -> Ran:
    """Run a program to its end, as a user does."""
    command = [sys.executable, "-c", textwrap.dedent(text), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


BLOCKING = """
    import sys
    from kohort.blocking import Producer
    producer = Producer(bootstrap_servers=sys.argv[1], linger_ms=60_000)
    for n in range(100):
        producer.send(sys.argv[2], b"%d" % n)
    """

ASYNCIO = """
    import asyncio, sys
    from kohort import Producer
    async def main():
        producer = Producer(bootstrap_servers=sys.argv[1], linger_ms=60_000)
        for n in range(100):
            await producer.send(sys.argv[2], b"%d" % n)
    asyncio.run(main())
    """

ASYNCIO_ON_ITS_WAY = """
    import asyncio, sys
    from kohort import Producer
    async def main():
        producer = Producer(bootstrap_servers=sys.argv[1], linger_ms=0)
        await (await producer.send(sys.argv[2], b"0"))
        for n in range(1, 100):
            await producer.send(sys.argv[2], b"%d" % n)
            if n % 10 == 0:
                await asyncio.sleep(0)
    asyncio.run(main())
    """

UVLOOP = """
    import uvloop, sys
    from kohort import Producer
    async def main():
        producer = Producer(bootstrap_servers=sys.argv[1], linger_ms=60_000)
        for n in range(100):
            await producer.send(sys.argv[2], b"%d" % n)
    uvloop.run(main())
    """

ASYNCIO_THAT_KNOWS_THE_TOPIC = """
    import asyncio, sys
    from kohort import Producer
    async def main():
        producer = Producer(bootstrap_servers=sys.argv[1], linger_ms=60_000)
        await producer.partitions_for(sys.argv[2])
        for n in range(100):
            producer.send_nowait(sys.argv[2], b"%d" % n)
    asyncio.run(main())
    """

LOOP_WITHOUT_AN_END = """
    import asyncio, sys
    from kohort import Producer
    loop = asyncio.new_event_loop()
    async def main():
        global producer
        producer = Producer(bootstrap_servers=sys.argv[1], linger_ms=60_000)
        for n in range(100):
            await producer.send(sys.argv[2], b"%d" % n)
    loop.run_until_complete(main())
    """

FAILING = """
    import sys
    from kohort.blocking import Producer
    producer = Producer(bootstrap_servers=sys.argv[1], linger_ms=60_000)
    for n in range(100):
        producer.send(sys.argv[2], b"%d" % n)
    raise ZeroDivisionError
    """

IN_A_FUNCTION = """
    import sys
    from kohort.blocking import Producer
    def main():
        producer = Producer(bootstrap_servers=sys.argv[1], linger_ms=60_000)
        for n in range(100):
            producer.send(sys.argv[2], b"%d" % n)
    main()
    """

IN_A_CHILD = """
    import multiprocessing, sys
    def main(bootstrap, topic):
        from kohort.blocking import Producer
        producer = Producer(bootstrap_servers=bootstrap, linger_ms=60_000)
        for n in range(100):
            producer.send(topic, b"%d" % n)
    child = multiprocessing.get_context("fork").Process(target=main, args=sys.argv[1:])
    child.start()
    child.join()
    """

PROGRAMS = {
    "blocking": BLOCKING,
    "asyncio": ASYNCIO,
    "asyncio_on_its_way": ASYNCIO_ON_ITS_WAY,
    "asyncio_that_knows_the_topic": ASYNCIO_THAT_KNOWS_THE_TOPIC,
    "uvloop": UVLOOP,
    "loop_without_an_end": LOOP_WITHOUT_AN_END,
    "failing": FAILING,
    "in_a_function": IN_A_FUNCTION,
    "in_a_child": IN_A_CHILD,
}


@pytest.mark.parametrize("kind", PROGRAMS)
async def test_sent_records_are_written_when_the_program_ends(any_broker: Broker, fresh: str, kind: str) -> None:
    ran = await asyncio.to_thread(program, PROGRAMS[kind], any_broker.bootstrap, fresh)
    assert ("ZeroDivisionError" in ran.stderr) == (kind == "failing"), ran.stderr
    assert "not written" not in ran.stderr
    records = await read(any_broker.bootstrap, fresh, 100)
    assert sorted(int(record.value or b"") for record in records) == list(range(100))


@pytest.mark.parametrize("kind", ["blocking", "asyncio", "asyncio_on_its_way"])
def test_unwritten_records_are_counted_on_standard_error_when_the_program_ends(kind: str) -> None:
    dying = {
        "blocking": "producer.flush()",
        "asyncio": "await producer.flush()",
        "asyncio_on_its_way": "await producer.flush()",
    }[kind]
    text = f"""
    import asyncio, os, signal, sys
    from kohort{".blocking" if kind == "blocking" else ""} import Producer
    from kohort.client.produce import unclosed
    unclosed.FINISH_TIMEOUT_S = 0.5
    async def main():
        pass
    """
    if kind == "blocking":
        text += f"""
    producer = Producer(bootstrap_servers=sys.argv[1], linger_ms=60_000)
    producer.send("t", b"first")
    {dying}
    os.kill(int(sys.argv[2]), signal.SIGKILL)
    for n in range(57):
        producer.send("t", b"%d" % n)
    """
    else:
        linger = 60_000 if kind == "asyncio" else 0
        text += f"""
    async def main():
        producer = Producer(bootstrap_servers=sys.argv[1], linger_ms={linger})
        await producer.send("t", b"first")
        {dying}
        os.kill(int(sys.argv[2]), signal.SIGKILL)
        for n in range(57):
            await producer.send("t", b"%d" % n)
        await asyncio.sleep(0)
    asyncio.run(main())
    """
    with kohort_to_kill() as broker:
        ran = program(text, broker.bootstrap, str(broker.process.pid))
    assert "kohort: 57 records were not written" in ran.stderr
    assert ran.stderr.count("not written") == 1


def test_the_end_waits_for_a_bounded_time() -> None:
    text = """
    import sys, time
    from kohort.blocking import Producer
    from kohort.client.produce import unclosed
    unclosed.FINISH_TIMEOUT_S = 0.3
    producer = Producer(bootstrap_servers="127.0.0.1:1")
    producer.send("t", b"x")
    producer.send("u", b"x")
    print(time.monotonic())
    """
    ran = program(text)
    assert time.monotonic() - float(ran.stdout) < 5
    assert "kohort: 2 records were not written" in ran.stderr


async def test_a_producer_that_is_dropped_while_its_loop_runs_writes_what_it_has(
    any_broker: Broker, fresh: str
) -> None:
    producer = Producer(bootstrap_servers=any_broker.bootstrap, linger_ms=60_000)
    sent = [await producer.send(fresh, b"%d" % n) for n in range(10)]
    with pytest.warns(ResourceWarning, match="unclosed <kohort.client.produce.producer.Producer"):
        del producer
        gc.collect()
    async with asyncio.timeout(20):
        assert [(await delivery).offset for delivery in sent] == list(range(10))
    await eventually(lambda: not any(task.get_name().startswith("kohort") for task in asyncio.all_tasks()))


def test_a_blocking_producer_that_is_dropped_writes_what_it_has_and_ends_its_thread(
    any_broker: Broker, fresh: str
) -> None:
    producer = blocking.Producer(bootstrap_servers=any_broker.bootstrap, linger_ms=60_000)
    for n in range(10):
        producer.send(fresh, b"%d" % n)
    thread = producer._thread._thread
    with pytest.warns(ResourceWarning, match="unclosed"):
        del producer
        gc.collect()
    thread.join(20)
    assert not thread.is_alive()
    assert len(asyncio.run(read(any_broker.bootstrap, fresh, 10))) == 10


async def _membership(bootstrap: str, topic: str) -> Membership:
    return await Membership.join(Cluster.of(bootstrap), f"group-{topic}", [topic])


async def _polled(bootstrap: str, topic: str) -> Consumer:
    consumer = Consumer(topic, bootstrap_servers=bootstrap, group_id=f"group-{topic}")
    await consumer.poll(timeout=0.05)
    return consumer


CLIENTS: dict[str, Callable[[str, str], object]] = {
    "Admin": lambda bootstrap, topic: Admin(bootstrap_servers=bootstrap).list_topics(),
    "Consumer": _polled,
    "Membership": _membership,
    "Producer": lambda bootstrap, topic: Producer(bootstrap_servers=bootstrap).partitions_for(topic),
}


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("kind", CLIENTS)
def test_a_client_that_is_garbage_unclosed_warns(any_broker: Broker, fresh: str, kind: str) -> None:
    async def main() -> None:
        await CLIENTS[kind](any_broker.bootstrap, fresh)  # type: ignore[misc]

    with pytest.warns(ResourceWarning, match=rf"unclosed <kohort\.client\.[\w.]+\.{kind} "):
        asyncio.run(main())
        gc.collect()
    gc.collect()  # the transports, which the warning held


@pytest.mark.parametrize("kind", ["Admin", "Consumer", "Producer"])
def test_a_blocking_client_that_is_garbage_unclosed_warns_and_ends_its_thread(kind: str) -> None:
    client = getattr(blocking, kind)(bootstrap_servers="127.0.0.1:1")
    thread = client._thread._thread
    with pytest.warns(ResourceWarning, match=rf"unclosed <kohort\.client\.blocking\.\w+\.{kind} "):
        del client
        gc.collect()
    thread.join(20)
    assert not thread.is_alive()


async def test_closed_clients_are_forgotten(any_broker: Broker, fresh: str) -> None:
    others = set(unclosed._open)  # another test's may not be collected yet
    async with Producer(bootstrap_servers=any_broker.bootstrap) as producer:
        await producer.send(fresh, b"x")
        assert len(set(unclosed._open) - others) == 1
    assert not set(unclosed._open) - others


class _Interrupts:
    """Ctrl-C before the n-th line of a constructor."""

    def __init__(self, code: set[CodeType], line: int) -> None:
        self._code = code
        self._left = line

    def __call__(self, frame: FrameType, event: str, _argument: object) -> _Interrupts | None:
        if frame.f_code not in self._code:
            return None
        if event == "line":
            self._left -= 1
            if self._left == 0:
                raise KeyboardInterrupt
        return self


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # of a half that has no connection yet; Python hides it
@pytest.mark.parametrize("client", [blocking.Admin, blocking.Consumer, blocking.Producer])
def test_a_blocking_client_whose_constructor_is_interrupted_logs_nothing_and_leaves_no_thread(
    client: type[blocking.Admin], monkeypatch: pytest.MonkeyPatch
) -> None:
    unraisable: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda told: unraisable.append(told.exc_value))
    code = {client.__init__.__code__, BlockingClient.__init__.__code__, LoopThread.__init__.__code__}
    tracing = sys.gettrace()
    for line in itertools.count(1):
        threads = set(threading.enumerate())
        sys.settrace(_Interrupts(code, line))
        try:
            made = client(bootstrap_servers="127.0.0.1:1")
        except KeyboardInterrupt:
            pass
        else:
            break
        finally:
            sys.settrace(tracing)
        gc.collect()
        for thread in set(threading.enumerate()) - threads:
            thread.join(10.0)
            assert not thread.is_alive(), line
        assert unraisable == [], line
    made.close()
    assert line > 10
