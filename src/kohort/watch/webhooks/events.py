"""What a webhook reports: conditions of groups and of the watcher, each with a start. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kohort.group_events import Cause
from kohort.model import Millis
from kohort.recorder import BURST_MS
from kohort.watch.findings import KINDS, LagTrails, Severity, counted, duration, hurting, lag_seconds, shown
from kohort.watch.group import WatchedGroup
from kohort.watch.live import Live

_HOUR_MS = 3_600_000

EVENTS: Mapping[str, tuple[int | None, str]] = {
    "rebalance": (30, "a rebalance took longer than this, or kept a partition dark for longer"),
    "member-missing": (300, "a group has had fewer members for this long since one of them went"),
    "lag": (None, "the lag is above this"),
    "blind": (60, "no source has followed the groups for this long"),
}
"""Events besides the findings that mark a group, with their usual seconds and what they mean; None if off."""
_HOLDS_S = {"dark-partition": 60}
"""Seconds for which a finding must hold before it is reported, if not 0."""


def usual_events() -> dict[str, int]:
    """Return the events that are reported unless the user chooses, with their seconds."""
    usual = {name: seconds for name, (seconds, _) in EVENTS.items() if seconds is not None}
    findings = [code for code, kind in KINDS.items() if kind.hurts]
    return usual | {code: _HOLDS_S.get(code, 0) for code in findings}


@dataclass(frozen=True, slots=True)
class Condition:
    """Something that holds now."""

    event: str
    group_id: str | None
    """None if it is about the watcher."""
    since: Millis
    """Time from which it holds, as far as that is known."""
    severity: Severity
    title: str
    text: str
    advice: str = ""

    @property
    def key(self) -> tuple[str, str | None]:
        """What tells one condition from another: it is reported once, however often its text changes."""
        return self.event, self.group_id


def of_group(
    live: Live, group: WatchedGroup, trails: LagTrails, events: Mapping[str, int], now: Millis
) -> Iterator[Condition]:
    """Yield the conditions of one group; those of findings begin now, because nothing tells since when they hold."""
    lags = trails.of(group.group_id)
    for finding in hurting(group, group.rebalances, now, ends=live.ends, lags=lags, telemetry=live.telemetry):
        if finding.code in events:
            yield Condition(
                finding.code, group.group_id, now, finding.severity, finding.title, finding.text, finding.advice
            )
    if "rebalance" in events:
        yield from _rebalance(group, events["rebalance"] * 1000, now)
    if "member-missing" in events:
        yield from _member_missing(group, events["member-missing"] * 1000, now)
    if "lag" in events:
        lag = lag_seconds(group, live.ends, now)
        if lag is not None and lag > events["lag"]:
            title = f"The lag is above {events['lag']} s"
            text = f"The first record that is not committed is {duration(lag)} old."
            yield Condition("lag", group.group_id, now, Severity.WARNING, title, text)


def of_watcher(live: Live, events: Mapping[str, int], now: Millis) -> Iterator[Condition]:
    """Yield the condition that no source follows the groups."""
    states = live.group_sources
    if "blind" not in events or any(source.state == "following" for source in states):
        return
    since = max((source.since for source in states), default=now)
    if now - since >= events["blind"] * 1000:
        details = " ".join(source.detail for source in states if source.detail)
        text = f"Nothing is known of the groups since then. {details}".rstrip()
        yield Condition("blind", None, since, Severity.CRITICAL, "The watcher does not see the groups", text)


def _rebalance(group: WatchedGroup, longest_ms: Millis, now: Millis) -> Iterator[Condition]:
    for record in reversed(group.rebalances):
        if now - record.ended_at > BURST_MS:
            return
        dark, wall = max(record.dark_times, default=0), record.wall_ms or 0
        if record.is_rebalance and not record.was_empty and record.after and max(dark, wall) > longest_ms:
            took = f"took {duration(wall / 1000)}" if wall else ""
            kept = f"kept a partition dark for {duration(dark / 1000)}" if dark else ""
            did = " and ".join(filter(None, (took, kept)))
            yield Condition(
                "rebalance",
                group.group_id,
                record.ended_at if record.started_at is None else record.started_at,
                Severity.WARNING,
                "A rebalance hurt",
                f"The rebalance to generation {record.generation} {did}. Cause: {record.cause or 'unknown'}."
                f" {counted(len(record.moved), 'partition')} moved.",
            )
            return


def _member_missing(group: WatchedGroup, after_ms: Millis, now: Millis) -> Iterator[Condition]:
    """Compare the present size with that before the last member that went within the hour."""
    size, most, went_at, who = len(group.members), 0, None, ""
    reached = size  # largest size since the record; a member that went is replaced once that size is reached again
    for record in reversed(group.rebalances):
        if now - record.ended_at > _HOUR_MS:
            break
        if not record.is_rebalance:
            continue
        before = record.members_after - len(record.came) + len(record.went)
        on_purpose = any(gone.cause == Cause.REMOVED_BY_ADMIN.value for gone in record.gone)
        if record.went and before > max(most, reached) and not on_purpose:
            most, went_at, who = before, record.ended_at, record.went[0].client_id
        reached = max(reached, record.members_after)
    if went_at is None or not size or size >= most or now - went_at < after_ms:
        return
    yield Condition(
        "member-missing",
        group.group_id,
        went_at,
        Severity.WARNING,
        "A member did not come back",
        f"The group has had {counted(size, 'member')} instead of {most} for {duration((now - went_at) / 1000)}."
        f" The first that went is {shown(who)}.",
    )
