"""Programs after the examples in aiokafka's documentation."""

from __future__ import annotations

from tests.examples.programs import Program

DOCS = "https://aiokafka.readthedocs.io/en/stable"

PROGRAMS = [
    Program(
        "readme",
        f"{DOCS}/index.html#getting-started",
        """
import asyncio
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer


async def send_one():
    producer = AIOKafkaProducer(bootstrap_servers=BOOTSTRAP)
    await producer.start()
    try:
        metadata = await producer.send_and_wait(TOPIC, b"Super message")
        print(metadata.topic, metadata.partition, metadata.topic_partition, metadata.offset, metadata.timestamp_type)
        await producer.send_and_wait(TOPIC, b"with all", b"key", 0, 1_700_000_000_000, [("h", b"1")])
    finally:
        await producer.stop()


async def consume():
    consumer = AIOKafkaConsumer(TOPIC, bootstrap_servers=BOOTSTRAP, group_id=GROUP, auto_offset_reset="earliest")
    await consumer.start()
    try:
        async for msg in consumer:
            print("consumed:", msg.topic, msg.partition, msg.offset, msg.key, msg.value, msg.headers)
            if msg.key:
                print(msg)
                break
    finally:
        await consumer.stop()


asyncio.run(send_one())
asyncio.run(consume())
""",
    ),
    Program(
        "producer",
        f"{DOCS}/producer.html",
        """
import asyncio
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError, MessageSizeTooLargeError


async def main():
    producer = AIOKafkaProducer(bootstrap_servers=[BOOTSTRAP], acks="all", enable_idempotence=True)
    await producer.start()
    fut = await producer.send(TOPIC, b"first")
    done, _ = await asyncio.wait([fut])
    print(len(done), fut.done(), (await fut).offset)
    futures = [await producer.send(TOPIC, b"%d" % number) for number in range(10)]
    print([metadata.offset for metadata in await asyncio.gather(*futures)])
    fut = await producer.send(TOPIC, b"flushed")
    await producer.flush()
    print(fut.done(), await producer.partitions_for(TOPIC))
    try:
        await producer.send_and_wait(TOPIC, b"x" * 2_000_000)
    except MessageSizeTooLargeError as error:
        print(isinstance(error, KafkaError), error.errno, error.retriable)
    await producer.stop()
    for options in ({"acks": 1, "enable_idempotence": True}, {"compression_type": "other"}):
        try:
            AIOKafkaProducer(bootstrap_servers=BOOTSTRAP, **options)
        except ValueError:
            print("ValueError")


asyncio.run(main())
""",
    ),
    Program(
        "serialize-and-compress",
        f"{DOCS}/examples/serialize_and_compress.html",
        """
import asyncio
import json
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer


def serializer(value):
    return json.dumps(value).encode()


def deserializer(serialized):
    return json.loads(serialized)


async def main():
    producer = AIOKafkaProducer(bootstrap_servers=BOOTSTRAP, value_serializer=serializer, compression_type="gzip")
    await producer.start()
    for data in ({"a": 123.4, "b": "some string"}, [1, 2, 3]):
        await producer.send(TOPIC, data)
    await producer.stop()

    consumer = AIOKafkaConsumer(
        TOPIC, bootstrap_servers=BOOTSTRAP, value_deserializer=deserializer, auto_offset_reset="earliest"
    )
    await consumer.start()
    seen = []
    while len(seen) < 2:
        for messages in (await consumer.getmany(timeout_ms=1000)).values():
            seen.extend(messages)
    print([(message.value, message.serialized_value_size, message.key) for message in seen])
    await consumer.stop()


asyncio.run(main())
""",
    ),
    Program(
        "manual-commit",
        f"{DOCS}/examples/manual_commit.html",
        """
import asyncio
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import IllegalOperation, IllegalStateError


async def consumer_of(**options):
    consumer = AIOKafkaConsumer(TOPIC, bootstrap_servers=BOOTSTRAP, auto_offset_reset="earliest", **options)
    await consumer.start()
    return consumer


async def main():
    async with AIOKafkaProducer(bootstrap_servers=BOOTSTRAP) as producer:
        for number in range(6):
            await producer.send(TOPIC, b"%d" % number)
        await producer.flush()

    partition = TopicPartition(TOPIC, 0)
    consumer = await consumer_of(group_id=GROUP, enable_auto_commit=False)
    batch = []
    async for message in consumer:
        batch.append(message)
        if len(batch) == 3:
            await consumer.commit()
            break
    print([message.value for message in batch], await consumer.committed(partition))
    message = await consumer.getone()
    await consumer.commit({partition: message.offset + 1})
    print(await consumer.committed(partition))
    await consumer.commit({partition: (message.offset, "Some utf-8 metadata")})
    print(await consumer.committed(partition), await consumer.seek_to_committed(), await consumer.position(partition))
    try:
        await consumer.commit({TopicPartition(TOPIC, 5): 1})
    except IllegalStateError:
        print("IllegalStateError")
    await consumer.stop()

    consumer = await consumer_of(group_id=GROUP)
    print((await consumer.getone()).value)
    await consumer.stop()

    consumer = await consumer_of()
    try:
        await consumer.commit()
    except IllegalOperation:
        print("IllegalOperation")
    await consumer.stop()


asyncio.run(main())
""",
    ),
    Program(
        "group-consumer",
        f"{DOCS}/examples/group_consumer.html",
        """
import asyncio
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer


async def produce():
    async with AIOKafkaProducer(bootstrap_servers=BOOTSTRAP) as producer:
        for number in range(20):
            await producer.send(TOPIC, b"%d" % number, partition=number % 4)


async def read(consumer, seen, enough):
    async for message in consumer:
        seen.append((message.partition, message.offset))
        if len(seen) == 20:
            enough.set()


async def main():
    consumers = [
        AIOKafkaConsumer(
            TOPIC, bootstrap_servers=BOOTSTRAP, group_id=GROUP, auto_offset_reset="earliest", heartbeat_interval_ms=200
        )
        for _ in range(2)
    ]
    await asyncio.gather(*(consumer.start() for consumer in consumers))
    seen, enough = [], asyncio.Event()
    tasks = [asyncio.create_task(read(consumer, seen, enough)) for consumer in consumers]
    while any(len(consumer.assignment()) != 2 for consumer in consumers):
        await asyncio.sleep(0.05)
    await produce()
    await enough.wait()
    print(sorted(seen))
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for consumer in consumers:
        await consumer.stop()


asyncio.run(main())
""",
        partitions=4,
    ),
    Program(
        "custom-partitioner",
        f"{DOCS}/examples/custom_partitioner.html",
        """
import asyncio
import random
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition


def my_partitioner(key, all_partitions, available_partitions):
    if key == b"first":
        return all_partitions[0]
    if key == b"last":
        return all_partitions[-1]
    return random.choice(all_partitions)


async def main():
    producer = AIOKafkaProducer(bootstrap_servers=BOOTSTRAP, partitioner=my_partitioner)
    await producer.start()
    await producer.send(TOPIC, b"1", key=b"last")
    await producer.send(TOPIC, b"2", key=b"first")
    await producer.stop()

    consumer = AIOKafkaConsumer(bootstrap_servers=BOOTSTRAP, auto_offset_reset="earliest")
    partitions = [TopicPartition(TOPIC, number) for number in range(3)]
    consumer.assign(partitions)
    await consumer.start()
    for partition in (partitions[2], partitions[0]):
        message = await consumer.getone(partition)
        print(message.partition, message.key, message.value)
    print(sorted((await consumer.end_offsets(partitions)).items()), consumer.assignment() == {*partitions})
    await consumer.stop()


asyncio.run(main())
""",
        partitions=3,
    ),
    Program(
        "local-state-consumer",
        f"{DOCS}/examples/local_state_consumer.html",
        """
import asyncio
import json
import pathlib
import tempfile
from collections import Counter
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener
from aiokafka.errors import OffsetOutOfRangeError

HOME = pathlib.Path(tempfile.mkdtemp())


class RebalanceListener(ConsumerRebalanceListener):
    def __init__(self, consumer, local_state):
        self.consumer = consumer
        self.local_state = local_state

    async def on_partitions_revoked(self, revoked):
        print("Revoked", revoked)
        self.local_state.dump()

    async def on_partitions_assigned(self, assigned):
        print("Assigned", assigned)
        self.local_state.load(assigned)
        for tp in assigned:
            last_offset = self.local_state.offsets[tp]
            if last_offset < 0:
                await self.consumer.seek_to_beginning(tp)
            else:
                self.consumer.seek(tp, last_offset + 1)


class LocalState:
    def __init__(self):
        self.counts, self.offsets = {}, {}

    def path(self, tp):
        return HOME / f"state-{tp.partition}.json"

    def dump(self):
        for tp, counts in self.counts.items():
            self.path(tp).write_text(json.dumps({"last_offset": self.offsets[tp], "counts": counts}))

    def load(self, partitions):
        self.counts, self.offsets = {}, {}
        for tp in partitions:
            state = json.loads(self.path(tp).read_text()) if self.path(tp).exists() else None
            self.counts[tp] = Counter(state["counts"]) if state else Counter()
            self.offsets[tp] = state["last_offset"] if state else -1

    def discard(self, tps):
        for tp in tps:
            self.counts[tp], self.offsets[tp] = Counter(), -1


async def consume(records):
    consumer = AIOKafkaConsumer(
        bootstrap_servers=BOOTSTRAP,
        group_id=GROUP,
        enable_auto_commit=False,
        auto_offset_reset="none",
        key_deserializer=lambda key: key.decode("utf-8") if key else "",
    )
    await consumer.start()
    local_state = LocalState()
    consumer.subscribe(topics=[TOPIC], listener=RebalanceListener(consumer, local_state))
    seen = 0
    try:
        while seen < records:
            try:
                msg_set = await consumer.getmany(timeout_ms=1000)
            except OffsetOutOfRangeError as err:
                tps = err.args[0].keys()
                print("out of range", sorted(tps))
                local_state.discard(tps)
                await consumer.seek_to_beginning(*tps)
                continue
            for tp, msgs in msg_set.items():
                counts = Counter(msg.key for msg in msgs)
                seen += len(msgs)
                local_state.counts[tp] += counts
                local_state.offsets[tp] = msgs[-1].offset
                print("Process", tp, sorted(local_state.counts[tp].items()))
    finally:
        local_state.dump()
        await consumer.stop()


async def main():
    async with AIOKafkaProducer(bootstrap_servers=BOOTSTRAP) as producer:
        for number in range(6):
            await producer.send(TOPIC, b"x", key=b"%d" % (number % 2))
    await consume(6)
    async with AIOKafkaProducer(bootstrap_servers=BOOTSTRAP) as producer:
        await producer.send_and_wait(TOPIC, b"x")  # the deserializer makes the key "" of null
    await consume(1)
    (HOME / "state-0.json").write_text(json.dumps({"last_offset": 99, "counts": {}}))
    await consume(7)


asyncio.run(main())
""",
    ),
    Program(
        "consumer-offsets-and-positions",
        f"{DOCS}/consumer.html#offsets-and-consumer-position",
        """
import asyncio
import time
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import ConsumerStoppedError, IllegalStateError


async def main():
    began = int(time.time() * 1000)
    async with AIOKafkaProducer(bootstrap_servers=BOOTSTRAP) as producer:
        for number in range(10):
            await producer.send(TOPIC, b"%d" % number, partition=number % 2, timestamp_ms=began + number)

    zero, one = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)
    consumer = AIOKafkaConsumer(TOPIC, bootstrap_servers=BOOTSTRAP, auto_offset_reset="earliest")
    await consumer.start()
    print(sorted(consumer.assignment()), await consumer.seek_to_beginning())
    count = 0
    while count < 10:
        count += sum(map(len, (await consumer.getmany(timeout_ms=1000)).values()))
    print(await consumer.position(one), consumer.highwater(one))
    consumer.seek(zero, 3)
    print((await consumer.getone(zero)).value, await consumer.position(zero))
    consumer.pause(zero)
    consumer.seek(one, 1)
    records = await consumer.getmany(timeout_ms=10_000, max_records=2)
    print({partition: [record.value for record in found] for partition, found in records.items()}, consumer.paused())
    consumer.resume(zero)
    print(await consumer.seek_to_end(zero, one), await consumer.position(zero), await consumer.getmany())
    found = await consumer.offsets_for_times({zero: began + 3, one: began + 3_600_000})
    print(found[zero].offset, found[zero].timestamp - began, found[one])
    print(await consumer.beginning_offsets([zero]), sorted((await consumer.end_offsets([zero, one])).items()))
    print(consumer.partitions_for_topic(TOPIC), consumer.partitions_for_topic("other"))
    print(TOPIC in await consumer.topics(), "__consumer_offsets" in await consumer.topics())
    try:
        await consumer.position(TopicPartition(TOPIC, 7))
    except IllegalStateError:
        print("IllegalStateError")
    await consumer.stop()
    try:
        await consumer.getone()
    except ConsumerStoppedError:
        print("ConsumerStoppedError")


asyncio.run(main())
""",
        partitions=2,
    ),
    Program(
        "consumer-patterns",
        f"{DOCS}/consumer.html#topic-subscription-by-pattern",
        """
import asyncio
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition


async def main():
    async with AIOKafkaProducer(bootstrap_servers=BOOTSTRAP) as producer:
        await producer.send_and_wait(TOPIC, b"found")

    consumer = AIOKafkaConsumer(
        bootstrap_servers=BOOTSTRAP, group_id=GROUP, auto_offset_reset="earliest", metadata_max_age_ms=30000
    )
    consumer.subscribe(pattern="^" + TOPIC[:20])
    async with consumer:
        async for message in consumer:
            print(message.topic, message.value)
            break
        consumer.unsubscribe()
        print(set(consumer.assignment()), set(consumer.subscription()))
        consumer.assign([TopicPartition(TOPIC, 0)])
        await consumer.seek_to_beginning(TopicPartition(TOPIC, 0))
        print((await consumer.getone()).value)


asyncio.run(main())
""",
    ),
    Program(
        "consumer-flow-control",
        f"{DOCS}/consumer.html#consumption-flow-control",
        """
import asyncio
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

LAG_THRESHOLD = 2


async def main():
    async with AIOKafkaProducer(bootstrap_servers=BOOTSTRAP) as producer:
        for number in range(8):
            await producer.send(TOPIC, b"%d" % number, partition=0 if number < 6 else 1)

    consumer = AIOKafkaConsumer(TOPIC, bootstrap_servers=BOOTSTRAP, auto_offset_reset="earliest")
    await consumer.start()
    msg = await consumer.getone()
    tp = TopicPartition(msg.topic, msg.partition)
    print(await consumer.position(tp) == msg.offset + 1)
    consumer.seek(tp, msg.offset)
    print(await consumer.getone() == msg)

    # partitions that lag behind come first
    await consumer.seek_to_beginning()
    partitions, seen, chosen = [], [], []
    while len(seen) < 8:
        msgs = await consumer.getmany(*partitions, timeout_ms=1000, max_records=1)
        seen.extend((tp.partition, msg.offset) for tp, found in msgs.items() for msg in found)
        lags = {tp: (consumer.highwater(tp) or 0) - await consumer.position(tp) for tp in consumer.assignment()}
        partitions = [tp for tp, lag in lags.items() if lag > LAG_THRESHOLD]
        chosen.append(len(partitions))
    print(sorted(seen), max(chosen), chosen[-1])
    await consumer.stop()


asyncio.run(main())
""",
        partitions=2,
    ),
    Program(
        "concurrent-consumption",
        f"{DOCS}/examples/concurrent_consumption.html",
        """
import asyncio
import json
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord, TopicPartition

processed, finished = [], asyncio.Event()


async def process_message(message: ConsumerRecord) -> None:
    processed.append((message.partition, json.loads(message.value.decode())["id"]))
    if len(processed) == 8:
        finished.set()


async def run_consumer(consumer, safe):
    consumer.subscribe([TOPIC])
    await consumer.start()
    while True:
        message = await consumer.getone()
        async with safe:
            await process_message(message)
            await consumer.commit()


async def main(num_workers=4):
    consumers = [
        AIOKafkaConsumer(
            bootstrap_servers=BOOTSTRAP,
            enable_auto_commit=False,
            group_id=GROUP,
            auto_offset_reset="earliest",
            heartbeat_interval_ms=200,
        )
        for _ in range(num_workers)
    ]
    safe = asyncio.Lock()
    tasks = [asyncio.create_task(run_consumer(consumer, safe)) for consumer in consumers]
    while any(len(consumer.assignment()) != 1 for consumer in consumers):
        await asyncio.sleep(0.05)
    async with AIOKafkaProducer(bootstrap_servers=BOOTSTRAP) as producer:
        for number in range(8):
            await producer.send(TOPIC, json.dumps({"id": number}).encode(), partition=number % 4)
    await finished.wait()
    async with safe:  # the last commit is done
        partitions = [TopicPartition(TOPIC, number) for number in range(4)]
        print([await consumers[0].committed(partition) for partition in partitions])
        for task in tasks:
            task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.gather(*(consumer.stop() for consumer in consumers))
    print(sorted(set(processed)))


asyncio.run(main())
""",
        partitions=4,
    ),
]
