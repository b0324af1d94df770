"""Open transactions in the log of the groups: what follows their offsets cannot be read until they end."""

from collections.abc import Mapping

from kohort.client import Admin, OffsetSpec
from kohort.model import Millis, TopicPartition
from kohort.watch.live import Live
from kohort.watch.source.clients import clock
from kohort.watch.source.log_stream import OFFSETS_TOPIC

_ABOUT = "open transactions in the log"
_MOST_LISTED = 10


class HeldLog:
    """Finds partitions of the log whose readable end has stood still below the real one."""

    def __init__(self, admin: Admin, live: Live, after_ms: Millis) -> None:
        """Report partitions that are held for `after_ms`: a transaction usually ends within milliseconds."""
        self._admin = admin
        self._live = live
        self._after_ms = after_ms
        self._held: dict[TopicPartition, tuple[int, Millis]] = {}
        """Readable end of each partition that is held, with the time since when it stands there."""

    async def look(self, readable: Mapping[TopicPartition, int]) -> None:
        """Compare the readable ends, which were just asked for, with the real ones. Raises KafkaError."""
        found = await self._admin.list_offsets(dict.fromkeys(readable, OffsetSpec.LATEST))
        now = clock()
        held: dict[TopicPartition, tuple[int, Millis]] = {}
        for partition, end in readable.items():
            last = found.get(partition)
            if last is not None and last.offset > end:
                at, since = self._held.get(partition, (end, now))
                held[partition] = (end, since if at == end else now)
        self._held = held
        long = sorted(partition.partition for partition, (_, since) in held.items() if now - since >= self._after_ms)
        if not long:
            self._live.solved(_ABOUT, now)
            return
        more = f" and {len(long) - _MOST_LISTED} more" if len(long) > _MOST_LISTED else ""
        self._live.problem(
            f"A transaction is open for long in these partitions of {OFFSETS_TOPIC}:"
            f" {', '.join(map(str, long[:_MOST_LISTED]))}{more}. Their groups are shown as they were before it. Find it"
            " with kohort transactions find-hanging.",
            now,
            about=_ABOUT,
        )
