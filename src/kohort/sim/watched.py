"""A group coordinator that is looked at: every request, timer and record that it takes is checked, and then it goes on.

`Watched` stands in front of production's `GroupShard`. What it expects of a request it works out beforehand from the
group's state, by Kafka's rules and not by the coordinator's code.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Any

from kohort.coordinator import Behind, Effects, GroupShard, GroupState, Held, Record, RequestContext, Timer, Token
from kohort.coordinator.classic_group import ClassicGroup
from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.consumer.metadata import MetadataImage
from kohort.coordinator.consumer.target import chosen_assignor
from kohort.coordinator.events import RebalanceStarted
from kohort.coordinator.timers import OffsetExpiry
from kohort.errors import ErrorCode
from kohort.model import Millis
from kohort.sim.consumer_checks import epoch_of, must_refuse_commit, must_refuse_heartbeat, returns_unchanged
from kohort.sim.durable_state import group_of, same
from kohort.sim.error_codes import is_allowed
from kohort.sim.rules import codes, fingerprint, holder_of, is_stale, must_refuse, returning
from kohort.sim.seen import AnyGroup, Seen
from kohort.sim.violation import Violation
from kohort.wire.codec import Message
from kohort.wire.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from kohort.wire.group_records import ConsumerGroupMetadataKey, OffsetCommitKey
from kohort.wire.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.wire.join_group import JoinGroupResponse
from kohort.wire.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kohort.wire.sync_group import SyncGroupResponse

if TYPE_CHECKING:
    from kohort.sim.watch import Watch


class Watched:
    """One coordinator."""

    def __init__(self, watch: Watch, machine: GroupShard, partition: int, owns: Callable[[], bool]) -> None:
        self.machine = machine
        self.unsynced = 0
        """Records that were appended and are not durable yet."""
        self._seen = Seen(watch.states, lambda group_id: watch.join_phase_over(group_id))
        self._watch = watch
        self._partition = partition
        self.owns = owns
        """Whether its broker still has the log."""
        self._serves = False
        self._touched: tuple[str, Millis] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.machine, name)

    # Asked for with each request, so not by way of `__getattr__`.

    @property
    def has_news(self) -> bool:
        return self.machine.has_news

    @property
    def holds_end_at(self) -> Millis | None:
        return self.machine.holds_end_at

    @property
    def timers(self) -> dict[Timer, Millis]:
        """All that are armed."""
        return self._seen.timers

    # Loading

    def loaded(self, now: Millis) -> Effects:
        """It has replayed what the log holds: that is what was durable."""
        watch = self._watch
        if self.owns():
            shadow = watch.shadows[self._partition]
            same(self.machine, shadow.shard, "as loaded")
            same(shadow.compacted(), shadow.shard, "compacted")
            watch.live[self._partition] = self
        self._serves = True
        groups: list[AnyGroup] = [*self.machine.groups.values(), *self.machine.consumer_groups.values()]
        for group in groups:
            self._seen.loaded(group, now)
        return self._take(self.machine.loaded(now), None, now)

    def resign(self) -> Effects:
        """It is nobody's coordinator any more."""
        self._serves = False
        if self._watch.live.get(self._partition) is self:
            del self._watch.live[self._partition]
        return self.machine.resign()

    # Requests

    def heartbeat(self, request: HeartbeatRequest, now: Millis, token: Token | None = None) -> ErrorCode | Held:
        """As `handle`, for the most frequent request."""
        group = self.group(request.group_id)
        if isinstance(group, ConsumerGroup):
            return self.machine.heartbeat(request, now, token)  # of a member that migrates
        stale = must_refuse(group, request.member_id, request.group_instance_id, request.generation_id)
        code = self.machine.heartbeat(request, now, token)
        if not isinstance(code, Held):
            self._watch.errors["Heartbeat", code] += 1
        if stale:
            if isinstance(code, Held) or not (code and code is not ErrorCode.REBALANCE_IN_PROGRESS):
                raise Violation("S5", f"{request} was taken")
        else:
            self._seen.heard(request.group_id, request.member_id, now)
        return code

    def handle(self, request: Message, context: RequestContext, now: Millis) -> Effects:
        """Take one request, as the coordinator does."""
        group_id = getattr(request, "group_id", None)
        found = self.group(group_id) if group_id else None
        group = found if isinstance(found, ClassicGroup) else None
        if isinstance(found, ConsumerGroup) or isinstance(request, ConsumerGroupHeartbeatRequest):
            return self._handle_consumer(found, request, context, now)
        stale = is_stale(group, request, context.api_version)
        before = fingerprint(group) if stale else None
        returned = returning(group, request)
        holder = None if group is None else holder_of(group, request)
        leads = holder is not None and group is not None and group.leader_id == holder.member_id
        effects = self.machine.handle(request, context, now)
        for token, reply in effects.replies.items():
            if token == context.token:
                self._answered(request, reply, now)
        if stale and group_id is not None:
            if effects.records:
                raise Violation("S6" if isinstance(request, OffsetCommitRequest) else "S5", f"{request} wrote")
            changed = fingerprint(self._classic(group_id)) != before
            if changed:
                raise Violation("S5", f"{request} changed the group")
        if holder is not None and group is not None and group.state is GroupState.STABLE:
            after = group.members[group.static_ids[holder.instance_id or ""]]
            others = after.protocols != holder.protocols
            self._watch.took_over(group.group_id, group.generation, leads=leads, asks_for_others=others)
        if returned is not None and group is not None and group.state is not GroupState.STABLE:
            raise Violation("S12", f"{group_id} rebalances for {returned}, a static member that returned")
        return self._take(effects, group_id, now)

    def _handle_consumer(
        self, group: AnyGroup | None, request: Message, context: RequestContext, now: Millis
    ) -> Effects:
        """A request that concerns a consumer group, or makes one."""
        group_id: str = request.group_id  # type: ignore[attr-defined]
        must_refuse, invariant = False, "S5"
        stays_at: int | None = None
        if isinstance(request, ConsumerGroupHeartbeatRequest):
            consumer = group if isinstance(group, ConsumerGroup) else None
            must_refuse = must_refuse_heartbeat(consumer, request) and not isinstance(group, ClassicGroup)
            stays_at = consumer.epoch if consumer is not None and returns_unchanged(consumer, request) else None
        elif isinstance(request, OffsetCommitRequest) and isinstance(group, ConsumerGroup):
            ids = {name: topic_id for topic_id, name in self._watch.names().items()}
            must_refuse = must_refuse_commit(group, self._seen.pasts[group_id], request, ids)
            invariant = "S6"
        effects = self.machine.handle(request, context, now)
        for token, reply in effects.replies.items():
            if token == context.token:
                self._answered(request, reply, now)
        if must_refuse and effects.records:
            raise Violation(invariant, f"{request} was taken")
        if stays_at is not None and any(epoch_of(record) > stays_at for record in effects.records):
            raise Violation("S12", f"{group_id} leaves epoch {stays_at} for {request}, a static member that returned")
        return self._take(effects, group_id, now)

    def group(self, group_id: str) -> AnyGroup | None:
        """The group of that id, of whichever kind."""
        return group_of(self.machine, group_id)

    def _classic(self, group_id: str) -> ClassicGroup | None:
        group = self.group(group_id)
        return group if isinstance(group, ClassicGroup) else None

    def quiet_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, now: Millis, token: Token | None = None
    ) -> ConsumerGroupHeartbeatResponse | Held | None:
        """A consumer group's heartbeat that has nothing to say; `handle` takes all others."""
        group = self.group(request.group_id)
        answer = self.machine.quiet_heartbeat(request, now, token)
        if answer is not None and isinstance(group, ConsumerGroup) and must_refuse_heartbeat(group, request):
            raise Violation("S5", f"{request} was taken")
        return answer

    # What happens to topics and settings

    def topics_deleted(self, names: Collection[str], now: Millis) -> Effects:
        """Topics are gone."""
        return self._take(self.machine.topics_deleted(names, now), None, now)

    def metadata_changed(self, image: MetadataImage, now: Millis) -> Effects:
        """These are the topics from now on."""
        return self._take(self.machine.metadata_changed(image, now), None, now)

    def settings_changed(self, group_ids: Iterable[str], now: Millis) -> Effects:
        """Groups have other settings."""
        return self._take(self.machine.settings_changed(group_ids, now), None, now)

    def fire(self, timer: Timer, now: Millis) -> Effects:
        """Take a timer, as the coordinator does."""
        self._seen.fires(timer, now)
        effects = self.machine.fire(timer, now)
        if isinstance(timer, OffsetExpiry):
            self._only_unwanted(effects)
        return self._take(effects, getattr(timer, "group_id", None), now)

    def _only_unwanted(self, effects: Effects) -> None:
        """Offsets of what a living group subscribes to do not expire (KIP-211, KAFKA-13636)."""
        for record in effects.records:
            if isinstance(record.key, OffsetCommitKey):
                group = self.group(record.key.group)
                if isinstance(group, ClassicGroup) and group.members and group.is_subscribed()(record.key.topic):
                    raise Violation("S7", f"{record.key} expires, which {group.group_id} is subscribed to")

    def disconnected(self, token: Any, now: Millis) -> Effects:
        """A parked request's connection is gone."""
        return self._take(self.machine.disconnected(token, now), None, now)

    # Held heartbeats

    def tell(self, now: Millis) -> Effects:
        """Members hear the news."""
        effects = self.machine.tell(now)
        concerned = {getattr(record.key, "group_id", None) for record in effects.records}
        concerned |= {group_id for timer in effects.timers if (group_id := getattr(timer, "group_id", None))}
        return self._take(effects, concerned.pop() if len(concerned) == 1 else None, now)

    def release(self, token: Token, behind: Behind, now: Millis) -> Effects:
        """A request waits behind a held heartbeat."""
        return self._take(self.machine.release(token, behind, now), None, now)

    def connection_lost(self, group_id: str, member_id: str, now: Millis) -> Effects:
        """A member's connection is gone, and it did not come back."""
        return self._take(self.machine.connection_lost(group_id, member_id, now), group_id, now)

    # What follows

    def replay(self, record: Record) -> None:
        """A record that is found in the log."""
        self.machine.replay(record)

    def replay_all(self, records: Iterable[Record]) -> None:
        """Records that were just appended."""
        records = list(records)
        self.machine.replay_all(records)
        for record in records:
            if isinstance(record.key, ConsumerGroupMetadataKey) and record.value is None:
                self._ends(record.key.group_id)
        if self._serves:
            self.unsynced += len(records)
            if self._touched is not None:
                self._check(*self._touched)

    def _ends(self, group_id: str) -> None:
        """A consumer group is deleted, or is a classic group from now on, whose generation is the group epoch.

        The coordinator refuses the commits of members that were not at that epoch yet, as Kafka's does.
        """
        members, group = self._seen.pasts[group_id].members, self._classic(group_id)
        if group is not None and any(members[one].epoch != group.generation for one in group.members if one in members):
            self._watch.behind_at_downgrade(group_id)
        self._seen.forget(group_id)

    def _take(self, effects: Effects, group_id: str | None, now: Millis) -> Effects:
        self._seen.armed(effects.timers)
        for event in effects.events:
            if isinstance(event, RebalanceStarted):
                self._watch.rebalances[event.group_id] += 1
                by = f" by {event.member_id}" if event.member_id else ""
                self._watch.note(f"{event.group_id} begins to rebalance: {event.cause.value}{by}")
        if group_id is None:
            self._touched = None
            return effects
        self._only_of(group_id, effects)
        self._touched = group_id, now
        if not effects.records:
            self._check(group_id, now)
        return effects

    def _only_of(self, group_id: str, effects: Effects) -> None:
        for record in effects.records:
            owner = getattr(record.key, "group", None) or getattr(record.key, "group_id", None)
            if owner != group_id:
                raise Violation("S13", f"a request to {group_id} wrote {record.key}")
        for timer in effects.timers:
            if getattr(timer, "group_id", group_id) != group_id:
                raise Violation("S13", f"a request to {group_id} set {timer}")

    def _check(self, group_id: str, now: Millis) -> None:
        group = self.group(group_id)
        if isinstance(group, ConsumerGroup):
            assignor = chosen_assignor(self.machine._groups, group)
            self._seen.check_consumer(group, self._watch.names(), self.machine._groups.metadata, assignor)
        elif group is not None:
            self._seen.check_classic(group, now)

    def _answered(self, request: Message, reply: Message, now: Millis) -> None:
        name = type(request).__name__.removesuffix("Request")
        for code in codes(reply):
            self._watch.errors[name, code] += 1
            if not is_allowed(name, code):
                raise Violation("S14", f"{name} was answered {code.name}")
        if isinstance(reply, JoinGroupResponse | SyncGroupResponse | OffsetCommitResponse | HeartbeatResponse):
            member_id = reply.member_id if isinstance(reply, JoinGroupResponse) else getattr(request, "member_id", "")
            # A commit keeps the session as soon as the member may commit, be it that a partition's metadata is too long
            # (in Kafka, too: the session is begun anew before any partition is looked at).
            if all(code in (ErrorCode.NONE, ErrorCode.OFFSET_METADATA_TOO_LARGE) for code in codes(reply)):
                self._seen.heard(getattr(request, "group_id", ""), member_id, now)
