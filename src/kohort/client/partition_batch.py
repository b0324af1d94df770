"""Records of one partition as columns."""

from typing import TYPE_CHECKING, NamedTuple

from kohort.model import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa


class PartitionBatch(NamedTuple):
    """In order, none left out that the application may see; `kohort.columns.schema.SCHEMA` says which columns."""

    partition: TopicPartition
    records: "pa.RecordBatch"
