"""Group commit: one sync for all that waits, answers after it, failures to everybody concerned."""

import asyncio
import errno
import gc
import threading
import weakref
from collections.abc import Callable
from pathlib import Path

import pytest

from kohort.broker.logs.group_commit import Writer
from kohort.log import FileStore, MemoryStore, PartitionLog, Topic
from kohort.log.api import Pending
from kohort.log.queue import NEW_FILES
from kohort.model import UUID
from kohort.wire.batches import Record, encode_batch


class Slow(MemoryStore):
    """Counts syncs, and holds each until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.syncs = 0
        self.go = threading.Event()
        self.error: Exception | None = None

    def sync(self, pending: Pending) -> None:
        self.syncs += 1
        assert self.go.wait(20)
        if self.error is not None:
            raise self.error
        super().sync(pending)


@pytest.fixture
def store() -> Slow:
    return Slow()


@pytest.fixture
def log(store: Slow) -> PartitionLog:
    topic = Topic(UUID(int=1), "t", 1)
    store.create_topic(topic)
    return store.partition(topic.topic_id, 0)


def append(log: PartitionLog) -> None:
    log.append(encode_batch([Record(0, 0, None, b"x", ())]), log.leader_epoch)


async def test_appends_during_a_sync_share_the_next_one(store: Slow, log: PartitionLog) -> None:
    writer = Writer(store, asyncio.get_running_loop(), lambda moved: None)
    acknowledged: list[int] = []
    for number in range(3):
        append(log)
        writer.current().then(lambda number=number: acknowledged.append(number), pytest.fail)  # type: ignore[misc]
    while not store.syncs:  # noqa: ASYNC110
        await asyncio.sleep(0)
    for number in range(3, 100):
        append(log)
        writer.current().then(lambda number=number: acknowledged.append(number), pytest.fail)  # type: ignore[misc]
    assert acknowledged == []
    assert log.stable_offset == 0
    store.go.set()
    await writer.close()
    assert acknowledged == list(range(100))
    assert (store.syncs, log.stable_offset) == (2, 100)


async def test_a_failed_sync_fails_what_was_appended_behind_it_too(store: Slow, log: PartitionLog) -> None:
    writer = Writer(store, asyncio.get_running_loop(), lambda moved: None)
    outcomes: list[str] = []
    append(log)
    writer.current().then(lambda: outcomes.append("first kept"), lambda: outcomes.append("first lost"))
    while not store.syncs:  # noqa: ASYNC110
        await asyncio.sleep(0)
    append(log)
    writer.current().then(lambda: outcomes.append("second kept"), lambda: outcomes.append("second lost"))
    store.error = OSError(errno.ENOSPC, "full")
    store.go.set()
    await writer.drain()
    assert outcomes == ["first lost", "second lost"]
    assert (log.stable_offset, log.end_offset) == (0, 0)
    store.error = None
    append(log)
    writer.current().then(lambda: outcomes.append("third kept"), pytest.fail)
    await writer.close()
    assert outcomes[-1] == "third kept"
    assert log.stable_offset == 1


async def test_the_last_moment_before_a_sync_still_belongs_to_it(store: Slow, log: PartitionLog) -> None:
    writer = Writer(store, asyncio.get_running_loop(), lambda moved: None)
    store.go.set()
    commit = writer.current()
    writer.before_take(lambda: append(log))
    await writer.close()
    assert commit.done
    assert log.stable_offset == 1


async def test_asking_for_a_commit_with_nothing_to_write_finishes_it(store: Slow) -> None:
    flushed: list[int] = []
    writer = Writer(store, asyncio.get_running_loop(), lambda moved: flushed.append(len(moved)))
    commit = writer.current()
    await writer.close()
    assert commit.done
    assert store.syncs == 0
    assert flushed == [0], "readers are throttled until something is flushed"


async def test_a_writer_that_is_closed_leaves_no_thread(store: Slow, log: PartitionLog) -> None:
    before = set(threading.enumerate())
    writer = Writer(store, asyncio.get_running_loop(), lambda moved: None)
    store.go.set()
    append(log)
    writer.current()
    await writer.close()
    assert log.stable_offset == 1
    assert set(threading.enumerate()) <= before


async def test_appends_during_a_failing_sync_fail_with_it(store: Slow, log: PartitionLog) -> None:
    # Were it written after the failure, a restart would find what was refused.
    writer = Writer(store, asyncio.get_running_loop(), lambda moved: None)
    append(log)
    writer.current()
    while not store.syncs:  # noqa: ASYNC110
        await asyncio.sleep(0)
    outcomes: list[str] = []
    writer.current_first().then(lambda: outcomes.append("kept"), lambda: outcomes.append("lost"))
    writer.before_take(lambda: append(log))
    store.error = OSError(errno.ENOSPC, "full")
    store.go.set()
    await writer.drain()
    assert outcomes == ["lost"]
    store.error = None
    append(log)
    writer.current()
    await writer.close()
    assert log.stable_offset == 1


async def test_a_bug_in_a_sync_is_reported_and_not_answered(store: Slow, log: PartitionLog) -> None:
    # Whether the records are on disk is not known, so the requests that wait get neither a success nor an error.
    mistake = ValueError("a mistake of ours")
    reported: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.set_result(context["exception"]))
    writer = Writer(store, asyncio.get_running_loop(), lambda moved: None)
    append(log)
    told: list[str] = []
    writer.current().then(lambda: told.append("kept"), lambda: told.append("lost"))
    store.error = mistake
    store.go.set()
    async with asyncio.timeout(20):
        assert await reported is mistake
    assert told == []


async def test_a_failing_callback_does_not_block_other_requests(store: Slow, log: PartitionLog) -> None:
    writer = Writer(store, asyncio.get_running_loop(), lambda moved: None)
    told = asyncio.Event()

    def fails() -> None:
        raise ValueError("a mistake of ours")

    append(log)
    writer.current().then(fails, pytest.fail)
    writer.current().then(told.set, pytest.fail)
    store.go.set()
    async with asyncio.timeout(20):
        await told.wait()
    await writer.close()


async def test_a_finished_commit_keeps_no_references(store: Slow) -> None:
    # A waiter may hold a reference to its commit: a cycle between the two would need the garbage collector.
    writer = Writer(store, asyncio.get_running_loop(), lambda moved: None)

    def wait() -> weakref.ref[Callable[[], None]]:
        commit = writer.current()

        def refused() -> None:
            pytest.fail(f"{commit} failed")

        commit.then(lambda: None, refused)
        return weakref.ref(refused)

    gc.disable()
    try:
        gone = wait()
        await writer.close()
        assert gone() is None
    finally:
        gc.enable()


async def test_the_commit_of_a_divided_sync_is_finished_after_its_last_part(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    topic = Topic(UUID(int=1), "wide", 2 * NEW_FILES)
    store.create_topic(topic)
    logs = [store.partition(topic.topic_id, number) for number in range(topic.partitions)]
    settled: list[int] = []
    writer = Writer(store, asyncio.get_running_loop(), lambda moved: settled.append(len(moved)))
    outcomes: list[str] = []
    for log in logs:
        append(log)
    writer.current().then(lambda: outcomes.append(f"written after {settled}"), pytest.fail)
    writer.current_first().then(lambda: outcomes.append(f"group after {settled}"), pytest.fail)
    await writer.close()
    assert outcomes == ["group after []", f"written after [{NEW_FILES}]"]
    assert settled == [NEW_FILES, NEW_FILES]
    store.close()


async def test_the_rest_of_an_append_without_waiters_is_not_taken_for_a_later_commit(tmp_path: Path) -> None:
    # An append whose request failed afterwards has asked for no commit, and is in the sync of a group's.
    store = FileStore(tmp_path)
    topic = Topic(UUID(int=1), "wide", 2 * NEW_FILES)
    store.create_topic(topic)
    logs = [store.partition(topic.topic_id, number) for number in range(topic.partitions)]
    writer = Writer(store, asyncio.get_running_loop(), lambda moved: None)
    acknowledged: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def append_more() -> None:
        append(logs[0])
        writer.current().then(lambda: acknowledged.set_result(logs[0].stable_offset), pytest.fail)

    for log in logs:
        append(log)
    writer.current_first().then(append_more, pytest.fail)
    async with asyncio.timeout(20):
        assert await acknowledged == 2
    await writer.close()
    assert [log.stable_offset for log in logs[1:]] == [1] * (topic.partitions - 1)
    store.close()


async def test_commits_that_finish_together_call_in_the_order_of_registration(store: Slow, log: PartitionLog) -> None:
    writer = Writer(store, asyncio.get_running_loop(), lambda moved: None)
    store.go.set()
    called: list[int] = []
    append(log)
    for number in range(6):
        commit = writer.current() if number % 2 else writer.current_first()
        commit.then(lambda number=number: called.append(number), pytest.fail)  # type: ignore[misc]
    await writer.close()
    assert called == [0, 1, 2, 3, 4, 5]


async def test_appends_that_nobody_waits_for_share_the_sync_of_the_next_one(store: Slow, log: PartitionLog) -> None:
    writer = Writer(store, asyncio.get_running_loop(), lambda moved: None)
    store.go.set()
    append(log)
    lazy = writer.current_first(in_a_hurry=False)
    append(log)
    assert writer.current_first() is lazy
    await writer.close()
    assert (store.syncs, log.stable_offset) == (1, 2)


@pytest.mark.parametrize("hurries", [False, True])
async def test_appends_that_nobody_waits_for_are_synced_soon(store: Slow, log: PartitionLog, *, hurries: bool) -> None:
    writer = Writer(store, asyncio.get_running_loop(), lambda moved: None)
    store.go.set()
    append(log)
    settled = asyncio.Event()
    writer.current_first(in_a_hurry=False).then(settled.set, pytest.fail)
    if hurries:
        writer.hurry()
    async with asyncio.timeout(20):
        await settled.wait()
    await writer.close()
    assert (store.syncs, log.stable_offset) == (1, 1)
