"""Text that a person or another program wrote: settings, and JSON of offsets and of the journal."""

from __future__ import annotations

import json
import tempfile
from functools import cache
from pathlib import Path

from kohort.broker.config.broker_config import BrokerConfig, parse_config, read_settings
from kohort.errors import ConfigError, KohortError
from kohort.group_events import MemberFacts
from kohort.recorder.record import MalformedRecord, PartitionChange, RebalanceRecord, Trigger
from pyspark_kohort.offsets import Offset, offset_from_json, parse_bound
from tests.fuzz.rules import Target


def run_settings(data: bytes) -> BrokerConfig:
    """A file of settings, as `kohort broker --config` reads it."""
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).write_bytes(data)
        return parse_config(read_settings(Path(file.name)))


def run_checkpoint(data: bytes) -> Offset:
    """An offset in Spark's checkpoint, which Spark hands over as what JSON became."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        raise KohortError("no JSON") from None
    offset = offset_from_json(value)
    assert offset_from_json(offset.to_json()).positions == offset.positions
    return offset


def run_bound(data: bytes) -> object:
    """Parse a user's value of startingOffsets."""
    return parse_bound(data.decode(errors="surrogateescape"), "startingOffsets")


def run_journal(data: bytes) -> RebalanceRecord:
    """A record of the topic of rebalances, which any client can write to; tools print its contents."""
    record = RebalanceRecord.from_json(data)
    assert RebalanceRecord.from_json(record.to_json()) == record
    return record


@cache
def settings_seeds() -> list[bytes]:
    """As people write them."""
    return [
        b"# comment\nnum.partitions=3\ngroup.max.size = 10\n\n!old\nlog.cleaner.min.cleanable.ratio=0.5\n",
        b"group.consumer.assignors=uniform,range\nlog.cleanup.policy=delete,compact\ncompression.type=zstd\n",
        b"group.consumer.session.timeout.ms=45000\nauto.create.topics.enable=false\nadvertised.listeners=h:1\n",
    ]


@cache
def checkpoint_seeds() -> list[bytes]:
    """With and without pins, and spark-sql-kafka's."""
    return [
        b'{"flights": {"0": 17}}',
        b'{"@query": "5c0f", "flights": {"0": 17, "0@": 4, "12": 0}, "b": {"1": 9007199254740993}}',
        b'{"a": {"0": -2, "1": -1}}',
        b"earliest",
    ]


@cache
def journal_seeds() -> list[bytes]:
    """A small one and one with everything."""
    member = MemberFacts("m-1", client_id="c", client_host="/127.0.0.1")
    full = RebalanceRecord(
        "group",
        3,
        1_700_000_000_000,
        1_700_000_000_500,
        triggers=(Trigger("member joined", "m-1", "said so"),),
        before=(member,),
        after=(member,),
        partitions=(PartitionChange("orders", 0, "m-0", "m-1", 1, 2, 3),),
    )
    return [RebalanceRecord("g", 1, None, 5).to_json(), full.to_json()]


TARGETS = (
    Target("settings", run_settings, (ConfigError,), settings_seeds, grant=lambda data: 1 << 20),
    Target("checkpoint", run_checkpoint, (KohortError,), checkpoint_seeds),
    Target("bound", run_bound, (ConfigError,), checkpoint_seeds),
    Target("journal", run_journal, (MalformedRecord,), journal_seeds, grant=lambda data: 64 * len(data)),
)
