"""Sink that writes to Kafka."""

from pyspark_kohort.sink.options import SinkOptions, parse_sink_options
from pyspark_kohort.sink.sink import BatchWriter, StreamWriter
from pyspark_kohort.sink.transactional import TransactionalBatchWriter, TransactionalStreamWriter

__all__ = [
    "BatchWriter",
    "SinkOptions",
    "StreamWriter",
    "TransactionalBatchWriter",
    "TransactionalStreamWriter",
    "parse_sink_options",
]
