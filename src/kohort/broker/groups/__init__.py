"""The shell around the coordinator's shards: loading, timers, members' connections, the journal.

`GroupCoordinator` has all shards of a broker; handlers get the shard of a group from it.
"""

from kohort.broker.groups.coordinator import GroupCoordinator, group_partition
from kohort.broker.groups.error_answers import refusal
from kohort.broker.groups.group_contents import GroupContents
from kohort.broker.groups.journal import BrokerJournal
from kohort.broker.groups.loading import load
from kohort.broker.groups.log_shard import LogShard, LogShardParts, unexpected_timer
from kohort.broker.groups.member_connections import GATEWAY_CLIENT_ID, MemberConnections
from kohort.broker.groups.partition_loads import PartitionLoads
from kohort.broker.groups.shard import Shard
from kohort.broker.groups.timers import Timers
from kohort.broker.groups.topics_image import TopicsImage

__all__ = [
    "GATEWAY_CLIENT_ID",
    "BrokerJournal",
    "GroupContents",
    "GroupCoordinator",
    "LogShard",
    "LogShardParts",
    "MemberConnections",
    "PartitionLoads",
    "Shard",
    "Timers",
    "TopicsImage",
    "group_partition",
    "load",
    "refusal",
    "unexpected_timer",
]
