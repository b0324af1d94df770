"""A broker that is killed between two steps of a transaction: the next one continues it, or ends what was decided."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from kohort.broker.transactions import marking
from kohort.errors import ErrorCode
from kohort.log import FileStore
from kohort.model import TopicPartition
from tests.broker.peer import Peer
from tests.broker.transactions.producers import (
    BOTH,
    NONE,
    TransactionalProducer,
    committed_values,
    fetched_offset,
)
from tests.broker.virtual import VirtualBroker, in_virtual_time


def killed(data: Path, to: Path) -> FileStore:
    """Return the store that a broker finds which starts after the one over `data` was killed now."""
    shutil.copytree(data, to)
    return FileStore(to)


async def opened(world: VirtualBroker, peer: Peer, version: int) -> TransactionalProducer:
    world.broker.topics.create("orders", 2)
    producer = TransactionalProducer(peer, version=version)
    await producer.ready()
    await producer.write("orders", 0, b"a")
    await producer.write("orders", 1, b"b")
    assert await producer.commit_offset("g", "orders", 0, 7) is NONE
    return producer


@BOTH
@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_that_was_open_can_be_ended_after_a_kill(version: int, commit: bool, tmp_path: Path) -> None:
    async def before(world: VirtualBroker, peer: Peer) -> tuple[TransactionalProducer, FileStore]:
        producer = await opened(world, peer, version)
        return producer, killed(tmp_path / "data", tmp_path / "after")

    async def after(world: VirtualBroker, peer: Peer) -> None:
        producer.peer = peer
        assert await committed_values(peer, "orders") == []
        assert await fetched_offset(peer, "g", "orders", stable=True) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        assert await producer.end(commit=commit) is NONE
        await producer.completed()
        await check(peer, committed=commit)

    producer, store = in_virtual_time(before, store=FileStore(tmp_path / "data"))
    in_virtual_time(after, store=store)


async def check(peer: Peer, *, committed: bool) -> None:
    assert await committed_values(peer, "orders", 0) == ([b"a"] if committed else [])
    assert await committed_values(peer, "orders", 1) == ([b"b"] if committed else [])
    assert await fetched_offset(peer, "g", "orders", stable=True) == (7 if committed else -1, NONE)


class _Lost:
    """Markers for these partitions are lost, as if the broker were killed before it writes them."""

    def __init__(self, patch: pytest.MonkeyPatch, lost: Callable[[TopicPartition], bool]) -> None:
        real = marking.append_marker

        def append(broker: object, partition: TopicPartition, *rest: object) -> None:
            if not lost(partition):
                real(broker, partition, *rest)  # type: ignore[arg-type]

        patch.setattr(marking, "append_marker", append)


@BOTH
@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("written", ["", "orders-0", "orders-1", "__consumer_offsets"])
def test_markers_that_were_not_written_before_a_kill_are_written_after_it(
    version: int, commit: bool, written: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def before(world: VirtualBroker, peer: Peer) -> tuple[TransactionalProducer, FileStore]:
        producer = await opened(world, peer, version)
        _Lost(monkeypatch, lambda partition: not (written and str(partition).startswith(written)))
        assert await producer.end(commit=commit) is NONE  # answered as soon as the decision is on disk
        world.broker.writer.current()
        await world.broker.writer.drain()
        assert (await producer.state()).transaction_state == ("PrepareCommit" if commit else "PrepareAbort")
        return producer, killed(tmp_path / "data", tmp_path / "after")

    async def after(world: VirtualBroker, peer: Peer) -> None:
        producer.peer = peer
        assert await producer.completed() == ("CompleteCommit" if commit else "CompleteAbort")
        await check(peer, committed=commit)
        assert await producer.init() is NONE
        await producer.write("orders", 0, b"next")
        assert await producer.end(commit=True) is NONE
        assert await producer.completed() == "CompleteCommit"
        assert (await committed_values(peer, "orders"))[-1] == b"next"

    producer, store = in_virtual_time(before, store=FileStore(tmp_path / "data"))
    monkeypatch.undo()
    in_virtual_time(after, store=store)


@BOTH
def test_a_transaction_that_was_open_is_aborted_by_its_timeout_after_a_kill(version: int, tmp_path: Path) -> None:
    async def before(world: VirtualBroker, peer: Peer) -> FileStore:
        await opened(world, peer, version)
        return killed(tmp_path / "data", tmp_path / "after")

    async def after(world: VirtualBroker, peer: Peer) -> None:
        producer = TransactionalProducer(peer)
        assert (await producer.state()).transaction_state == "Ongoing"
        await asyncio.sleep(producer.timeout_ms / 1000 + 60)  # its time began at the clock of the killed broker
        assert await producer.completed() == "CompleteAbort"
        await check(peer, committed=False)

    in_virtual_time(after, store=in_virtual_time(before, store=FileStore(tmp_path / "data")))


@BOTH
def test_a_repeated_end_is_answered_as_the_first_one_after_a_kill(version: int, tmp_path: Path) -> None:
    async def before(world: VirtualBroker, peer: Peer) -> tuple[TransactionalProducer, int, FileStore]:
        producer = await opened(world, peer, version)
        epoch = producer.epoch
        assert await producer.end(commit=True) is NONE
        assert await producer.completed() == "CompleteCommit"
        return producer, epoch, killed(tmp_path / "data", tmp_path / "after")

    async def after(world: VirtualBroker, peer: Peer) -> None:
        producer.peer, told = peer, producer.epoch
        producer.epoch = epoch  # as if the answer was lost with the broker
        assert await producer.end(commit=True) is NONE
        assert producer.epoch == told
        producer.epoch = epoch
        assert await producer.end(commit=False) is ErrorCode.INVALID_TXN_STATE

    producer, epoch, store = in_virtual_time(before, store=FileStore(tmp_path / "data"))
    in_virtual_time(after, store=store)
