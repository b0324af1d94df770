"""A group of Kafka Streams with its own protocol (KIP-1071), which only Apache Kafka has."""

from __future__ import annotations

import subprocess
from pathlib import Path
from uuid import uuid4

import pytest

from kohort import Admin, NewTopic, Producer
from kohort.watch import Watching
from tests.interop.kafka import QUICK_START, ApacheKafka, jars
from tests.interop.process import ServerProcess
from tests.interop.streams import streams_jar
from tests.interop_long.suite import Unavailable
from tests.watch.source.test_polling import until

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.java,
    pytest.mark.timeout(300),
    pytest.mark.long("a JVM with Kafka Streams starts, creates its topics and joins"),
]


@pytest.fixture
def class_path(apache_kafka: ApacheKafka, tmp_path: Path) -> str:
    try:
        path = f"{jars()}/*:{streams_jar()}/*"
    except Unavailable as missing:
        pytest.skip(str(missing))
    source = Path(__file__).parents[2] / "interop" / "Streams.java"
    subprocess.run(["javac", "-nowarn", "-cp", path, "-d", str(tmp_path), str(source)], check=True, timeout=120)
    return f"{path}:{tmp_path}"


async def test_a_streams_group_has_its_type_and_state(
    apache_kafka: ApacheKafka, class_path: str, tmp_path: Path
) -> None:
    servers, name = apache_kafka.bootstrap, f"words-{uuid4()}"
    counts, group = f"{name}-counts", f"{name}-counts-counting"
    async with Admin(bootstrap_servers=servers) as admin:
        await admin.create_topics([NewTopic(name, 1), NewTopic(counts, 1)])
    async with Producer(bootstrap_servers=servers) as producer:
        await (await producer.send(name, b"a b"))
    command = ["java", *QUICK_START, "-cp", class_path, "Streams", servers, name, counts]
    streams = ServerProcess([*command, str(tmp_path / "state"), "group.protocol=streams"])
    try:
        async with Watching({"bootstrap_servers": servers}, history_ms=0) as watching:
            groups = watching.live.groups
            await until(watching.live, lambda: group in groups and groups[group].state == "Stable")
            assert (groups[group].type, groups[group].shown_type) == (None, "streams")
    finally:
        streams.kill()
