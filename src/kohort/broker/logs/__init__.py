"""Topics and their logs: creation, the rules for records, group commit, leadership, disk errors."""

from kohort.broker.logs.disk_errors import DiskErrors
from kohort.broker.logs.group_commit import GroupCommit, Writer
from kohort.broker.logs.leadership import Leadership, SingleBroker
from kohort.broker.logs.own_partition import partition_to_append
from kohort.broker.logs.topic_rules import TopicRules
from kohort.broker.logs.topics import INTERNAL_TOPICS, Topics, is_legal_name

__all__ = [
    "INTERNAL_TOPICS",
    "DiskErrors",
    "GroupCommit",
    "Leadership",
    "SingleBroker",
    "TopicRules",
    "Topics",
    "Writer",
    "is_legal_name",
    "partition_to_append",
]
