"""The rows that a history is decoded into, as Spark's DDL and as Arrow's schema: one wide row type of several kinds.

`commits` rows are runs of committed offsets, summed up before Spark sees them; the other kinds are one record of
`__consumer_offsets` each. A column that a kind does not have is null. Times are milliseconds since the epoch.
"""

from enum import StrEnum

import pyarrow as pa


class Kind(StrEnum):
    """What a row is."""

    COMMITS = "commits"
    """Commits of one partition by one group, within one window and between two records of its group."""
    GENERATION = "generation"
    """A classic group's members and what each was given (type 2)."""
    EPOCH = "epoch"
    """A consumer group's group epoch (type 3)."""
    TOPIC = "topic"
    """A topic's name and id (type 4, which brokers before 4.1 wrote)."""
    MEMBER = "member"
    """What a member of a consumer group asks for (type 5); not alive where the record deletes it."""
    CURRENT = "current"
    """What a member of a consumer group has (type 8); not alive where the record deletes it."""
    UNREADABLE = "unreadable"
    """A record that could not be decoded: it is damaged, or of a format that is newer than this code."""


_RAW: list[tuple[str, pa.DataType]] = [
    ("key", pa.binary()),
    ("value", pa.binary()),
    ("partition", pa.int32()),
    ("offset", pa.int64()),
    ("timestamp", pa.timestamp("us", tz="UTC")),
]
RAW = pa.schema(_RAW)
"""What is decoded: columns of `format("kohort")`."""

_NAMES = pa.list_(pa.field("element", pa.string()))
MEMBER = pa.struct(
    [
        pa.field("member_id", pa.string()),
        pa.field("instance_id", pa.string()),
        pa.field("client_id", pa.string()),
        pa.field("client_host", pa.string()),
        pa.field("subscribed", _NAMES),
        pa.field("assigned", _NAMES),
    ]
)
_HISTORY: list[tuple[str, pa.DataType]] = [
    ("kind", pa.string()),
    ("shard", pa.int32()),
    ("position", pa.int64()),
    ("last_position", pa.int64()),
    ("at", pa.int64()),
    ("group_id", pa.string()),
    # commits
    ("topic", pa.string()),
    ("partition", pa.int32()),
    ("topic_id", pa.string()),
    ("window_at", pa.int64()),
    ("commits", pa.int64()),
    ("deletions", pa.int64()),
    ("last_at", pa.int64()),
    ("first_offset", pa.int64()),
    ("last_offset", pa.int64()),
    ("outermost", pa.bool_()),
    # groups
    ("alive", pa.bool_()),
    ("epoch", pa.int32()),
    ("protocol_type", pa.string()),
    ("protocol", pa.string()),
    ("leader_id", pa.string()),
    ("member_id", pa.string()),
    ("instance_id", pa.string()),
    ("client_id", pa.string()),
    ("client_host", pa.string()),
    ("subscribed", _NAMES),
    ("assigned", _NAMES),
    ("members", pa.list_(pa.field("element", MEMBER))),
]
HISTORY = pa.schema(_HISTORY)
"""`position` is the record's offset in its shard, for a run its first and `last_position` its last; `at` is a record's
time, for a run its first commit's and `last_at` its last. `outermost` is a run that may lie next to a change of owner.
`assigned` names partitions as `topic-partition`, with the topic's id instead of its name in consumer groups."""

HISTORY_DDL = (
    "kind STRING, shard INT, position BIGINT, last_position BIGINT, at BIGINT, group_id STRING,"
    " topic STRING, partition INT, topic_id STRING, window_at BIGINT, commits BIGINT, deletions BIGINT,"
    " last_at BIGINT, first_offset BIGINT, last_offset BIGINT, outermost BOOLEAN,"
    " alive BOOLEAN, epoch INT, protocol_type STRING, protocol STRING, leader_id STRING, member_id STRING,"
    " instance_id STRING, client_id STRING, client_host STRING, subscribed ARRAY<STRING>, assigned ARRAY<STRING>,"
    " members ARRAY<STRUCT<member_id: STRING, instance_id: STRING, client_id: STRING, client_host: STRING,"
    " subscribed: ARRAY<STRING>, assigned: ARRAY<STRING>>>"
)
