"""Transactions while answers are late, lost or errors, and calls that come in another order."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from kohort import (
    ConfigError,
    Consumer,
    ConsumerGroupMetadata,
    ErrorCode,
    FatalTransactionError,
    KafkaError,
    KohortError,
    NotAssignedError,
    OffsetAndMetadata,
    Producer,
    ProducerFencedError,
    TopicPartition,
    TransactionAbortableError,
    TransactionState,
    TransactionStateError,
    TransactionTimeoutError,
    blocking,
)
from kohort.broker import Broker
from kohort.broker.config import FeatureUpdate, UpgradeType
from tests.client.conftest import eventually
from tests.client.link import Link, linked_broker
from tests.interop.settled import settled

PRODUCE, FIND, INIT, ADD_PARTITIONS, ADD_OFFSETS, END, OFFSETS = 0, 10, 22, 24, 25, 26, 28
T0 = TopicPartition("t", 0)


@dataclass
class Faulty:
    """A broker with the topic t, and a producer that reaches it over a link with faults."""

    broker: Broker
    link: Link
    producer: Producer
    refusals: dict[int, list[ErrorCode]] = field(default_factory=lambda: defaultdict(list))
    """By api key: the errors of the next answers."""

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.link.port}"

    def refuse(self, key: int, *codes: ErrorCode) -> None:
        """Let the next answers be these errors, though the broker does what it was asked for."""
        self.refusals[key] += codes

        def change(answer: Any, client: str | None) -> None:
            if not self.refusals[key]:
                return
            code = self.refusals[key].pop(0)
            for entry in answer.responses[0].partition_responses if key == PRODUCE else [answer]:
                entry.error_code = code

        self.link.change[key] = change

    async def values(self, isolation: str = "read_committed") -> list[bytes | None]:
        found: list[bytes | None] = []
        await settled(self.bootstrap, T0)
        async with Consumer(bootstrap_servers=self.bootstrap, isolation_level=isolation) as consumer:
            consumer.assign([T0])
            consumer.seek(T0, 0)
            end = (await consumer.end_offsets([T0]))[T0]
            while consumer.positions()[T0] < end:
                found += [record.value for record in await consumer.poll(timeout=0.1)]
        return found


@asynccontextmanager
async def faulty(version: int = 2, **options: Any) -> AsyncIterator[Faulty]:
    async with linked_broker(transaction_version=str(version)) as (broker, link):
        broker.topics.create("t", 1)
        quick: dict[str, Any] = {"linger_ms": 0, "retry_backoff_ms": 10, "retry_backoff_max_ms": 50, **options}
        async with Producer(bootstrap_servers=f"127.0.0.1:{link.port}", transactional_id="tx", **quick) as producer:
            yield Faulty(broker, link, producer)


async def test_a_commit_that_takes_too_long_goes_on_and_is_called_again() -> None:
    async with faulty(max_block_ms=500) as here:
        await here.producer.init_transactions()
        here.link.held[END] = asyncio.Event()
        here.producer.begin_transaction()
        await here.producer.send("t", b"a")
        with pytest.raises(TransactionTimeoutError, match="commit_transaction did not end within max_block_ms"):
            await here.producer.commit_transaction()
        assert here.producer.transaction_state is TransactionState.COMMITTING
        for other in (here.producer.abort_transaction, here.producer.init_transactions):
            with pytest.raises(TransactionStateError, match="commit_transaction did not end, so call it again"):
                await other()
        with pytest.raises(TransactionStateError, match="commit_transaction"):
            here.producer.begin_transaction()
        here.link.held.pop(END).set()
        await here.producer.commit_transaction()
        assert here.link.asked[END] == 1
        here.producer.begin_transaction()
        assert await here.values() == [b"a"]


async def test_the_result_of_a_commit_that_has_ended_meanwhile_is_kept_for_the_next_call() -> None:
    async with faulty(max_block_ms=500) as here:
        await here.producer.init_transactions()
        here.link.held[END] = asyncio.Event()
        here.producer.begin_transaction()
        await here.producer.send("t", b"a")
        with pytest.raises(TransactionTimeoutError):
            await here.producer.commit_transaction()
        here.link.held.pop(END).set()
        await eventually(lambda: here.producer.transaction_state is TransactionState.READY)
        with pytest.raises(TransactionStateError, match="call it again"):
            here.producer.begin_transaction()
        await here.producer.commit_transaction()
        here.producer.begin_transaction()


async def test_a_block_whose_commit_takes_too_long_says_so_and_aborts_nothing() -> None:
    async with faulty(max_block_ms=500) as here:
        await here.producer.init_transactions()
        here.link.held[END] = asyncio.Event()
        with pytest.raises(TransactionTimeoutError):
            async with here.producer.transaction():
                await here.producer.send("t", b"a")
        here.link.held.pop(END).set()
        await here.producer.commit_transaction()
        assert await here.values() == [b"a"]


async def test_a_cancelled_commit_goes_on() -> None:
    async with faulty() as here:
        await here.producer.init_transactions()
        here.link.held[END] = asyncio.Event()
        here.producer.begin_transaction()
        await here.producer.send("t", b"a")
        committing = asyncio.create_task(here.producer.commit_transaction())
        await eventually(lambda: here.link.asked[END] == 1)
        committing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await committing
        here.link.held.pop(END).set()
        await here.producer.commit_transaction()
        assert await here.values() == [b"a"]


async def test_a_cancelled_block_aborts() -> None:
    async with faulty() as here:
        inside = asyncio.Event()

        async def work() -> None:
            async with here.producer.transaction():
                await (await here.producer.send("t", b"a"))
                inside.set()
                await asyncio.sleep(60)

        working = asyncio.create_task(work())
        await inside.wait()
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working
        assert here.producer.transaction_state is TransactionState.READY
        async with here.producer.transaction():
            await here.producer.send("t", b"b")
        assert await here.values() == [b"b"]


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("arrived", [False, True])
@pytest.mark.parametrize("key", [FIND, INIT, ADD_PARTITIONS, ADD_OFFSETS, PRODUCE, OFFSETS, END])
async def test_what_is_lost_is_sent_again(version: int, arrived: bool, key: int) -> None:
    async with faulty(version) as here:
        here.link.cut_at[key] = [arrived, arrived]
        for number in range(2):
            async with here.producer.transaction() as transaction:
                await here.producer.send("t", b"%d" % number)
                await transaction.send_offsets({T0: number + 1}, "g")
        here.link.cut_at.clear()
        assert await here.values() == [b"0", b"1"]
        assert here.link.asked[ADD_PARTITIONS] == here.link.asked[ADD_OFFSETS] == 0 or version == 1
        async with Consumer(bootstrap_servers=here.bootstrap, group_id="g") as consumer:
            [committed] = (await consumer.committed([T0])).values()
            assert committed is not None and committed.offset == 2


async def test_errors_that_pass_are_waited_for() -> None:
    async with faulty() as here:
        passing = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR, ErrorCode.CONCURRENT_TRANSACTIONS)
        here.refuse(INIT, *passing)
        here.refuse(PRODUCE, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        async with here.producer.transaction():
            await here.producer.send("t", b"a")
        assert here.link.asked[INIT] == 4 and here.link.asked[FIND] == 2
        assert await here.values() == [b"a"]


@pytest.mark.parametrize("version", [1, 2])
async def test_each_version_of_transactions_has_its_versions_of_requests(version: int) -> None:
    async with faulty(version) as here:
        seen: list[bool] = []
        here.link.watch[PRODUCE] = lambda request: seen.append(request.topic_data[0].name == "t")  # a name up to v12
        async with here.producer.transaction():
            await here.producer.send("t", b"a")
        assert seen == [version == 1]
        assert here.link.asked[ADD_PARTITIONS] == (version == 1)


async def test_a_level_that_is_learned_from_another_connection_is_used_from_the_next_transaction_on() -> None:
    async with faulty(1) as here:
        async with here.producer.transaction():
            await here.producer.send("t", b"a")
        here.broker.features.update({"transaction.version": FeatureUpdate(2, UpgradeType.UPGRADE)}, validate_only=False)
        here.link.cut_at[PRODUCE] = [True]  # only the connection to the partition's leader is made again
        found, added = here.link.asked[FIND], here.link.asked[ADD_PARTITIONS]
        async with here.producer.transaction():
            await here.producer.send("t", b"b")
        assert here.link.asked[ADD_PARTITIONS] > added
        added = here.link.asked[ADD_PARTITIONS]
        async with here.producer.transaction():
            await here.producer.send("t", b"c")
        assert (here.link.asked[ADD_PARTITIONS], here.link.asked[FIND]) == (added, found)
        assert await here.values() == [b"a", b"b", b"c"]


@pytest.mark.parametrize("version", [1, 2])
async def test_a_record_that_times_out_makes_the_transaction_fail_and_the_next_one_succeeds(version: int) -> None:
    async with faulty(version, delivery_timeout_ms=400, request_timeout_ms=300) as here:
        here.link.held[PRODUCE] = asyncio.Event()
        asked: list[int] = []
        here.link.watch[INIT] = lambda request: asked.append(request.producer_id)
        with pytest.raises(TransactionAbortableError, match="delivery_timeout_ms"):
            async with here.producer.transaction():
                lost = await here.producer.send("t", b"a")
        here.link.held.pop(PRODUCE).set()
        with pytest.raises(KafkaError):
            await lost
        async with here.producer.transaction():
            await here.producer.send("t", b"b")
        await here.producer.flush()  # the abort has reported the record
        assert await here.values() == [b"b"]
        # Version 1 asks for another epoch, so that the lost record cannot land in the next transaction.
        assert any(producer_id != -1 for producer_id in asked) == (version == 1)


async def test_a_refused_record_is_raised_by_later_calls_until_the_abort() -> None:
    async with faulty() as here:
        await here.producer.init_transactions()
        here.producer.begin_transaction()
        here.refuse(PRODUCE, ErrorCode.INVALID_RECORD)
        with pytest.raises(KafkaError) as raised:
            await (await here.producer.send("t", b"a"))
        assert raised.value.code is ErrorCode.INVALID_RECORD
        for call in (
            lambda: here.producer.send("t", b"b"),
            lambda: here.producer.send_offsets_to_transaction({T0: 1}, "g"),
            here.producer.commit_transaction,
        ):
            with pytest.raises(TransactionAbortableError, match="INVALID_RECORD"):
                await call()
        await here.producer.abort_transaction()


async def test_a_fenced_producer_does_nothing_more() -> None:
    async with faulty() as here:
        await here.producer.init_transactions()
        here.producer.begin_transaction()
        here.refuse(PRODUCE, ErrorCode.PRODUCER_FENCED)
        with pytest.raises(KafkaError):
            await (await here.producer.send("t", b"a"))
        sent = here.link.asked[PRODUCE]
        for call in (here.producer.commit_transaction, here.producer.abort_transaction):
            with pytest.raises(ProducerFencedError, match="another producer uses the transactional ID"):
                await call()
        with pytest.raises(ProducerFencedError):
            await here.producer.send("t", b"b")
        assert here.link.asked[PRODUCE] == sent and here.link.asked[END] == 0


async def test_closing_aborts_what_is_open_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    async with faulty() as here:
        await here.producer.init_transactions()
        here.producer.begin_transaction()
        await (await here.producer.send("t", b"a"))
        await here.producer.close()
        assert "aborted the transaction that was open when the producer closed: transactional_id=tx" in caplog.text
        # No transaction is open: a read_committed consumer gets to the end.
        assert await here.values() == [] and await here.values("read_uncommitted") == [b"a"]


async def test_closing_without_time_says_what_is_left_open(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    async with faulty() as here:
        await here.producer.init_transactions()
        here.producer.begin_transaction()
        await (await here.producer.send("t", b"a"))
        await here.producer.close(timeout=0.0)
        assert "the coordinator aborts it after 60000 ms" in caplog.text
        assert here.link.asked[END] == 0


async def test_closing_waits_for_a_commit_that_the_application_gave_up() -> None:
    async with faulty(max_block_ms=500) as here:
        await here.producer.init_transactions()
        here.link.held[END] = asyncio.Event()
        here.producer.begin_transaction()
        await here.producer.send("t", b"a")
        with pytest.raises(TransactionTimeoutError):
            await here.producer.commit_transaction()
        closing = asyncio.create_task(here.producer.close(timeout=20.0))
        await asyncio.sleep(0)
        assert not closing.done()
        here.link.held.pop(END).set()
        await closing
        assert await here.values() == [b"a"]


async def test_closing_says_that_a_commit_had_not_ended(caplog: pytest.LogCaptureFixture) -> None:
    async with faulty(max_block_ms=500) as here:
        await here.producer.init_transactions()
        here.link.held[END] = asyncio.Event()
        here.producer.begin_transaction()
        with pytest.raises(TransactionTimeoutError):
            await (await here.producer.send("t", b"a"))
            await here.producer.commit_transaction()
        await here.producer.close()
        assert "closed before commit_transaction ended, so its result is not known" in caplog.text


async def test_a_lost_partition_aborts_the_transaction_that_has_its_records() -> None:
    async with faulty() as here:
        async with here.producer.transaction():
            await here.producer.send("t", b"a")
        options: dict[str, Any] = {"group_id": "g", "auto_offset_reset": "earliest", "enable_auto_commit": False}
        async with Consumer("t", bootstrap_servers=here.bootstrap, **options) as consumer:
            while not await consumer.poll():
                pass
            with pytest.raises(NotAssignedError, match="t-0"):
                async with here.producer.transaction(consumer):
                    await here.producer.send("t", b"copy")
                    await consumer.unsubscribe()
            assert here.producer.transaction_state is TransactionState.READY
        assert await here.values() == [b"a"]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_a_member_that_the_group_has_removed_commits_nothing_before_it_polls_again(protocol: str) -> None:
    # It may be a member again meanwhile, whose new generation the coordinator would accept.
    async with faulty() as here:
        async with here.producer.transaction():
            await here.producer.send("t", b"a")
        options: dict[str, Any] = {"group_id": "g", "auto_offset_reset": "earliest", "enable_auto_commit": False}
        options |= {"bootstrap_servers": here.bootstrap, "group_protocol": protocol}
        async with Consumer("t", **options) as consumer:
            while not await consumer.poll():
                pass
            with pytest.raises(NotAssignedError, match="t-0"):
                async with here.producer.transaction(consumer):
                    before = consumer.member_id, consumer.generation
                    here.broker.groups.shard("g").expire_member("g", consumer.member_id)
                    await eventually(lambda: (consumer.member_id, consumer.generation) != before)
            while not (again := await consumer.poll()):
                pass
            assert [record.value for record in again] == [b"a"]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_offsets_are_those_of_a_member_and_its_generation(protocol: str) -> None:
    async with faulty() as here:
        async with here.producer.transaction():
            await here.producer.send("t", b"a")
        options: dict[str, Any] = {"group_id": "g", "auto_offset_reset": "earliest", "enable_auto_commit": False}
        options |= {"bootstrap_servers": here.bootstrap, "group_protocol": protocol}
        async with Consumer("t", **options) as consumer:
            while not await consumer.poll():
                pass
            async with here.producer.transaction(consumer):
                pass
            assert (await consumer.committed([T0]))[T0] == OffsetAndMetadata(2, "", 0)
            old = consumer.group_metadata()
        async with Consumer("t", **options) as consumer:
            while not consumer.assignment:
                await consumer.poll(timeout=0.1)
            new = consumer.group_metadata()
            for wrong in (old, new._replace(generation_id=new.generation_id + 1), new._replace(member_id="other")):
                with pytest.raises(TransactionAbortableError):
                    async with here.producer.transaction() as transaction:
                        await transaction.send_offsets({T0: 1}, wrong)
            assert (await consumer.committed([T0]))[T0] == OffsetAndMetadata(2, "", 0)


async def test_a_consumer_that_commits_by_itself_is_refused() -> None:
    async with faulty() as here, Consumer("t", bootstrap_servers=here.bootstrap, group_id="g") as consumer:
        with pytest.raises(ConfigError, match="enable_auto_commit=False"):
            async with here.producer.transaction(consumer):
                pass


async def test_an_abort_returns_the_consumer_to_the_last_commit() -> None:
    async with faulty() as here:
        for number in range(6):
            async with here.producer.transaction():
                await here.producer.send("t", b"%d" % number)
        options: dict[str, Any] = {"enable_auto_commit": False, "max_poll_records": 2, "group_id": "g"}
        async with Consumer(bootstrap_servers=here.bootstrap, isolation_level="read_committed", **options) as consumer:
            consumer.assign([T0])
            consumer.seek(T0, 0)

            async def two() -> list[bytes | None]:
                found: list[bytes | None] = []
                while len(found) < 2:
                    found += [record.value for record in await consumer.poll(2 - len(found))]
                return found

            async def failing() -> list[bytes | None]:
                with pytest.raises(ZeroDivisionError):
                    async with here.producer.transaction(consumer):
                        found = await two()
                        raise ZeroDivisionError
                return found

            assert await failing() == await failing() == [b"0", b"1"]
            async with here.producer.transaction(consumer):
                assert await two() == [b"0", b"1"]
            assert await two() == [b"2", b"3"]
            await consumer.commit()
            assert await failing() == [b"4", b"5"]
            assert await two() == [b"4", b"5"]


@asynccontextmanager
async def reading(here: Faulty) -> AsyncIterator[Consumer]:
    """Six records, and a consumer at the first one."""
    for number in range(6):
        async with here.producer.transaction():
            await here.producer.send("t", b"%d" % number)
    options: dict[str, Any] = {"enable_auto_commit": False, "isolation_level": "read_committed", "group_id": "g"}
    async with Consumer(bootstrap_servers=here.bootstrap, **options) as consumer:
        consumer.assign([T0])
        consumer.seek(T0, 0)
        yield consumer


async def two(consumer: Consumer) -> list[bytes | None]:
    found: list[bytes | None] = []
    while len(found) < 2:
        found += [record.value for record in await consumer.poll(2 - len(found))]
    return found


async def test_an_abort_after_a_commit_that_took_too_long_returns_the_consumer_to_that_commit() -> None:
    # Else it would return records again whose results are committed.
    async with faulty(max_block_ms=1000) as here, reading(here) as consumer:
        here.link.held[END] = asyncio.Event()
        with pytest.raises(TransactionTimeoutError):
            async with here.producer.transaction(consumer):
                assert await two(consumer) == [b"0", b"1"]
        here.link.held.pop(END).set()
        await here.producer.commit_transaction()
        with pytest.raises(ZeroDivisionError):
            async with here.producer.transaction(consumer):
                assert await two(consumer) == [b"2", b"3"]
                raise ZeroDivisionError
        assert await two(consumer) == [b"2", b"3"]


async def test_a_blocking_producer_tells_the_consumer_of_a_commit_that_took_too_long() -> None:
    async with faulty() as here, reading(here):
        here.link.held[END] = asyncio.Event()
        loop, held = asyncio.get_running_loop(), here.link.held[END]

        def work() -> None:
            writing: dict[str, Any] = {"transactional_id": "b", "max_block_ms": 1000}
            reading: dict[str, Any] = {"enable_auto_commit": False, "group_id": "h", "max_poll_records": 2}
            with (
                blocking.Producer(bootstrap_servers=here.bootstrap, **writing) as producer,
                blocking.Consumer(bootstrap_servers=here.bootstrap, **reading) as consumer,
            ):
                consumer.assign([T0])
                consumer.seek(T0, 0)

                def one() -> bytes | None:
                    while not (records := consumer.poll(1)):
                        pass
                    value: bytes | None = records[0].value
                    return value

                with pytest.raises(TransactionTimeoutError), producer.transaction(consumer):
                    assert one() == b"0"
                loop.call_soon_threadsafe(held.set)
                producer.commit_transaction()
                with pytest.raises(ZeroDivisionError), producer.transaction(consumer):
                    assert one() == b"1"
                    raise ZeroDivisionError
                assert one() == b"1"

        await asyncio.to_thread(work)


async def test_a_commit_that_fails_after_it_took_too_long_returns_the_consumer_to_the_last_commit() -> None:
    # Else the next transaction would commit offsets after records that have no results.
    async with faulty(max_block_ms=1000, delivery_timeout_ms=3000, request_timeout_ms=2000) as here:
        async with reading(here) as consumer:
            here.link.held[PRODUCE] = asyncio.Event()
            with pytest.raises(TransactionTimeoutError):
                async with here.producer.transaction(consumer):
                    assert await two(consumer) == [b"0", b"1"]
                    await here.producer.send("t", b"result")
            await eventually(lambda: here.producer.transaction_state is TransactionState.ABORTABLE_ERROR)
            here.link.held.pop(PRODUCE).set()
            with pytest.raises(TransactionAbortableError):
                await here.producer.commit_transaction()
            await here.producer.abort_transaction()
            assert await two(consumer) == [b"0", b"1"]


async def test_an_abort_before_anything_was_sent_asks_for_nothing() -> None:
    async with faulty(linger_ms=60_000) as here:
        await here.producer.init_transactions()
        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                async with here.producer.transaction():
                    await here.producer.send("t", b"a")
                    await asyncio.sleep(0.01)  # the sender looks at the batch, which lingers
                    raise ZeroDivisionError
        assert here.link.asked[END] == here.link.asked[PRODUCE] == 0
        await here.producer.flush()


async def test_only_offsets_that_have_changed_are_part_of_a_transaction() -> None:
    async with faulty() as here:
        here.broker.topics.create("u", 3)
        sent: list[dict[str, list[int]]] = []
        here.link.watch[OFFSETS] = lambda request: sent.append(
            {topic.name: [at.partition_index for at in topic.partitions] for topic in request.topics}
        )
        async with here.producer.transaction():
            await here.producer.send("u", b"x", partition=1)
        options: dict[str, Any] = {"enable_auto_commit": False, "group_id": "g", "auto_offset_reset": "earliest"}
        async with Consumer(bootstrap_servers=here.bootstrap, **options) as consumer:
            consumer.assign([T0, *(TopicPartition("u", number) for number in range(3))])
            while not await consumer.poll():
                pass
            for _ in range(2):
                async with here.producer.transaction(consumer):
                    pass
        assert sent == [{"u": [1]}]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"transactional_id": ""}, "transactional_id is empty"),
        ({"transactional_id": "a", "acks": 1}, "needs acks=all"),
        ({"transactional_id": "a", "enable_idempotence": False}, "needs acks=all and enable_idempotence"),
        ({"transaction_timeout_ms": 1}, "only to a producer with a transactional_id"),
        ({"transactional_id": "a", "transaction_timeout_ms": 0}, "at least 1"),
    ],
)
async def test_options_that_contradict_transactions_are_refused(options: dict[str, Any], sentence: str) -> None:
    for make in (Producer, blocking.Producer):
        with pytest.raises(ConfigError, match=sentence):
            make(bootstrap_servers="127.0.0.1:1", **options)


async def test_offsets_without_a_group_are_refused() -> None:
    async with faulty() as here:
        with pytest.raises(Exception, match="offsets need their group"):
            async with here.producer.transaction() as transaction:
                await transaction.send_offsets({T0: 1})


def test_a_blocking_producer_says_the_same() -> None:
    calls: list[Callable[[blocking.Producer], object]] = [
        lambda producer: producer.init_transactions(),
        lambda producer: producer.transaction(),
        lambda producer: producer.begin_transaction(),
        lambda producer: producer.commit_transaction(),
        lambda producer: producer.abort_transaction(),
        lambda producer: producer.transaction_state,
    ]
    with blocking.Producer(bootstrap_servers="127.0.0.1:1") as producer:
        for call in calls:
            with pytest.raises(TransactionStateError, match="give it a transactional_id"):
                call(producer)


async def begin_and_fence(here: Faulty) -> None:
    """Write in a transaction, and start another producer with the same transactional ID."""
    await here.producer.init_transactions()
    here.producer.begin_transaction()
    await (await here.producer.send("t", b"a"))
    async with Producer(bootstrap_servers=here.bootstrap, transactional_id="tx") as newer:
        await newer.init_transactions()


async def test_closing_a_fenced_producer_does_not_say_that_its_transaction_is_open(
    caplog: pytest.LogCaptureFixture,
) -> None:
    # The transaction was aborted by whoever fenced it. Nobody waits for its timeout.
    async with faulty() as here:
        await begin_and_fence(here)
        await here.producer.close()
        assert "closed with a transaction that has no effect: transactional_id=tx: PRODUCER_FENCED" in caplog.text
        assert "the coordinator aborts it" not in caplog.text


async def test_a_write_that_is_fenced_says_what_can_be_the_reason() -> None:
    async with faulty() as here:
        await begin_and_fence(here)
        with pytest.raises(KafkaError):
            await (await here.producer.send("t", b"b"))
        reason = (
            "another producer uses the transactional ID, or the transaction took longer than transaction_timeout_ms"
        )
        with pytest.raises(TransactionAbortableError, match=reason):
            await here.producer.commit_transaction()


async def test_a_timeout_that_the_brokers_refuse_is_named() -> None:
    async with faulty(transaction_timeout_ms=900_001) as here:
        with pytest.raises(FatalTransactionError, match="timeout_ms=900001 is more than the brokers'"):
            await here.producer.init_transactions()


@pytest.mark.parametrize("group", ["", None, ConsumerGroupMetadata("")])
async def test_offsets_without_a_group_harm_nothing(group: Any) -> None:
    # A broker answers INVALID_GROUP_ID, which would be the producer's end.
    async with faulty() as here:
        async with here.producer.transaction() as transaction:
            await here.producer.send("t", b"a")
            with pytest.raises(KohortError, match="offsets need their group"):
                await transaction.send_offsets({TopicPartition("t", 0): 1}, group)
        assert await here.values() == [b"a"]


async def committed_offset(consumer: Consumer) -> int | None:
    committed = (await consumer.committed([T0]))[T0]
    return None if committed is None else committed.offset


async def test_a_commit_has_the_records_before_a_seek() -> None:
    # Without them, their results are committed, and another member returns the same records again.
    async with faulty() as here, reading(here) as consumer:
        async with here.producer.transaction(consumer):
            assert await two(consumer) == [b"0", b"1"]
            consumer.seek(T0, 6)  # offset 6 is the fourth record: each of them has a marker
        assert await committed_offset(consumer) == 6
        async with here.producer.transaction(consumer):
            assert await two(consumer) == [b"3", b"4"]
            consumer.seek_to_end([T0])  # where that is, nobody knows yet
        assert await committed_offset(consumer) == 9
        async with here.producer.transaction(consumer):
            pass  # and nothing is left of it
        assert await committed_offset(consumer) == 9


@pytest.mark.parametrize("moves", ["seek", "seek twice", "seek_to_end"])
async def test_an_abort_returns_the_consumer_to_the_records_before_a_seek(moves: str) -> None:
    async with faulty() as here, reading(here) as consumer:
        async with here.producer.transaction(consumer):
            assert await two(consumer) == [b"0", b"1"]
        with pytest.raises(ZeroDivisionError):
            async with here.producer.transaction(consumer):
                assert await two(consumer) == [b"2", b"3"]
                if moves == "seek_to_end":
                    consumer.seek_to_end([T0])
                else:
                    consumer.seek(T0, 8)
                if moves == "seek twice":
                    assert (await two(consumer))[0] == b"4"
                    consumer.seek(T0, 6)
                raise ZeroDivisionError
        assert await two(consumer) == [b"2", b"3"]


async def test_an_abort_returns_the_consumer_to_where_a_seek_let_it_begin() -> None:
    async with faulty() as here, reading(here) as consumer:
        consumer.seek(T0, 6)
        with pytest.raises(ZeroDivisionError):
            async with here.producer.transaction(consumer):
                assert await two(consumer) == [b"3", b"4"]
                raise ZeroDivisionError
        assert await two(consumer) == [b"3", b"4"]
