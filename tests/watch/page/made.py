"""A plausible group with a history, made from a seed: the JSON that `kohort watch` sends of it. No clock is read."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

from kohort.group_events import MemberFacts
from kohort.recorder import PartitionChange, RebalanceRecord, Trigger
from kohort.watch.waterfall import waterfall

NOW = 1_795_000_000_000
"""Time of the made clusters: 2026-11-18, 12:26:40 UTC."""
MINUTE, HOUR = 60_000, 3_600_000
Json = dict[str, Any]


@dataclass
class MadeGroup:
    """A group with a history of two hours. At `restarts`, a member restarts, so there are two rebalances."""

    group_id: str
    topics: dict[str, int]
    """Number of partitions by topic."""
    member_count: int
    type: str = "classic"
    restarts: Sequence[float] = ()
    """Minutes before now at which a member restarts."""
    dark_now: int = 0
    state: str = "Stable"
    lag_seconds: float | None = 0.4
    lag_rises: bool = False
    hurts: Sequence[str] = ()
    client: str = ""
    findings: list[Json] = field(default_factory=list)
    seed: int = 1

    def __post_init__(self) -> None:
        self.random = random.Random(f"{self.group_id}{self.seed}")
        self.partitions = [(topic, number) for topic, size in self.topics.items() for number in range(size)]
        self.seen: list[MemberFacts] = []
        """All members that the history has, in the order of their joins."""
        self.since: dict[str, int] = {}
        self.members = [self._member(index, NOW - 2 * HOUR) for index in range(self.member_count)]
        self.records: list[RebalanceRecord] = []
        self.owner: dict[tuple[str, int], str] = self._assigned(self.members)
        self.spans: dict[tuple[str, int], list[list[Any]]] = {
            each: [[NOW - 2 * HOUR, None, self.owner[each]]] if self.members else [[NOW - 2 * HOUR, None, None]]
            for each in self.partitions
        }
        for minutes in sorted(self.restarts, reverse=True):
            self._restart(NOW - round(minutes * MINUTE))
        self.dark_ms = 0
        for each in self.random.sample(self.partitions, self.dark_now):
            since = NOW - self.random.randrange(20_000, 300_000)
            self.spans[each] = [span for span in self.spans[each] if span[0] < since]
            self.spans[each][-1][1] = since
            self.spans[each].append([since, None, -1])
            self.dark_ms += NOW - since

    def _member(self, index: int, at: int) -> MemberFacts:
        client = f"{self.client or self.group_id}-{index}"
        uid = "-".join(f"{self.random.getrandbits(16):04x}" for _ in range(5))
        member = MemberFacts(f"{client}-{uid}", client, f"10.4.{index // 200}.{11 + index % 200}")
        self.seen.append(member)
        self.since[member.member_id] = at
        return member

    def _assigned(self, members: list[MemberFacts]) -> dict[tuple[str, int], str]:
        if not members:
            return {}
        return {
            each: members[place * len(members) // len(self.partitions)].member_id
            for place, each in enumerate(self.partitions)
        }

    def _restart(self, at: int) -> None:
        """Restart a member: a rebalance without it, and half a minute later another one with it."""
        index = self.random.randrange(len(self.members))
        gone = self.members[index]
        causes = (
            ("member left", "session expired", "poll timeout")
            if self.type == "classic"
            else ("member left or expired",)
        )
        self._rebalance(
            at, [each for each in self.members if each is not gone], Trigger(self.random.choice(causes), gone.member_id)
        )
        back = self._member(index, at + 28_000)
        self._rebalance(
            at + 28_000, [*self.members[:index], back, *self.members[index:]], Trigger("member joined", back.member_id)
        )

    def _rebalance(self, at: int, members: list[MemberFacts], trigger: Trigger) -> None:
        before = self.members
        target = self._assigned(members)
        eager = self.type == "classic"
        changes, ended = [], at + 300
        stops = {each.member_id: at + self.random.randrange(40, 2200 if eager else 900) for each in before}
        ended = max([ended, *stops.values()]) + self.random.randrange(20, 90)
        slow = self.random.choice([*before, None]) if before else None
        for each in self.partitions:
            old, new = self.owner.get(each), target.get(each)
            if not eager and old == new:
                continue
            stopped = at if old == trigger.member_id else stops.get(old or "", at)
            read = ended + self.random.randrange(30, 500) + (6000 if slow and new == slow.member_id else 0)
            changes.append(PartitionChange(each[0], each[1], old, new, stopped, ended, read))
            spans = self.spans[each]
            spans[-1][1] = stopped
            spans += [[stopped, read, -1], [read, None, new]]
        self.owner, self.members = target, members
        leader = members[0].member_id if eager else None
        triggers = (
            (trigger,) if self.random.random() < 0.6 else (trigger, Trigger("leader rejoined", members[0].member_id))
        )
        went = {each.member_id for each in before} - {each.member_id for each in members}
        gone = tuple(Trigger(trigger.cause, member_id) for member_id in sorted(went))
        self.records.append(
            RebalanceRecord(
                self.group_id,
                40 + len(self.records),
                at,
                ended,
                triggers,
                "range" if eager else "uniform",
                leader,
                before=tuple(before),
                after=tuple(members),
                gone=gone,
                partitions=tuple(changes),
            )
        )

    def short(self, record: RebalanceRecord) -> Json:
        dark = record.dark_times
        return {
            "generation": record.generation,
            "started_at": record.started_at,
            "ended_at": record.ended_at,
            "cause": record.cause,
            "triggers": [asdict(each) for each in record.triggers],
            "moved": len(record.moved),
            "needless": len(record.moved) // 2 if record.cause != "member joined" else 0,
            "dark_ms_total": sum(dark) if dark else None,
            "longest_dark_ms": max(dark) if dark else None,
            "members_after": record.members_after,
            "pending": False,
        }

    @cached_property
    def series(self) -> list[list[Any]]:
        values: list[list[Any]] = []
        times = [NOW - round(minutes * MINUTE) for minutes in self.restarts]
        for step in range(60):
            at = NOW - HOUR + (step + 1) * MINUTE
            bump = sum(max(0.0, 14 - (at - time) / 20_000) for time in times if 0 <= at - time < 5 * MINUTE)
            rise = (self.lag_seconds or 0) * (step / 60) ** 2 if self.lag_rises else (self.lag_seconds or 0)
            values.append([at, None if self.lag_seconds is None else round(rise + bump + self.random.random(), 2)])
        return values

    def summary(self) -> Json:
        hour = [record for record in self.records if record.ended_at > NOW - HOUR]
        last = self.records[-1] if self.records else None
        return {
            "group": self.group_id,
            "type": self.type if self.members else None,
            "state": self.state if self.members else "Empty",
            "members": len(self.members),
            "partitions": len(self.partitions),
            "lag": None if self.lag_seconds is None else round(self.lag_seconds * 137) + len(self.partitions),
            "lag_seconds": self.lag_seconds,
            "lag_series": self.series,
            "rebalances_1h": len(hour),
            "dark_seconds_1h": (self.dark_ms + sum(sum(record.dark_times) for record in hour)) / 1000,
            "dark_now": self.dark_now,
            "last_rebalance": last and self._last(last),
            "hurts": bool(self.hurts),
            "hurts_because": list(self.hurts),
        }

    def _last(self, record: RebalanceRecord) -> Json:
        short = self.short(record)
        return {"at": record.ended_at} | {name: short[name] for name in ("generation", "cause", "moved")}

    def detail(self) -> Json:
        owned: dict[str, list[str]] = {}
        for (topic, number), member_id in self.owner.items():
            owned.setdefault(member_id, []).append(f"{topic}-{number}")
        chance = random.Random(self.group_id)
        slowest = {each.member_id: chance.randrange(40, 3000) for each in self.members}
        softwares = ("apache-kafka-java 4.3.1", "librdkafka 2.14.0", "kohort 0.1.0")
        return self.summary() | {
            "protocol_type": "consumer",
            "protocol": "range" if self.type == "classic" else "uniform",
            "epoch": 39 + len(self.records),
            "target_epoch": None if self.type == "classic" else 39 + len(self.records),
            "leader_id": self.members[0].member_id if self.members and self.type == "classic" else None,
            "member_list": [
                {
                    "member_id": each.member_id,
                    "client_id": each.client_id,
                    "client_host": each.client_host,
                    "instance_id": None,
                    "epoch": None,
                    "topics": sorted(self.topics),
                    "expression": None,
                    "partitions": owned.get(each.member_id, []),
                    "client_software": softwares[index % 3] if index % 4 else None,
                    "since": self.since[each.member_id],
                    "slowest_revocation_ms": slowest[each.member_id] if self.records else None,
                    "joins_1h": sum(other.client_id == each.client_id for other in self.seen) - 1,
                    "flapping": sum(other.client_id == each.client_id for other in self.seen) > 3,
                    "telemetry": {"org.apache.kafka.consumer.poll.idle.ratio.avg": 0.82} if index % 3 == 0 else None,
                }
                for index, each in enumerate(self.members)
            ],
            "partition_list": [self._partition(topic, number) for topic, number in self.partitions],
            "findings": self.findings,
            "rebalances": [self.short(record) for record in reversed(self.records)][:200],
        }

    def _partition(self, topic: str, number: int) -> Json:
        chance = random.Random(f"{topic}{number}")
        lag = chance.randrange(0, 400)
        end = 1_000_000 + number * 7919
        behind = None if self.lag_seconds is None else round(self.lag_seconds * lag / 400, 3)
        return {
            "topic": topic,
            "partition": number,
            "owner": None if self.spans[topic, number][-1][2] == -1 else self.owner.get((topic, number)),
            "committed": end - lag,
            "committed_at": NOW - chance.randrange(0, 9000),
            "end": end,
            "lag": lag,
            "lag_seconds": behind,
            "method": "interpolated" if lag else "caught up",
        }

    def timeline(self, start: int, end: int) -> Json:
        places = {each.member_id: place for place, each in enumerate(self.seen)}
        return {
            "from": start,
            "to": end,
            "members": [
                {"member_id": each.member_id, "client_id": each.client_id, "client_host": each.client_host}
                for each in self.seen
            ],
            "partitions": [
                {
                    "topic": topic,
                    "partition": number,
                    "spans": [
                        [since, until, places.get(owner, owner) if isinstance(owner, str) else owner]
                        for since, until, owner in spans
                        if since < end and (until is None or until > start)
                    ],
                }
                for (topic, number), spans in self.spans.items()
            ],
            "rebalances": [
                {
                    "generation": record.generation,
                    "started_at": record.started_at,
                    "ended_at": record.ended_at,
                    "cause": record.cause,
                }
                for record in self.records
                if start <= record.ended_at <= end
            ],
        }

    def rebalance(self, generation: int) -> Json | None:
        for record in self.records:
            if record.generation == generation:
                value: Json = json.loads(record.to_json())
                return value | {"waterfall": [each.to_json() for each in waterfall(record)], "pending": False}
        return None
