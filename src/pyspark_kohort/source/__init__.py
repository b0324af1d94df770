"""Batch source, and streaming source for queries outside of a group."""

from pyspark_kohort.source.batch import BatchReader, FilteringReader
from pyspark_kohort.source.plan import Range, advanced_offset, clipped_ranges, limited_ends, planned_ranges
from pyspark_kohort.source.stream import StandaloneReader, StreamReader

__all__ = [
    "BatchReader",
    "FilteringReader",
    "Range",
    "StandaloneReader",
    "StreamReader",
    "advanced_offset",
    "clipped_ranges",
    "limited_ends",
    "planned_ranges",
]
