"""DescribeLogDirs: location and size of the logs."""

import shutil
from collections.abc import Iterable
from typing import Protocol

from kohort.broker.logs import Topics
from kohort.broker.net import Call
from kohort.errors import ErrorCode
from kohort.log import Topic
from kohort.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)


class Dependencies(Protocol):
    """The parts of the broker that this module uses."""

    log_directory: str
    topics: Topics


_UNKNOWN = -1


def handle(broker: Dependencies, call: Call, request: DescribeLogDirsRequest) -> None:
    """Describe the given topics, or all if null; omit logs that are not on this broker, which knows no others."""
    known = broker.topics.all()
    if request.topics is None:
        wanted = {name: set(range(topic.partitions)) for name, topic in known.items()}
    else:
        wanted = {}
        for requested in request.topics:
            if requested.topic in known:
                wanted.setdefault(requested.topic, set()).update(requested.partitions)
    topics = [_sizes(broker, known[name], sorted(partitions)) for name, partitions in wanted.items()]
    total, usable = _space(broker.log_directory)
    directory = DescribeLogDirsResult(
        error_code=ErrorCode.NONE,
        log_dir=broker.log_directory,
        topics=[topic for topic in topics if topic.partitions],
        total_bytes=total,
        usable_bytes=usable,
    )
    call.reply(DescribeLogDirsResponse(results=[directory]))


def _sizes(broker: Dependencies, topic: Topic, partitions: Iterable[int]) -> DescribeLogDirsTopic:
    logs = ((index, broker.topics.log(topic, index)) for index in partitions)
    return DescribeLogDirsTopic(
        name=topic.name,
        partitions=[
            DescribeLogDirsPartition(partition_index=index, partition_size=log.size)
            for index, log in logs
            if log is not None
        ],
    )


def _space(directory: str) -> tuple[int, int]:
    """Return the total and the free bytes of the file system (KIP-827)."""
    try:
        usage = shutil.disk_usage(directory)
    except OSError:
        return _UNKNOWN, _UNKNOWN  # the log is in memory
    return usage.total, usage.free
