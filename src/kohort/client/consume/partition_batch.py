"""Records of one partition as columns."""

from typing import TYPE_CHECKING, NamedTuple

from kohort.model import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa


class PartitionBatch(NamedTuple):
    """Records of one partition in offset order, including all that the application may see.

    `kohort.columns.schema.SCHEMA` defines the columns.
    """

    partition: TopicPartition
    records: "pa.RecordBatch"


class PartitionValues(NamedTuple):
    """Values of consecutive records of one partition. A value of None is a tombstone."""

    partition: TopicPartition
    values: list[bytes | None]
