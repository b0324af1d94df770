"""Controls of the kit's brokers: time, members, coordinators, leaders, topics and disks, each by the broker's own code.

`Controls` belongs to the event loop of its brokers; `kohort.testing.Broker` offers the same to a test's thread. What it
does is in the stream of events (`KitActed`), and the journal names the cause that real clients would cause.
"""

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterator, Sequence
from functools import partial
from typing import Any

from kohort.broker.groups import Shard, group_partition
from kohort.broker.logs import SingleBroker
from kohort.coordinator import RequestContext
from kohort.coordinator.classic import ClassicGroup
from kohort.errors import ErrorCode, KafkaError, KohortError
from kohort.log import Topic
from kohort.log.cluster import OFFSETS_TOPIC, PartitionId, Placement
from kohort.model import UUID, Millis
from kohort.testing.clock import ControlledClock, change_rate, skip_time
from kohort.testing.disk import FAILS, FULL, DiskFaults
from kohort.testing.events import Event, KitActed, RequestReceived
from kohort.testing.hits import Hits
from kohort.testing.parts import Entity, parts, shape_of
from kohort.testing.taps import TappedBroker
from kohort.wire.codec import Message
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol

_CLIENT_ID = "kohort.testing"
_HOST = "/kit"
_LOOK_S = 0.002
_TURNS = 10
"""Turns of the event loop in which it reads what the kernel has."""
_LEADS_WITHIN_S = 30.0
_JOIN_VERSION = 9
_HEARTBEAT_VERSION = 1
_STATIC_LEAVE = -2


class Outage:
    """Something that the kit took away. It comes back after a time, or with `end`."""

    def __init__(self, hits: Hits, give_back: Callable[[], Coroutine[Any, Any, None]], after_ms: Millis | None) -> None:
        self.hits = hits
        """Requests that arrived meanwhile, or writes of a disk, that it has affected."""
        self._give_back = give_back
        self._task: asyncio.Task[None] | None = None
        self._over = asyncio.Event()
        loop = asyncio.get_running_loop()
        self._timer = None if after_ms is None else loop.call_later(after_ms / 1000, self._begin_end)

    @property
    def is_over(self) -> bool:
        """Whether everything is as before."""
        return self._over.is_set()

    def _begin_end(self) -> None:
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._give_back())
            self._task.add_done_callback(self._ended)

    def _ended(self, _: object) -> None:
        self._over.set()
        self.hits.end()

    async def end(self) -> None:
        """Give back what was taken away, if that has not happened yet."""
        if self._timer is not None:
            self._timer.cancel()
        self._begin_end()
        await self.ended()

    async def ended(self) -> None:
        """Wait until the time of the outage is over."""
        await self._over.wait()
        assert self._task is not None
        self._task.result()


class Controls:
    """Controls of one broker, or of the brokers of a cluster, which share one clock."""

    def __init__(self, brokers: Sequence[TappedBroker], clock: ControlledClock) -> None:
        self._brokers = brokers
        self._clock = clock
        self._disks: dict[int, DiskFaults] = {}
        self._outages: dict[object, Outage] = {}
        """The outage of each coordinator's or topic's partition."""
        self._open: list[Outage] = []
        """Outages that may not be over."""

    # Time

    async def advance(self, ms: Millis, dead: Collection[str] = ()) -> None:
        """Let the brokers' clock jump ahead: what becomes due happens at once, in order of time.

        Members that live do not notice: they are connected, and were heard within half their session, or within one and
        a half of their heartbeat intervals. All others expire as they would in that time, and so do those in `dead`
        (member IDs, instance IDs or client IDs). Offsets, records and producers expire, too.
        """
        if ms < 0:
            raise ValueError(f"Time does not go back: {ms} ms is negative.")
        for _ in range(_TURNS):
            await asyncio.sleep(0)  # until the loop has read the end of connections whose processes were killed
        self._acted(f"let {ms} ms pass")
        lost = {key for key, names in self._members() if not names.isdisjoint(dead)}
        skip_time(self._clock, self._brokers, ms, lost)
        for broker in self._brokers:
            await broker.retention.apply()

    def scale_time(self, rate: float) -> None:
        """Let one real second count as `rate` seconds for the brokers' timers; 0 freezes them, 1 is real time.

        Members of the consumer protocol are told heartbeat intervals that are shorter by the rate. Members of the
        classic protocol choose their own: choose a rate by which their sessions are still longer than those intervals.
        """
        change_rate(self._clock, self._brokers, rate)
        self._acted(f"let one second count as {rate:g}")

    # Groups

    def expire_member(self, group_id: str, member: str) -> str:
        """Remove a member as if its session had expired. Return its member ID.

        `member` is its member ID, instance ID or client ID. Raise KohortError if that is not exactly one member.
        """
        broker, shard = self._coordinator(group_id)
        member_id = self._member_id(group_id, member)
        self._acted(f"expired member {member_id} of {group_id}", broker)
        shard.expire_member(group_id, member_id)
        return member_id

    def fence_instance(self, group_id: str, instance_id: str) -> str:
        """Let another process take over a static membership, so that the present one is fenced. Return the new ID.

        The new member never sends another request. It goes when its session expires, or by `expire_member`.
        """
        broker, shard = self._coordinator(group_id)
        old_id = self._member_id(group_id, instance_id)
        found = shard.group(group_id)
        assert found is not None
        self._acted(f"fenced {instance_id} of {group_id}", broker)
        if isinstance(found, ClassicGroup):
            answer = self._ask(shard, _join_again(found, old_id), _JOIN_VERSION)
            new_id = found.static_ids[instance_id]
        else:
            member = found.members[old_id]
            new_id = str(broker.fresh_id())
            leave = ConsumerGroupHeartbeatRequest(
                group_id=group_id, member_id=old_id, member_epoch=_STATIC_LEAVE, instance_id=instance_id
            )
            self._ask(shard, leave, _HEARTBEAT_VERSION)
            join = ConsumerGroupHeartbeatRequest(
                group_id=group_id,
                member_id=new_id,
                instance_id=instance_id,
                rebalance_timeout_ms=member.rebalance_timeout_ms,
                subscribed_topic_names=sorted(member.subscription.names),
                subscribed_topic_regex=member.subscription.expression,
                topic_partitions=[],
            )
            answer = self._ask(shard, join, _HEARTBEAT_VERSION)
        code = getattr(answer, "error_code", ErrorCode.NONE)
        if code:
            raise KafkaError(ErrorCode(code), f"The coordinator refused to fence {instance_id} of {group_id}.")
        return new_id

    def _ask(self, shard: Shard, request: Message, version: int) -> Message | None:
        waiter = _Waiter(request, version)
        shard.handle(request, waiter, RequestContext(waiter, version, _CLIENT_ID, _HOST))
        return waiter.answer

    async def move_coordinator(self, group_id: str, *, ms: Millis = 0, to: int | None = None) -> None:
        """Let another broker of a cluster coordinate the group, by default the next one.

        A single broker gives the group up, and coordinates it again after `ms`. In between, its members get
        NOT_COORDINATOR. On return, the group is loaded again.
        """
        broker, _ = self._coordinator(group_id)
        partition = self._partition_of(group_id)
        if isinstance(broker.leadership, SingleBroker):
            self._acted(f"moved the coordinator of {group_id}", broker)
            outage = self._resign(group_id, ErrorCode.NOT_COORDINATOR, ms)
            await outage.ended()
            return
        topic = broker.topics.named(OFFSETS_TOPIC)
        assert topic is not None
        self._acted(f"moved the coordinator of {group_id}", broker)
        await self._move(broker, topic, partition, to)

    def load_coordinator(self, group_id: str, ms: Millis | None = None) -> Outage:
        """Let the coordinator load its groups for `ms`, or until the outage ends: COORDINATOR_LOAD_IN_PROGRESS.

        This concerns all groups in the same partition of `__consumer_offsets`. Heartbeats of classic members are
        answered without an error meanwhile, as in Kafka.
        """
        broker, _ = self._coordinator(group_id)
        self._acted(f"let the coordinator of {group_id} load", broker)
        return self._resign(group_id, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ms)

    def _resign(self, group_id: str, code: ErrorCode, ms: Millis | None) -> Outage:
        broker, shard = self._coordinator(group_id)
        partition = self._partition_of(group_id)

        async def lead_again() -> None:
            stop()
            if self._outages.get(("coordinator", partition)) is not outage or broker.stopping:
                return  # another outage followed
            del self._outages["coordinator", partition]
            await broker.writer.drain()  # a load reads what is settled
            topic = broker.topics.named(OFFSETS_TOPIC)
            # A restored snapshot has led it again, or another broker leads it now.
            if not shard.ready and topic is not None and broker.leadership.leads(topic, partition):
                broker.groups.lead([partition])
                await shard.loaded()

        shard.resign(code)
        hits = Hits(lambda: f"the coordinator of {group_id} answers {code.name}")
        stop = self._count(
            hits, lambda about: about.group is not None and self._partition_of(about.group) == partition, broker
        )
        outage = self._outages["coordinator", partition] = self._begun(Outage(hits, lead_again, ms))
        return outage

    # Leaders

    def lose_leader(self, topic: str, partition: int, ms: Millis | None = None) -> Outage:
        """Leave a partition without a leader for `ms`, or until the outage ends. Raise KohortError in a cluster."""
        broker = self._brokers[0]
        leadership = broker.leadership
        if not isinstance(leadership, SingleBroker):
            raise KohortError("In a cluster, another broker leads the partition: use move_leader.")
        found = self._topic(topic, partition)
        partition_id = PartitionId(found.topic_id, partition)

        async def lead_again() -> None:
            stop()
            if self._outages.get(partition_id) is not outage:
                return  # another outage followed
            del self._outages[partition_id]
            leadership.unavailable.discard(partition_id)
            broker.waiting_fetches.check_all()

        leadership.unavailable.add(partition_id)
        broker.waiting_fetches.moved(broker.topics.release_topic([partition_id]))
        self._acted(f"took the leader of {topic}-{partition} away", broker)
        hits = Hits(lambda: f"{topic}-{partition} has no leader")
        stop = self._count(
            hits,
            lambda about: about.partition == partition and (about.topic == topic or about.topic_id == found.topic_id),
            broker,
        )
        outage = self._outages[partition_id] = self._begun(Outage(hits, lead_again, ms))
        return outage

    def _count(self, hits: Hits, concerns: Callable[[Entity], bool], broker: TappedBroker) -> Callable[[], None]:
        """Count requests with a part that is concerned, and return what ends it."""

        def observe(event: Event) -> None:
            if isinstance(event, RequestReceived):
                shape = shape_of(event.request, event.version)
                if any(
                    concerns(about) for depth in {0, *shape.depths} for _, about in parts(shape, depth, event.request)
                ):
                    hits.add()

        broker.observers.append(observe)

        def stop() -> None:
            if observe in broker.observers:
                broker.observers.remove(observe)

        return stop

    async def move_leader(self, topic: str, partition: int, to: int | None = None) -> None:
        """Let another broker of a cluster lead the partition, by default the next one."""
        found = self._topic(topic, partition)
        await self._move(self._brokers[0], found, partition, to)
        self._acted(f"moved the leader of {topic}-{partition}")

    async def _move(self, broker: TappedBroker, topic: Topic, partition: int, to: int | None) -> None:
        leadership = broker.leadership
        if isinstance(leadership, SingleBroker):
            raise KohortError("There is no other broker: use a Cluster, or lose_leader.")
        now = leadership.leader(topic, partition).node_id
        others = sorted(node.node_id for node in leadership.nodes if node.node_id != now)
        if to is None and others:
            to = next((node_id for node_id in others if node_id > now), others[0])
        if to is None or leadership.node(to) is None:
            raise KohortError(f"There is no broker {to} to lead {topic.name}-{partition}.")
        leadership.catch_up()
        leadership.reassign({PartitionId(topic.topic_id, partition): (to,)}, [])
        await self._until(lambda: self._is_led_by(topic, partition, to))

    def _is_led_by(self, topic: Topic, partition: int, node_id: int) -> bool:
        for broker in self._brokers:
            if broker.leadership.leader(topic, partition).node_id != node_id:
                return False
            if broker.node_id == node_id and not broker.leadership.leads(topic, partition):
                return False
            if broker.node_id == node_id and topic.name == OFFSETS_TOPIC:
                return all(shard.ready for shard in broker.groups)
        return True

    # Topics

    def grow_topic(self, topic: str, partitions: int) -> None:
        """Let the topic have as many partitions as `partitions`. Raise KafkaError."""
        found, broker = self._topic(topic), self._brokers[0]
        broker.leadership.catch_up()
        broker.topics.check_growth(found, partitions)
        self._acted(f"gave {topic} {partitions} partitions", broker)
        broker.grow_topic(found, partitions)

    def delete_topic(self, topic: str) -> None:
        """Delete the topic, its records, and the offsets that were committed for it."""
        found, broker = self._topic(topic), self._brokers[0]
        broker.leadership.catch_up()
        self._acted(f"deleted {topic}", broker, topics=[topic])
        broker.delete_topic(found)

    async def recreate_topic(self, topic: str, partitions: int | None = None) -> UUID:
        """Delete the topic and make another one under its name, without records. Return the new topic ID.

        It has the same configs, and as many partitions unless `partitions` is given.
        """
        found, broker = self._topic(topic), self._brokers[0]
        placement = Placement(broker.leadership.replicas(found, 0).factor)
        self.delete_topic(topic)
        created: Topic | None = None
        async with asyncio.timeout(_LEADS_WITHIN_S):
            while created is None:
                try:
                    count = found.partitions if partitions is None else partitions
                    created = broker.topics.create(topic, count, found.configs, placement)
                except KafkaError as error:
                    if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                        raise
                    await asyncio.sleep(_LOOK_S)  # another broker still deletes its part
                    broker.leadership.catch_up()
        self._acted(f"made {topic} anew", broker, topics=[topic])
        return created.topic_id

    # Disks

    def slow_disk(self, sync_ms: Millis, *, node_id: int | None = None, ms: Millis | None = None) -> Outage:
        """Let each sync of the log take `sync_ms` longer, for `ms` or until the outage ends."""
        return self._disk_outage(
            f"slowed the disk down by {sync_ms} ms", partial(DiskFaults.slow, sync_ms=sync_ms), node_id, ms
        )

    def fill_disk(self, *, node_id: int | None = None, ms: Millis | None = None) -> Outage:
        """Let all writes fail for want of space, for `ms` or until the outage ends."""
        return self._disk_outage("filled the disk", partial(DiskFaults.fail, error=FULL), node_id, ms)

    def fail_disk(self, *, node_id: int | None = None, ms: Millis | None = None) -> Outage:
        """Let all writes fail with an I/O error, for `ms` or until the outage ends."""
        return self._disk_outage("let the disk fail", partial(DiskFaults.fail, error=FAILS), node_id, ms)

    def _disk_outage(
        self,
        what: str,
        begin: Callable[[DiskFaults, Callable[[], object]], Callable[[], None]],
        node_id: int | None,
        ms: Millis | None,
    ) -> Outage:
        brokers = [broker for broker in self._brokers if node_id in (None, broker.node_id)]
        if not brokers:
            raise KohortError(f"There is no broker {node_id}.")
        hits = Hits(lambda: f"the kit {what}")
        loop = asyncio.get_running_loop()
        ends = []
        for broker in brokers:
            disk = self._disks.get(broker.node_id)
            if disk is None:
                disk = self._disks[broker.node_id] = DiskFaults(broker.store)
            ends.append(begin(disk, partial(loop.call_soon_threadsafe, hits.add)))
            self._acted(what, broker)

        async def give_back() -> None:
            for end in ends:
                end()

        return self._begun(Outage(hits, give_back, ms))

    def removed(self, node_id: int) -> None:
        """Forget a broker that has left: another one may get its node ID."""
        self._disks.pop(node_id, None)

    def _begun(self, outage: Outage) -> Outage:
        self._open = [other for other in self._open if not other.is_over]
        self._open.append(outage)
        return outage

    async def end_outages(self) -> None:
        """Give back all that was taken away, and heal all disks."""
        while self._open:
            await self._open.pop().end()

    def heal_disks(self) -> None:
        """End all faults of disks, so that the brokers can stop."""
        for disk in self._disks.values():
            disk.heal()

    # Look-up

    def _partition_of(self, group_id: str) -> int:
        topic = self._brokers[0].topics.named(OFFSETS_TOPIC)
        assert topic is not None
        return group_partition(group_id, topic.partitions)

    def _coordinator(self, group_id: str) -> tuple[TappedBroker, Shard]:
        for broker in self._brokers:
            shard = broker.groups.shard(group_id)
            if shard.leads:
                return broker, shard
        raise KohortError(f"No broker coordinates the group {group_id} at the moment.")

    def _member_id(self, group_id: str, name: str) -> str:
        found = {member_id: names for (group, member_id), names in self._members() if group == group_id}
        if name in found:
            return name
        named = [member_id for member_id, names in found.items() if name in names]
        if len(named) != 1:
            known = ", ".join(sorted(found)) or "none"
            raise KohortError(f"{len(named)} members of the group {group_id} are {name!r}. Its members: {known}.")
        return named[0]

    def _members(self) -> Iterator[tuple[tuple[str, str], set[str]]]:
        """Yield group ID and member ID of all members, with all names of each."""
        for broker in self._brokers:
            for shard in broker.groups:
                for group in shard.all_groups:
                    for member_id, member in group.members.items():
                        names = {member_id, member.client_id, member.instance_id or member_id}
                        yield (group.group_id, member_id), names

    def _topic(self, name: str, partition: int = 0) -> Topic:
        found = self._brokers[0].topics.named(name)
        if found is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
        if not 0 <= partition < found.partitions:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Topic '{name}' has {found.partitions} partition(s)."
            )
        return found

    async def _until(self, reached: Callable[[], bool]) -> None:
        async with asyncio.timeout(_LEADS_WITHIN_S):
            while not reached():  # noqa: ASYNC110  # other brokers write files
                await asyncio.sleep(_LOOK_S)

    def _acted(self, what: str, broker: TappedBroker | None = None, topics: Collection[str] = ()) -> None:
        for one in self._brokers if broker is None else [broker]:
            one.emit(KitActed(one.now(), one.node_id, what, topics=frozenset(topics)))


class _Waiter:
    """Takes the answer to a request of the kit's own."""

    def __init__(self, request: Message, version: int) -> None:
        self.request = request
        self.version = version
        self.answer: Message | None = None

    def reply(self, response: Message, /) -> None:
        self.answer = response


def _join_again(group: ClassicGroup, member_id: str) -> JoinGroupRequest:
    """Return the first request of another process that has the instance ID of this member."""
    member = group.members[member_id]
    return JoinGroupRequest(
        group_id=group.group_id,
        session_timeout_ms=member.session_timeout_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        group_instance_id=member.instance_id,
        protocol_type=group.protocol_type or "",
        protocols=[JoinGroupRequestProtocol(name=name, metadata=data) for name, data in member.protocols.items()],
        reason="another process took the instance ID",
    )
