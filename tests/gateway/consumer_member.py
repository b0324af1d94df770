"""A member of a consumer group that does what the clients do, and nothing else."""

from typing import TYPE_CHECKING, Any

from kohort.coordinator import ClientKind
from kohort.errors import ErrorCode
from kohort.model import Millis
from kohort.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kohort.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from tests.gateway.consumer_links import Link

if TYPE_CHECKING:
    from tests.gateway.consumer_world import World

_FENCED = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH)
_MOVED = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
_RETRY: Millis = 100
_REQUEST_TIMEOUT: Millis = 30_000


class Member:
    """One member, with one connection."""

    def __init__(
        self, world: "World", name: str, client: ClientKind = ClientKind.OTHER, *, through: int | None = 0
    ) -> None:
        """Let it use the gateway with that number, or none."""
        self.world, self.name, self.client = world, name, client
        self.member_id = f"id-{name}"
        self.through = world.gateways[through] if world.gateways and through is not None else None
        self.link = Link(world, self, self.through)
        self.epoch = 0
        self.owned: frozenset[int] = frozenset()
        self.position: dict[int, int] = {}
        self.is_gone = self.is_expired = False
        self.unheard_at: Millis = -1_000_000
        """Until when the network kept its heartbeats from the coordinator, the last time."""
        self._interval: Millis = 5_000
        self._sent_at: Millis = 0
        self._waits = False
        """Whether a heartbeat is not answered yet."""
        self._is_full = True
        """Whether the next heartbeat has all fields."""
        self._reports = False
        """Whether it has the partitions, which acknowledges an assignment."""
        self._told: frozenset[int] | None = None
        """Assignment that the application is about to take."""
        self._round = 0

    # Heartbeats

    def join(self) -> None:
        """Send the first heartbeat."""
        self.epoch, self._is_full = 0, True
        self.beat()

    def beat(self) -> None:
        """Send a heartbeat, unless one is on its way: what changed is in the next one then."""
        if self.is_gone or self._waits:
            return
        self._round += 1
        self._waits, self._sent_at = True, self.world.now
        full, self._is_full = self._is_full, False
        reports, self._reports = full or self._reports, False
        request = ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id=self.member_id,
            member_epoch=self.epoch,
            rebalance_timeout_ms=60_000 if full else -1,
            subscribed_topic_names=["t"] if full else None,
            topic_partitions=self._partitions() if reports else None,
        )
        self.link.send(request)
        link, round_ = self.link, self._round
        self.world.after(_REQUEST_TIMEOUT, lambda: self._timed_out(link, round_))

    def _partitions(self) -> list[TopicPartitions]:
        topic_id = self.world.upstream.topic_id("t")
        return [TopicPartitions(topic_id=topic_id, partitions=sorted(self.owned))] if self.owned else []

    def _timed_out(self, link: Link, round_: int) -> None:
        if link is self.link and self._waits and round_ == self._round and not self.is_gone:
            self.reconnect()

    def _beat_in(self, delay: Millis) -> None:
        round_ = self._round
        self.world.after(max(delay, 0), lambda: self.beat() if round_ == self._round else None)

    def told(self, response: ConsumerGroupHeartbeatResponse, link: Link) -> None:
        """Note what the coordinator answers for this member, before the member gets it."""
        code = ErrorCode(response.error_code)
        if code in _FENCED and link is self.link and not self.is_gone and not self.is_expired:
            self.world.fenced.append((self.world.now, self.name, code))

    def received(self, request: Any, response: Any, link: Link) -> None:
        """Take a response."""
        if self.is_gone and getattr(request, "member_epoch", 0) < 0:
            link.close()
        if self.is_gone or link is not self.link:
            return
        if isinstance(response, OffsetCommitResponse):
            self._committed(request, response)
            return
        assert isinstance(response, ConsumerGroupHeartbeatResponse)
        self._waits = False
        code = ErrorCode(response.error_code)
        if code in _FENCED:
            if not self.is_expired:
                self.world.fenced.append((self.world.now, self.name, code))
            self._told = None
            self._own(frozenset())
            self.is_expired = False
            self.join()
        elif code in _MOVED:
            self.reconnect()
        elif code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            self._is_full = True
            self._beat_in(_RETRY)
        else:
            assert code is ErrorCode.NONE, code
            self._heard(response)

    def _heard(self, response: ConsumerGroupHeartbeatResponse) -> None:
        # The Java client's timer begins when it sends, and anew when it gets another interval.
        same = self._interval == response.heartbeat_interval_ms and self.client is not ClientKind.KOHORT
        self.epoch, self._interval = response.member_epoch, response.heartbeat_interval_ms
        topics = [] if response.assignment is None else response.assignment.topic_partitions
        told = frozenset(number for one in topics for number in one.partitions)
        if response.assignment is not None and told not in (self.owned, self._told):
            self._told = told
            revokes = self.owned - told
            self.world.after(self.world.random.choice((1, 10, 150)) if revokes else 1, lambda: self._take(told))
        self._beat_in(self._interval - (self.world.now - self._sent_at if same else 0))

    def _take(self, told: frozenset[int]) -> None:
        """Own what the last assignment has, when the application has given up the rest, and acknowledge it."""
        if self.is_gone or told is not self._told:
            return
        self._told = None
        if self.owned - told:
            self.commit()  # before it gives them up
        self._own(told)
        self._reports = True
        self.beat()

    def _own(self, partitions: frozenset[int]) -> None:
        durable = self.world.durable()
        for partition in partitions - self.owned:
            assert durable.get(partition, 0) >= self.world.committed.get(partition, 0), "a commit is lost"
            self.position[partition] = durable.get(partition, 0)
            self.world.read_twice += max(self.world.processed.get(partition, 0) - self.position[partition], 0)
        self.owned = partitions
        self.world.owners_changed()

    # Commits

    def commit(self) -> None:
        """Process a record of each partition, and commit."""
        if self.is_gone or not self.owned:
            return
        for partition in self.owned:
            self.position[partition] += 1
            self.world.processed[partition] = max(self.world.processed.get(partition, 0), self.position[partition])
        self.link.send(
            OffsetCommitRequest(
                group_id="g",
                generation_id_or_member_epoch=self.epoch,
                member_id=self.member_id,
                topics=[
                    OffsetCommitRequestTopic(
                        name="t",
                        partitions=[
                            OffsetCommitRequestPartition(
                                partition_index=partition, committed_offset=self.position[partition]
                            )
                            for partition in sorted(self.owned)
                        ],
                    )
                ],
            )
        )

    def _committed(self, request: OffsetCommitRequest, response: OffsetCommitResponse) -> None:
        for topic, answer in zip(request.topics, response.topics, strict=True):
            for asked, told in zip(topic.partitions, answer.partitions, strict=True):
                code = ErrorCode(told.error_code)
                if code is ErrorCode.NONE:
                    known = self.world.committed.get(asked.partition_index, 0)
                    self.world.committed[asked.partition_index] = max(known, asked.committed_offset)
        assert all(self.world.durable().get(p, 0) >= offset for p, offset in self.world.committed.items())

    # Ends

    def leave(self) -> None:
        """Commit, and leave."""
        self.commit()
        self.link.send(ConsumerGroupHeartbeatRequest(group_id="g", member_id=self.member_id, member_epoch=-1))
        self.is_gone, self.owned = True, frozenset()
        self.world.owners_changed()

    def crash(self) -> None:
        """The process dies, and its kernel closes the connection."""
        self.is_gone, self.owned = True, frozenset()
        self.link.close()
        self.world.owners_changed()

    def reconnect(self) -> None:
        """Open another connection after this one is closed, and repeat the heartbeat with all that the member is."""
        self.link.close()
        self.link = Link(self.world, self, self.through)
        self._waits, self._is_full = False, True
        self._round += 1
        self._beat_in(_RETRY)
