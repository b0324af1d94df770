"""Rules about rebalances: too many, too slow, or avoidable. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Set
from itertools import pairwise

from kohort.model import Millis
from kohort.recorder import (
    Burst,
    Coming,
    MemberName,
    RebalanceRecord,
    comings,
    is_eager,
    name_of,
    needless_moves,
    returns,
)
from kohort.watch.findings import limits
from kohort.watch.findings.clients import consumer_protocol, cooperative, setting
from kohort.watch.findings.facts import Facts
from kohort.watch.findings.finding import Finding, counted, duration, first_ids, shown

HELD_HEARTBEATS = "brokers of Kohort hold heartbeats, so that all members learn of a rebalance together"


def thrashing(facts: Facts) -> Iterator[Finding]:
    """The group hardly works, because one rebalance follows the other."""
    burst = facts.current_burst
    if burst is None or not burst.thrashes or _restarted(burst) is not None:
        return
    # A batch job that is started again and again disturbs nobody.
    disturbing = tuple(record for record in burst.records if record.members_after and not record.was_empty)
    if not disturbing or not Burst(disturbing).thrashes:
        return
    begin, end = burst.records[0].ended_at, burst.records[-1].ended_at
    causes = _most_frequent(record.cause or "unknown cause" for record in burst.records)
    yield Finding(
        "thrashing",
        f"{counted(len(burst.records), 'rebalance')} in {duration((end - begin) / 1000)}, more than a restart of"
        f" every member causes. Most frequent cause: {causes}.{_darkness(burst.records)}",
        "Find the members that come and go, below or in the last rebalances. If members leave because they poll too"
        f" late, raise {setting('max.poll.interval.ms', facts.client)} or process less per poll; if sessions expire,"
        f" raise {setting('session.timeout.ms', facts.client)}; if members crash, their logs say why.",
        first_ids(trigger.member_id for record in burst.records for trigger in record.triggers if trigger.member_id),
        {"rebalances": len(burst.records), "from": begin, "to": end, "dark_ms": _dark_ms(burst.records)},
    )


def rolling_restart(facts: Facts) -> Iterator[Finding]:
    """A deployment restarted the members. It is no alarm, and its cost shows what static membership would save."""
    for burst in reversed(facts.bursts):
        if (restarted := _restarted(burst)) is None:
            continue
        begin, end = burst.records[0].ended_at, burst.records[-1].ended_at
        saved = len(_avoidable(facts.records) & {record.generation for record in burst.records})
        saving = (
            f"Static membership would have saved {saved} of them."
            if saved
            else "The new members have other names or hosts, or came back after the session timeout."
        )
        running = " It may not be over." if burst is facts.current_burst else ""
        yield Finding(
            "rolling-restart",
            f"{counted(len(restarted), 'member')} were replaced in {duration((end - begin) / 1000)}, with"
            f" {counted(len(burst.records), 'rebalance')}.{_darkness(burst.records)} {saving}{running}",
            _static(facts),
            first_ids(restarted),
            {"rebalances": len(burst.records), "saved": saved, "restarted": len(restarted), "from": begin, "to": end},
        )
        return


def static_membership(facts: Facts) -> Iterator[Finding]:
    """Members left and came back soon, and nobody gave them an instance ID."""
    saved = _avoidable(facts.records)
    if len(saved) < limits.LEAST_SAVED:
        return
    records = [record for record in facts.records if record.generation in saved]
    back = [each for each in returns(facts.records, limits.SESSION_TIMEOUT_MS) if each.came.generation in saved]
    names = {name_of(each.came.member) for each in back}
    longest = max((each.away_ms for each in back), default=0)
    yield Finding(
        "static-membership",
        f"{len(saved)} of {counted(len(facts.records), 'rebalance')} in the last hour happened because"
        f" {counted(len(names), 'client')} left and came back within {duration(longest / 1000)}.{_darkness(records)}",
        _static(facts),
        first_ids(each.came.member.member_id for each in back),
        {
            "rebalances": len(facts.records),
            "saved": len(saved),
            "longest_away_ms": longest,
            "dark_ms": _dark_ms(records),
        },
    )


def _static(facts: Facts) -> str:
    timeout = (
        "the session timeout (group.consumer.session.timeout.ms, of the broker or the group)"
        if facts.group.type == "consumer"
        else setting("session.timeout.ms", facts.client)
    )
    return (
        f"Give each member a name that survives its restart ({setting('group.instance.id', facts.client)}), and set"
        f" {timeout} above the time of a restart; then a restart within that time causes no rebalance. A member that"
        " crashes for good is then noticed only after that time."
    )


def _avoidable(records: list[RebalanceRecord]) -> Set[int]:
    """Return the generations that static membership would have spared: all who came or went in them returned."""
    spared: set[tuple[str, int, bool]] = set()
    for each in returns(records, limits.SESSION_TIMEOUT_MS):
        if each.went.member.instance_id is None:
            spared |= {_key(each.went), _key(each.came)}
    by_generation: defaultdict[int, list[Coming]] = defaultdict(list)
    for coming in comings(records):
        by_generation[coming.generation].append(coming)
    return {
        generation for generation, found in by_generation.items() if all(_key(coming) in spared for coming in found)
    }


def _key(coming: Coming) -> tuple[str, int, bool]:
    return coming.member.member_id, coming.generation, coming.came


def _restarted(burst: Burst) -> list[str] | None:
    """Return the IDs of the members that a rolling restart replaced; None if the burst is something else."""
    first, last = burst.records[0], burst.records[-1]
    start = first.members_after - len(first.came) + len(first.went)
    found = list(comings(burst.records))
    came = {each.member.member_id for each in found if each.came}
    went = [each.member.member_id for each in found if not each.came]
    again = came.intersection(went)
    replaced = [member_id for member_id in went if member_id not in came]
    enough = max(limits.LEAST_RESTARTED, limits.RESTARTED_SHARE * start)
    same_size = abs(last.members_after - start) <= 1
    if min(len(replaced), len(came)) < enough or len(again) > limits.RESTARTED_AGAIN_SHARE * len(came) or not same_size:
        return None
    return replaced


def eager_assignor(facts: Facts) -> Iterator[Finding]:
    """All members stopped for rebalances that moved few partitions."""
    eager = [record for record in facts.records if is_eager(record.protocol) and not record.was_empty]
    owned = len(facts.owners)
    if (
        facts.group.type != "classic"
        or not is_eager(facts.group.protocol)
        or len(eager) < limits.LEAST_REBALANCES_TO_ADVISE
        or len(facts.members) < 2
        or not owned
    ):
        return
    stopped = owned * len(eager)
    unmoved = sum(max(0, owned - len(record.moved)) for record in eager)
    if unmoved < limits.LEAST_UNMOVED_SHARE * stopped:
        return
    dark = sum(change.dark_ms or 0 for record in eager for change in record.partitions if not change.moved)
    cost = f" They were dark for {duration(dark / 1000)} in total." if dark else ""
    choices = [choice for choice in (cooperative(facts.client), consumer_protocol(facts.client)) if choice is not None]
    yield Finding(
        "eager-assignor",
        f"{counted(len(eager), 'rebalance')} with the assignor {shown(facts.group.protocol or '')} stopped all"
        f" {counted(owned, 'partition')} each time, although {unmoved / stopped:.0%} of them stayed with their"
        f" member.{cost}",
        f"Use {' or '.join(choices)}: only partitions that move then stop. Change all members with two rolling"
        " restarts if the group must not stop: first add the new assignor beside the old one, then remove the old one."
        if choices
        else "This client has no cooperative assignor: use static membership, or a client that has one.",
        evidence={"rebalances": len(eager), "stopped": stopped, "unmoved": unmoved, "unmoved_dark_ms": dark},
    )


def heartbeats_out_of_step(facts: Facts) -> Iterator[Finding]:
    """Members of an eager group stopped one after the other, as each learned of the rebalance with its heartbeat."""
    spreads = [
        spread
        for record in facts.records
        if is_eager(record.protocol)
        and (spread := _spread(record)) is not None
        and limits.STEP_MS <= spread <= limits.SLOW_REVOKE_MS
    ]
    if len(spreads) < limits.LEAST_REBALANCES_TO_ADVISE:
        return
    yield Finding(
        "heartbeats-out-of-step",
        f"In {counted(len(spreads), 'rebalance')}, members stopped up to {duration(max(spreads) / 1000)} apart."
        " Those that stopped first waited for the others.",
        f"Lower {setting('heartbeat.interval.ms', facts.client)}, or use the cooperative assignor or the consumer"
        f" protocol, under which only partitions that move wait; {HELD_HEARTBEATS} (docs/prompt.md).",
        evidence={"rebalances": len(spreads), "longest_spread_ms": max(spreads)},
    )


def _spread(record: RebalanceRecord) -> Millis | None:
    """Return the time between the first and the last member that stopped, of those that stayed; None if unknown."""
    stayed = {member.member_id for member in record.after}
    stops = {
        change.previous_owner: change.revoked_at
        for change in record.partitions
        if change.revoked_at is not None and change.previous_owner in stayed
    }
    return max(stops.values()) - min(stops.values()) if len(stops) > 1 else None


def classic_protocol(facts: Facts) -> Iterator[Finding]:
    """A cooperative group rebalances often enough for the consumer protocol to matter."""
    group, wanted = facts.group, consumer_protocol(facts.client)
    if group.type != "classic" or group.protocol_type != "consumer" or is_eager(group.protocol) or wanted is None:
        return
    if len(facts.begun) < limits.LEAST_REBALANCES_TO_ADVISE or len(facts.members) < 2:
        return
    follow_ups = len(facts.records) - len(facts.begun)
    walls = [record.wall_ms for record in facts.records if record.wall_ms is not None]
    slowest = f" The slowest took {duration(max(walls) / 1000)}." if walls else ""
    yield Finding(
        "classic-protocol",
        f"{counted(len(facts.begun), 'rebalance')} in the last hour, and {counted(follow_ups, 'follow-up')}, in which"
        f" every member waited for the slowest one.{slowest}",
        f"Set {wanted} in all members (Apache Kafka 4.0 or Kohort as broker; Java 4.0, librdkafka 2.12 or Kohort as"
        " client): a member then waits only for partitions that it receives. A rolling restart converts the group.",
        evidence={"rebalances": len(facts.begun), "follow_ups": follow_ups, "slowest_ms": max(walls, default=None)},
    )


def slow_revoker(facts: Facts) -> Iterator[Finding]:
    """One member gave up its partitions long after the others, which waited for it."""
    slow: defaultdict[MemberName, list[tuple[Millis, str, Millis]]] = defaultdict(list)
    for record in facts.records:
        names = {member.member_id: name_of(member) for member in record.members()}
        took = _revocations(record)
        if took and (last := max(took, key=lambda each: took[each])) in names:
            others = max((ms for member_id, ms in took.items() if member_id != last), default=0)
            if took[last] > limits.SLOW_REVOKE_MS and took[last] > 2 * others:
                slow[names[last]].append((took[last], last, record.ended_at))
    for (client, host), found in slow.items():
        worst, *_ = max(found)
        yield Finding(
            "slow-revoker",
            f"{shown(client)} on {shown(host)} gave up its partitions {duration(worst / 1000)} after the rebalance"
            f" began, long after all others ({counted(len(found), 'rebalance')} in the last hour). The partitions that"
            " it had to give up were not processed by anybody else before.",
            "Look at what its revocation callback does, and how long it processes one batch:"
            f" {setting('max.poll.records', facts.client)} or a shorter callback lets it give up sooner.",
            first_ids(member_id for _, member_id, _ in found),
            {"rebalances": len(found), "slowest_ms": worst},
            over=facts.now - found[-1][2] > limits.HURTS_MS,
        )


def _revocations(record: RebalanceRecord) -> dict[str, Millis]:
    """Return how long each member that stayed took to give up its partitions, from the start of the rebalance."""
    if record.started_at is None:
        return {}
    stayed = {member.member_id for member in record.after}
    took: dict[str, Millis] = {}
    for change in record.partitions:
        if change.previous_owner in stayed and change.revoked_at is not None:
            late = change.revoked_at - record.started_at
            took[change.previous_owner] = max(took.get(change.previous_owner, 0), late)
    return took


def needless(facts: Facts) -> Iterator[Finding]:
    """Partitions moved between members that stayed."""
    if not facts.same_subscriptions:
        return  # then an assignor may have to move them
    newcomers: list[str] = []
    number = moved = 0
    for record in facts.records:
        number += len(needless_moves(record, newcomers))
        moved += len(record.moved)
        newcomers = [member.member_id for member in record.came]
    if number < limits.LEAST_NEEDLESS or number < limits.LEAST_NEEDLESS_SHARE * moved:
        return
    choices = [choice for choice in (cooperative(facts.client), consumer_protocol(facts.client)) if choice is not None]
    yield Finding(
        "needless-moves",
        f"{number} of {counted(moved, 'move')} in the last hour were between members that were in the group before and"
        f" after (assignor {shown(facts.group.protocol or 'unknown')}).",
        f"Use an assignor that keeps what it can: {' or '.join(choices) or 'sticky'}.",
        evidence={"moved": moved, "needless": number},
    )


def assignors_differ(facts: Facts) -> Iterator[Finding]:
    """The group changes its assignor back and forth, as members with different lists come and go."""
    used = [record.protocol for record in facts.records if record.protocol is not None]
    changes = sum(before != after for before, after in pairwise(used))
    if facts.group.type != "classic" or changes < 2:
        return  # one change is a deployment that switches
    names = sorted(set(used))
    yield Finding(
        "assignors-differ",
        f"The assignor changed {changes} times in the last hour, between {', '.join(map(shown, names))}.",
        f"Set the same {setting('partition.assignment.strategy', facts.client)} in all members.",
        evidence={"assignors": names, "changes": changes},
    )


def member_refused(facts: Facts) -> Iterator[Finding]:
    """Members could not join."""
    found = {
        (each.client_id, each.client_host, each.code): each
        for record in facts.all_records
        for each in record.refused_members
    }
    if not found:
        return
    first = next(iter(found.values()))
    yield Finding(
        "member-refused",
        f"{counted(len(found), 'client')} could not join. The first is {shown(first.client_id)} on"
        f" {shown(first.client_host)}: {first.code}, {shown(first.reason).rstrip('.')}.",
        "Compare the settings of this client with those of the members: protocol, assignors, group.instance.id.",
        first_ids(each.member_id for each in found.values() if each.member_id),
        {"clients": len(found), "codes": sorted({each.code for each in found.values()})},
    )


def _dark_ms(records: Iterable[RebalanceRecord]) -> Millis:
    return sum(sum(record.dark_times) for record in records)


def _darkness(records: Iterable[RebalanceRecord]) -> str:
    """Return a sentence on dark times, if they are known."""
    dark = _dark_ms(records)
    return f" Partitions were dark for {duration(dark / 1000)} in total." if dark else ""


def _most_frequent(causes: Iterable[str]) -> str:
    found = list(causes)
    most = max(dict.fromkeys(found), key=found.count)
    return f"{shown(most)} ({found.count(most)} of {len(found)})"  # strangers may write the journal
