"""Schema of the rows of a history, as DDL of Spark and as Arrow schema: one wide row type of several kinds.

Rows of kind `commits` are runs of committed offsets, aggregated before Spark receives them. Rows of
the other kinds are one record of `__consumer_offsets` each. A column that a kind does not have is
null. Times are in milliseconds since the epoch.
"""

from enum import StrEnum

import pyarrow as pa


class Kind(StrEnum):
    """Kind of a row."""

    COMMITS = "commits"
    """Commits of one partition by one group, within one window and between two records of the group."""
    GENERATION = "generation"
    """Members of a classic group and their assignments (type 2)."""
    EPOCH = "epoch"
    """Group epoch of a consumer group (type 3)."""
    TOPIC = "topic"
    """Name and id of a topic (type 4, which brokers before 4.1 wrote)."""
    MEMBER = "member"
    """Subscription of a member of a consumer group (type 5); not alive if the record deletes it."""
    CURRENT = "current"
    """Current assignment of a member of a consumer group (type 8); not alive if the record deletes it."""
    UNREADABLE = "unreadable"
    """Record that could not be decoded: it is damaged, or its format is newer than this code."""


_RAW: list[tuple[str, pa.DataType]] = [
    ("key", pa.binary()),
    ("value", pa.binary()),
    ("partition", pa.int32()),
    ("offset", pa.int64()),
    ("timestamp", pa.timestamp("us", tz="UTC")),
]
RAW = pa.schema(_RAW)
"""Schema of the decoder's input: columns of `format("kohort")`."""

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
"""Schema of the history.

`position` is the record's offset in its shard; for a run it is that of its first record, and
`last_position` that of its last. `at` is the record's time; for a run it is the earliest time, and
`last_at` the latest. `outermost` marks a run that may be next to a change of owner. `assigned`
names partitions as `topic-partition`; in consumer groups it has the topic's id instead of its name.
"""

HISTORY_DDL = (
    "kind STRING, shard INT, position BIGINT, last_position BIGINT, at BIGINT, group_id STRING,"
    " topic STRING, partition INT, topic_id STRING, window_at BIGINT, commits BIGINT, deletions BIGINT,"
    " last_at BIGINT, first_offset BIGINT, last_offset BIGINT, outermost BOOLEAN,"
    " alive BOOLEAN, epoch INT, protocol_type STRING, protocol STRING, leader_id STRING, member_id STRING,"
    " instance_id STRING, client_id STRING, client_host STRING, subscribed ARRAY<STRING>, assigned ARRAY<STRING>,"
    " members ARRAY<STRUCT<member_id: STRING, instance_id: STRING, client_id: STRING, client_host: STRING,"
    " subscribed: ARRAY<STRING>, assigned: ARRAY<STRING>>>"
)
