"""Clusters of all releases: clients never see more through the gateway than the cluster has."""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress

import pytest

from kohort.client import Admin, Consumer, NewTopic, Producer
from kohort.gateway import Address, Gateway, GatewayOptions
from kohort.lab.process import ServerProcess
from kohort.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tests.broker.peer import Peer
from tests.conftest import need_jars
from tests.interop.kafka import java, running_kafka
from tests.interop.kohort import kohort

pytestmark = pytest.mark.timeout(90)

HANDSHAKE = 17


async def versions_at(address: Address) -> dict[int, tuple[int, int]]:
    peer = Peer(*await asyncio.open_connection(address.host, address.port))
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    found = await peer.ask(request, 3, ApiVersionsResponse)
    peer.writer.close()
    return {api.api_key: (api.min_version, api.max_version) for api in found.api_keys}


@pytest.mark.parametrize("release", ["2.4", "2.8", "3.6", "4.0"])
async def test_an_older_cluster_is_served_as_it_is(release: str) -> None:
    process = ServerProcess(kohort("fake", "--ports", "0", "--as-version", release))
    try:
        found = process.wait_for(r"127\.0\.0\.1:(\d+)", timeout=20.0)
        upstream = Address("127.0.0.1", int(found[1]))
        async with Gateway(GatewayOptions([upstream], Address("127.0.0.1", 0))) as gateway:
            behind, through = await versions_at(upstream), await versions_at(gateway.address)
            assert through == behind | {HANDSHAKE: (1, behind[HANDSHAKE][1])}
            servers = str(gateway.address)
            async with Admin(bootstrap_servers=servers) as admin:
                await admin.create_topics([NewTopic("old", 2)])
            async with Producer(bootstrap_servers=servers, enable_idempotence=False) as producer:
                for number in range(10):
                    await producer.send("old", str(number).encode())
            async with Consumer(
                "old", group_id="g", group_protocol="classic", bootstrap_servers=servers, auto_offset_reset="earliest"
            ) as consumer:
                values = [(await anext(aiter(consumer))).value for _ in range(10)]
            assert sorted(values) == [str(number).encode() for number in range(10)]
    finally:
        process.kill()


@pytest.mark.kafka
async def test_share_groups_pass(request: pytest.FixtureRequest) -> None:
    need_jars(request.config)
    settings = {"share.coordinator.state.topic.replication.factor": "1", "share.coordinator.state.topic.min.isr": "1"}
    with running_kafka(settings) as kafka:
        host, _, port = kafka.bootstrap.rpartition(":")
        upstream = Address(host, int(port))
        async with Gateway(GatewayOptions([upstream], Address("127.0.0.1", 0))) as gateway:
            behind, through = await versions_at(upstream), await versions_at(gateway.address)
            assert {key for key in behind if through.get(key) != behind[key]} <= {HANDSHAKE}
            servers = str(gateway.address)
            async with Admin(bootstrap_servers=servers) as admin:
                await admin.create_topics([NewTopic("shared", 2)])
            command = java(
                "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
                *("--bootstrap-server", servers, "--topic", "shared", "--group", "sharing", "--max-messages", "20"),
            )
            consumer = await asyncio.create_subprocess_exec(
                *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
            )
            try:
                async with Producer(bootstrap_servers=servers) as producer:
                    # A share group begins at the end of a topic, so the records must not be written too early.
                    done = asyncio.create_task(consumer.communicate())
                    while not done.done():
                        await producer.send("shared", b"record")
                        await producer.flush()
                        await asyncio.wait([done], timeout=0.1)
                out, errors = await done
            finally:
                with suppress(ProcessLookupError):
                    consumer.kill()
    assert len(re.findall(rb"^record$", out, re.MULTILINE)) == 20, errors
