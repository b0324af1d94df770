"""Source of a running cluster: it reads the log of the groups as a stream, describes groups, and samples ends.

It only reads: it joins no group, commits nothing and creates nothing.
"""

from kohort.watch.source.clients import clock, cluster_id
from kohort.watch.source.log_stream import OFFSETS_TOPIC
from kohort.watch.source.watching import NO_LOG, Watching

__all__ = ["NO_LOG", "OFFSETS_TOPIC", "Watching", "clock", "cluster_id"]
