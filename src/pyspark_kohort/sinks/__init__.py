"""Exactly-once sinks for stores that can write rows and their progress in one step.

Topic, partition and offset identify a record. A sink keeps a fence for each partition with its rows,
and moves the fence in the transaction that writes them. Rows before the fence are not written again.
This covers the same micro-batch after a crash, another query that took over the partition, and a
query that does not know yet that it lost the partition. The rows must keep the columns topic,
partition and offset, and there must be at most one row per record.
"""

from pyspark_kohort.sinks.foreach import exactly_once

__all__ = ["exactly_once"]
