"""Blocking clients that are open when the interpreter exits: the process ends as it would without them."""

from __future__ import annotations

import socket
import subprocess
import sys
import textwrap

import pytest

from tests.client.produce.test_unclosed import program
from tests.interop.broker import Broker

READS_AT_THE_END = """
    import asyncio, ctypes, sys, threading
    from kohort.client.blocking.loop import LoopThread

    thread = LoopThread("reader")
    reading, writing = thread.call(lambda: asyncio.open_connection("127.0.0.1", int(sys.argv[1])))
    libc = ctypes.CDLL(None)
    for function, argument in reversed([(libc.puts, b"ended"), (libc.fflush, None), (libc.usleep, 300_000)]):
        libc.__cxa_atexit(function, argument, None)  # after the interpreter
    """
"""A loop has something to read when there is no interpreter any more, and the process still ends."""

ABANDONED = (
    READS_AT_THE_END
    + """
    begun, cancelled = threading.Event(), threading.Event()
    async def end_slowly():
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            cancelled.set()
            await asyncio.sleep(0.5)
    thread.loop.call_soon_threadsafe(lambda: asyncio.ensure_future(end_slowly()))
    begun.wait()
    thread.stop_soon()
    cancelled.wait()
    """
)
"""The loop is about to stop, because the application dropped its client."""

CLEARED = "import atexit; import kohort.client.blocking.loop; atexit._clear()\n" + textwrap.dedent(READS_AT_THE_END)
"""The exit functions have been cleared before the loop begins, as in a process that multiprocessing has forked."""


@pytest.mark.parametrize(
    "text", [READS_AT_THE_END, ABANDONED, CLEARED], ids=["open", "abandoned", "cleared exit functions"]
)
def test_a_socket_with_data_does_not_crash_the_process_that_ends(text: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        command = [sys.executable, "-c", textwrap.dedent(text), str(server.getsockname()[1])]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            peer, _ = server.accept()
            with peer:
                assert process.stdout is not None
                assert process.stdout.readline() == b"ended\n"
                peer.sendall(b"x")
                output, error = process.communicate(timeout=30)
    assert (output, error, process.returncode) == (b"", b"", 0)


@pytest.mark.parametrize("kind", ["Admin", "Consumer", "Producer"])
def test_a_client_that_is_closed_after_the_exit_functions_does_not_wait_for_its_loop(kind: str) -> None:
    text = f"""
    from kohort.blocking import {kind}

    class Application:
        def __init__(self):
            self.client = {kind}(bootstrap_servers="127.0.0.1:1")

        def __del__(self):
            self.client.close()
            print("closed")

    application = Application()
    """
    ran = program(text)
    assert (ran.stdout, ran.stderr, ran.returncode) == ("closed\n", "", 0)


def test_a_call_after_the_exit_functions_is_refused() -> None:
    text = """
    from kohort.blocking import Producer

    class Application:
        def __init__(self):
            self.producer = Producer(bootstrap_servers="127.0.0.1:1")

        def __del__(self):
            self.producer.send("t", b"x")

    application = Application()
    """
    ran = program(text)
    assert "ClosedError: the interpreter exits: use clients, and close them, before" in ran.stderr
    assert ran.returncode == 0


@pytest.mark.parametrize("before", ["", "Admin(bootstrap_servers='127.0.0.1:1').close()"], ids=["first", "another"])
def test_a_client_that_is_made_after_the_exit_functions_is_refused(before: str) -> None:
    text = f"""
    from kohort.blocking import Admin

    class Application:
        def __del__(self):
            Admin(bootstrap_servers="127.0.0.1:1")

    {before}
    application = Application()
    """
    ran = program(text)
    assert "ClosedError: the interpreter exits: use clients, and close them, before" in ran.stderr
    assert ran.stderr.count("Error") == 1
    assert ran.returncode == 0


def test_a_process_whose_exit_functions_are_cleared_goes_on(any_broker: Broker, fresh: str) -> None:
    text = """
    import atexit, os, sys, threading
    from kohort import TopicPartition
    from kohort.blocking import Consumer
    from kohort.errors import KohortError
    with Consumer(bootstrap_servers=sys.argv[1]) as consumer:
        if (child := os.fork()) == 0:
            atexit._clear()  # as multiprocessing does
            def use():
                try:
                    consumer.end_offsets([])
                except KohortError as error:
                    print(type(error).__name__, flush=True)
            thread = threading.Thread(target=use)
            thread.start()
            thread.join()
            os._exit(0)
        os.waitpid(child, 0)
        atexit._clear()
        print(consumer.end_offsets([TopicPartition(sys.argv[2], 0)]))
    """
    ran = program(text, any_broker.bootstrap, fresh)
    ended = f"ConcurrentUseError\n{{TopicPartition(topic={fresh!r}, partition=0): 0}}\n"
    assert (ran.stdout, ran.stderr, ran.returncode) == (ended, "", 0)


def test_the_end_does_not_wait_for_a_thread_that_could_not_start() -> None:
    text = """
    import threading
    from kohort.blocking import Consumer
    from kohort.client.blocking import loop
    threading.stack_size(1 << 47)  # no system has the room
    try:
        Consumer(bootstrap_servers="127.0.0.1:1")
    except RuntimeError as error:
        print(error)
    print(loop._running)
    """
    ran = program(text)
    assert (ran.stdout, ran.stderr, ran.returncode) == ("can't start new thread\nset()\n", "", 0)


def test_an_exit_function_from_before_the_import_uses_a_client(any_broker: Broker, fresh: str) -> None:
    text = """
    import atexit, sys
    atexit.register(lambda: print(consumer.end_offsets([TopicPartition(sys.argv[2], 0)])))
    from kohort import TopicPartition
    from kohort.blocking import Consumer
    consumer = Consumer(bootstrap_servers=sys.argv[1])
    """
    ran = program(text, any_broker.bootstrap, fresh)
    assert (ran.stdout, ran.stderr) == (f"{{TopicPartition(topic={fresh!r}, partition=0): 0}}\n", "")


def test_a_daemon_thread_that_uses_a_client_prints_nothing_when_the_process_ends(
    any_broker: Broker, fresh: str
) -> None:
    text = """
    import sys, threading
    from kohort.blocking import Consumer
    consumer = Consumer(sys.argv[2], bootstrap_servers=sys.argv[1])
    polled = threading.Event()
    def poll():
        while True:
            consumer.poll(timeout=0.001)
            polled.set()
    threading.Thread(target=poll, daemon=True).start()
    polled.wait()
    """
    for _ in range(3):
        ran = program(text, any_broker.bootstrap, fresh)
        assert (ran.stdout, ran.stderr, ran.returncode) == ("", "", 0)


def test_a_daemon_thread_that_uses_a_client_after_the_exit_functions_prints_nothing() -> None:
    text = """
    import threading
    from kohort.blocking import Admin
    from kohort.client.blocking import loop

    def park_and_let_it_call():
        park_all()
        parked.set()
        thread.join(0.5)  # it must not end

    park_all, loop._park_all = loop._park_all, park_and_let_it_call
    parked, admin = threading.Event(), Admin(bootstrap_servers="127.0.0.1:1")
    thread = threading.Thread(target=lambda: parked.wait() and admin.list_topics(), daemon=True)
    thread.start()
    """
    ran = program(text)
    assert (ran.stdout, ran.stderr, ran.returncode) == ("", "", 0)


def test_the_end_waits_for_a_loop_that_is_busy() -> None:
    text = """
    import time
    from kohort.client.blocking.loop import LoopThread

    def work():
        while not thread._parking:
            time.sleep(0.001)
        time.sleep(0.2)

    class Application:
        def __del__(self):
            print(thread._parked.is_set())

    application, thread = Application(), LoopThread("busy")
    thread.loop.call_soon_threadsafe(work)
    """
    ran = program(text)
    assert (ran.stdout, ran.stderr, ran.returncode) == ("True\n", "", 0)


def test_an_open_client_warns() -> None:
    text = """
    import warnings
    warnings.simplefilter("always")
    from kohort.blocking import Consumer
    consumer = Consumer(bootstrap_servers="127.0.0.1:1")
    """
    assert "ResourceWarning: unclosed <kohort.client.blocking.consumer.Consumer" in program(text).stderr


@pytest.mark.parametrize(
    "client",
    [
        "from kohort.blocking import Consumer; client = Consumer(bootstrap_servers='127.0.0.1:1'); client.close()",
        "from kohort.compat.confluent import Producer; client = Producer({'bootstrap.servers': '127.0.0.1:1'})",
    ],
    ids=["closed", "of a library that has no close"],
)
def test_a_client_that_need_not_be_closed_any_more_does_not_warn(client: str) -> None:
    ran = program(f"import warnings; warnings.simplefilter('always')\n{client}")
    assert (ran.stdout, ran.stderr, ran.returncode) == ("", "", 0)
