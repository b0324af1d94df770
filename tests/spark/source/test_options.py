"""Options as Spark hands them over: text, with lower-case names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kohort.errors import ConfigError
from kohort.model import TopicPartition
from pyspark_kohort import options
from pyspark_kohort.offsets import AtTime, Earliest, Exact, Latest
from pyspark_kohort.options import Group, GroupMode, OnCorrupt, OnLost, Options, Protocol, Topics, parse


def stream(**options: str) -> Options:
    return parse(_named(options), streaming=True)


def batch(**options: str) -> Options:
    return parse(_named(options), streaming=False)


def _named(options: dict[str, str]) -> dict[str, str]:
    defaults = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "flights"}
    chosen = {"assign", "subscribePattern"} & options.keys()
    if chosen:
        del defaults["subscribe"]
    given = {name.replace("_", "."): value for name, value in options.items()}
    return {name.lower(): value for name, value in (defaults | given).items() if value}


def test_the_defaults_are_spark_sql_kafkas() -> None:
    options = stream()
    assert (options.starting, options.mode, options.fail_on_data_loss) == (Latest(), GroupMode.STANDALONE, True)
    assert options.broker.bootstrap == (("localhost", 9092),)
    assert not options.include_headers
    assert (batch().starting, batch().ending) == (Earliest(), Latest())


def test_all_three_ways_to_choose_topics() -> None:
    assert stream(subscribe="a, b,a").topics == Topics(names=("a", "b"))
    assert stream(subscribePattern="fl.*").topics == Topics(pattern="fl.*")
    assert stream(assign='{"a": [1, 0]}').topics == Topics(partitions=(TopicPartition("a", 0), TopicPartition("a", 1)))


def test_a_stream_with_a_group_is_a_member_by_default() -> None:
    assert stream(kafka_group_id="delays").mode is GroupMode.MEMBER
    assert stream(kafka_group_id="delays", groupMode="standalone").mode is GroupMode.STANDALONE
    assert batch(kafka_group_id="delays").mode is GroupMode.STANDALONE


def test_a_members_settings_have_kafkas_names() -> None:
    options = stream(
        kafka_group_id="delays",
        kafka_group_instance_id="one",
        kafka_session_timeout_ms="6000",
        kafka_max_poll_interval_ms="60000",
        kafka_partition_assignment_strategy="org.apache.kafka.clients.consumer.RangeAssignor, sticky",
        onLost="continue",
        onCorrupt="skip",
        importOffsets="true",
        checkpointLocation="/c",
    )
    group = options.group
    assert group is not None
    assert (group.group_id, group.instance_id) == ("delays", "one")
    assert (group.session_timeout_ms, group.rebalance_timeout_ms) == (6_000, 60_000)
    assert group.assignors == ("range", "sticky")
    assert (options.on_lost, options.checkpoint) == (OnLost.CONTINUE, "/c")
    assert (options.on_corrupt, options.import_offsets) == (OnCorrupt.SKIP, True)


def test_a_member_may_use_either_protocol() -> None:
    assert stream(kafka_group_id="delays").group == Group("delays", Protocol.CLASSIC)
    group = stream(
        kafka_group_id="delays",
        kafka_group_protocol="CONSUMER",
        kafka_group_remote_assignor="range",
        staticMembership="true",
        checkpointLocation="/c",
    ).group
    assert group == Group("delays", Protocol.CONSUMER, remote_assignor="range", static=True)


def test_bounds_come_in_every_form() -> None:
    assert stream(startingOffsets='{"a":{"0":1}}').starting == Exact({TopicPartition("a", 0): 1})
    assert stream(startingTimestamp="7").starting == AtTime(7)
    assert stream(
        startingOffsetsByTimestamp='{"a":{"0":1}}', startingOffsetsByTimestampStrategy="latest"
    ).starting == AtTime(None, {TopicPartition("a", 0): 1}, or_latest=True)
    assert batch(endingTimestamp="7").ending == AtTime(7, or_latest=True)


def test_limits_are_numbers_and_durations() -> None:
    options = stream(
        maxOffsetsPerTrigger="1000", minOffsetsPerTrigger="10", maxTriggerDelay="2m", minPartitions="4", maxTasks="2"
    )
    assert (options.max_offsets, options.min_offsets, options.max_trigger_delay_ms) == (1000, 10, 120_000)
    assert (options.min_partitions, options.max_tasks, options.max_partition_rows) == (4, 2, None)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"maxOffsetPerTrigger": "5"}, "unknown to format kohort. Did you mean maxOffsetsPerTrigger?"),
        ({"colour": "red"}, "Option colour is unknown to format kohort."),
        ({"kafka_auto_offset_reset": "earliest"}, "not supported: set startingOffsets instead"),
        ({"kafka_bootstrap_servers": ""}, "kafka.bootstrap.servers is missing"),
        ({"kafka_bootstrap_servers": "localhost"}, "must be host:port"),
        ({"kafka_security_protocol": "SASL_SSL"}, "needs sasl_mechanism"),
        ({"subscribe": ""}, "Exactly one of subscribe, subscribePattern and assign"),
        ({"subscribePattern": "("}, "is not a regular expression"),
        ({"assign": '{"a": ["x"]}'}, "Option assign must be like"),
        ({"maxOffsetsPerTrigger": "0"}, "must be a whole number of at least 1, not '0'"),
        ({"maxTriggerDelay": "soon"}, "must be a duration"),
        ({"failOnDataLoss": "maybe"}, "must be true or false"),
        ({"groupMode": "leader"}, "must be standalone or member"),
        ({"groupMode": "member"}, "needs kafka.group.id"),
        ({"groupMode": "member", "kafka_group_id": "g", "assign": '{"a": [0]}'}, "use subscribe"),
        ({"kafka_group_protocol": "streams", "kafka_group_id": "g"}, "must be classic or consumer"),
        ({"kafka_group_remote_assignor": "range"}, "the members compute the assignment"),
        (
            {"kafka_group_protocol": "consumer", "kafka_session_timeout_ms": "9000"},
            "does not apply with kafka.group.protocol=consumer: the broker sets the session",
        ),
        ({"kafka_group_id": "g", "staticMembership": "true"}, "needs the option checkpointLocation"),
        (
            {"kafka_group_id": "g", "staticMembership": "true", "kafka_group_instance_id": "i"},
            "give it, or kafka.group.instance.id, not both",
        ),
        ({"kafka_isolation_level": "serializable"}, "read_uncommitted or read_committed"),
        ({"kafka_partition_assignment_strategy": "best", "kafka_group_id": "g"}, "assignor 'best' is unknown"),
        ({"endingOffsets": "latest"}, "a stream has no end"),
    ],
)
def test_invalid_options_are_rejected_in_a_sentence(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigError) as error:
        stream(**options)
    assert sentence in str(error.value)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"groupMode": "member", "kafka_group_id": "g"}, "needs readStream"),
        ({"startingOffsets": "latest"}, "nothing to read"),
        ({"endingOffsets": "earliest"}, "nothing to read"),
    ],
)
def test_options_that_a_batch_query_rejects(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        batch(**options)


def test_every_option_is_documented() -> None:
    text = (Path(__file__).parents[3] / "docs" / "spark.md").read_text()
    named = {name for line in text.splitlines() if line.startswith("|") for name in re.findall(r"`([\w.]+)`", line)}
    ours = {name for name in (*options._NAMES.split(), *options._WITHOUT_EFFECT.split()) if "kafka." not in name}
    ours |= set(options._NAMES.split())
    assert sorted(ours - named) == []
    assert sorted(set(SPARK_SQL_KAFKA.split()) - named) == []


SPARK_SQL_KAFKA = """
kafka.bootstrap.servers assign subscribe subscribePattern startingTimestamp startingOffsetsByTimestamp
startingOffsets endingTimestamp endingOffsetsByTimestamp endingOffsets failOnDataLoss
kafkaConsumer.pollTimeoutMs fetchOffset.numRetries fetchOffset.retryIntervalMs maxOffsetsPerTrigger
minOffsetsPerTrigger maxTriggerDelay minPartitions maxRecordsPerPartition groupIdPrefix kafka.group.id
includeHeaders startingOffsetsByTimestampStrategy topic
"""
"""What its guide lists."""
