"""Flushing and closing a producer, and producers that are not closed."""

from __future__ import annotations

import asyncio
import gc

import pytest

from kohort import ErrorCode, KafkaError, Producer
from kohort.client import ClosedError, DeliveryFailedError
from kohort.client.produce import unclosed
from kohort.errors import ConfigError
from tests.client.conftest import eventually
from tests.client.producing import NOWHERE, append, producing, tasks


async def test_a_flush_waits_and_then_raises_what_failed_unseen() -> None:
    async with producing() as here, here.producer(linger_ms=60_000) as producer:
        held = await producer.send("t", b"x")
        await producer.flush()
        assert (await held).offset == 0
        here.refuse(ErrorCode.MESSAGE_TOO_LARGE)
        held = await producer.send("t", b"x")
        with pytest.raises(DeliveryFailedError, match="1 record was not written"):
            await producer.flush(timeout=10)
        await producer.flush()
        assert held.done()


async def test_a_flush_may_be_limited_and_leaves_the_records_where_they_are() -> None:
    async with producing() as here, here.producer() as producer:
        here.hold()
        sent = await producer.send("t", b"x")
        with pytest.raises(KafkaError, match=r"1 records are not written after 0\.02 s") as raised:
            await producer.flush(timeout=0.02)
        assert raised.value.code is ErrorCode.REQUEST_TIMED_OUT
        for wait in (producer.flush(timeout=-1), producer.close(timeout=-1)):
            with pytest.raises(ConfigError, match="timeout"):
                await wait
        here.release()
        assert (await sent).offset == 0


async def test_closing_writes_what_there_is_and_ends_everything() -> None:
    async with producing() as here:
        producer = here.producer(linger_ms=60_000)
        sent = await producer.send("t", b"x")
        await producer.close()
        assert (await sent).offset == 0
        assert producer.cluster.connections == []
        await producer.close()
        for wait in (producer.ready("t"), producer.partitions_for("t"), producer.send("u", b"x")):
            with pytest.raises(ClosedError):
                await wait


async def test_closing_may_be_limited_and_what_is_left_fails(caplog: pytest.LogCaptureFixture) -> None:
    async with producing() as here:
        here.hold()
        producer = here.producer()
        sent = await producer.send("t", b"x")
        await producer.close(timeout=0.02)
        with pytest.raises(KafkaError) as raised:
            await sent
        assert raised.value.code is ErrorCode.OPERATION_NOT_ATTEMPTED
        assert producer.cluster.connections == []
    assert not caplog.records


async def test_an_error_in_the_block_does_not_wait_for_records_and_no_error_does() -> None:
    async with producing() as here:
        async with asyncio.timeout(10):
            with pytest.raises(ZeroDivisionError):
                async with here.producer(linger_ms=60_000) as producer:
                    lost = await producer.send("t", b"x")
                    raise ZeroDivisionError
            with pytest.raises(KafkaError):
                await lost
            async with here.producer(linger_ms=60_000) as producer:
                written = await producer.send("t", b"x")
            assert (await written).offset == 0


async def test_closing_that_is_cancelled_ends_everything_all_the_same() -> None:
    async with producing() as here:
        here.hold()
        producer = here.producer()
        await producer.send("t", b"x")
        closing = asyncio.ensure_future(producer.close())
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        assert producer.cluster.connections == []


# Producers that are not closed


async def test_a_producer_is_remembered_from_its_first_topic_until_it_is_closed() -> None:
    async with producing() as here:
        for use in ("ready", "partitions_for"):
            core = here.core()
            assert core not in unclosed._open
            for _ in range(2):
                await getattr(core, use)("t")
            assert core in unclosed._open
            assert len(tasks("kohort-unclosed-producer")) == 1
            await core.close(None)
            assert core not in unclosed._open
            assert not tasks("kohort-unclosed-producer")


async def test_a_producer_that_is_kept_by_another_thread_is_not_remembered() -> None:
    async with producing() as here:
        core = here.core(keep=False)
        await core.ready("t")
        assert core not in unclosed._open
        assert not tasks("kohort-unclosed-producer")
        await core.close(None)


async def test_finishing_writes_what_there_is_and_tells_what_is_lost() -> None:
    async with producing() as here:
        for lost in (0, 1):
            core = here.core(linger_ms=60_000)
            await core.ready("t")
            delivery = append(core)
            if lost:
                here.hold()
            assert await core.finish(0.05 if lost else 10.0) == lost
            assert core.closed and core.cluster.connections == []
            assert (delivery._batch.failure is not None) == bool(lost)
            assert await core.finish(10.0) == 0


async def test_what_finishing_loses_is_not_logged_beside_its_number(caplog: pytest.LogCaptureFixture) -> None:
    async with producing() as here:
        core = here.core()
        await core.ready("t")
        here.hold()
        append(core)
        assert await core.finish(0.01) == 1
        gc.collect()
    assert not caplog.records


async def test_at_the_end_of_the_loop_what_there_is_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    async with producing() as here:
        core = here.core(linger_ms=60_000)
        await core.ready("t")
        delivery = append(core)
        (keeper,) = tasks("kohort-unclosed-producer")
        keeper.cancel()  # as `asyncio.run` does
        await keeper
        assert (delivery.result().offset, core.closed) == (0, True)
        assert core not in unclosed._open
    assert capsys.readouterr().err == ""


async def test_at_the_end_of_the_loop_what_is_lost_is_counted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unclosed, "FINISH_TIMEOUT_S", 0.02)
    async with producing() as here:
        core = here.core()
        await core.ready("t")
        here.hold()
        append(core)
        (keeper,) = tasks("kohort-unclosed-producer")
        keeper.cancel()
        await keeper
    assert capsys.readouterr().err.startswith("kohort: 1 record was not written, because the producer was not closed")


async def test_a_producer_that_is_dropped_warns_and_writes_what_it_has() -> None:
    async with producing() as here:
        producer = here.producer(linger_ms=60_000)
        sent = await producer.send("t", b"x")
        with pytest.warns(ResourceWarning, match="unclosed <kohort.client.produce.producer.Producer"):
            del producer
            gc.collect()
        assert (await sent).offset == 0
        await eventually(lambda: not tasks("kohort-unclosed-producer"))


@pytest.mark.filterwarnings("error::ResourceWarning", "error::pytest.PytestUnraisableExceptionWarning")
async def test_a_producer_that_is_closed_or_was_never_made_is_dropped_without_a_word() -> None:
    async with producing() as here, here.producer() as producer:
        await producer.ready("t")
    del producer
    with pytest.raises(ConfigError):
        Producer(bootstrap_servers=NOWHERE, acks=7)
    gc.collect()
