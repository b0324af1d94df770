"""Exactly once into stores that can write rows and remember, in one step, how far they got.

Each record of a topic has one name: topic, partition, offset. A sink keeps a fence for each partition beside its rows,
and moves it in the transaction that writes them. What is before the fence is not written again, whoever brings it: the
same micro-batch after a crash, another query that took the partition over, or the query that lost it and does not know
yet. For that the rows must keep the columns topic, partition and offset, one row or none for each record.
"""

from pyspark_kohort.sinks.foreach import exactly_once

__all__ = ["exactly_once"]
