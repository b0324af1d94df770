"""The records of a partition of `__consumer_offsets`, decoded for the `GroupShard` that loads them."""

import logging
from collections.abc import Sequence

from kohort.coordinator import GroupShard
from kohort.wire.batches.scanning import Pair
from kohort.wire.codec import DecodeError
from kohort.wire.group_log import decode_group_records

log = logging.getLogger("kohort.broker")


class GroupContents:
    """What replays the partition's records into the shard; unreadable ones are skipped and logged."""

    def __init__(self, shard: GroupShard, name: str) -> None:
        self._shard = shard
        self._name = name
        """Topic and partition, for the log."""

    def replay(self, pairs: Sequence[Pair]) -> None:
        self._shard.replay_all(decode_group_records(pairs, self._unreadable))

    def replay_pending(self, pairs: Sequence[Pair], producer_id: int) -> None:
        self._shard.replay_pending(decode_group_records(pairs, self._unreadable), producer_id)

    def replay_end(self, producer_id: int, *, committed: bool) -> None:
        self._shard.replay_end(producer_id, committed=committed)

    def _unreadable(self, error: DecodeError) -> None:
        log.error("skipped an unreadable record of %s: %s", self._name, error)
