"""Sink that writes to Kafka."""

from pyspark_kohort.sink.options import SinkOptions, parse_sink_options
from pyspark_kohort.sink.sink import BatchWriter, StreamWriter

__all__ = ["BatchWriter", "SinkOptions", "StreamWriter", "parse_sink_options"]
