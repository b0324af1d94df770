"""DescribeLogDirs: where the logs lie and how large they are."""

import shutil
from collections.abc import Iterable
from typing import TYPE_CHECKING

from kohort.broker.call import Call
from kohort.errors import ErrorCode
from kohort.log.api import Topic
from kohort.wire.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

if TYPE_CHECKING:
    from kohort.broker.server import Broker

_UNKNOWN = -1


def handle(broker: "Broker", call: Call, request: DescribeLogDirsRequest) -> None:
    """No topics given (null) means all; what is not here is left out, as a broker knows only of its own logs."""
    known = broker.topics.all()
    if request.topics is None:
        wanted = {name: set(range(topic.partitions)) for name, topic in known.items()}
    else:
        wanted = {}
        for one in request.topics:
            if one.topic in known:
                wanted.setdefault(one.topic, set()).update(one.partitions)
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


def _sizes(broker: "Broker", topic: Topic, partitions: Iterable[int]) -> DescribeLogDirsTopic:
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
    """All bytes of the file system and those that are free (KIP-827)."""
    try:
        usage = shutil.disk_usage(directory)
    except OSError:
        return _UNKNOWN, _UNKNOWN  # it is in memory
    return usage.total, usage.free
