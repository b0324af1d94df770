"""Rules about members: those that come and go, do nothing, or differ from the others. Pure."""

from collections import Counter, defaultdict
from collections.abc import Iterator

from kohort.group_events import Cause
from kohort.model import Millis
from kohort.recorder import MemberName, comings, name_of
from kohort.watch.findings import limits
from kohort.watch.findings.clients import Client, consumer_protocol, cooperative, setting, smaller_batches
from kohort.watch.findings.facts import Facts
from kohort.watch.findings.finding import Finding, counted, duration, first_ids, shown

IDLE_RATIO = "org.apache.kafka.consumer.poll.idle.ratio.avg"
_REMOVED_LATE = (Cause.POLL_TIMEOUT.value, Cause.REBALANCE_TIMEOUT.value)


def flapping_member(facts: Facts) -> Iterator[Finding]:
    """A member leaves and returns repeatedly, which a deployment does not do."""
    alone = {record.generation for record in facts.records if record.was_empty}
    for episode in facts.flapping:
        client, host = episode.name
        if all(each.came.generation in alone for each in episode.returns):
            continue  # a batch job, which is the only member
        causes = Counter(each.went.cause for each in episode.returns if each.went.cause is not None)
        why = "" if not causes else f" Why it left: {shown(causes.most_common(1)[0][0])}."
        unclear = (
            " The log of the cluster does not tell a leave from an expired session."
            if Cause.MEMBER_GONE.value in causes
            else ""
        )
        yield Finding(
            "flapping-member",
            f"{shown(client)} on {shown(host)} left and came back {len(episode.returns)} times in the last hour, after"
            f" {duration(episode.mean_away_ms / 1000)} on average.{why}{unclear}",
            "Look at its log: a crash loop, a failing health check or a poll that is late"
            f" ({setting('max.poll.interval.ms', facts.client)}) look like this. If its restarts are wanted,"
            f" {setting('group.instance.id', facts.client)} keeps the others from rebalancing.",
            first_ids(each.came.member.member_id for each in reversed(episode.returns)),
            {
                "returns": len(episode.returns),
                "mean_away_ms": episode.mean_away_ms,
                "last_at": episode.returns[-1].came.at,
            },
            over=facts.now - episode.returns[-1].came.at > limits.HURTS_MS,
        )


def poll_too_slow(facts: Facts) -> Iterator[Finding]:
    """A member processed one batch for longer than it may."""
    certain = {
        member_id: (gone.cause, record.ended_at)
        for record in facts.records
        for gone in (*record.gone, *record.triggers)
        if (member_id := gone.member_id) is not None and gone.cause in _REMOVED_LATE
    }
    if certain:
        known = {member.member_id: member for record in facts.records for member in record.members()}
        names = sorted({shown(known[each].client_id) for each in certain if each in known})
        yield Finding(
            "poll-too-slow",
            f"{counted(len(certain), 'member')} left in the last hour because {_plural(certain)} did not poll in time:"
            f" {', '.join(names[:5]) or 'unknown clients'}.",
            _faster(facts.client),
            first_ids(certain),
            {"members": len(certain), "causes": dict(Counter(cause for cause, _ in certain.values()))},
            over=facts.now - max(at for _, at in certain.values()) > limits.HURTS_MS,
        )
    elif found := _left_at_the_limit(facts):
        (client, host), stays = max(found.items(), key=lambda each: len(each[1]))
        ids = [member_id for stays in found.values() for _, member_id in stays]
        yield Finding(
            "poll-too-slow",
            f"{shown(client)} on {shown(host)} left {len(stays)} times about"
            f" {duration(limits.MAX_POLL_INTERVAL_MS / 1000)} after it had joined, as clients do that do not poll"
            " within max.poll.interval.ms. The log of the cluster does not have the reason.",
            _faster(facts.client),
            first_ids(ids),
            {"members": len(ids), "stays_ms": [stay for stay, _ in stays]},
        )
    yield from _busy(facts)


def _busy(facts: Facts) -> Iterator[Finding]:
    busy = {}
    for member in facts.members:
        telemetry = facts.telemetry.get(member.facts.member_id)
        ratio = None if telemetry is None else telemetry.values.get(IDLE_RATIO)
        if ratio is not None and ratio < limits.BUSY_IDLE_RATIO and member.owned:
            busy[member.facts.member_id] = ratio
    if busy:
        yield Finding(
            "poll-too-slow",
            f"{counted(len(busy), 'member')} {'processes' if len(busy) == 1 else 'process'} records for more than"
            f" {1 - limits.BUSY_IDLE_RATIO:.0%} of the time"
            f" (poll.idle.ratio.avg is {min(busy.values()):.2f}): a longer batch makes the next poll late.",
            _faster(facts.client),
            first_ids(busy),
            {"members": len(busy), "least_idle_ratio": min(busy.values())},
        )


def _left_at_the_limit(facts: Facts) -> dict[MemberName, list[tuple[Millis, str]]]:
    """Return stays that ended as max.poll.interval.ms ends them, by name, where there are several."""
    joined: dict[str, Millis] = {}
    stays: defaultdict[MemberName, list[tuple[Millis, str]]] = defaultdict(list)
    for coming in comings(facts.records):
        if coming.came:
            joined[coming.member.member_id] = coming.at
        elif (since := joined.get(coming.member.member_id)) is not None:
            over = coming.at - since - limits.MAX_POLL_INTERVAL_MS
            if 0 <= over < limits.POLL_INTERVAL_SLACK_MS:
                stays[name_of(coming.member)].append((coming.at - since, coming.member.member_id))
    return {name: found for name, found in stays.items() if len(found) >= limits.LEAST_LATE_POLLS}


def _faster(client: Client | None) -> str:
    return (
        f"Raise {setting('max.poll.interval.ms', client)} above the time that the slowest batch takes, or"
        f" {smaller_batches(client)}, or hand slow work to other threads and pause the partitions meanwhile. A record"
        " that is never finished shows as a partition that stands still."
    )


def _plural(found: object) -> str:
    return "it" if isinstance(found, dict) and len(found) == 1 else "they"


def idle_members(facts: Facts) -> Iterator[Finding]:
    """There are more members than partitions."""
    idle = [member for member in facts.members if not member.owned]
    if not facts.settled or not facts.names_all_owners:
        return
    if not idle or not facts.owners or len(facts.members) <= len(facts.owners):
        return
    yield Finding(
        "idle-members",
        f"{counted(len(idle), 'member')} of {len(facts.members)} have no partition, because there are only"
        f" {len(facts.owners)}.",
        "Run fewer members, or add partitions to the topics if the records need no order across keys. Idle members are"
        " a reserve, and each of them lengthens rebalances of a classic group.",
        first_ids(member.facts.member_id for member in idle),
        {"idle": len(idle), "members": len(facts.members), "partitions": len(facts.owners)},
    )


def unbalanced(facts: Facts) -> Iterator[Finding]:
    """Members with the same subscription have very different numbers of partitions."""
    if not facts.names_all_owners:
        return
    sizes = sorted(len(member.owned) for member in facts.members)
    if not facts.settled or len(sizes) < 2 or not facts.same_subscriptions or len(facts.owners) < len(sizes):
        return
    least, most = sizes[0], sizes[-1]
    if most - least < limits.LEAST_IMBALANCE or most < limits.IMBALANCE_RATIO * max(1, least):
        return
    topics = {partition.topic for partition in facts.owners}
    by_range = facts.group.protocol == "range" and len(topics) > 1
    why = f" The assignor range gives the first members one partition more of each of {len(topics)} topics." * by_range
    choices = [choice for choice in (cooperative(facts.client), consumer_protocol(facts.client)) if choice is not None]
    yield Finding(
        "unbalanced",
        f"One member has {counted(most, 'partition')}, another one {least}.{why}",
        f"Use an assignor that balances over all topics: {' or '.join(choices) or 'roundrobin or sticky'}. If this is"
        " the plan of your own assignor, nothing is wrong.",
        first_ids(member.facts.member_id for member in facts.members if len(member.owned) == most),
        {"most": most, "least": least, "assignor": facts.group.protocol},
    )


def subscriptions_differ(facts: Facts) -> Iterator[Finding]:
    """Members of one group read different topics."""
    if facts.same_subscriptions or not facts.settled:
        return
    found = Counter((member.topics, member.expression) for member in facts.members)
    (usual, _), *others = found.most_common()
    odd = [member for member in facts.members if (member.topics, member.expression) != usual]
    everywhere = frozenset.intersection(*(topics for topics, _ in found))
    differing = sorted(frozenset.union(*(topics for topics, _ in found)) - everywhere)
    topics = f" The topics {', '.join(map(shown, differing[:5]))} are not subscribed by all." if differing else ""
    yield Finding(
        "subscriptions-differ",
        f"{counted(len(odd), 'member')} of {len(facts.members)} subscribe to other topics than the rest"
        f" ({counted(len(others) + 1, 'subscription')}).{topics}",
        "If two applications share this group.id, give each its own: every restart of one makes the other rebalance,"
        " too. During a deployment that changes the subscription, this is temporary.",
        first_ids(member.facts.member_id for member in odd),
        {"subscriptions": len(others) + 1, "topics": differing[:20]},
    )


def clients_differ(facts: Facts) -> Iterator[Finding]:
    """Members run different versions, as far as their clients tell."""
    by_software: defaultdict[str, list[str]] = defaultdict(list)
    for member in facts.members:
        telemetry = facts.telemetry.get(member.facts.member_id)
        if telemetry is not None and telemetry.client_software is not None:
            by_software[telemetry.client_software].append(member.facts.member_id)
    if not facts.settled or len(by_software) < 2:
        return
    usual = max(by_software, key=lambda name: len(by_software[name]))
    versions = ", ".join(f"{shown(name)} ({len(ids)})" for name, ids in sorted(by_software.items())[:5])
    yield Finding(
        "clients-differ",
        f"The members run {len(by_software)} different clients: {versions}.",
        "Finish the deployment, or find the instance that was left out. Members with different assignors or protocols"
        " fall back to what all of them have.",
        first_ids(member_id for name, ids in by_software.items() if name != usual for member_id in ids),
        {"clients": {name: len(ids) for name, ids in sorted(by_software.items())}},
    )
