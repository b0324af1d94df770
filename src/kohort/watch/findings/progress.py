"""Rules about progress: partitions without a reader, commits that stand still, records that are gone. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from kohort.model import TopicPartition
from kohort.watch.findings import limits
from kohort.watch.findings.clients import setting
from kohort.watch.findings.facts import Facts
from kohort.watch.findings.finding import Finding, counted, duration, first_ids, shown
from kohort.watch.lag import Lag

_MOST_PARTITIONS = 20


def stuck_partition(facts: Facts) -> Iterator[Finding]:
    """Some partitions of a group stand still while it commits others, or nothing is committed at all."""
    stuck: dict[TopicPartition, float] = {}
    waiting = 0
    for partition in facts.owners:
        lag = _lag(facts, partition)
        commit = facts.group.commits.get(partition)
        if lag is None or commit is None or lag.records == 0:
            continue
        waiting += 1
        still = commit.at is not None and facts.now - commit.at >= limits.STUCK_MS
        if still and lag.seconds * 1000 >= limits.STUCK_MS:
            stuck[partition] = lag.seconds
    if not stuck:
        return
    newest = max((commit.at for commit in facts.group.commits.values() if commit.at is not None), default=0)
    alive = facts.now - newest < limits.STUCK_MS
    by_member: defaultdict[str, list[TopicPartition]] = defaultdict(list)
    for partition in sorted(stuck):
        by_member[facts.owners[partition]].append(partition)
    longest = max(stuck.values())
    evidence = {"partitions": _names(stuck), "longest_seconds": round(longest), "newest_commit_at": newest or None}
    if alive:
        whose = _of_one(facts, by_member)
        yield Finding(
            "stuck-partition",
            f"{counted(len(stuck), 'partition')} of {waiting} with records to read had no commit for"
            f" {duration(limits.STUCK_MS / 1000)} or longer, while others are committed. The oldest record waits for"
            f" {duration(longest)}: {_listed(stuck)}{whose}.",
            "Look at the record behind the committed offset: one that fails each time, or a call without a timeout,"
            " looks like this. Skip it with kohort group reset-offsets, or send it to a dead-letter topic. If the"
            " partition is paused on purpose, nothing is wrong.",
            first_ids(by_member),
            evidence,
        )
    else:
        since = f"for {duration((facts.now - newest) / 1000)}" if newest else "in the history"
        yield Finding(
            "nothing-committed",
            f"The group committed nothing {since}, and {counted(len(stuck), 'partition')} have records to read. The"
            f" oldest waits for {duration(longest)}.",
            "If the members process records, their commits fail: look for CommitFailedException, ILLEGAL_GENERATION or"
            f" UNKNOWN_MEMBER_ID in their logs, and check {setting('enable.auto.commit', facts.client)}. Otherwise they"
            " are blocked: take a thread dump.",
            first_ids(by_member),
            evidence,
        )


def dark_partition(facts: Facts) -> Iterator[Finding]:
    """A stable group leaves partitions without an owner that its members subscribe to."""
    if not facts.members or not facts.settled or not facts.names_all_owners:
        return
    subscribed = {topic for member in facts.members for topic in member.topics}
    if any(member.expression for member in facts.members):
        subscribed |= {partition.topic for partition in facts.owners}
    # A topic has all partitions below its highest one, also those that nobody owns and nobody committed.
    size: defaultdict[str, int] = defaultdict(int)
    for each in (*facts.owners, *facts.group.commits):
        if each.topic in subscribed:
            size[each.topic] = max(size[each.topic], each.partition + 1)
    everything = (TopicPartition(topic, number) for topic, partitions in size.items() for number in range(partitions))
    dark = sorted(each for each in everything if each not in facts.owners)
    if not dark:
        return
    waiting = sum(lag.records for each in dark if (lag := _lag(facts, each)) is not None)
    behind = f" {counted(waiting, 'record')} wait in them." if waiting else ""
    yield Finding(
        "dark-partition",
        f"The group is stable, but {counted(len(dark), 'partition')} that it subscribes to"
        f" {'has' if len(dark) == 1 else 'have'} no member: {_listed(dark)}.{behind}",
        "An assignor left them out: check partition.assignment.strategy and your own assignors. If the topic was"
        " deleted, delete its offsets (kohort group delete-offsets). If the members may not describe the topic,"
        " grant it.",
        evidence={"partitions": _names(dark), "records": waiting},
    )


def offsets_out_of_range(facts: Facts) -> Iterator[Finding]:
    """Records were deleted before they were read, or the log is shorter than what was committed."""
    lost: dict[TopicPartition, int] = {}
    beyond: dict[TopicPartition, int] = {}
    for partition, commit in facts.group.commits.items():
        ends = facts.ends.get(partition)
        if ends is None or ends.end is None:
            continue
        if ends.start is not None and commit.offset < ends.start:
            lost[partition] = ends.start - commit.offset
        sampled_at = ends.points[-1].at
        if commit.offset > ends.end and commit.at is not None and commit.at < sampled_at:
            beyond[partition] = commit.offset - ends.end
    if lost:
        yield Finding(
            "offset-out-of-range",
            f"{counted(len(lost), 'partition')}: the committed offset lies before the log's first record, so up to"
            f" {counted(sum(lost.values()), 'record')} were deleted unread: {_listed(lost)}.",
            "The members continue where auto.offset.reset says. Raise retention.ms or retention.bytes of the topic"
            " above the longest time for which the group may stand still. Compacted topics lose only old values.",
            evidence={"partitions": _names(lost), "records": sum(lost.values())},
        )
    if beyond:
        yield Finding(
            "offset-beyond-end",
            f"{counted(len(beyond), 'partition')}: the committed offset lies up to {max(beyond.values()):,} records"
            f" beyond the end of the log: {_listed(beyond)}. The topic was created again, or its log was truncated.",
            "Set the offsets with kohort group reset-offsets; until then, members do what auto.offset.reset says, or"
            " skip the records up to the committed offset.",
            evidence={"partitions": _names(beyond), "records": max(beyond.values())},
        )


def group_emptied(facts: Facts) -> Iterator[Finding]:
    """Nobody is left, and records wait."""
    group = facts.group
    if group.members or group.type is None or not group.commits:
        return
    lags = [lag for partition in group.commits if (lag := _lag(facts, partition)) is not None and lag.records]
    if not lags:
        return
    last = facts.records[-1] if facts.records else None
    since = (
        "longer than the last hour"
        if last is None or last.after
        else duration(max(0, facts.now - last.ended_at) / 1000)
    )
    pauses = facts.empty_ms
    usual = last is not None and len(pauses) > 1 and facts.now - last.ended_at <= limits.LATE_START * max(pauses)
    batch = f" It was started {len(pauses)} times in the last hour, as a batch job is." if usual else ""
    yield Finding(
        "group-emptied",
        f"The group has had no members for {since}. {counted(sum(lag.records for lag in lags), 'record')} wait, the"
        f" oldest for {duration(max(lag.seconds for lag in lags))}.{batch}",
        "Start its members, or delete the group (kohort group delete) if nobody needs it. Its offsets expire after"
        " offsets.retention.minutes (7 days) without members.",
        evidence={"records": sum(lag.records for lag in lags), "emptied_at": None if last is None else last.ended_at},
        over=usual,
    )


def lag_grows(facts: Facts) -> Iterator[Finding]:
    """The lag in seconds has grown steadily."""
    points = [(at, lag) for at, lag in facts.lags if lag is not None and facts.now - at <= limits.GROWTH_WINDOW_MS]
    if len(points) < 3 or points[-1][0] - points[0][0] < limits.GROWTH_SPAN_MS or points[-1][1] < limits.GROWING_LAG_S:
        return
    (begin, first), (end, last) = points[0], points[-1]
    middle = points[len(points) // 2][1]
    growth = (last - first) / ((end - begin) / 1000)
    if growth < limits.GROWTH_S_PER_S or not first < middle < last:
        return
    members, partitions = len(facts.members), len(facts.owners)
    more = (
        f"add members: {partitions} partitions can occupy {partitions}"
        if members < partitions
        else "add partitions and members: each partition has a member of its own already"
    )
    yield Finding(
        "lag-grows",
        f"The lag grew from {duration(first)} to {duration(last)} in {duration((end - begin) / 1000)}: the group"
        f" processes records at {max(0.0, 1 - growth):.0%} of the speed at which they arrive.",
        f"Process faster, or {more}. If one partition causes it, its keys are unbalanced.",
        evidence={"from_seconds": round(first), "to_seconds": round(last), "growth": round(growth, 3)},
    )


def _lag(facts: Facts, partition: TopicPartition) -> Lag | None:
    commit, ends = facts.group.commits.get(partition), facts.ends.get(partition)
    return None if commit is None or ends is None else ends.lag(commit.offset, facts.now)


def _of_one(facts: Facts, by_member: dict[str, list[TopicPartition]]) -> str:
    """Return the end of a sentence if all partitions belong to one member."""
    if len(by_member) != 1 or len(facts.members) < 2:
        return ""
    member = facts.group.members.get(next(iter(by_member)))
    return "" if member is None else f", all of {shown(member.facts.client_id)} on {shown(member.facts.client_host)}"


def _listed(partitions: Iterable[TopicPartition]) -> str:
    names = [shown(str(partition)) for partition in sorted(partitions)]
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _names(partitions: Iterable[TopicPartition]) -> list[str]:
    return [str(partition) for partition in sorted(partitions)][:_MOST_PARTITIONS]
