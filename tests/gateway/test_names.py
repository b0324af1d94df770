"""Members of other libraries through one port in front of several brokers, which TLS tells apart by name (`--sni`)."""

from __future__ import annotations

import asyncio
import shutil
import signal
import socket
import ssl
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import repeat
from pathlib import Path
from typing import Any

import aiokafka
import aiokafka.coordinator.assignors.range as aiokafka_range
import kafka
import pytest
from aiokafka.errors import KafkaError as AiokafkaError
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import KafkaError as KafkaPythonError

from kohort.client import Admin, NewTopic, Producer
from kohort.gateway import Address, Gateway, GatewayOptions
from kohort.model import TopicPartition
from tests.broker.security.certificates import new_certificates
from tests.cluster.conftest import StartCluster
from tests.cluster.test_failover import coordinator
from tests.interop.kafka import Unavailable
from tests.interop.mixed.events import Read, Wrong, value_of
from tests.interop.mixed.kinds import KINDS, Kind, Place
from tests.interop.mixed.login import Login
from tests.interop.mixed.member import Member

DOMAIN = "kafka.example.com"
TOPIC, GROUP, PARTITIONS = "orders", "group", 6
WAIT_S = 60.0
SESSION_MS = 30_000
_PROCESSES = [kind for kind in KINDS if kind.name in ("librdkafka", "java")]


@pytest.fixture
def looked_up(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Names of the domain that clients looked up. Each of them leads to this machine."""
    found: Counter[str] = Counter()
    resolve = socket.getaddrinfo

    def look_up(host: Any, *given: Any, **options: Any) -> Any:
        if isinstance(host, str) and host.endswith(f".{DOMAIN}"):
            found[host] += 1
            host = "127.0.0.1"
        return resolve(host, *given, **options)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return found


async def until(is_so: Callable[[], bool], what: str) -> None:
    for _ in repeat(None, int(WAIT_S / 0.05)):  # members run in threads
        if is_so():
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"not within {WAIT_S:g} s: {what}")


class _Member:
    """A member in a thread that commits after each poll."""

    def __init__(self, servers: str, ca_file: str) -> None:
        self.owned: frozenset[int] = frozenset()
        self.values: list[int] = []
        self.committed: dict[int, int] = {}
        """Last acknowledged commit of each partition."""
        self._stopping = threading.Event()
        # A daemon, so that a member that cannot stop does not keep the test from failing.
        self._thread = threading.Thread(target=self._run, args=(servers, ca_file), daemon=True)
        self._thread.start()

    def _run(self, servers: str, ca_file: str) -> None:
        raise NotImplementedError

    def _has_read(self, records: Iterable[Any]) -> dict[int, int]:
        """Note the records, and return the offsets to commit."""
        offsets = {}
        for record in records:
            self.values.append(int(record.value))
            offsets[record.partition] = record.offset + 1
        return offsets

    async def stop(self) -> None:
        """Leave the group."""
        self._stopping.set()
        await asyncio.to_thread(self._thread.join, WAIT_S)


class AiokafkaMember(_Member):
    """A member by aiokafka."""

    def _run(self, servers: str, ca_file: str) -> None:
        asyncio.run(self._poll(servers, ca_file))

    async def _poll(self, servers: str, ca_file: str) -> None:
        consumer: Any = aiokafka.AIOKafkaConsumer(
            TOPIC,
            bootstrap_servers=servers,
            security_protocol="SSL",
            ssl_context=ssl.create_default_context(cafile=ca_file),
            group_id=GROUP,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            partition_assignment_strategy=(aiokafka_range.RangePartitionAssignor,),
        )
        async with consumer:
            while not self._stopping.is_set():
                polled = await consumer.getmany(timeout_ms=100)
                self.owned = frozenset(place.partition for place in consumer.assignment())
                offsets = self._has_read(record for records in polled.values() for record in records)
                with suppress(AiokafkaError):  # a rebalance begins
                    if offsets:
                        await consumer.commit({aiokafka.TopicPartition(TOPIC, p): at for p, at in offsets.items()})
                        self.committed |= offsets


class KafkaPythonMember(_Member):
    """A member by kafka-python."""

    def _run(self, servers: str, ca_file: str) -> None:
        consumer = kafka.KafkaConsumer(
            TOPIC,
            bootstrap_servers=servers,
            security_protocol="SSL",
            ssl_cafile=ca_file,
            group_id=GROUP,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            partition_assignment_strategy=[RangePartitionAssignor],
        )
        try:
            while not self._stopping.is_set():
                polled = consumer.poll(timeout_ms=100)
                self.owned = frozenset(place.partition for place in consumer.assignment())
                offsets = self._has_read(record for records in polled.values() for record in records)
                with suppress(KafkaPythonError):  # a rebalance begins
                    if offsets:
                        consumer.commit(
                            {
                                kafka.TopicPartition(TOPIC, p): kafka.OffsetAndMetadata(at, "", -1)
                                for p, at in offsets.items()
                            }
                        )
                        self.committed |= offsets
        finally:
            consumer.close()


class Writer:
    """A producer by aiokafka. It writes numbers, which count up, to all partitions in turn."""

    def __init__(self, servers: str, ca_file: str) -> None:
        self.acknowledged: set[int] = set()
        self._written = 0
        self._producer: Any = aiokafka.AIOKafkaProducer(
            bootstrap_servers=servers,
            security_protocol="SSL",
            ssl_context=ssl.create_default_context(cafile=ca_file),
            enable_idempotence=True,
        )

    async def write(self, count: int) -> None:
        """Write that many records, each of which is acknowledged."""
        for _ in range(count):
            number, self._written = self._written, self._written + 1
            value = str(number).encode()
            await asyncio.wait_for(self._producer.send_and_wait(TOPIC, value, partition=number % PARTITIONS), WAIT_S)
            self.acknowledged.add(number)

    async def __aenter__(self) -> Writer:
        await self._producer.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.wait_for(self._producer.stop(), WAIT_S)


@pytest.mark.long("brokers are started and killed, and members of two libraries wait for each other for ten seconds")
@pytest.mark.timeout(300)
async def test_a_group_at_one_port_loses_its_coordinators_broker(
    start_cluster: StartCluster, tmp_path: Path, looked_up: Counter[str]
) -> None:
    certificates = new_certificates(tmp_path)
    key_store, ca_file = str(certificates.key_store(identity=f"*.{DOMAIN}")), str(certificates.ca_file)
    with start_cluster(brokers=2) as cluster:
        upstream = [Address("127.0.0.1", int(one.rpartition(":")[2])) for one in cluster.bootstrap.split(",")]
        own = {"listeners": "SSL://127.0.0.1:0", "ssl.keystore.location": key_store}
        async with Gateway(GatewayOptions(upstream, settings=own, sni_domain=DOMAIN)) as gateway:
            async with Admin(bootstrap_servers=cluster.bootstrap) as admin:
                await admin.create_topics([NewTopic(TOPIC, PARTITIONS)])
            servers = f"start.{DOMAIN}:{gateway.address.port}"
            members: list[_Member] = []
            async with Writer(servers, ca_file) as writer:

                def all_is_read() -> bool:
                    return writer.acknowledged <= {value for member in members for value in member.values}

                try:
                    await writer.write(12)
                    members.append(AiokafkaMember(servers, ca_file))
                    await until(lambda: all_is_read() and len(members[0].owned) == PARTITIONS, "the first reads all")
                    members.append(KafkaPythonMember(servers, ca_file))
                    await until(lambda: [len(member.owned) for member in members] == [3, 3], "they share")
                    await writer.write(12)
                    await until(all_is_read, "both read")
                    # Each broker leads some partitions, and clients reach it by its name, at one port.
                    assert looked_up.keys() == {f"start.{DOMAIN}", f"broker-1.{DOMAIN}", f"broker-2.{DOMAIN}"}
                    assert {link.node_id for link in gateway.links} >= {1, 2}

                    killed = coordinator(cluster, GROUP)
                    cluster.signal(killed, signal.SIGKILL)
                    await writer.write(12)
                    await until(all_is_read, "they go on after the broker was killed")
                    await until(lambda: coordinator(cluster, GROUP) != killed, "another broker coordinates")
                    members.append(AiokafkaMember(servers, ca_file))
                    await until(lambda: [len(member.owned) for member in members] == [2, 2, 2], "all three share")
                    await writer.write(12)
                    await until(all_is_read, "all three read")
                finally:
                    for member in members:
                        await member.stop()
            async with Admin(bootstrap_servers=cluster.bootstrap) as admin:
                stored = await admin.group_offsets(GROUP)
            for member in members:
                for partition, offset in member.committed.items():
                    found = stored[TopicPartition(TOPIC, partition)]
                    assert found is not None
                    assert found.offset >= offset
            assert len(stored) == PARTITIONS


@pytest.fixture
def own_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In processes that are started from now on, names of the domain lead to this machine."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    library, source = tmp_path / "own_names.so", Path(__file__).with_name("own_names.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", str(library), str(source), "-ldl"], check=True)
    monkeypatch.setenv("LD_PRELOAD", str(library))
    monkeypatch.setenv("OWN_NAMES", f".{DOMAIN}")


class Records:
    """Records of all partitions, whose values are those that members of other processes expect."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self.ends = 0
        """Offset behind the last record, the same in each partition."""

    async def write(self, count: int) -> None:
        async with Producer(bootstrap_servers=self._bootstrap) as producer:
            for offset in range(self.ends, self.ends + count):
                for partition in range(PARTITIONS):
                    await producer.send(TOPIC, value_of(partition, offset).encode(), partition=partition)
        self.ends += count

    def are_read(self, members: Iterable[Member]) -> bool:
        """Return whether the members have read all records."""
        spans = [
            span for member in members for event in member.events if isinstance(event, Read) for span in event.spans
        ]
        read = {(span.partition, offset) for span in spans for offset in range(span.first, span.last + 1)}
        return len(read) == PARTITIONS * self.ends


@pytest.mark.long("brokers and members are started, and a broker is killed")
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "kind", [kind for kind in KINDS if kind.name in ("librdkafka", "java")], ids=lambda kind: kind.name
)
async def test_a_group_of_processes_at_one_port_loses_its_coordinators_broker(
    start_cluster: StartCluster, tmp_path: Path, kind: Kind, own_names: None
) -> None:
    try:
        kind.need()
    except Unavailable as missing:
        pytest.skip(str(missing))
    certificates = new_certificates(tmp_path)
    key_store, ca_file = str(certificates.key_store(identity=f"*.{DOMAIN}")), str(certificates.ca_file)
    with start_cluster(brokers=2) as cluster:
        upstream = [Address("127.0.0.1", int(one.rpartition(":")[2])) for one in cluster.bootstrap.split(",")]
        own = {"listeners": "SSL://127.0.0.1:0", "ssl.keystore.location": key_store}
        async with Gateway(GatewayOptions(upstream, settings=own, sni_domain=DOMAIN)) as gateway:
            async with Admin(bootstrap_servers=cluster.bootstrap) as admin:
                await admin.create_topics([NewTopic(TOPIC, PARTITIONS)])
            records, servers = Records(cluster.bootstrap), f"start.{DOMAIN}:{gateway.address.port}"
            login, members = Login(servers, ca_file, "nobody"), list[Member]()

            async def join(*expected: int) -> None:
                place = Place(servers, GROUP, TOPIC, "range", f"{kind.name}-{len(members)}", SESSION_MS, login=login)
                members.append(Member(kind, place, tmp_path))
                await until(lambda: tuple(len(member.owned) for member in members) == expected, f"they own {expected}")

            try:
                await records.write(2)
                await join(6)
                await join(3, 3)
                await records.write(2)
                await until(lambda: records.are_read(members), "they read from both brokers")
                assert {link.node_id for link in gateway.links} >= {1, 2}

                killed = coordinator(cluster, GROUP)
                cluster.signal(killed, signal.SIGKILL)
                await records.write(2)
                await until(lambda: records.are_read(members), "they go on after the broker was killed")
                await join(2, 2, 2)
                assert coordinator(cluster, GROUP) != killed
                await records.write(2)
                await until(lambda: records.are_read(members), "all three read")
                assert not [event for member in members for event in member.events if isinstance(event, Wrong)]
                for member in members:
                    member.leave()
                    await asyncio.to_thread(member.gone, WAIT_S)
            finally:
                for member in members:
                    member.kill()
