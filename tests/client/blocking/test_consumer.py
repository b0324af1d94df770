"""The blocking consumer, used by a thread: each method does what that of the asyncio consumer does."""

from __future__ import annotations

import contextlib
import gc
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from kohort import ConfigError, KohortError, Partitions, TopicPartition
from kohort.blocking import Consumer
from kohort.client import ClosedError, Phase
from kohort.member import OffsetAndMetadata
from kohort.testing import Broker
from tests.interop.process import until

ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)


@contextlib.contextmanager
def reading(*topics: str, **options: Any) -> Iterator[tuple[Broker, Consumer]]:
    """A consumer of the group g, and the topic t with five records in each of two partitions."""
    with Broker(topics={"t": 2}) as broker:
        broker.topic("t").produce(*map(str, range(10)))
        given: dict[str, Any] = {"auto_offset_reset": "earliest", "enable_auto_commit": False, "group_id": "g"}
        consumer = Consumer(*topics, bootstrap_servers=broker.bootstrap_servers, **{**given, **options})
        with contextlib.closing(consumer):
            yield broker, consumer


def read(consumer: Consumer, count: int) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    while len(found) < count:
        found += [(record.partition, record.offset) for record in consumer.poll(count - len(found), timeout=0.1)]
    return sorted(found)


def threads() -> set[threading.Thread]:
    """Threads of consumers. Another test's may still be ending, so tests compare with those before."""
    return {thread for thread in threading.enumerate() if thread.name == "kohort-consumer"}


def test_partitions_are_assigned_sought_paused_and_committed() -> None:
    with reading() as (_, consumer):
        consumer.assign([ZERO])
        assert consumer.assignment == {ZERO}
        consumer.incremental_assign([ONE])
        assert consumer.assignment == {ZERO, ONE}
        consumer.incremental_unassign([ZERO])
        assert consumer.assignment == {ONE}
        assert read(consumer, 5) == [(1, n) for n in range(5)]
        assert consumer.positions() == {ONE: 5} and consumer.position(ONE) == 5
        assert (consumer.lag(ONE), consumer.lags()) == (0, {ONE: 0})
        consumer.seek(ONE, 3)
        assert consumer.position(ONE) == 3
        consumer.seek_to_beginning([ONE])
        assert consumer.position(ONE) == 0
        consumer.seek_to_end()
        assert consumer.position(ONE) == 5
        consumer.incremental_assign([ZERO])
        consumer.seek(ONE, 0)
        consumer.pause([ONE])
        assert consumer.paused == {ONE}
        assert read(consumer, 5) == [(0, n) for n in range(5)]
        consumer.resume([ONE])
        assert consumer.paused == frozenset()
        assert read(consumer, 5) == [(1, n) for n in range(5)]
        assert consumer.committed([ZERO, ONE]) == {ZERO: None, ONE: None}
        consumer.commit({ZERO: 2})
        consumer.commit_nowait({ONE: 3}).result(10)
        assert consumer.committed([ZERO, ONE]) == {ZERO: OffsetAndMetadata(2), ONE: OffsetAndMetadata(3)}
        consumer.unsubscribe()
        assert consumer.assignment == frozenset()


def test_offsets_and_partitions_of_topics_are_looked_up() -> None:
    with reading() as (_, consumer):
        assert consumer.partitions_for("t") == 2
        assert consumer.beginning_offsets([ZERO]) == {ZERO: 0}
        assert consumer.end_offsets([ZERO, ONE]) == {ZERO: 5, ONE: 5}
        found = consumer.offsets_for_times({ZERO: 0})[ZERO]
        assert found is not None and found.offset == 0


def test_a_member_tells_about_its_group_and_may_ask_for_a_rebalance() -> None:
    with reading() as (_, consumer):
        assert (consumer.state, consumer.member_id, consumer.generation) == (Phase.UNSUBSCRIBED, "", None)
        told: list[tuple[str, bool]] = []
        threads: list[threading.Thread] = []

        def tell(what: str) -> Callable[[Partitions], None]:
            return lambda partitions: told.append((what, threading.current_thread() is threads[0]))

        threads.append(threading.current_thread())
        consumer.subscribe(["t"], on_assigned=tell("won"), on_revoked=tell("gave up"))
        assert len(read(consumer, 10)) == 10
        assert consumer.subscription == {"t"} and consumer.state is Phase.STABLE
        assert consumer.member_id != "" and consumer.generation == 1
        consumer.enforce_rebalance()
        while consumer.generation != 2 or consumer.state is not Phase.STABLE:
            consumer.poll(timeout=0.02)
        consumer.tell_user_data()  # a classic member has nothing to send
        with pytest.raises(ConfigError, match="group_protocol consumer"):
            consumer.set_weight(2)
        consumer.unsubscribe()
        # A callback runs in the thread that polls, as it waits.
        assert told == [("won", True), ("gave up", True)] * 2


def test_iteration_ends_when_the_consumer_is_closed() -> None:
    with reading() as (_, consumer):
        consumer.assign([ZERO])
        offsets = []
        for record in consumer:
            offsets.append(record.offset)
            if record.offset == 4:
                consumer.close()
        assert offsets == [0, 1, 2, 3, 4]
        with pytest.raises(ClosedError):
            consumer.commit_nowait({ZERO: 1})
        with pytest.raises(ClosedError):
            consumer.poll()
        with pytest.raises(ClosedError):
            consumer.position(ZERO)


def test_a_callback_that_fails_is_raised_by_the_poll_and_the_next_one_continues() -> None:
    with reading() as (_, consumer):

        def fail(partitions: Partitions) -> None:
            raise ZeroDivisionError

        consumer.subscribe(["t"], on_assigned=fail)
        with pytest.raises(ZeroDivisionError):
            read(consumer, 10)
        assert len(read(consumer, 10)) == 10


def test_a_callback_closes_the_consumer_when_it_has_ended() -> None:
    before = threads()
    with reading() as (_, consumer):
        told: list[str] = []

        def assigned(partitions: Partitions) -> None:
            consumer.close()
            told.append(consumer.state.value)

        consumer.subscribe(["t"], on_assigned=assigned, on_revoked=lambda partitions: told.append("gave up"))
        with contextlib.suppress(ClosedError):  # the poll ends at once
            while not told:
                consumer.poll(timeout=60.0)
        assert threads() <= before
        with pytest.raises(ClosedError):
            consumer.poll()
        assert told[1:] == ["gave up"]


def test_a_consumer_without_a_group_has_nothing_to_tell_it() -> None:
    with reading() as (_, consumer):
        for use in (consumer.tell_user_data, consumer.enforce_rebalance, lambda: consumer.set_weight(2)):
            with pytest.raises(KohortError, match="only a consumer that subscribed has"):
                use()
        with pytest.raises(ConfigError, match="timeout"):
            consumer.close(timeout=-1.0)


def test_a_consumer_that_is_dropped_warns_and_disconnects() -> None:
    before = threads()
    with Broker(topics={"t": 1}) as broker:
        consumer = Consumer(bootstrap_servers=broker.bootstrap_servers, group_id="g")
        consumer.assign([ZERO])
        assert consumer.partitions_for("t") == 1
        with pytest.warns(ResourceWarning, match="unclosed"):
            del consumer
            gc.collect()
        until(20, "its thread ends", lambda: threads() <= before)


def test_closing_waits_no_longer_than_it_is_told() -> None:
    with reading(enable_auto_commit=True) as (broker, consumer):
        consumer.subscribe(["t"])
        read(consumer, 10)
        began = time.monotonic()
        with broker.fault(keys="OffsetCommit", hold=True, count=-1):
            consumer.close(timeout=0.1)
        assert time.monotonic() - began < 10


def test_a_thread_that_uses_a_consumer_is_named_to_others_and_only_while_it_does() -> None:
    with reading() as (_, consumer), ThreadPoolExecutor(thread_name_prefix="poller") as pool:
        consumer.assign([ZERO])
        read(consumer, 5)
        polling = pool.submit(consumer.poll, timeout=0.5)
        until(20, "the thread polls", lambda: consumer._depth == 1)
        for use in (lambda: consumer.poll(), lambda: consumer.positions(), lambda: consumer.close()):
            with pytest.raises(KohortError, match="the consumer is in use by poller_"):
                use()
        assert polling.result() == []
        assert consumer.positions() == {ZERO: 5}


@pytest.mark.parametrize("wrong", [{"topics": ("",)}, {"on_assigned": lambda partitions: None}, {"group_id": ""}])
def test_a_consumer_that_cannot_be_made_leaves_no_thread_and_no_warning(wrong: dict[str, Any]) -> None:
    before = threads()
    topics = wrong.pop("topics", ("t",) if "group_id" in wrong else ())
    given: dict[str, Any] = {"bootstrap_servers": "127.0.0.1:1", "group_id": "g", **wrong}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ConfigError):
            Consumer(*topics, **given)
        gc.collect()
    assert threads() <= before


def test_closing_without_a_commit_leaves_the_committed_offsets() -> None:
    with reading("t", enable_auto_commit=True) as (broker, consumer):
        assert len(read(consumer, 10)) == 10
        consumer.close(commit=False)
        assert broker.group("g").committed == {}
