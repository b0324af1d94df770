"""Wrong arguments of the admin client are sentences, raised before a request is sent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kohort import Admin, ConfigError, NewTopic, TopicPartition
from kohort.client import ConfigKind

HERE = TopicPartition("t", 0)
NUMBER: Any = 5

WRONG: dict[str, tuple[Callable[[Any], Awaitable[Any]], str]] = {
    "topics without NewTopic": (lambda admin: admin.create_topics(["x"]), r"'x' is not a NewTopic: pass NewTopic\("),
    "one topic": (lambda admin: admin.create_topics(NewTopic("x")), r"is not a list of NewTopic: pass \[NewTopic\("),
    "a topic's name": (
        lambda admin: admin.create_topics([NewTopic(NUMBER)]),
        "5 is not a topic: pass the topic's name",
    ),
    "a config that is a number": (
        lambda admin: admin.create_topics([NewTopic("x", configs={"retention.ms": NUMBER})]),
        "the value of retention.ms is 5, but must be text: pass '5'",
    ),
    "configs that are no mapping": (
        lambda admin: admin.alter_configs(ConfigKind.TOPIC, "t", ["retention.ms"]),
        r"the configs are \['retention.ms'\], but must be a mapping",
    ),
    "a config without a name": (
        lambda admin: admin.alter_configs(ConfigKind.TOPIC, "t", {1: "5"}),
        "1 is not the name of a config",
    ),
    "a kind that is text": (
        lambda admin: admin.describe_configs("topic", "svc"),
        "the kind is 'topic', but must be one of: ConfigKind.TOPIC, ConfigKind.BROKER",
    ),
    "a kind that is a number": (lambda admin: admin.describe_configs(2, "svc"), "the kind is 2, but must be one of"),
    "a node ID that is a number": (
        lambda admin: admin.describe_configs(ConfigKind.BROKER, 1),
        "the name of the broker is 1, but must be text",
    ),
    "kinds": (lambda admin: admin.list_config_resources(["topic"]), "'topic' is not a ConfigKind: pass ConfigKind.T"),
    "a deleted topic": (lambda admin: admin.delete_topics([HERE]), "is not a topic: pass the topic's name"),
    "no topics": (lambda admin: admin.delete_topics(None), "None is not a list of topic names"),
    "a described topic": (lambda admin: admin.describe_topics([b"t"]), "b't' is not a topic"),
    "a topic with more partitions": (lambda admin: admin.create_partitions(["t"], 3), "is not a topic"),
    "a described group": (lambda admin: admin.describe_groups([1]), "1 is not a group: pass the group's name"),
    "a group without name": (lambda admin: admin.delete_groups([""]), "'' is not a group"),
    "a group of members": (lambda admin: admin.remove_members(["g"], ["m"]), "is not a group"),
    "a member": (lambda admin: admin.remove_members("g", [1]), "1 is not a member: pass the member's name"),
    "an instance": (lambda admin: admin.remove_members("g", [], instances=[1]), "1 is not a static member"),
    "a group of all members": (lambda admin: admin.remove_all_members(None), "None is not a group"),
    "offsets of one partition": (
        lambda admin: admin.group_offsets("g", HERE),
        r"is not a list of partitions: pass \[TopicPartition\(topic, number\)\]",
    ),
    "offsets of a topic": (lambda admin: admin.group_offsets("g", ["t"]), "'t' is not a partition"),
    "offsets to delete": (lambda admin: admin.delete_group_offsets("g", "t"), "'t' is not a list of partitions"),
    "offsets of a wrong group": (lambda admin: admin.alter_group_offsets(1, {HERE: 1}), "1 is not a group"),
    "lag of a wrong group": (lambda admin: admin.group_lag(1), "1 is not a group"),
    "producers": (lambda admin: admin.describe_producers(HERE), "is not a list of partitions"),
    "leaders": (
        lambda admin: admin.elect_leaders([("t", "0")]),
        "the partition of t is '0', but must be a whole number",
    ),
    "log directories": (lambda admin: admin.describe_log_dirs([0]), "0 is not a topic"),
    "transactions by one producer": (
        lambda admin: admin.list_transactions(producer_ids=5),
        "5 is not a list of whole numbers",
    ),
    "transactions by a producer's name": (
        lambda admin: admin.list_transactions(producer_ids=["x"]),
        "a producer ID is 'x', but must be a whole number",
    ),
    "transactions of a negative age": (
        lambda admin: admin.list_transactions(min_duration_ms=-4),
        "min_duration_ms is -4, but must be at least 0",
    ),
    "transactions in a state": (lambda admin: admin.list_transactions(states=[1]), "1 is not a state"),
    "transactions by a pattern": (lambda admin: admin.list_transactions(pattern=5), "the pattern is 5, but must be"),
    "a transaction of a number": (
        lambda admin: admin.abort_transaction(HERE, 5),
        "5 is no producer of a partition: pass one that describe_producers returned",
    ),
    "states": (lambda admin: admin.list_groups([1]), "1 is not a state"),
}


@pytest.mark.parametrize("what", WRONG)
async def test_a_wrong_argument_is_a_sentence(what: str) -> None:
    call, sentence = WRONG[what]
    async with Admin(bootstrap_servers="127.0.0.1:1") as admin:
        with pytest.raises(ConfigError, match=sentence):
            await call(admin)
