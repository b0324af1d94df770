"""The demo over TLS with ACLs: each client may do exactly what it needs."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from kohort import Admin, NewTopic, Producer
from kohort.client import Acl, AclFilter
from kohort.demo.access import ADMIN, MEMBER, PRODUCER, WATCHER, Access, acls, rights, secured_access
from kohort.demo.journal import read_journal
from kohort.demo.member import unpack
from kohort.demo.processes import Child, start_broker
from kohort.errors import ErrorCode, KafkaError
from kohort.model import TopicPartition
from kohort.recorder import JOURNAL_TOPIC
from tests.interop.kohort import kohort

TOPIC, GROUP, FLIGHTS = "flights", "delays", 500
NEEDED = acls(rights(TOPIC, GROUP, "delays-spark", JOURNAL_TOPIC))


@dataclass
class Demo:
    """A secured broker with the topic, and its clients."""

    access: Access
    directory: Path
    address: str
    admin: Admin

    async def allow(self, *, all_but: Acl | None = None) -> None:
        await self.admin.delete_acls([AclFilter()])
        await self.admin.create_acls([acl for acl in NEEDED if acl != all_but])

    async def start_member(self) -> Child:
        command = ["-m", "kohort.demo.member", "--bootstrap", self.address, "--group", GROUP, "--client-id", "m"]
        command += ["--topic", TOPIC, "--rate", "100000", *self.access.of_child(MEMBER)]
        member = await Child.start("member", command, self.directory)
        member.start_reading()
        return member

    async def produce(self, number: int) -> None:
        async with Producer(bootstrap_servers=self.address, **self.access.of_client(PRODUCER)) as producer:
            for n in range(number):
                value = json.dumps({"carrier": "UA", "arr_delay": n}).encode()
                await producer.send(TOPIC, value)
            await producer.flush()


@asynccontextmanager
async def secured_demo(directory: Path) -> AsyncIterator[Demo]:
    access = await asyncio.to_thread(secured_access, directory / "logins", directory / "data")
    broker, address = await start_broker(
        directory / "data", directory, protocol=access.protocol, arguments=access.of_broker
    )
    try:
        async with Admin(bootstrap_servers=address, **access.of_client(ADMIN)) as admin:
            await admin.create_topics([NewTopic(TOPIC, 1)])
            yield Demo(access, directory, address, admin)
    finally:
        assert await broker.stop() == 0


def of(user: str) -> list[Acl]:
    return [acl for acl in NEEDED if acl.principal == f"User:{user}"]


async def test_producer_member_and_watcher_work_with_the_listed_acls(tmp_path: Path) -> None:
    async with secured_demo(tmp_path) as demo, asyncio.timeout(60):
        await demo.allow()
        await demo.produce(FLIGHTS)
        member = await demo.start_member()
        async with Admin(bootstrap_servers=demo.address, **demo.access.of_client(WATCHER)) as watcher:
            while not (lag := await watcher.group_lag(GROUP)) or lag[0].committed != FLIGHTS:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        assert lag[0].partition == TopicPartition(TOPIC, 0)
        assert unpack(lag[0].metadata)["UA"].flights == FLIGHTS
        assert await read_journal(demo.address, GROUP, **demo.access.of_client(WATCHER))
        assert await member.stop() == 0, member.log_end()
        listening = (tmp_path / "broker.log").read_text()
        assert "with SASL_SSL" in listening
        passwords = [
            re.findall(r'password="(\w+)"', file.read_text())[0]
            for file in demo.access.directory.glob("*.properties")  # type: ignore[union-attr]
            if file.name != "broker.properties"
        ]
        assert len(passwords) == 5 and not any(password in listening for password in passwords)


@pytest.mark.parametrize("missing", of(MEMBER), ids=lambda acl: acl.pattern.resource_type.name)
async def test_a_member_without_one_of_its_acls_ends_with_a_sentence(tmp_path: Path, missing: Acl) -> None:
    async with secured_demo(tmp_path) as demo, asyncio.timeout(60):
        await demo.allow(all_but=missing)
        member = await demo.start_member()
        assert await member.finished() == 1
        said = member.log_end().strip().splitlines()[-1]
        assert said.startswith(f"{missing.pattern.resource_type.name}_AUTHORIZATION_FAILED: ")
        assert missing.pattern.name in said and "Traceback" not in member.log_end()


async def test_a_producer_without_its_acl_fails_with_a_sentence(tmp_path: Path) -> None:
    (missing,) = of(PRODUCER)
    async with secured_demo(tmp_path) as demo, asyncio.timeout(60):
        await demo.allow(all_but=missing)
        with pytest.raises(KafkaError, match=TOPIC) as refused:
            await demo.produce(1)
        assert refused.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED


@pytest.mark.long("it takes one to two minutes, and the other tests run each part of it")
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_the_whole_demo_runs_over_tls_with_acls(tmp_path: Path) -> None:
    command = kohort("demo", "--secured", "--keep", "--out", str(tmp_path / "out"))
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0 and done.stdout.rstrip().endswith("demo: ok"), done.stdout + done.stderr
    assert "spark: read topic flights, read group delays-spark" in done.stdout
    assert "with SASL_SSL" in (tmp_path / "out" / "broker.log").read_text()
