"""The thread with an event loop: calls that come too late, or from another process, end with a sentence."""

import asyncio
import os
import threading
from concurrent.futures import Future

import pytest

from kohort.errors import KohortError
from kohort.testing import Broker
from kohort.testing.loop_thread import LoopThread


async def _nothing() -> None:
    pass


async def _forever() -> None:
    await asyncio.Event().wait()


def test_work_that_begins_while_the_loop_ends_is_not_waited_for_forever() -> None:
    thread = LoopThread("test", _nothing)
    late: list[Future[None]] = []

    async def outlives_the_stop() -> None:
        try:
            await _forever()
        finally:  # in the last turns of the loop, another thread gives it work
            other = threading.Thread(target=lambda: late.append(thread.begin(_forever())))
            other.start()
            other.join()

    first = thread.begin(outlives_the_stop())
    thread.stop()
    for each in (first, *late):
        with pytest.raises(KohortError, match="was stopped meanwhile"):
            each.result(timeout=5)
    assert len(late) == 1


@pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")  # the point of this test
def test_a_forked_process_is_told_that_the_broker_is_not_its_own() -> None:
    with Broker(topics={"orders": 1}) as broker:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                for call in (lambda: broker.bootstrap_servers, lambda: broker.group("g").wait(members=1)):
                    try:
                        call()
                    except KohortError as error:
                        os.write(writing, f"{error}\n".encode())
            finally:
                os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as told:
            lines = told.readlines()
        os.waitpid(child, 0)
    expected = f"The broker runs in process {os.getpid()}, of which this one is a fork: "
    assert len(lines) == 2 and all(line.startswith(expected) for line in lines)
